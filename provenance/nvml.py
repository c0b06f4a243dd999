"""`python -m provenance.nvml`: the GPUs as one JSON line. A process of its own, because a driver can hang."""

from __future__ import annotations

import json
from importlib import import_module


def gpus() -> list[dict[str, str | int]]:
    """Name, driver version, CUDA driver version and memory in bytes of every GPU.

    Raises ImportError without nvidia-ml-py, NVMLError without a driver.
    """
    pynvml = import_module("pynvml")
    pynvml.nvmlInit()
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return [
            {
                "name": pynvml.nvmlDeviceGetName(handle),
                "driver": driver,
                "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
                "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(handle).total,
            }
            for handle in map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        ]
    finally:
        pynvml.nvmlShutdown()


if __name__ == "__main__":
    print(json.dumps(gpus()))
