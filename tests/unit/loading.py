"""Loads a program of scripts/ as a module, so that tests can call its functions."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType

from tests.support import ROOT


@cache
def script(name: str) -> ModuleType:
    """The module scripts/`name`.py."""
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
