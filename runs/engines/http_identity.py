"""What a running server is: its bytes, its command line, its Python distributions, and what it says of itself."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from ledger.errors import CannotCheck, Differs, EnvironmentProblem
from provenance.builds import server_build
from provenance.cache import HashCache, default_cache_file
from provenance.mapped import mapped_libraries
from provenance.measure import take
from provenance.pins import Pin, build_pin
from provenance.tree import SOURCE_WALK
from runs.engines.http_kinds import Kind
from runs.engines.installed import check_unchanged
from runs.server import Server

_ASK = """
import importlib.util, json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = str(metadata.distribution(name)._path)
    except metadata.PackageNotFoundError:
        pass
spec = importlib.util.find_spec("ridgefill")
print(json.dumps({"found": found, "ridgefill": list(spec.submodule_search_locations) if spec else []}))
"""


def launched_build(
    server: Server, name: str, pids: Sequence[int], python: Mapping[str, Any], reports: Mapping[str, Any]
) -> Pin:
    """A server that we started. The study's files and the program stand in its command as the study names them.

    Raises Differs for a library that was replaced since it was loaded.
    """
    cache = HashCache(default_cache_file())
    command = [shlex.split(server.command)[0], *server.words({})[1:]]
    pin = server_build(name, Path(server.program), command, cache=cache)
    mapped: dict[str, str] = {}
    for pid in pids:
        with suppress(CannotCheck):  # it may have ended since it was listed
            mapped |= mapped_libraries(pid, cache)
    cache.save()
    return build_pin(
        name, {**(pin.files or {}), **mapped}, {**(pin.detail or {}), **_said(server, name, reports), **python}
    )


def attached_build(server: Server, name: str, reports: Mapping[str, Any]) -> Pin:
    """A server that was running: all that is known of it is what it says."""
    return build_pin(name, {}, {**_said(server, name, reports), "url": server.url})


def python_side(server: Server, kind: Kind) -> dict[str, Any]:
    """The distributions of a server that a Python interpreter runs; {} of another.

    Raises Differs, naming it, for a file of the server's own distribution that is not as it was installed;
    EnvironmentProblem when its interpreter does not answer.
    """
    words = server.words({})
    if words[1:2] != ["-m"]:
        return {}
    asked = [words[0], "-c", _ASK, *kind.distributions]
    done = subprocess.run(asked, capture_output=True, env=server.environment, cwd="/", check=False)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EnvironmentProblem(f"{words[0]} cannot say what it has installed", found=said[-1] if said else "nothing")
    told = orjson.loads(done.stdout)
    found = {name: metadata.Distribution.at(path) for name, path in told["found"].items()}
    if not found:
        raise EnvironmentProblem(
            f"{words[0]} has none of the server's packages", expected=" or ".join(kind.distributions), found="none"
        )
    side: dict[str, Any] = {"distributions": {name: one.version for name, one in found.items()}}
    if "ridgefill" in kind.distributions:
        if not told["ridgefill"]:
            raise EnvironmentProblem(f"{words[0]} cannot import ridgefill", hint=f"{words[0]} -m pip install ridgefill")
        folder = Path(told["ridgefill"][0])
        side["server_source_sha256"] = take("source", "ridgefill", f"path:{folder}", folder, walk=SOURCE_WALK).digest
    else:
        own = next(iter(found))
        cache = HashCache(default_cache_file())
        check_unchanged(found[own], f"{words[0]} -m pip install --force-reinstall --no-deps {own}", cache)
        cache.save()
    return side


def check_maps(server: Server, maps: Mapping[str, Path], reports: Mapping[str, Any]) -> None:
    """A server that says which maps it fills with must fill with the study's. Raises Differs."""
    told = reports.get("maps.manifest_sha256")
    for name in server.maps if told is not None else ():
        pinned = take("maps", name, f"path:{maps[name] / 'ridgefill.json'}", maps[name]).digest
        if told != pinned:
            raise Differs(f"the server fills with other maps than {name}", expected=pinned, found=str(told))


def _said(server: Server, name: str, reports: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "engine": "openai_http",
        "server": name,
        "kind": server.kind,
        "env": dict(sorted(server.env.items())),
        "reports": {key: value for key, value in sorted(reports.items()) if value is not None},
    }
