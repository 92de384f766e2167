"""Custom resources by the schemas of their definitions: pruning, defaults, validation. Pure.

Rules in CEL (x-kubernetes-validations) are not evaluated; whoever makes a definition with some is told so. Source:
apiextensions-apiserver pkg/apiserver/schema (pruning, defaulting) and kube-openapi pkg/validation of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import re2

from regauge.cluster.refusals import FieldError, invalid, required, shown, unsupported_value
from regauge.cluster.store import Store, copy_json
from regauge.model import Kind, Object
from regauge.model.kinds import CUSTOM_RESOURCE_DEFINITION

Schema = Mapping[str, Any]
NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)
RULES = "x-kubernetes-validations"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_ROOT = frozenset({"apiVersion", "kind", "metadata"})
_BLOCKING = frozenset({"Type invalid", "Required value", "Unsupported value", "Too long", "Too many"})
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def schema_of(store: Store, kind: Kind) -> Schema | None:
    """The schema that the definition of a custom resource gives, None for none."""
    version = version_of(store, kind)
    found = ((version or {}).get("schema") or {}).get("openAPIV3Schema")
    return found if isinstance(found, dict) else None


def version_of(store: Store, kind: Kind) -> Mapping[str, Any] | None:
    """What a definition says of one version of its resource."""
    crd = store.find(CUSTOM_RESOURCE_DEFINITION, ("", kind.resource))
    versions = ((crd or {}).get("spec") or {}).get("versions") or ()
    return next((item for item in versions if item.get("name") == kind.version), None)


def selectable_fields(store: Store, kind: Kind) -> tuple[str, ...]:
    """The fields by which objects of a custom kind can be selected, besides name and namespace."""
    version = version_of(store, kind) or {}
    return tuple(str(item["jsonPath"]).removeprefix(".") for item in version.get("selectableFields") or ())


def pruned(schema: Schema, object_: Object) -> tuple[Object, list[str]]:
    """The object without what the schema does not know and with its defaults; and the paths of what is gone."""
    unknown: list[str] = []
    kept = {name: item for name, item in object_.items() if name in _ROOT}
    rest = {name: item for name, item in object_.items() if name not in _ROOT}
    new = _pruned(schema, rest, "", unknown)
    return {**kept, **new}, sorted(unknown)


def _pruned(schema: Schema, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [_pruned(items, item, f"{path}[{number}]", unknown) for number, item in enumerate(value)]
    if not isinstance(value, dict) or schema.get("x-kubernetes-embedded-resource"):
        return value
    members, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    new: dict[str, Any] = {}
    for name, item in value.items():
        place = f"{path}.{name}" if path else name
        below = members.get(name, extra if isinstance(extra, dict) else None)
        if below is None:
            if schema.get(_PRESERVE) or extra is True:
                new[name] = item
            else:
                unknown.append(place)
        elif item is not None or below.get("nullable"):
            new[name] = _pruned(below, item, place, unknown)
    for name, below in members.items():
        if name not in new and "default" in below:
            new[name] = _pruned(below, copy_json(below["default"]), f"{path}.{name}", [])
    return new


def custom_errors(schema: Schema, object_: Object) -> list[FieldError]:
    """What is wrong with a custom resource by its schema."""
    content = {name: item for name, item in object_.items() if name not in _ROOT}
    missing = [name for name in schema.get("required") or () if name not in object_ and name not in _ROOT]
    errors = [required(name) for name in missing]
    errors += _errors({**schema, "required": ()}, content, "")
    if any(error.what in _BLOCKING for error in errors) and _has_rules(schema):
        errors.append(invalid("<nil>", None, NOT_CHECKED))
    return errors


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return RULES in schema or any(_has_rules(item) for item in schema.values())
    return isinstance(schema, list) and any(_has_rules(item) for item in schema)


def rules_warning(crd: Object) -> list[str]:
    """What the maker of a definition is warned of."""
    if _has_rules((crd.get("spec") or {}).get("versions") or []):
        return [f"unsupported: {RULES} are kept and not evaluated"]
    return []


def _errors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if value is None:
        return
    if not _is_typed(schema, value):
        told = _type_of(value)
        text = f'Invalid value: "{told}": {path} in body must be of type {schema["type"]}: "{told}"'
        yield FieldError(path, "Type invalid", text)
        return
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        yield unsupported_value(path, value, [item if isinstance(item, str) else shown(item) for item in choices])
    yield from _limits(schema, value, path)
    if isinstance(value, dict):
        yield from _member_errors(schema, value, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(value):
            yield from _errors(schema["items"], item, f"{path}[{number}]")


def _is_typed(schema: Schema, value: Any) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    types = _TYPES.get(str(schema.get("type") or ""))
    if types is None:
        return True
    if isinstance(value, bool) and bool not in types:
        return False
    return isinstance(value, types) or (int in types and isinstance(value, float) and value.is_integer())


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next(name for name, types in _TYPES.items() if isinstance(value, types))


def _member_errors(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
    members, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        below = members.get(name, extra if isinstance(extra, dict) else None)
        if below is not None:
            yield from _errors(below, item, f"{path}.{name}" if path else name)


def _limits(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        most, least = schema.get("maximum"), schema.get("minimum")
        if most is not None and (value > most or (schema.get("exclusiveMaximum") and value == most)):
            word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {shown(most)}")
        if least is not None and (value < least or (schema.get("exclusiveMinimum") and value == least)):
            word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {shown(least)}")
    if isinstance(value, str):
        yield from _text_limits(schema, value, path)
    if isinstance(value, list):
        most, least = schema.get("maxItems"), schema.get("minItems")
        if most is not None and len(value) > most:
            yield FieldError(path, "Too many", f"Too many: {len(value)}: must have at most {most} items")
        if least is not None and len(value) < least:
            yield invalid(path, len(value), f"{path} in body should have at least {least} items")


def _text_limits(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        yield FieldError(path, "Too long", f"Too long: may not be more than {most} bytes")
    if least is not None and len(value) < least:
        yield invalid(path, value, f"{path} in body should be at least {least} chars long")
    if pattern is not None and not _matches(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")


def _matches(pattern: str, value: str) -> bool:
    """Whether a text matches; a pattern that RE2 does not understand refuses nothing."""
    try:
        return re2.search(pattern, value) is not None
    except (re2.error, UnicodeEncodeError):
        return True
