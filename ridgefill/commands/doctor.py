"""`ridgefill doctor`: what this machine has, what is missing, and the line that installs it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from ledger.console import json_option, print_json

# extra -> (what it gives, its packages)
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "core": (
        "ledger, runs, audits and recomputation, for anyone who checks",
        (
            *("click", "cryptography", "duckdb", "gitpython", "jinja2", "markdown-it-py", "numpy", "orjson"),
            *("pyarrow", "pydantic", "pylatexenc", "scipy"),
        ),
    ),
    "fill": ("fitting maps, faster prefill", ("torch", "transformers", "safetensors", "gguf", "accelerate")),
    "ray": ("runs on a cluster", ("ray",)),
    "serve": ("ridgefill serve", ("fastapi", "prometheus-client", "uvicorn")),
    "llamacpp": ("arms on llama.cpp", ("llama-cpp-python",)),
    "ruler": ("RULER's word lists", ("wonderwords",)),
    "gpu": ("GPU details in run records", ("nvidia-ml-py",)),
    "anchor": ("RFC 3161 time stamps", ("rfc3161-client",)),
    "dev": ("the tests and linters", ("pytest", "hypothesis", "ruff", "mypy")),
}
CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "sha_ni", "asimd", "bf16")


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say what is installed, what each missing extra gives and its install line, and what the machine is."""
    extras = {name: _extra(name) for name in EXTRAS}
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cpu_features": _features(),
        "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": _gpu(),
        "free_disk_gib": shutil.disk_usage(Path.cwd()).free // 2**30,
    }
    if as_json:
        print_json({"ok": True, "exit_code": 0, "extras": extras, "machine": machine})
        return 0
    for name, extra in extras.items():
        state = "ready  " if not extra["missing"] else "missing"
        click.echo(f"{name:<7} {state}  {extra['gives']}")
        found = ", ".join(f"{package} {number}" for package, number in extra["installed"].items())
        click.echo(f"        {found}" if found else "        nothing installed")
        if extra["missing"]:
            click.echo(f"        lacks {', '.join(extra['missing'])}; next: {extra['install']}")
    for key, value in machine.items():
        click.echo(f"{key.replace('_', ' '):<14} {', '.join(value) if isinstance(value, list) else value}")
    return 0


def _extra(name: str) -> dict[str, Any]:
    gives, packages = EXTRAS[name]
    installed = {package: number for package in packages if (number := _version(package))}
    return {
        "gives": gives,
        "installed": installed,
        "missing": [package for package in packages if package not in installed],
        "install": 'pip install "ridgefill"' if name == "core" else f'pip install "ridgefill[{name}]"',
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _cpuinfo() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _cpu() -> str:
    return _cpuinfo().get("model name") or platform.processor() or "unknown"


def _features() -> list[str]:
    flags = (_cpuinfo().get("flags") or _cpuinfo().get("Features") or "").split()
    return [flag for flag in CPU_FLAGS if flag in flags] or ["none known"]


def _gpu() -> str:
    """One line from nvidia-smi; its failure is an answer, not an error."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=5, check=False)
    except FileNotFoundError:
        return "none (no nvidia-smi)"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    text = done.stdout.strip().replace("\n", "; ")
    return text if done.returncode == 0 and text else f"unknown: nvidia-smi said {done.stderr.strip() or repr(text)}"
