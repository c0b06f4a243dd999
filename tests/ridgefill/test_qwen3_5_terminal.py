"""The terminal-state correction: its share, its measuring, what it removes, what it leaves, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ridgefill import Maps, correctionfile, terminal
from ridgefill.errors import FillMismatchError, FillUsageError
from ridgefill.plan import Identity
from ridgefill.recurrent import Share
from ridgefill.schedule import prefill, run
from ridgefill.sweep import parts
from ridgefill.terminal import TerminalState, measure

SPLIT, TAIL = 4, 13
LATE = [4, 5, 6]


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen3_5")


def ids_of(length: int, seed: int = 0) -> Tensor:
    return torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(seed + length))


def states(cache: Any) -> dict[int, Tensor]:
    return {layer: cache.layers[layer].recurrent_states[0] for layer in LATE}


@settings(max_examples=40, deadline=None)
@given(length=st.integers(1, 60), piece=st.integers(1, 60), seed=st.integers(0, 99), padded=st.booleans())
def test_the_share_is_one_running_pair_a_head(length: int, piece: int, seed: int, padded: bool) -> None:
    """D <- g D + 1 and M <- g M + [filled], row by row in fp64, whatever the pieces; padding weighs nothing."""
    generator = torch.Generator().manual_seed(seed)
    decay = -torch.rand(2, length, 3, generator=generator) * torch.tensor([1e-4, 0.1, 20.0])
    filled = torch.rand(length, generator=generator) < 0.7
    empty = torch.zeros(2, length, dtype=torch.bool)
    empty[1, : length - 1] = padded
    share = Share()
    for part in parts(0, length, piece):
        share.add(decay[:, part], filled[part], empty[:, part] if padded else None)
    all_rows, filled_rows = torch.zeros(2, 2, 3, dtype=torch.float64)
    for row in range(length):
        gate, here = decay[:, row].double().exp(), (~empty[:, row]).double()[:, None]
        all_rows = gate * all_rows + here
        filled_rows = gate * filled_rows + here * filled[row]
    assert torch.allclose(share.ratio.double(), filled_rows / all_rows, rtol=1e-5, atol=1e-9)


def simple(gates: Tensor, updates: Tensor) -> Tensor:
    """The simplified model: no erase, S <- g S + u; gates [n], updates [n, d, d]."""
    state = torch.zeros(updates.shape[1:], dtype=torch.float64)
    for gate, update in zip(gates, updates, strict=True):
        state = gate * state + update
    return state


@pytest.mark.parametrize("gate", [0.5, 0.98, 0.9999])
def test_rho_removes_a_constant_shift_and_no_other_scale_does(gate: float) -> None:
    """Appendix H: a fill that shifts every row's update by the same matrix. Some rows are exact; the scale is measured
    with every row filled, at the same weight of all rows."""
    generator, n = torch.Generator().manual_seed(3), 400
    updates = torch.randn(n, 3, 4, generator=generator, dtype=torch.float64)
    shift = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    gates = torch.full((n,), gate, dtype=torch.float64)
    filled = torch.rand(n, generator=generator) < 0.6
    offset = simple(gates, updates) - simple(gates, updates + shift)
    share = Share()
    share.add(gates.log().float()[None, :, None], filled)
    rho = float(share.ratio)
    assert 0.1 < rho < 0.9
    error = simple(gates, updates) - simple(gates, updates + shift * filled[:, None, None])
    size = error.norm()
    assert (error - rho * offset).norm() <= 1e-5 * size
    for scale in (0.0, 0.5 * rho, 0.9 * rho, 1.1 * rho, float(filled.double().mean()), 1.0):
        if abs(scale - rho) > 1e-3:
            left = (error - scale * offset).norm() / size
            assert left == pytest.approx(abs(1 - scale / rho), rel=1e-3)


def test_the_offsets_are_the_mean_over_chunk_ends(model: Any) -> None:
    """Against prefills of every length in question: all rows filled, and the model's own."""
    prompts, every = [ids_of(150)[0], ids_of(64)[0], ids_of(30)[0]], 64
    found = measure(model, Identity(SPLIT), prompts, every=every)
    ends = [(prompts[0], 64), (prompts[0], 128), (prompts[1], 64)]
    assert found.split == SPLIT
    for layer in LATE:
        expected = torch.zeros(4, 32, 12, dtype=torch.float64)
        for ids, end in ends:
            upto = torch.cat((ids[:end], ids[:1]))[None]  # the last token is left to the model's own step
            filled = prefill(model, Identity(SPLIT), upto, tail=1)
            expected += (states(model(ids[None, :end]).cache)[layer] - states(filled)[layer])[0] / len(ends)
        assert found.offsets[layer].shape == (4, 12, 32)
        assert found.offsets[layer].dtype == torch.float32
        assert (found.offsets[layer].transpose(1, 2) - expected).norm() <= 1e-5
        assert (layer == SPLIT) is bool(expected.norm() < 1e-5)  # where the identity is true
    assert not any(layer._forward_pre_hooks for layer in model.model.layers)


def test_measured_on_the_request_itself_it_restores_the_exact_state(model: Any) -> None:
    """Rho is 1 where every prefix row is filled, so the state at the end of the prefix is the model's."""
    ids = ids_of(141)
    own = states(model(ids[:, :128]).cache)
    correction = measure(model, Identity(SPLIT), [ids[0, :128]], every=128)
    plain = states(run(model, Identity(SPLIT), ids, tail=TAIL, hold=TAIL).cache)
    done = states(run(model, Identity(SPLIT), ids, tail=TAIL, hold=TAIL, edits=[correction]).cache)
    for layer in LATE[1:]:  # the identity predicts the layer at the split truly
        assert (done[layer] - own[layer]).norm() <= 1e-5 * own[layer].norm()
        assert (plain[layer] - own[layer]).norm() > 0.01 * own[layer].norm()


def test_alpha_and_the_share_scale_what_is_added(model: Any) -> None:
    """Half of alpha adds half; exact rows in the prefix lower it by the share of the heads that still hold them."""
    ids = ids_of(141)
    offsets = measure(model, Identity(SPLIT), [ids[0, :128]], every=128).offsets

    def added(alpha: float, rows: Any = None) -> dict[int, Tensor]:
        edits = [TerminalState(SPLIT, offsets, alpha)]
        plain = states(run(model, Identity(SPLIT), ids, tail=TAIL, rows=rows, hold=TAIL).cache)
        done = states(run(model, Identity(SPLIT), ids, tail=TAIL, rows=rows, hold=TAIL, edits=edits).cache)
        return {layer: done[layer] - plain[layer] for layer in LATE}

    whole, half, first = added(1.0), added(0.5), added(1.0, list(range(64)))
    for layer in LATE[1:]:
        assert torch.allclose(half[layer], whole[layer] / 2, atol=1e-5)
        share = first[layer].norm(dim=(-1, -2)) / whole[layer].norm(dim=(-1, -2))
        assert share[0, 0] > 0.999  # forgets: its state is all from the later, filled half
        assert 0.4 < share[0, -1] < 0.6  # remembers: half of its rows ran exactly


def test_behind_a_long_tail_it_fades_where_gates_are_small(model: Any) -> None:
    """Error and correction fade together: nothing is left of either in a head that forgets."""
    ids = ids_of(400)
    offsets = measure(model, Identity(SPLIT), [ids_of(256, seed=1)[0]], every=128).offsets
    none, whole = (
        run(model, Identity(SPLIT), ids, tail=200, min_prompt=0, edits=[TerminalState(SPLIT, offsets, alpha)]).cache
        for alpha in (0.0, 1.0)  # both cut at the end of the prefix, so that both are rounded alike
    )
    layer = LATE[1]  # the lowest with an offset; those above also see what it did to the tail
    moved = (states(whole)[layer] - states(none)[layer]).norm(dim=(-1, -2))[0] / offsets[layer].norm(dim=(-1, -2))
    assert moved[0] < 1e-8
    assert moved[-1] > 1e-3


def fitted(model: Any, words: Any) -> Maps:
    import ridgefill

    text = " ".join(f"w{i * i % 95 + 2}" for i in range(300))
    return ridgefill.fit(model, words, [text], splits=[SPLIT], penalty=0.1)[SPLIT]


def test_it_travels_with_the_maps(model: Any, words: Any, tmp_path: Path) -> None:
    maps = fitted(model, words)
    with pytest.raises(FillUsageError, match="carry no terminal-state correction"):
        TerminalState.of(maps)
    text = " ".join(f"w{i * 7 % 95 + 2}" for i in range(200))
    corrected = terminal.correct(model, words, maps, [text], every=64).save(tmp_path / "a")
    tensors = TerminalState.of(corrected).offsets
    expected = measure(model, maps, [torch.tensor(words(text)["input_ids"])], every=64).offsets
    assert all(torch.equal(tensors[layer], expected[layer]) for layer in LATE)
    assert corrected.manifest.correction["states"] == 3
    assert "correction.safetensors" in corrected.manifest.files
    Maps.load(tmp_path / "a").save(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    again = terminal.correct(model, words, corrected, [text + " w5"], every=100).save(tmp_path / "a")
    assert again.manifest.correction["every"] == 100
    assert not torch.equal(TerminalState.of(again).offsets[4], tensors[4])
    converted = again.save(tmp_path / "c", "i8")
    assert torch.equal(TerminalState.of(converted).offsets[4], TerminalState.of(again).offsets[4])
    ids = ids_of(141)
    edits = [TerminalState.of(converted, alpha=0.5)]
    plain = run(model, converted, ids, tail=TAIL)
    done = run(model, converted, ids, tail=TAIL, edits=edits)
    assert all(not torch.equal(states(done.cache)[layer], states(plain.cache)[layer]) for layer in LATE)


def test_a_folder_whose_correction_is_for_another_split_is_refused(model: Any, words: Any, tmp_path: Path) -> None:
    maps, offset = fitted(model, words), torch.zeros(4, 12, 32)
    for wrong in (dict.fromkeys((2, 4, 5, 6), offset), dict.fromkeys((5, 6), offset)):
        saved = maps.attach(correctionfile.NAME, correctionfile.pack(wrong)).save(tmp_path / "maps")
        with pytest.raises(FillMismatchError, match="fitted for another split"):
            TerminalState.of(saved)
    for wrong in ({**dict.fromkeys(LATE, offset), 5: offset[0]}, {**dict.fromkeys(LATE, offset), 5: offset / 0}):
        with pytest.raises(FillMismatchError, match=r"st\.5 is not a state"):
            correctionfile.unpack(correctionfile.pack(wrong), maps.manifest)


def test_what_cannot_be_corrected_is_refused(model: Any, tiny: Any, words: Any) -> None:
    ids, offset = ids_of(141), torch.zeros(4, 12, 32)
    correction = TerminalState(SPLIT, dict.fromkeys(LATE, offset))
    worked: list[int] = []
    model.model.layers[0].mlp.register_forward_hook(lambda *_: worked.append(1))
    with pytest.raises(FillUsageError, match="fitted for another split"):
        prefill(model, Identity(5), ids, tail=TAIL, edits=[correction])
    with pytest.raises(FillUsageError, match="fitted for another split"):
        prefill(tiny("llama"), Identity(4), ids, tail=TAIL, edits=[correction])
    with pytest.raises(FillUsageError, match="no state to correct"):
        measure(tiny("llama"), Identity(4), [ids[0]], every=64)
    with pytest.raises(FillUsageError, match="no prompt is long enough"):
        measure(model, Identity(SPLIT), [ids[0]], every=142)
    maps, text = fitted(model, words), " ".join(f"w{i * i % 95 + 2}" for i in range(300))
    with pytest.raises(FillUsageError, match="fitted on"):
        terminal.correct(model, words, maps, [text], every=64)
    assert worked  # by fitting and not before


def test_rows_of_a_sink_free_fit_are_exact_while_it_is_measured(model: Any) -> None:
    class SinkFree(Identity):
        sink_rows = 5

    ids, every = ids_of(65), 64
    found = measure(model, SinkFree(SPLIT), [ids[0, :64]], every=every)
    filled = prefill(model, Identity(SPLIT), ids, tail=1, rows=list(range(5)))
    own = model(ids[:, :64]).cache
    for layer in LATE:
        expected = (states(own)[layer] - states(filled)[layer])[0].transpose(1, 2)
        assert (found.offsets[layer] - expected).norm() <= 1e-5
