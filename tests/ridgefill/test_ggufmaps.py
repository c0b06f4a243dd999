"""Maps as a GGUF file: the blocks by a naive second implementation, round trips, published sizes, what is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ridgefill
from ridgefill import Maps, ggufmaps
from ridgefill.cli import main
from ridgefill.errors import FillError, FillMismatchError, FillUsageError
from ridgefill.fingerprint import fingerprint
from ridgefill.manifest import Manifest
from ridgefill.maps import LAYOUT
from ridgefill.rowsel import RowTable
from ridgefill.terminal import TerminalState, correct


def text(step: int, length: int = 300) -> str:
    return " ".join(f"w{(i * i + step * i) % 95 + 2}" for i in range(length))


def build(weight: torch.Tensor, model: Any = None) -> Maps:
    """Maps of layer 3 alone, with this weight, for a model of four layers."""
    d_out, d_in = weight.shape
    about = fingerprint(model).model_dump() if model is not None else {"architecture": "llama", "metadata": {}}
    manifest = {
        "format": 1,
        "name": "tiny maps",
        "license": "CC-BY-4.0",
        "adapter": "llama",
        "model": about,
        "split": 3,
        "stream": "hidden",
        "stream_width": d_in,
        "block_in_width": d_out,
        "layers": {"3": "full_attn"},
        "tail": {"default": 512, "min": 1},
        "projector": {"dtype": "bf16", "layout": LAYOUT, "encoding": "bf16", "files": {"3": "proj.L3.safetensors"}},
        "files": {},
    }
    return Maps(Manifest.model_validate(manifest), {3: {"weight": weight, "bias": weight[:, 0].bfloat16()}})


def random_weight(d_out: int, d_in: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(d_out, d_in, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ggufmaps.write(build(random_weight(4, 64)), tmp_path / "maps.gguf")
    return tmp_path / "maps.gguf"


@pytest.fixture(scope="module")
def hybrid(tiny: Callable[..., Any], words: Any) -> Maps:
    """Fitted maps of both kinds of layers, with the correction, the tables of rows and a licence beside them."""
    model = tiny("qwen3_5")
    maps = ridgefill.fit(model, words, [text(1)], splits=[4], penalty=0.1)[4]
    maps = RowTable.of(words, [text(1)]).attach(correct(model, words, maps, [text(2)], every=64), [text(1)])
    return maps.attach("LICENSE", "Gemäß der Lizenz …\n".encode())


def naive(weight: torch.Tensor) -> bytes:
    """Q8_0 number by number, as ggml words it: d = absmax / 127, codes by the unrounded d, halves away from zero."""
    out = b""
    for row in weight.float().numpy():
        for start in range(0, len(row), 32):
            block = row[start : start + 32]
            d = np.float32(max(abs(block))) / np.float32(127)
            quotients = [float(value * (np.float32(1) / d)) if d else 0.0 for value in block]
            codes = [int(np.sign(q) * np.floor(abs(q) + 0.5)) for q in quotients]
            out += struct.pack("<e32b", np.float16(d), *codes)
    return out


def raw(path: Path, name: str) -> Any:
    return next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.sampled_from([(1, 32), (3, 64), (2, 576)]),
    scale=st.sampled_from([1e-9, 1e-5, 0.02, 1.0, 300.0]),
    seed=st.integers(0, 99),
    zeros=st.booleans(),
)
def test_blocks_are_ggml_s_and_come_back_within_the_bound(
    shape: tuple[int, int], scale: float, seed: int, zeros: bool, tmp_path: Path
) -> None:
    """0.45 % of the largest weight of a block; below fp16's normal numbers its steps add 127 / 2**25."""
    weight = random_weight(*shape, seed) * scale
    if zeros:
        weight[0, :32] = 0
    ggufmaps.write(build(weight), tmp_path / "m.gguf")
    assert raw(tmp_path / "m.gguf", "proj.3.weight").data.tobytes() == naive(weight)
    back = ggufmaps.read(tmp_path / "m.gguf")
    largest = weight.view(shape[0], -1, 32).abs().amax(-1).repeat_interleave(32, 1)
    assert ((back.weight(3) - weight).abs() <= 0.0045 * largest + 127 / 2**25).all()
    assert torch.equal(back.bias(3), weight[:, 0].bfloat16().float())
    if scale > 1e-3:  # no scale is rounded to nothing
        first = (tmp_path / "m.gguf").read_bytes()
        ggufmaps.write(back, tmp_path / "m.gguf")
        assert (tmp_path / "m.gguf").read_bytes() == first


@pytest.mark.parametrize("store", ["bf16", "i8"])
def test_everything_of_a_folder_comes_back(store: str, hybrid: Maps, tiny: Any, tmp_path: Path) -> None:
    saved = hybrid.save(tmp_path / "folder", store)
    size = ggufmaps.write(saved, tmp_path / "maps.gguf")
    assert size == (tmp_path / "maps.gguf").stat().st_size
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    back = ggufmaps.read(tmp_path / "maps.gguf").save(tmp_path / "again")
    for layer in saved.layers:
        stored, true = back.weight(layer).float(), saved.weight(layer).float()
        steps = 0.0045 + (2**-9 if store == "bf16" else 0.0040)  # of this trip, and of storing it anew
        blocks = true.abs().amax(-1, keepdim=True)
        assert ((stored - true).abs() <= steps * blocks + 1e-5).all()
        assert torch.equal(back.bias(layer).float(), saved.bias(layer).float())
    assert dict(back.beside()) == dict(saved.beside())
    assert {"LICENSE", "correction.safetensors", "rowsel.safetensors"} == dict(back.beside()).keys()
    mine, theirs = (maps.manifest.model_dump(exclude={"files"}) for maps in (back, saved))
    assert mine == theirs
    back.check_model(tiny("qwen3_5"))
    offsets = TerminalState.of(back).offsets
    assert all(torch.equal(offsets[layer], TerminalState.of(saved).offsets[layer]) for layer in (4, 5, 6))
    with pytest.raises(FillMismatchError, match="another model"):
        back.check_model(tiny("qwen3_5", intermediate_size=64))


def test_what_a_reader_finds(hybrid: Maps, tmp_path: Path) -> None:
    """The keys and names of docs/formats.md, by the gguf package alone."""
    ggufmaps.write(hybrid, tmp_path / "maps.gguf")
    reader = gguf.GGUFReader(tmp_path / "maps.gguf")
    said = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    manifest = json.loads(said.pop("ridgefill.manifest"))
    assert manifest["split"] == 4
    assert said == {
        "general.architecture": "ridgefill",
        "ridgefill.format": 1,
        "ridgefill.model": "qwen3_5",
        "ridgefill.split": 4,
        "ridgefill.layers": 4,
        "ridgefill.stream_width": 32,
        "ridgefill.block_in_width": 32,
        "ridgefill.tail": 512,
        "ridgefill.text.LICENSE": "Gemäß der Lizenz …\n",
    }
    found = {tensor.name: (tensor.tensor_type.name, tensor.shape.tolist()[::-1]) for tensor in reader.tensors}
    expected: dict[str, tuple[str, list[int]]] = {}
    for layer in (4, 5, 6, 7):
        expected |= {f"proj.{layer}.weight": ("Q8_0", [32, 32]), f"proj.{layer}.bias": ("F32", [32])}
    expected |= {f"st.{layer}": ("F32", [4, 12, 32]) for layer in (4, 5, 6)}
    assert found == expected | {f"rowsel.{name}": ("F32", [97]) for name in ("score", "score_none", "score_all")}


def test_the_tensors_of_the_27b_s_published_file(tmp_path: Path) -> None:
    """1,452,188,032 bytes: 48 maps of 5,120 squared and 36 states of 48 x 128 x 128 leave 1,024,384 of them.

    One fp32 table over the 248,320 tokens leaves 31,104 for the header; the release does not say what it holds.
    """
    ggufmaps.write(build(torch.zeros(5120, 5120)), tmp_path / "m.gguf")
    maps = 48 * sum(raw(tmp_path / "m.gguf", f"proj.3.{part}").n_bytes for part in ("weight", "bias"))
    states = 36 * 48 * 128 * 128 * 4
    assert maps == 1_337_917_440
    assert 1_452_188_032 - maps - states == 1_024_384 == 248_320 * 4 + 31_104


def rewrite(path: Path, fields: dict[str, Any], tensors: dict[str, Any]) -> None:
    """The file again, with some metadata and tensors (array, kind) replaced, or left out where None."""
    reader = gguf.GGUFReader(path)
    said = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    held = {tensor.name: (np.array(tensor.data), tensor.tensor_type) for tensor in reader.tensors}
    said, held = said | fields, held | tensors
    writer = gguf.GGUFWriter(path, said.pop("general.architecture"))
    for key, value in said.items():
        if value is not None:
            (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
    for name, entry in held.items():
        if entry is not None:
            writer.add_tensor(name, entry[0], raw_dtype=entry[1])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


F32, Q4 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.Q4_0
NARROW = gguf.quants.quantize(np.ones((4, 32), np.float32), gguf.GGMLQuantizationType.Q8_0)


@pytest.mark.parametrize(
    ("fields", "tensors", "message"),
    [
        ({"general.architecture": "llama"}, {}, r"not a file of maps.*ridgefill.*found llama.*a model"),
        ({"ridgefill.manifest": None}, {}, r"has no ridgefill\.manifest"),
        ({"ridgefill.manifest": "{"}, {}, r"ridgefill\.json"),
        ({"ridgefill.split": 7}, {}, r"ridgefill\.split is not what.*expected 3.*found 7.*another model"),
        ({"ridgefill.stream_width": None}, {}, r"ridgefill\.stream_width.*expected 64.*found None"),
        ({"ridgefill.format": 2}, {}, r"ridgefill\.format"),
        ({}, {"proj.3.weight": (np.ones((4, 64), np.float32), F32)}, r"proj\.3\.weight.*Q8_0 \[4, 64\].*F32 \[4, 64\]"),
        ({}, {"proj.3.weight": (np.zeros((4, 36), np.uint8), Q4)}, r"proj\.3\.weight.*found Q4_0 \[4, 64\]"),
        ({}, {"proj.3.weight": (NARROW, gguf.GGMLQuantizationType.Q8_0)}, r"Q8_0 \[4, 64\].*found Q8_0 \[4, 32\]"),
        ({}, {"proj.3.bias": None}, r"proj\.3\.bias.*no such tensor"),
        ({}, {"proj.3.bias": (np.full(4, np.nan, np.float32), F32)}, r"proj\.3\.bias.*not finite"),
        ({}, {"token_embd.weight": (np.ones(4, np.float32), F32)}, r"holds token_embd\.weight F32"),
        ({}, {"st.3": (np.ones((2, 3, 4), np.float32), F32)}, r"correction\.safetensors.*another split"),
        ({}, {"rowsel.score": (np.ones(4, np.float32), F32)}, r"rowsel\.safetensors is not a table"),
    ],
)
def test_bad_files_are_refused_by_name(fields: Any, tensors: Any, message: str, file: Path) -> None:
    rewrite(file, fields, tensors)
    with pytest.raises(FillMismatchError, match=message) as caught:
        ggufmaps.read(file)
    assert "\n" not in caught.value.line()


def test_a_file_that_is_cut_anywhere_is_refused(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    for end in [*range(0, len(data) - 32, 7), len(data) - 32]:  # the last 16 bytes are padding
        (tmp_path / "cut.gguf").write_bytes(data[:end])
        with pytest.raises(FillMismatchError, match=r"cut\.gguf") as caught:
            ggufmaps.read(tmp_path / "cut.gguf")
        assert "\n" not in caught.value.line()


def test_what_a_gguf_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "sub" / "m.gguf"
    for maps, message in (
        (build(random_weight(2, 48)), r"no part of a block.*multiples of 32.*found 48"),
        (build(random_weight(2, 64)).attach("photo.png", b"\xff\xfe"), r"photo\.png has no place"),
        (build(torch.full((2, 64), 1e8)), r"proj\.3\.weight is too large"),
    ):
        with pytest.raises(FillUsageError, match=message):
            ggufmaps.write(maps, out)
        assert not out.exists()
    assert not out.parent.exists() or not list(out.parent.iterdir())
    (tmp_path / "thesis.gguf").write_text("dear")
    with pytest.raises(FillUsageError, match="exists and is not a GGUF"):
        ggufmaps.write(build(random_weight(2, 64)), tmp_path / "thesis.gguf")
    assert (tmp_path / "thesis.gguf").read_text() == "dear"
    with pytest.raises(FillUsageError, match="no file"):
        ggufmaps.read(tmp_path / "none.gguf")


def test_a_folder_is_what_other_commands_want(file: Path) -> None:
    with pytest.raises(FillUsageError, match=r"not a map folder.*found a file.*maps convert \S*maps\.gguf DIR"):
        Maps.load(file)


def test_the_command(
    hybrid: Maps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hybrid.save(tmp_path / "maps")

    def convert(source: str, out: str, dtype: str, *more: str) -> tuple[int, str, str]:
        arguments = ["maps", "convert", str(tmp_path / source), str(tmp_path / out), "--dtype", dtype, *more]
        monkeypatch.setattr("sys.argv", ["ridgefill", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out_text, err = capsys.readouterr()
        return int(stop.value.code or 0), out_text, err

    code, out, _ = convert("maps", "m.gguf", "q8_0")
    assert (code, "4 maps in Q8_0" in out) == (0, True)
    code, out, _ = convert("m.gguf", "back", "i8", "--json")
    assert code == 0
    assert json.loads(out)["dtype"] == "i8"
    assert Maps.load(tmp_path / "back").manifest.projector.dtype == "i8"
    for source, target, dtype, status, message in (
        ("maps", "m.bin", "q8_0", 2, "OUT.gguf --dtype q8_0"),
        ("maps", "n.gguf", "bf16", 2, "OUT.gguf --dtype q8_0"),
        ("none.gguf", "other", "bf16", 2, "there is no file"),
        ("cut.gguf", "other", "bf16", 5, "cut.gguf is not a whole GGUF"),
    ):
        (tmp_path / "cut.gguf").write_bytes((tmp_path / "m.gguf").read_bytes()[:900])
        code, out, err = convert(source, target, dtype)
        assert (code, out) == (status, "")
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "other").exists()


def test_every_refusal_is_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").write_bytes(b"")
    with pytest.raises(FillError):
        ggufmaps.read(tmp_path / "empty.gguf")
