"""Digests of what a value depends on besides its samples: what was asked, and our own code."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from recompute.spec import Spec

# What an estimate depends on, besides numpy and the data.
_CODE = (
    *("coding.py", "design.py", "estimate.py", "evaluate.py", "intervals.py", "known.py", "law.py", "quantities.py"),
    *("query.py", "resample.py", "selection.py", "spec.py", "special.py", "tables.py", "computed.py"),
    *("importers/*.py", "statistics/*.py"),
)


def spec_digest(spec: Spec) -> str:
    """Of everything a spec says."""
    return sha256(spec.model_dump_json().encode()).hexdigest()


@cache
def code_digest() -> str:
    """Of our own source that makes estimates, and of numpy's major and minor version."""
    here = Path(__file__).parent
    digest = sha256(".".join(np.__version__.split(".")[:2]).encode())
    for path in sorted(path for pattern in _CODE for path in here.glob(pattern)):
        data = path.read_bytes()
        digest.update(f"|{path.relative_to(here).as_posix()}:{len(data)}:".encode() + data)
    return digest.hexdigest()
