"""Imports point one way: ledger <- provenance <- runs <- recompute; the method stands apart."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("ledger", "provenance", "runs", "recompute")
HEAVY = {"torch", "transformers", "safetensors", "gguf", "accelerate"}
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name in {*ROOMS, "ridgefill"})


def imports(path: Path) -> set[str]:
    """Every module a file imports, at the top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides its direction"
            found.add(node.module or "")
    return found


def top_level_imports(path: Path) -> set[str]:
    """The modules imported when the file itself is imported."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("room", [room for room in ROOMS if room in PACKAGES])
def test_a_room_looks_only_downwards(room: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    for path in files(room):
        for module in imports(path):
            top = module.split(".")[0]
            assert top not in set(ROOMS) - allowed, f"{path} imports {module}"
            if top == "ridgefill":
                # The reference engine and the tasks that need hidden states, inside functions only.
                assert path.is_relative_to(ROOT / "runs" / "engines") or path.is_relative_to(ROOT / "runs" / "tasks")
                assert "ridgefill" not in top_level_imports(path), f"{path} imports the method at its top"


def test_the_method_knows_none_of_the_rooms() -> None:
    shown = {ROOT / "ridgefill" / "cli.py", *files("ridgefill/commands")}
    for path in files("ridgefill"):
        for module in imports(path):
            if module.split(".")[0] in ROOMS:
                assert path in shown or path.name.startswith("bench"), f"{path} imports {module}"
                assert module == "ledger.console" or path.name == "demo.py", f"{path} imports more than the console"


@pytest.mark.parametrize("room", [room for room in ROOMS if room in PACKAGES])
def test_no_room_imports_torch_when_it_is_imported(room: str) -> None:
    for path in files(room):
        assert not top_level_imports(path) & HEAVY, path


def test_verify_starts_without_torch_and_without_the_other_rooms(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.argv = ['ridgefill', 'ledger', 'verify']\n"
        "from ridgefill.cli import root\n"
        "root.main(standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'duckdb', 'numpy', 'provenance', 'runs', 'recompute'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "NOT CHECKED" in done.stdout  # the command really ran, on a folder without a ledger


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_this_checkout(package: str) -> None:
    """`ledger` and `runs` are names that others use too: the wrong one on the path must not go unseen."""
    program = f"import {package}; print({package}.__file__)"
    # From another folder, so that the installed package is found and not the current directory.
    done = subprocess.run([sys.executable, "-c", program], cwd="/", capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parent == ROOT / package


def test_every_folder_with_code_is_packaged() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    present = {
        str(path.parent.relative_to(ROOT)).replace("/", ".")
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert declared == present
