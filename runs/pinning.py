"""`run pin`: a digest for every input that has none yet, written below its source in study.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ledger.claims import STUDY_FILE
from ledger.errors import UsageProblem
from ledger.files import write_whole
from ledger.toml_lines import key_lines
from provenance.cache import HashCache, default_cache_file
from provenance.pins import Kind, Pin
from runs.inputs import measured
from runs.load import load_study
from runs.study import Input, Study

Place = tuple[str, str]  # section and name of a table


def pin_inputs(folder: Path) -> dict[Place, Pin]:
    """Write the missing digests into study.toml, and give their pins; a digest that stands there is left alone.

    Raises Faults for a bad study file; CannotCheck or Differs for an input that is not there, with nothing written.
    """
    cache = HashCache(default_cache_file())
    study = load_study(folder)
    pins = {
        (section, name): measured(folder, kind, name, stated, cache)
        for section, kind, name, stated in _inputs(study)
        if stated.digest is None
    }
    cache.save()
    path = folder / STUDY_FILE
    text = path.read_bytes().decode("utf-8")
    if pins:
        write_whole(path, with_digests(text, {place: pin.digest for place, pin in pins.items()}).encode())
    return pins


def with_digests(text: str, digests: Mapping[Place, str]) -> str:
    """The text with one line more below the source of each table; all else as it stands. Pure.

    Raises UsageProblem where a source does not stand on a line of its own, as in an inline table.
    """
    places = key_lines(text)
    lines = text.splitlines(keepends=True)
    for place, digest in sorted(digests.items(), key=lambda item: -places.get((*item[0], "source"), 0)):
        number = places.get((*place, "source"))
        if number is None:
            raise UsageProblem(
                f"{'.'.join(place)}: its source does not stand on a line of its own",
                hint=f'write it so, or add by hand: digest = "{digest}"',
            )
        end = "\r\n" if lines[number - 1].endswith("\r\n") else "\n"
        lines[number - 1] = lines[number - 1].rstrip("\r\n") + end
        lines.insert(number, f'digest = "{digest}"{end}')
    return "".join(lines)


def _inputs(study: Study) -> Iterator[tuple[str, Kind, str, Input]]:
    yield from (("models", "model", name, stated) for name, stated in study.models.items())
    yield from (("maps", "maps", name, stated) for name, stated in study.maps.items())
    yield from (("datasets", "dataset", name, stated) for name, stated in study.datasets.items())
