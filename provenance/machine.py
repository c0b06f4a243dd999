"""The machine a run is on: processor, memory, GPUs, system, Python and packages.

A capture that fails or hangs is recorded as {"error": ...}; none of them can stop a run. Every number is
an integer or a decimal string, so the record fits a ledger entry.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from provenance.probe import attempt, run

# Threads decide the order of floating-point sums, and how they wait decides times, so they are part of what ran.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "KMP_AFFINITY",
)
_SMI = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"]


def capture() -> dict[str, Any]:
    """Everything known about this machine, as plain JSON values without floats."""
    return {
        "system": attempt(_system),
        "cpu": attempt(_cpu),
        "memory_bytes": attempt(_memory_bytes),
        "gpus": attempt(gpus),
        "python": attempt(_python),
        "packages": attempt(packages),
        "threads": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
    }


def packages() -> dict[str, str]:
    """Distribution name -> version of everything installed, in order of names."""
    found = {item.metadata["Name"]: item.version for item in metadata.distributions() if item.metadata["Name"]}
    return dict(sorted(found.items()))


def gpus() -> list[dict[str, Any]]:
    """The GPUs, from NVML where nvidia-ml-py is there, else from nvidia-smi.

    Raises TimeoutError, OSError, ValueError when neither gives a usable answer: that is not "no GPU".
    """
    if find_spec("pynvml"):
        answer = attempt(lambda: orjson.loads(run([sys.executable, "-m", "provenance.nvml"])))
        if isinstance(answer, list):
            return answer
    return [_smi_line(line) for line in run(_SMI).splitlines() if line.strip()]


def _smi_line(line: str) -> dict[str, Any]:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 3 or not re.fullmatch(r"\d+(\.\d+)+", parts[1]) or not parts[2].isdecimal():
        raise ValueError(f"nvidia-smi said {line[:80]!r}; expected a name, a driver version and MiB")
    return {"name": parts[0], "driver": parts[1], "memory_bytes": int(parts[2]) * 2**20}


def _system() -> dict[str, str]:
    release = attempt(platform.freedesktop_os_release)
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "distribution": release.get("PRETTY_NAME", ""),
        "libc": " ".join(platform.libc_ver()),
    }


def _cpu() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    facts = dict(re.findall(r"^([^\t:]+)\s*:\s*(.*)$", text, re.MULTILINE))
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "model": facts.get("model name", platform.processor()),
        "flags": sorted(flag for flag in facts.get("flags", "").split() if flag.startswith(("avx", "amx", "fma"))),
        "cores": os.cpu_count() or 0,
        "usable_cores": usable or 0,
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _python() -> dict[str, str]:
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "build": " ".join(platform.python_build()),
        "compiler": platform.python_compiler(),
        "hash_seed": os.environ.get("PYTHONHASHSEED", "random"),
    }
