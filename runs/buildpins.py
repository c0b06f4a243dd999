"""What really runs against the builds that a study pins, before the first sample is asked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ledger.errors import Differs
from provenance.pins import Pin
from runs.study import Build, Study


def check_builds(study: Study, builds: Sequence[Pin]) -> None:
    """Raises Differs, naming what differs first: a package, a file, what a server reports, or the whole digest."""
    for pin in builds:
        detail = pin.detail or {}
        for name, wanted in study.builds.items():
            if detail.get("engine") == wanted.engine and wanted.server in (None, detail.get("server")):
                _check(name, wanted, pin)
        _check_fill(study, detail)


def _check(name: str, wanted: Build, pin: Pin) -> None:
    detail = pin.detail or {}
    # A server's packages are those of its own environment, which an audit must not look for in ours.
    packages = {**_table(detail, "packages"), **_table(detail, "distributions")}
    for package, version in wanted.packages.items():
        _same(name, package, version, packages.get(package, "not installed"), f"pip install {package}=={version}")
    files: dict[str, set[str]] = {}
    for path, digest in (pin.files or {}).items():
        files.setdefault(PurePosixPath(path).name, set()).add(digest)
    for file, digest in wanted.files.items():
        found = files.get(file, {"no file of that name"})
        _same(name, file, digest, digest if found == {digest} else ", ".join(sorted(found - {digest})))
    reports = _table(detail, "reports")
    for key, value in wanted.reports.items():
        _same(name, f"its server's {key}", str(value), str(reports.get(key, "nothing")))
    if wanted.digest is not None:
        _same(name, "all of it", wanted.digest, pin.digest)


def _check_fill(study: Study, detail: Mapping[str, Any]) -> None:
    """A server that says how it fills must fill as its arms say."""
    reports = _table(detail, "reports")
    for name, arm in study.arms.items():
        if arm.server and arm.server == detail.get("server") and arm.fill == "map":
            for key, stated in (("split", arm.split), ("tail", arm.tail)):
                told = reports.get(f"maps.{key}", stated)
                if told != stated:
                    raise Differs(
                        f"the server {arm.server} fills with another {key} than the arm {name}",
                        expected=str(stated),
                        found=str(told),
                        hint="make the server's command and the arm agree",
                    )


def _same(name: str, what: str, expected: str, found: str, hint: str = "") -> None:
    if found != expected:
        raise Differs(f"the build {name} is not the pinned one: {what}", expected=expected, found=found, hint=hint)


def _table(detail: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = detail.get(key)
    return value if isinstance(value, dict) else {}
