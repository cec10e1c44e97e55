"""Programs of the folder `tools`, which have no suffix, as modules."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[1] / "tools"


def load_tool(name: str) -> Any:
    """Import a program without running it, and without leaving compiled files behind."""
    loader = SourceFileLoader(name, str(TOOLS / name))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    cached, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = cached
        del sys.modules[name]
    return module
