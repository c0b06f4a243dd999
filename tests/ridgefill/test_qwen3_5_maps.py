"""Maps of hybrids: capture, penalty, fit, folder; both kinds of layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

import ridgefill
from ridgefill import Maps, penalty
from ridgefill.capture import capture
from ridgefill.cli import main
from ridgefill.errors import FillMismatchError
from ridgefill.ridge import decompose
from ridgefill.rowsel import RowTable
from ridgefill.schedule import prefill, run
from ridgefill.terminal import TerminalState, measure

SPLIT, TAIL = 4, 13


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen3_5")


def windows(count: int = 4, rows: int = 50) -> list[Tensor]:
    return list(torch.randint(2, 97, (count, rows), generator=torch.Generator().manual_seed(9)))


def text(step: int, length: int = 300) -> str:
    return " ".join(f"w{(i * i + step * i) % 95 + 2}" for i in range(length))


def test_one_pass_takes_every_layer_s_input(model: Any) -> None:
    """Against all rows at once, from the model's own hidden states, through both kinds of layers."""
    statistics = capture(model, windows(), [2, SPLIT])
    hidden = [torch.cat(each) for each in zip(*(states_of(model, ids) for ids in windows()), strict=True)]
    for split in (2, SPLIT):
        centred = [layer - layer.mean(0) for layer in hidden]
        moments, stream = statistics.splits[split], centred[split]
        cross = torch.cat([stream.T @ centred[layer] for layer in range(split, 8)], 1)
        torch.testing.assert_close(moments.gram, stream.T @ stream, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(moments.cross, cross, rtol=1e-5, atol=1e-4)


def states_of(model: Any, ids: Tensor) -> list[Tensor]:
    return [state[0].double() for state in model(ids[None], output_hidden_states=True).hidden_states[:8]]


def test_the_penalty_looks_at_what_each_kind_of_layer_writes(model: Any) -> None:
    """A second implementation, with the stock layers' own projections: keys and values of the attention layer,
    queries, keys, values and gates of the others, heads and then parts weighing equally."""
    ridge = decompose(capture(model, windows(), [SPLIT]), SPLIT)
    held = windows(1, 40)
    curve = penalty.curves(model, {SPLIT: ridge}, held, penalties=[0.03])[SPLIT]
    hidden = states_of(model, held[0])
    predicted = ridge.predict(hidden[SPLIT].float(), 0.03)
    total = []
    for number in range(SPLIT, 8):
        both = [x.float()[None] for x in (predicted[:, number - SPLIT], hidden[number])]
        total.append(torch.stack([cosine_similarity(*pair, dim=-1).mean() for pair in parts(model, number, both)]))
    expected = torch.stack([part.mean() for part in total]).mean()
    assert curve[0.03] == pytest.approx(float(expected), abs=1e-5)


def parts(model: Any, number: int, both: list[Tensor]) -> list[list[Tensor]]:
    layer = model.model.layers[number]
    normed = [layer.input_layernorm(x) for x in both]
    if number == 7:
        net = layer.self_attn
        keys = [net.k_norm(net.k_proj(x).view(1, -1, 2, 16)) for x in normed]
        return [keys, [net.v_proj(x).view(1, -1, 2, 16) for x in normed]]
    net = layer.linear_attn
    queries, rates = [net.in_proj_qkv(x) for x in normed], [net.in_proj_b(x) for x in normed]
    return [
        [x[..., :64].reshape(1, -1, 2, 32) for x in queries],
        [x[..., 64:128].reshape(1, -1, 2, 32) for x in queries],
        [x[..., 128:].reshape(1, -1, 4, 12) for x in queries],
        [net.in_proj_a(x) for x in normed],
        rates,
    ]


@pytest.mark.parametrize("store", ["bf16", "i8"])
def test_fit_save_load_and_fill(store: str, model: Any, words: Any, tmp_path: Path) -> None:
    """Both kinds have a map and their word in the manifest; what comes back from disk fills as what was saved."""
    fitted = ridgefill.fit(model, words, [text(1), text(2)], splits=[SPLIT], held_out=[text(3)])[SPLIT]
    saved = fitted.save(tmp_path / "maps", store)
    loaded = Maps.load(tmp_path / "maps")
    assert loaded.manifest.layers == {"4": "recurrent", "5": "recurrent", "6": "recurrent", "7": "full_attn"}
    assert loaded.manifest.adapter == loaded.manifest.model.architecture == "qwen3_5"
    assert loaded.manifest.model.metadata["linear_value_head_dim"] == 12
    loaded.save(tmp_path / "again")
    for path in (tmp_path / "maps").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    ids = torch.tensor([words(text(4, 90))["input_ids"]])
    mine, theirs = (prefill(model, maps, ids, tail=TAIL) for maps in (loaded, saved))
    for layer in (4, 5, 6):
        assert torch.equal(mine.layers[layer].recurrent_states[0], theirs.layers[layer].recurrent_states[0])


def test_a_table_of_rows_travels_with_the_maps(model: Any, words: Any, tmp_path: Path) -> None:
    maps = ridgefill.fit(model, words, [text(1)], splits=[SPLIT], penalty=0.1)[SPLIT]
    assert RowTable.beside(maps) is None
    table = RowTable.of(words, [text(1)])
    saved = table.attach(maps, [text(1)]).save(tmp_path / "maps")
    found = RowTable.beside(Maps.load(tmp_path / "maps"))
    assert found is not None
    assert torch.equal(found.score, table.score)
    assert saved.manifest.rowsel["texts_sha256"] == maps.manifest.fit["texts_sha256"]
    assert RowTable.beside(saved.save(tmp_path / "i8", "i8")) is not None


def test_maps_come_closer_to_the_true_state_than_the_identity(model: Any, words: Any) -> None:
    maps = ridgefill.fit(model, words, [text(k) for k in range(8)], splits=[SPLIT], penalty=0.01)[SPLIT]
    ids = torch.tensor([words(text(9, 200))["input_ids"]])
    own = model(ids[:, :-1]).cache
    for layer in (5, 6):
        true = own.layers[layer].recurrent_states[0]
        off = [
            float((run(model, arm, ids, tail=TAIL).cache.layers[layer].recurrent_states[0] - true).norm())
            for arm in (maps, ridgefill.Identity(SPLIT))
        ]
        assert off[0] < off[1]


def test_maps_of_other_recurrent_widths_are_refused(model: Any, words: Any, tiny: Any) -> None:
    maps = ridgefill.fit(model, words, [text(1)], splits=[SPLIT], penalty=0.1)[SPLIT]
    with pytest.raises(FillMismatchError, match="linear_value_head_dim"):
        maps.check_model(tiny("qwen3_5", linear_value_head_dim=16))
    with pytest.raises(FillMismatchError, match="layer_kinds"):
        maps.check_model(tiny("qwen3_5", layer_types=["linear_attention", "full_attention"] * 4))


def test_a_correction_is_measured_from_the_command_line(
    model: Any, words: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lands in the folder, as the library measures it; a text that was fitted on is refused, exit 2."""
    model.save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    maps = ridgefill.fit(model, words, [text(1)], splits=[SPLIT], penalty=0.1)[SPLIT].save(tmp_path / "maps")
    for name, step in (("fitted.txt", 1), ("other.txt", 2)):
        (tmp_path / name).write_text(text(step))

    def run_command(name: str) -> tuple[int, str, str]:
        arguments = ["correct", f"path:{tmp_path / 'model'}", tmp_path / "maps", "--text", tmp_path / name]
        options = ["--every", "64", "--dtype", "fp32"]
        monkeypatch.setattr("sys.argv", ["ridgefill", "maps", *map(str, arguments), *options])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    code, _, err = run_command("fitted.txt")
    assert code == 2
    assert "fitted on" in err
    code, out, err = run_command("other.txt")
    assert code == 0, err
    assert "over 4 of them" in out
    found = TerminalState.of(Maps.load(tmp_path / "maps")).offsets
    expected = measure(model, maps, [torch.tensor(words(text(2))["input_ids"])], every=64).offsets
    assert all(torch.allclose(found[layer], expected[layer], atol=1e-6) for layer in (4, 5, 6))
