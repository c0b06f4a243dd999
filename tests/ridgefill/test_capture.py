"""One pass, several splits: against a naive pass, merged, interrupted, resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ridgefill import tensorfile
from ridgefill.capture import Statistics, capture, late_inputs, windows_of
from ridgefill.errors import FillMismatchError, FillUsageError

SPLITS = (1, 3, 4)


def windows(count: int = 4, rows: int = 50) -> list[Tensor]:
    return list(torch.randint(0, 97, (count, rows), generator=torch.Generator().manual_seed(9)))


def naive(model: Any, ids: list[Tensor], split: int, sink_rows: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, gram, cross [d, layers * d] of all rows at once, float64, from the model's own hidden states."""
    states = [[h[0, sink_rows:].double() for h in model(w[None], output_hidden_states=True).hidden_states] for w in ids]
    layers = [torch.cat([state[l] for state in states]) for l in range(6)]  # noqa: E741 - the paper's l
    centred = [layer - layer.mean(0) for layer in layers]
    cross = torch.cat([centred[split].T @ centred[layer] for layer in range(split, 6)], 1)
    return layers[split].mean(0), centred[split].T @ centred[split], cross


def assert_same(statistics: Statistics, other: Statistics, rtol: float = 1e-9) -> None:
    assert statistics.rows == other.rows
    for name, tensor in statistics.tensors().items():
        scale = float(other.tensors()[name].abs().max())
        torch.testing.assert_close(tensor, other.tensors()[name], rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("sink_rows", [0, 3])
def test_one_pass_gives_the_moments_of_every_split(model: Any, sink_rows: int) -> None:
    statistics = capture(model, windows(), SPLITS, sink_rows=sink_rows)
    assert statistics.rows == 4 * (50 - sink_rows)
    for split in SPLITS:
        mean, gram, cross = naive(model, windows(), split, sink_rows)
        moments = statistics.splits[split]
        for found, expected in ((moments.mean, mean), (moments.gram, gram), (moments.cross, cross)):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6 * float(expected.abs().max()))


def test_several_splits_share_one_forward_pass_that_stops_early(model: Any) -> None:
    calls = dict.fromkeys(range(6), 0)

    def counting(layer: int) -> Callable[..., None]:
        return lambda *_: calls.update({layer: calls[layer] + 1})

    for layer, module in enumerate(model.model.layers):
        module.mlp.register_forward_hook(counting(layer))
    heads: list[int] = []
    model.lm_head.register_forward_hook(lambda *_: heads.append(1))
    capture(model, windows(3), SPLITS)
    assert calls == {0: 3, 1: 3, 2: 3, 3: 3, 4: 3, 5: 0}
    assert heads == []


def test_hooks_are_gone_afterwards_also_after_a_failure(model: Any) -> None:
    ids = windows(1)[0][None]
    before = model(ids).logits
    with pytest.raises(RuntimeError, match="indices"), late_inputs(model, [2]) as run:
        run(ids.float())
    assert torch.equal(model(ids).logits, before)


@given(cut=st.integers(0, 4), sink_rows=st.integers(0, 2))
def test_merged_statistics_equal_one_pass(cut: int, sink_rows: int) -> None:
    rows = torch.Generator().manual_seed(cut)
    parts = [torch.randn(20, 3 * 4, generator=rows) * 5 + i for i in range(4)]

    def add(statistics: Statistics, blocks: list[Tensor]) -> Statistics:
        for block in blocks:
            statistics.add({1: block[:, 4:8], 0: block[:, :4]}, block)
        return statistics

    def empty() -> Statistics:
        return Statistics.empty([0, 1], 3, 4, 4)

    whole = add(empty(), parts)
    first, second = add(empty(), parts[:cut]), add(empty(), parts[cut:])
    first.merge(second)
    assert_same(first, whole, rtol=1e-6)
    exact = torch.cat(parts).double()
    centred = exact - exact.mean(0)
    torch.testing.assert_close(whole.splits[1].cross, centred[:, 4:8].T @ centred[:, 4:], rtol=1e-5, atol=1e-3)


def test_a_sink_and_a_large_mean_do_not_drown_the_rest() -> None:
    """fp32 products about the window's mean are good to 1e-5 where raw fp32 sums are wrong by a tenth."""
    g = torch.Generator().manual_seed(0)
    rows = 10 * torch.randn(4096, 8, generator=g) + 5000
    rows[::1024, 0] += 2000
    statistics = Statistics.empty([0], 1, 8, 8)
    for block in rows.chunk(8):
        statistics.add({0: block}, block)
    centred = rows.double() - rows.double().mean(0)
    expected = centred.T @ centred
    size = float(expected.diag()[1:].mean())
    assert (statistics.splits[0].gram - expected)[1:].abs().max() < 1e-5 * size
    raw = (rows.T @ rows).double() - 4096 * torch.outer(rows.double().mean(0), rows.double().mean(0))
    assert (raw - expected)[1:].abs().max() > 0.1 * size


def test_statistics_of_other_splits_do_not_merge() -> None:
    with pytest.raises(FillUsageError, match="do not merge"):
        Statistics.empty([1], 3, 4, 4).merge(Statistics.empty([1, 2], 3, 4, 4))


def test_windows_cut_documents_and_drop_what_leaves_no_row() -> None:
    documents = [torch.arange(10), torch.arange(2), torch.arange(5)]
    assert [len(w) for w in windows_of(documents, 4)] == [4, 4, 2, 2, 4]
    assert [len(w) for w in windows_of(documents, 4, sink_rows=2)] == [4, 4, 4]


def test_weights_that_overflow_are_named(tiny: Callable[..., Any]) -> None:
    model = tiny("llama")
    model.model.layers[2].mlp.down_proj.weight.fill_(float("nan"))
    with pytest.raises(FillUsageError, match="hidden states are not finite"):
        capture(model, windows(1), [3])


def test_an_interrupted_pass_resumes_to_the_same_bytes(model: Any, tmp_path: Path) -> None:
    whole = capture(model, windows(), SPLITS)
    state = tmp_path / "state"
    seen: list[int] = []

    def interrupt(*_: Any) -> None:
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt

    hook = model.model.layers[0].register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        capture(model, windows(), SPLITS, state=state, save_seconds=0)
    hook.remove()
    passes: list[int] = []
    model.model.layers[0].register_forward_hook(lambda *_: passes.append(1))
    resumed = capture(model, windows(), SPLITS, state=state)
    assert len(passes) == 2  # of four windows two were done
    for name, tensor in whole.tensors().items():
        assert torch.equal(resumed.tensors()[name], tensor)
    capture(model, windows(), SPLITS, state=state)
    assert len(passes) == 2  # a finished state costs nothing


def test_a_state_of_another_pass_is_refused(tiny: Callable[..., Any], tmp_path: Path) -> None:
    model, state = tiny("llama"), tmp_path / "state"
    capture(model, windows(), [3], state=state)
    for other in (
        lambda: capture(model, windows(5), [3], state=state),
        lambda: capture(model, windows(), [2], state=state),
        lambda: capture(model, windows(), [3], sink_rows=1, state=state),
        lambda: capture(tiny("llama", seed=1), windows(), [3], state=state),
        lambda: capture(tiny("llama", dtype=torch.bfloat16), windows(), [3], state=state),
    ):
        with pytest.raises(FillMismatchError, match="belongs to another pass"):
            other()
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(FillMismatchError, match="not a whole safetensors file"):
        capture(model, windows(), [3], state=state)


CHILD = """
    import sys, time, torch
    from pathlib import Path
    from ridgefill.capture import capture
    from transformers import LlamaForCausalLM
    model = LlamaForCausalLM.from_pretrained(sys.argv[1]).eval()
    model.model.layers[0].register_forward_hook(lambda *_: time.sleep(0.05))
    windows = torch.load(sys.argv[2])
    capture(model, windows, [1, 3, 4], state=Path(sys.argv[3]), save_seconds=0)
"""


def test_a_killed_pass_resumes_to_the_same_result(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """A real SIGKILL at whatever moment: the state file is whole, and going on from it loses nothing."""
    model, text, state = tiny("llama"), windows(40), tmp_path / "state"
    model.save_pretrained(tmp_path / "model")
    torch.save(text, tmp_path / "text")
    arguments = [tmp_path / "model", tmp_path / "text", state]
    victim = subprocess.Popen([sys.executable, "-c", textwrap.dedent(CHILD), *map(str, arguments)])
    while not state.exists() and victim.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    victim.send_signal(signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    done = int(tensorfile.unpack(state.read_bytes(), "state")[1]["windows"])
    assert 0 < done < 40
    passes: list[int] = []
    model.model.layers[0].register_forward_hook(lambda *_: passes.append(1))
    resumed = capture(model, text, SPLITS, state=state)
    assert len(passes) == 40 - done
    assert_same(resumed, capture(model, text, SPLITS), rtol=1e-6)
