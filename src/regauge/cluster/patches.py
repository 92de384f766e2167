"""Patches on documents: JSON merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge.

Which lists strategic merge merges, and by which key, is in the schema of the kind; all others are replaced. Directives:
`$patch` replace, merge and delete, `$retainKeys`, `$setElementOrder`, `$deleteFromPrimitiveList`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regauge.cluster.refusals import bad_request, failure, internal_error, unsupported
from regauge.cluster.schemas import Schema, Schemas
from regauge.cluster.store import copy_json
from regauge.kube import ApiError, Invalid, PatchType

MAX_OPERATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Typed:
    """A schema with those it refers to."""

    schemas: Schemas
    schema: Schema

    def member(self, name: str) -> Typed:
        return Typed(self.schemas, self.schemas.member(self.schema, name))

    @property
    def items(self) -> Typed:
        return Typed(self.schemas, self.schemas.items(self.schema))

    @property
    def merge_key(self) -> str:
        """What identifies a member of this list, "" when it is not merged by members."""
        return str(self.schema.get("x-kubernetes-patch-merge-key") or "") if self.merges else ""

    @property
    def merges(self) -> bool:
        return "merge" in str(self.schema.get("x-kubernetes-patch-strategy") or "").split(",")


def patched(object_: Any, body: Any, patch_type: PatchType, typed: Typed | None = None) -> Any:
    """`object_` after the patch (the input is not changed). Raises `ApiError` when the patch cannot be applied.

    A strategic merge patch needs to know what it is applied to.
    """
    if patch_type == "merge":
        if not isinstance(body, dict):
            raise bad_request("error decoding patch: a merge patch must be a JSON object")
        return merge(object_, body)
    if patch_type == "json":
        return json_patch(object_, body)
    if patch_type == "strategic":
        if not isinstance(body, dict):
            raise bad_request("a strategic merge patch must be a JSON object")
        if typed is None:
            raise unsupported("strategic merge patch on an object without a schema")
        return strategic(object_, body, typed)
    raise unsupported("server-side apply (write with create, update or a patch)")


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch: null removes, mappings merge, anything else replaces."""
    if not isinstance(patch, dict):
        return copy_json(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _refused() -> Invalid:
    message = "the server rejected our request due to an error in our request"
    return Invalid(422, "Invalid", message, failure(422, "Invalid", message, {}))


def json_patch(target: Any, operations: Any) -> Any:
    """JSON patch with upstream's answers: one text for every operation that fails."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        text = f"Request entity too large: {message}"
        raise ApiError(413, "RequestEntityTooLarge", text, failure(413, "RequestEntityTooLarge", text, {}))
    holder = {"": copy_json(target)}
    for operation in operations:
        try:
            _operate(holder, operation)
        except (KeyError, IndexError, TypeError, ValueError):
            raise _refused() from None
    return holder[""]


def _operate(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            _add(holder, path, copy_json(operation["value"]))
        case "remove":
            _remove(holder, path)
        case "replace":
            parent, last = _parent(holder, path)
            if isinstance(parent, list):
                _at(parent, last)
                parent[int(last)] = copy_json(operation["value"])
            else:
                parent[last] = copy_json(operation["value"])
        case "move":
            source = _pointer(operation["from"])
            value = _find(holder, source)
            _remove(holder, source)
            _add(holder, path, value)
        case "copy":
            _add(holder, path, copy_json(_find(holder, _pointer(operation["from"]))))
        case "test":
            if _find(holder, path) != operation["value"]:
                raise ValueError(operation["path"])
        case other:
            raise ValueError(other)


def _pointer(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise ValueError(path)
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]


def _at(value: Any, part: str) -> Any:
    if isinstance(value, list):
        index = int(part)
        if not 0 <= index < len(value):
            raise IndexError(part)
        return value[index]
    if not isinstance(value, dict):
        raise TypeError(part)
    return value[part]


def _find(value: Any, path: list[str]) -> Any:
    for part in path:
        value = _at(value, part)
    return value


def _parent(holder: Any, path: list[str]) -> tuple[Any, str]:
    parent = _find(holder, path[:-1])
    if not isinstance(parent, dict | list):
        raise TypeError(path[-1])
    return parent, path[-1]


def _add(holder: Any, path: list[str], value: Any) -> None:
    parent, last = _parent(holder, path)
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if not 0 <= index <= len(parent):
            raise IndexError(last)
        parent.insert(index, value)
    else:
        parent[last] = value


def _remove(holder: Any, path: list[str]) -> None:
    parent, last = _parent(holder, path)
    _at(parent, last)
    if isinstance(parent, list):
        del parent[int(last)]
    else:
        del parent[last]


def strategic(target: Any, patch: dict[str, Any], typed: Typed) -> dict[str, Any]:
    """Strategic merge: as merge patch, but lists with a merge key are merged member by member."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: copy_json(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        message = f"unknown patch type: {directive} in map: {go_map(patch)}"
        raise ApiError(500, "", message, failure(500, "", message))
    result = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch and not set(patch) - {"$retainKeys"} <= set(patch["$retainKeys"]):
        raise bad_request("invalid patch format of retainKeys")
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_value(result.get(key), value, typed.member(key))
    for key, order in patch.items():
        if key.startswith("$setElementOrder/") and isinstance(order, list):
            name = key.partition("/")[2]
            before = target.get(name) if isinstance(target, dict) else None
            _reorder(result, name, order, before, typed.member(name).merge_key)
    return result


def go_map(value: Any) -> str:
    """A JSON value as Go prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_map(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_map, value)) + "]"
    return {True: "true", False: "false", None: "<nil>"}.get(value, str(value)) if not isinstance(value, str) else value


def _strategic_value(old: Any, new: Any, typed: Typed) -> Any:
    if isinstance(new, dict):
        return strategic(old, new, typed)
    if not isinstance(new, list):
        return copy_json(new)
    merge_key = typed.merge_key
    if typed.merges and not merge_key:
        old_items = list(old or [])
        return old_items + [item for item in new if item not in old_items]
    if not merge_key or not all(isinstance(item, dict) for item in new):
        return copy_json(new)
    return _merged_list(old if isinstance(old, list) else [], new, merge_key, typed.items)


def _merged_list(old: list[Any], new: list[Any], merge_key: str, typed: Typed) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in new):
        return [copy_json(item) for item in new if item.get("$patch") != "replace"]
    result = list(old)
    for item in new:
        if merge_key not in item:
            raise internal_error(f"map: {item} does not contain declared merge key: {merge_key}")
        place = next((i for i, have in enumerate(result) if have.get(merge_key) == item[merge_key]), None)
        if item.get("$patch") == "delete":
            result = [have for have in result if have.get(merge_key) != item[merge_key]]
        elif place is None:
            result.append(strategic({}, item, typed))
        else:
            result[place] = strategic(result[place], item, typed)
    return _in_order(result, [item[merge_key] for item in new], [have.get(merge_key) for have in old], merge_key)


def _in_order(items: list[Any], wanted: list[Any], live: list[Any], merge_key: str | None) -> list[Any]:
    """The order upstream gives: patched members as the patch has them, the others where they stood before those."""

    def name(item: Any) -> Any:
        return item.get(merge_key) if isinstance(item, dict) and merge_key else item

    others = [item for item in items if name(item) not in wanted]
    patched_items = sorted((item for item in items if name(item) in wanted), key=lambda item: wanted.index(name(item)))
    result: list[Any] = []
    while others and patched_items:
        left, right = name(others[0]), name(patched_items[0])
        before = left in live and right in live and live.index(left) < live.index(right)
        result.append((others if before else patched_items).pop(0))
    return result + others + patched_items


def _reorder(result: dict[str, Any], field: str, order: list[Any], before: Any, merge_key: str) -> None:
    items = result.get(field)
    if not isinstance(items, list):
        return
    wanted = [item.get(merge_key) if isinstance(item, dict) else item for item in order]
    live = [item.get(merge_key) if isinstance(item, dict) else item for item in before or []]
    result[field] = _in_order(items, wanted, live, merge_key)
