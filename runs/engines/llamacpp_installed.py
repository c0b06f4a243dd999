"""llama.cpp as it is installed: the one version that is known here, unchanged since it was installed.

First its files are looked at, so that a swapped library is named before its code can run; then what was loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import metadata
from pathlib import PurePosixPath

import orjson

from ledger.errors import Differs, EnvironmentProblem
from provenance.mapped import unlabel
from runs.engines.installed import check_unchanged

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
# The source archive of that version, as it was published.
ARCHIVE = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
INSTALL = "pip install 'ridgefill[llamacpp]' (builds llama.cpp, some minutes)"
_AGAIN = f"pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}"


def check_installed() -> str:
    """The sha256 of the archive it was built from, "" where the installer did not keep it.

    Raises Differs, naming it, for another version, another archive, or a file that is not as it was installed;
    EnvironmentProblem when it is not installed.
    """
    try:
        installed = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise EnvironmentProblem(f"{PACKAGE} is not installed", hint=INSTALL) from None
    if installed.version != VERSION:
        raise Differs(f"another {PACKAGE} is installed", expected=VERSION, found=installed.version, hint=_AGAIN)
    check_unchanged(installed, _AGAIN)
    return _archive(installed.read_text("direct_url.json"))


def check_loaded(libraries: Iterable[str]) -> None:
    """Hold the libraries that a process has mapped, as `provenance.mapped` names them, against the installed ones.

    Raises Differs, naming it, for one of the same name from elsewhere, as LD_LIBRARY_PATH would have it loaded.
    """
    own: dict[str, set[str]] = {}
    for file in metadata.distribution(PACKAGE).files or []:
        own.setdefault(file.name, set()).add(os.path.realpath(file.locate()))
    for library in libraries:
        path, name = os.path.realpath(unlabel(library)), PurePosixPath(library).name
        if path not in own.get(name, {path}):
            raise Differs(
                f"another {name} is loaded than the installed one",
                expected=", ".join(sorted(own[name])),
                found=path,
                hint="unset LD_LIBRARY_PATH and LD_PRELOAD",
            )


def _archive(text: str | None) -> str:
    """The archive's digest out of what PEP 610 has the installer write; a wheel is no source archive."""
    origin = orjson.loads(text or "{}")
    digest = str(origin.get("archive_info", {}).get("hashes", {}).get("sha256", ""))
    if not digest or not str(origin.get("url", "")).endswith(".tar.gz"):
        return ""
    if digest != ARCHIVE:
        raise Differs(f"{PACKAGE} was built from another source archive", expected=ARCHIVE, found=digest, hint=_AGAIN)
    return digest
