"""The reports that the tests look at, from `sample_report.py` beside this file."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """sample(), large(), renamed(name)."""
    spec = spec_from_file_location("sample_report", _HERE / "sample_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
