"""claims.toml -> claim bodies: what a researcher writes down before a run."""

from __future__ import annotations

import difflib
import tomllib
from hashlib import file_digest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ledger.errors import UsageProblem
from ledger.events import one_line
from ledger.events.claim import Claim, Prediction

CLAIMS_FILE = "claims.toml"
STUDY_FILE = "study.toml"
_DEFAULTS: dict[str, Any] = {"exploratory": False, "files": []}
_KEYS = {*Claim.model_fields} - {"claim", "predictions"} | {"id", "prediction"}


def read_claims(path: Path) -> list[Claim]:
    """The claims of a claims file, or of a study folder's claims.toml, digests of their files included.

    Raises UsageProblem with every fault, each naming file, claim and key.
    """
    folder = path if path.is_dir() else path.parent
    source = path / CLAIMS_FILE if path.is_dir() else path
    tables = _tables(source)
    unknown = [key for key in tables if key != "claim"]
    faults = [_unknown(key, {"claim"}, source.name) for key in unknown]
    claims: list[Claim] = []
    for number, table in enumerate(tables.get("claim", [])):
        where = (
            f"{source.name}: claim {table.get('id', f'number {number + 1}') if isinstance(table, dict) else number + 1}"
        )
        if not isinstance(table, dict):
            faults.append(f"{where}: not a [[claim]] table")
            continue
        wrong = [_unknown(key, _KEYS, where) for key in table if key not in _KEYS]
        predictions = table.get("prediction", [])
        if not isinstance(predictions, list) or not all(isinstance(item, dict) for item in predictions):
            wrong += [f"{where}: `prediction` must be [[claim.prediction]], a list of tables"]
            predictions = []
        for prediction in predictions:
            keys = set(Prediction.model_fields)
            wrong += [_unknown(key, keys, where) for key in prediction if key not in keys]
        if wrong:
            faults += wrong
            continue
        try:
            claims.append(_claim(table, folder, where))
        except ValidationError as error:
            faults.append(f"{where}: {one_line(error)}")
    if faults:
        raise UsageProblem("; ".join(faults), hint=f"edit {source} and register again")
    if not claims:
        raise UsageProblem(f"{source} holds no [[claim]]", expected="at least one", found="none")
    return claims


def _tables(source: Path) -> dict[str, Any]:
    try:
        with source.open("rb") as file:
            tables = tomllib.load(file)
    except FileNotFoundError:
        raise UsageProblem(
            f"there is no {source}", expected="a claims file, or a study folder with claims.toml in it"
        ) from None
    except (OSError, ValueError, RecursionError) as wrong:
        raise UsageProblem(f"{source} cannot be read: {wrong}") from None
    if not isinstance(tables.get("claim", []), list):
        raise UsageProblem(f"{source}: `claim` must be [[claim]], a list of tables", found="[claim]")
    return tables


def _claim(table: dict[str, Any], folder: Path, where: str) -> Claim:
    fields = {**_DEFAULTS, **table}
    names = fields.pop("files")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageProblem(f"{where}: files must be a list of file names")
    if (folder / STUDY_FILE).is_file() and STUDY_FILE not in names:
        names = [*names, STUDY_FILE]
    return Claim.model_validate(
        {
            **{key: value for key, value in fields.items() if key not in {"id", "prediction"}},
            "claim": fields.get("id"),
            "predictions": [Prediction.model_validate(item) for item in fields.get("prediction", [])],
            "files": {name: _digest(folder, name, where) for name in names},
        }
    )


def _digest(folder: Path, name: str, where: str) -> str:
    if "\0" in name:
        raise UsageProblem(f"{where}: {name!r} is no file name")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UsageProblem(f"{where}: the file {name} lies outside the study folder")
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as refused:
        raise UsageProblem(f"{where}: the file {name} cannot be read: {refused.strerror}") from None


def _unknown(key: str, known: set[str], where: str) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"{where}: unknown key {key!r}" + (f", did you mean {nearest[0]!r}?" if nearest else "")
