"""claims.toml -> claim bodies: what a researcher writes down before a run."""

from __future__ import annotations

import difflib
import tomllib
from hashlib import file_digest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ledger.errors import Faults, UsageProblem
from ledger.events.claim import Claim, Prediction
from ledger.toml_lines import Path as Key
from ledger.toml_lines import key_lines, line_of

CLAIMS_FILE = "claims.toml"
STUDY_FILE = "study.toml"
_CLAIM_KEYS = {*Claim.model_fields} - {"claim", "predictions"} | {"id", "prediction"}
_PREDICTION_KEYS = {*Prediction.model_fields}


def read_claims(path: Path) -> list[Claim]:
    """The claims of a claims file, or of a study folder's claims.toml, digests of their files included.

    Raises Faults with every fault, each naming file, line, claim and key; UsageProblem for a file that cannot
    be read.
    """
    source = path / CLAIMS_FILE if path.is_dir() else path
    try:
        text = source.read_bytes().decode("utf-8")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        raise UsageProblem(
            f"there is no {source}", expected="a claims file, or a study folder with claims.toml in it"
        ) from None
    except (OSError, ValueError, RecursionError) as wrong:
        raise UsageProblem(f"{source} cannot be read: {wrong}") from None
    reader = _Reader(source, text)
    claims = reader.claims(tables)
    if reader.faults:
        hint = f"edit {source} and register again"
        raise Faults([fault for _, fault in sorted(reader.faults)], hint=hint)
    if not claims:
        raise UsageProblem(f"{source} holds no [[claim]]", expected="at least one", found="none")
    return claims


class _Reader:
    """One reading of one file: collects faults as (line, text)."""

    def __init__(self, source: Path, text: str) -> None:
        self.name, self.folder = source.name, source.parent
        self.lines = key_lines(text)
        self.faults: list[tuple[int, str]] = []

    def fault(self, key: Key, about: str, problem: str) -> None:
        line = line_of(self.lines, key)
        self.faults.append((line, f"{self.name}:{line}: {about}{problem}"))

    def claims(self, tables: dict[str, Any]) -> list[Claim]:
        for key in tables.keys() - {"claim"}:
            self.fault((key,), "", _unknown(key, {"claim"}))
        listed = tables.get("claim", [])
        if not isinstance(listed, list):
            self.fault(("claim",), "", "`claim` must be [[claim]], a list of tables")
            return []
        read = [self._claim(number, table) for number, table in enumerate(listed)]
        return [claim for claim in read if claim is not None]

    def _claim(self, number: int, table: Any) -> Claim | None:
        key: Key = ("claim", number)
        if not isinstance(table, dict):
            self.fault(key, f"claim {number + 1}: ", "not a [[claim]] table")
            return None
        about, before = f"claim {table.get('id', f'number {number + 1}')}: ", len(self.faults)
        for name in table.keys() - _CLAIM_KEYS:
            self.fault((*key, name), about, _unknown(name, _CLAIM_KEYS))
        predictions = self._predictions(key, about, table.get("prediction", []))
        files = self._files(key, about, table.get("files", []))
        if len(self.faults) > before:
            return None
        fields = {name: value for name, value in table.items() if name not in {"id", "prediction", "files"}}
        try:
            return Claim.model_validate(
                {"exploratory": False, **fields, "claim": table.get("id"), "predictions": predictions, "files": files}
            )
        except ValidationError as error:
            self._invalid(key, about, error)
            return None

    def _predictions(self, key: Key, about: str, listed: Any) -> list[Prediction]:
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            self.fault((*key, "prediction"), about, "`prediction` must be [[claim.prediction]], a list of tables")
            return []
        read = []
        for number, item in enumerate(listed):
            place: Key = (*key, "prediction", number)
            unknown = item.keys() - _PREDICTION_KEYS
            for name in unknown:
                self.fault((*place, name), about, _unknown(name, _PREDICTION_KEYS))
            try:
                read.append(Prediction.model_validate({k: v for k, v in item.items() if k not in unknown}))
            except ValidationError as error:
                if not unknown:
                    self._invalid(place, about, error)
        return read

    def _invalid(self, key: Key, about: str, error: ValidationError) -> None:
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            place = ".".join(str(part) for part in fault["loc"])
            problem = fault["msg"].removeprefix("Value error, ")
            self.fault((*key, *fault["loc"]), about, f"{place}: {problem}" if place else problem)

    def _files(self, key: Key, about: str, names: Any) -> dict[str, str]:
        """The sha256 of each file named; the study file is always one of them."""
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.fault((*key, "files"), about, "files must be a list of file names")
            return {}
        if (self.folder / STUDY_FILE).is_file() and STUDY_FILE not in names:
            names = [*names, STUDY_FILE]
        digests = {}
        for name in names:
            try:
                digests[name] = _digest(self.folder, name)
            except ValueError as wrong:
                self.fault((*key, "files"), about, str(wrong))
        return digests


def _digest(folder: Path, name: str) -> str:
    """The sha256 of a file of the study. Raises ValueError in words."""
    if "\0" in name:
        raise ValueError(f"{name!r} is no file name")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"the file {name} lies outside the study folder")
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as refused:
        raise ValueError(f"the file {name} cannot be read: {refused.strerror}") from None


def _unknown(key: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"unknown key {key!r}" + (f", did you mean {nearest[0]!r}?" if nearest else "")
