"""A conversion as patches for where the manifests come from: a kustomize component, and a post-renderer for Helm. Pure.

Patches are JSON patches (RFC 6902) that test what they are about before they change it: a source that says something else by
then is refused by kustomize, and not changed in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from regauge.base import InputError
from regauge.migrate.conversion import Conversion, Converted, Fate
from regauge.migrate.text import dump, join
from regauge.model import Object, split_api_version

COMPONENT_FILE, OBJECTS_FILE, POST_RENDERER_FILE = "kustomization.yaml", "objects.yaml", "post-render.sh"
MADE_BY = "# Made by regauge convert; it is written anew each time.\n"
NAME_LENGTH = 80
_PLAIN_NAME = re.compile(r"[A-Za-z0-9.-]+")

POST_RENDERER = """#!/bin/sh
# Made by regauge convert; it is written anew each time.
# Manifests on standard input, the same with the patches of this directory on standard output.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/patches"
cp "$here"/*.yaml "$work/patches/"
cat > "$work/all.yaml"
cat > "$work/kustomization.yaml" <<'END'
resources: [all.yaml]
components: [patches]
END
kubectl kustomize "$work"
"""


def patch_files(found: Conversion) -> Mapping[str, str]:
    """The files of a directory that is a kustomize component, by name: patches, objects that are new, the post-renderer.

    Raises `InputError` where nothing changed.
    """
    files: dict[str, str] = {}
    patches: list[Object] = []
    objects: list[Object] = list(found.classes)
    for item in found.items:
        objects += item.before
        old, new = item.document.object, item.object
        if item.fate is Fate.DROPPED or (item.fate is Fate.CHANGED and new is not None and _is_other(old, new)):
            patches.append({"patch": dump(_deletion(old))})
            objects += [new] if new is not None else []
        elif item.fate is Fate.CHANGED and new is not None and (operations := list(_operations(old, new, ""))):
            name = f"{len(files) + 1:04d}-{_file_name(item)}.yaml"
            files[name] = MADE_BY + dump({"patch": operations}).partition("\n")[2]
            patches.append({"path": name, "target": _target(item)})
    if not patches and not objects:
        raise InputError("nothing is converted, so there is nothing to patch", fix="look at what convert says of each")
    component: Object = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    if objects:
        files[OBJECTS_FILE] = MADE_BY + join([dump(object_) for object_ in objects])
        component["resources"] = [OBJECTS_FILE]
    if patches:
        component["patches"] = patches
    return {**files, COMPONENT_FILE: MADE_BY + dump(component), POST_RENDERER_FILE: POST_RENDERER}


def _is_other(old: Object, new: Object) -> bool:
    """Whether an object went to another version: for kustomize that is another object."""
    return bool(old.get("apiVersion") != new.get("apiVersion") or old.get("kind") != new.get("kind"))


def _deletion(object_: Object) -> Object:
    metadata = object_.get("metadata") or {}
    place = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
    return {"apiVersion": object_["apiVersion"], "kind": object_["kind"], "metadata": place, "$patch": "delete"}


def _target(item: Converted) -> Object:
    group, version = split_api_version(item.document.api_version)
    target = {"group": group, "version": version, "kind": item.document.kind, "name": _pattern(item.document.name)}
    if item.document.namespace:
        target["namespace"] = _pattern(item.document.namespace)
    return {key: value for key, value in target.items() if value}


def _pattern(name: str) -> str:
    """A name for kustomize, which takes it as a pattern for the whole."""
    return name.replace(".", "\\.") if _PLAIN_NAME.fullmatch(name) else re.escape(name)


def _file_name(item: Converted) -> str:
    title = f"{item.document.kind}-{item.document.namespace}-{item.document.name}".lower()
    return re.sub(r"[^a-z0-9]+", "-", title).strip("-")[:NAME_LENGTH]


# -- RFC 6902


def _operations(old: Any, new: Any, path: str) -> Iterator[Object]:
    """What makes `new` of `old`; every value that goes is tested first, and so is the name of an item gone into."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield from _tested(old[key], f"{path}/{_escaped(key)}")
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in new.items():
            if key not in old:
                yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
            else:
                yield from _operations(old[key], value, f"{path}/{_escaped(key)}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new)):
            inside = list(_operations(before, after, f"{path}/{index}"))
            if inside and isinstance(before, dict) and isinstance(before.get("name"), str):
                yield from _tested(before["name"], f"{path}/{index}/name")
            yield from inside
    elif old != new or type(old) is not type(new):
        yield from _tested(old, path)
        yield {"op": "replace", "path": path, "value": new}


def _tested(value: Any, path: str) -> Iterator[Object]:
    """kustomize keeps numbers as they are written, so that only text and truth compare alike everywhere."""
    if isinstance(value, (str, bool)):
        yield {"op": "test", "path": path, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
