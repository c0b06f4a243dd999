"""The memory of a long prefill of hybrids, with and without sparse attention, in bytes that torch holds at once."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ridgefill import recurrent, sweep
from ridgefill.plan import Identity
from ridgefill.schedule import prefill

SIZES: dict[str, Any] = {
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "full_attention"] * 2,  # in qwen4_exp that word means one with an indexer
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
}


class Held(TorchDispatchMode):
    """Bytes of all storages that torch makes and that are still alive: `now` and, at most, `peak`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return out

    def _note(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def peak(model: Any, length: int) -> int:
    ids = torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(0))
    with Held() as held:
        cache = prefill(model, Identity(2), ids, tail=512, rows=list(range(0, length - 512, 1000)))
    kept = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers if hasattr(layer, "keys"))
    assert held.peak > kept  # the count sees the cache at least
    return held.peak


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3_5", "qwen4_exp"])
def test_64k_tokens_take_memory_in_proportion(family: str, tiny: Any) -> None:
    """Twice the tokens take at most twice the bytes, up to 64K; the cache alone grows so."""
    model = tiny(family, **SIZES, max_position_embeddings=1 << 16)
    small, middle, large = (peak(model, 1 << bits) for bits in (14, 15, 16))
    assert middle <= 2.01 * small
    assert large <= 2.01 * middle


def test_the_scan_is_fed_in_segments(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a sixteenth of the prompt need a fraction of the memory of one piece."""
    model = tiny("qwen3_5", **SIZES, max_position_embeddings=1 << 12)
    peaks = []
    for size in (1 << 12, 1 << 8):
        monkeypatch.setattr(sweep, "SEGMENT", size)
        monkeypatch.setattr(recurrent, "SEGMENT", size)
        peaks.append(peak(model, 1 << 12))
    assert peaks[1] < peaks[0] / 3
