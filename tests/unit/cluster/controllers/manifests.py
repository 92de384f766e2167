"""Manifests that the controller tests start from."""

from __future__ import annotations

from typing import Any


def template(image: str = "registry.example.com/app:1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers, **spec}}


def workload(name: str, **spec: Any) -> dict[str, Any]:
    chosen = {"selector": {"matchLabels": {"app": "x"}}, "template": template()}
    return {"metadata": {"name": name}, "spec": {**chosen, **spec}}


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": template(restartPolicy="Never"), **spec}}
