"""Maps from four streams to the block inputs of late layers: capture, penalty, fit, folder, corrections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

import ridgefill
from ridgefill import Maps, correctionfile, penalty
from ridgefill.capture import capture
from ridgefill.errors import FillMismatchError
from ridgefill.plan import Identity
from ridgefill.ridge import decompose
from ridgefill.schedule import extend, prefill, run
from ridgefill.terminal import TerminalState, measure

SPLIT, TAIL = 4, 13
LATE = (4, 5, 6)


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen4_exp")


def windows(count: int = 4, rows: int = 50) -> list[Tensor]:
    return list(torch.randint(2, 97, (count, rows), generator=torch.Generator().manual_seed(9)))


def text(step: int, length: int = 300) -> str:
    return " ".join(f"w{(i * i + step * i) % 95 + 2}" for i in range(length))


def mixes(model: Any, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What stock layers are entered by and what their projections read, one [n, 4d] and one [n, d] a layer, fp64.

    The second by hooks on the projections themselves: no code of the family takes part.
    """
    seen: list[Tensor] = []
    hooks = [
        (layer.linear_attn.in_proj_z if hasattr(layer, "linear_attn") else layer.self_attn.k_proj)
        for layer in model.model.layers
    ]
    held = [module.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].double())) for module in hooks]
    streams = model(ids[None], output_hidden_states=True).hidden_states[:8]
    for hook in held:
        hook.remove()
    return [stream[0].double() for stream in streams], seen


def test_one_pass_takes_four_streams_and_every_block_input(model: Any) -> None:
    statistics = capture(model, windows(), [2, SPLIT], sink_rows=3)
    pairs = [mixes(model, ids) for ids in windows()]
    streams, inputs = (
        [torch.cat([rows[3:] for rows in each]) for each in zip(*kind, strict=True)]
        for kind in zip(*pairs, strict=True)
    )
    assert statistics.rows == 4 * 47
    for split in (2, SPLIT):
        moments, stream = statistics.splits[split], streams[split] - streams[split].mean(0)
        cross = torch.cat([stream.T @ (rows - rows.mean(0)) for rows in inputs[split:]], 1)
        assert moments.gram.shape == (128, 128)
        assert moments.cross.shape == (128, 32 * (8 - split))
        torch.testing.assert_close(moments.gram, stream.T @ stream, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(moments.cross, cross, rtol=1e-5, atol=1e-4)


def test_maps_solve_the_penalised_least_squares(model: Any) -> None:
    """A second implementation: A (X_cᵀX_c + λ I) = Y_cᵀX_c, solved layer by layer."""
    ridge = decompose(capture(model, windows(), [SPLIT]), SPLIT)
    pairs = [mixes(model, ids) for ids in windows()]
    stream = torch.cat([streams[SPLIT] for streams, _ in pairs])
    for layer in range(SPLIT, 8):
        true = torch.cat([inputs[layer] for _, inputs in pairs])
        x, y = stream - stream.mean(0), true - true.mean(0)
        gram = x.T @ x
        expected = torch.linalg.solve(gram + 0.03 * gram.trace() / 128 * torch.eye(128, dtype=gram.dtype), x.T @ y).T
        weight, bias = ridge.map(layer, 0.03)
        assert weight.shape == (32, 128)
        torch.testing.assert_close(weight.double(), expected, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(bias.double(), true.mean(0) - expected @ stream.mean(0), rtol=1e-3, atol=1e-4)


def test_the_penalty_looks_at_what_layers_write(model: Any) -> None:
    """Of the attention layer keys, values and the indexer's raw keys, which filled rows write too."""
    ridge = decompose(capture(model, windows(), [SPLIT]), SPLIT)
    held = windows(1, 40)
    curve = penalty.curves(model, {SPLIT: ridge}, held, penalties=[0.03])[SPLIT]
    streams, inputs = mixes(model, held[0])
    predicted = ridge.predict(streams[SPLIT].float(), 0.03)
    total = []
    for number in range(SPLIT, 8):
        both = [x.float()[None] for x in (predicted[:, number - SPLIT], inputs[number])]
        total.append(torch.stack([cosine_similarity(*pair, dim=-1).mean() for pair in parts(model, number, both)]))
    expected = torch.stack([part.mean() for part in total]).mean()
    assert curve[0.03] == pytest.approx(float(expected), abs=1e-5)


def parts(model: Any, number: int, both: list[Tensor]) -> list[list[Tensor]]:
    layer = model.model.layers[number]
    if number == 7:
        net = layer.self_attn
        keys = [net.k_norm(net.k_proj(x).view(1, -1, 2, 16)) for x in both]
        return [
            keys,
            [net.v_proj(x).view(1, -1, 2, 16) for x in both],
            [net.indexer.index_qk_proj(x)[..., 24:] for x in both],
        ]
    net = layer.linear_attn
    queries, rates = [net.in_proj_qkv(x) for x in both], [net.in_proj_b(x) for x in both]
    return [
        [x[..., :64].reshape(1, -1, 2, 32) for x in queries],
        [x[..., 64:128].reshape(1, -1, 2, 32) for x in queries],
        [x[..., 128:].reshape(1, -1, 4, 12) for x in queries],
        [net.in_proj_a(x) for x in both],
        rates,
    ]


@pytest.mark.parametrize("store", ["bf16", "i8"])
def test_fit_save_load_and_fill(store: str, model: Any, words: Any, tmp_path: Path) -> None:
    """The manifest says what maps read and predict; what comes back from disk fills as what was saved."""
    fitted = ridgefill.fit(model, words, [text(1), text(2)], splits=[SPLIT], held_out=[text(3)])[SPLIT]
    saved = fitted.save(tmp_path / "maps", store)
    loaded = Maps.load(tmp_path / "maps")
    manifest = loaded.manifest
    assert manifest.layers == {"4": "recurrent", "5": "recurrent", "6": "recurrent", "7": "full_attn"}
    assert manifest.adapter == manifest.model.architecture == "qwen4_exp"
    assert (manifest.stream_width, manifest.block_in_width) == (128, 32)
    loaded.save(tmp_path / "again")
    for path in (tmp_path / "maps").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    ids = torch.tensor([words(text(4, 90))["input_ids"]])
    mine, theirs = (prefill(model, maps, ids, tail=TAIL, rows=[5]) for maps in (loaded, saved))
    for layer in LATE:
        assert torch.equal(mine.layers[layer].recurrent_states[0], theirs.layers[layer].recurrent_states[0])
    for name in ("keys", "values", "indexer_keys"):
        assert torch.equal(getattr(mine.layers[7], name), getattr(theirs.layers[7], name))
    assert torch.equal(extend(model, mine, ids[:, -1:]), extend(model, theirs, ids[:, -1:]))


def test_a_filled_row_writes_what_its_prediction_projects_to(model: Any, words: Any) -> None:
    """Keys, values and the indexer's raw keys of a filled row, by the stock projections of its own map."""
    maps = ridgefill.fit(model, words, [text(1), text(2)], splits=[SPLIT], penalty=0.1)[SPLIT].to(torch.float32, "cpu")
    ids = torch.tensor([words(text(4, 90))["input_ids"]])
    store = prefill(model, maps, ids, tail=TAIL, rows=[5]).layers[7]
    state = model(ids, output_hidden_states=True).hidden_states[SPLIT][:, :77]
    net, inputs = model.model.layers[7].self_attn, state @ maps.weight(7).T + maps.bias(7)
    filled = torch.arange(77) != 5
    written = net.indexer.index_qk_proj(inputs)[..., 24:]
    assert (store.indexer_keys[:, :77] - written)[:, filled].abs().max() <= 1e-5
    assert (store.indexer_keys[:, 5] - written[:, 5]).abs().max() > 1e-3
    values = net.v_proj(inputs).view(1, 77, 2, 16).transpose(1, 2)
    assert (store.values[:, :, :77] - values)[:, :, filled].abs().max() <= 1e-5


def test_maps_come_closer_to_the_true_state_than_the_identity(model: Any, words: Any) -> None:
    maps = ridgefill.fit(model, words, [text(k) for k in range(8)], splits=[SPLIT], penalty=0.01)[SPLIT]
    ids = torch.tensor([words(text(9, 200))["input_ids"]])
    own = model(ids[:, :-1]).cache
    for layer in (5, 6):
        true = own.layers[layer].recurrent_states[0]
        off = [
            float((run(model, arm, ids, tail=TAIL).cache.layers[layer].recurrent_states[0] - true).norm())
            for arm in (maps, Identity(SPLIT))
        ]
        assert off[0] < off[1]


def test_maps_of_other_widths_are_refused(model: Any, words: Any, tiny: Any) -> None:
    maps = ridgefill.fit(model, words, [text(1)], splits=[SPLIT], penalty=0.1)[SPLIT]
    for name, value in (("hc_count", 2), ("moe_intermediate_size", 24), ("indexer_compress_ratio", 2)):
        with pytest.raises(FillMismatchError, match=name):
            maps.check_model(tiny("qwen4_exp", **{name: value}))


def test_the_correction_restores_the_state_it_was_measured_on(model: Any, words: Any, tmp_path: Path) -> None:
    """Rho is 1 where every prefix row is filled; it travels with the maps."""
    maps = ridgefill.fit(model, words, [text(1)], splits=[SPLIT], penalty=0.1)[SPLIT]
    ids = torch.tensor([words(text(2, 77))["input_ids"]])
    for arm in (Identity(SPLIT), maps):
        found = measure(model, arm, [ids[0, :64]], every=64)
        assert sorted(found.offsets) == list(LATE)
        upto = torch.cat((ids[:, :64], ids[:, :1]), 1)  # the last token is left to the model's own step
        own, cache = model(ids[:, :64]).cache, prefill(model, arm, upto, tail=1, edits=[found])
        for layer in LATE:
            true, mine = (held.layers[layer].recurrent_states[0] for held in (own, cache))
            assert (mine - true).norm() <= 1e-5 * true.norm()
            assert arm is not maps or found.offsets[layer].norm() > 1e-3 * true.norm()
    carried = maps.attach(correctionfile.NAME, correctionfile.pack(found.offsets), correction={"every": 64})
    carried.save(tmp_path / "maps")
    loaded = TerminalState.of(Maps.load(tmp_path / "maps"))
    assert all(torch.equal(loaded.offsets[layer], found.offsets[layer]) for layer in LATE)
