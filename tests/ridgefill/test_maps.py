"""The map folder: sizes, byte-stable round trips, what is verified, what is refused, what is kept."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ridgefill import Maps, int8, tensorfile
from ridgefill.errors import FillError, FillMismatchError, FillUsageError
from ridgefill.fingerprint import compare, fingerprint
from ridgefill.manifest import Manifest
from ridgefill.maps import LAYOUT, _metadata, read_manifest, unlisted


def build(model: Any, split: int = 3, d_in: int = 32, seed: int = 0) -> Maps:
    """Random maps for a tiny model, or of another width."""
    generator = torch.Generator().manual_seed(seed)
    layers = range(split, 6)
    parts = {
        layer: {
            "weight": torch.randn(32, d_in, generator=generator).bfloat16(),
            "bias": torch.randn(32, generator=generator).bfloat16(),
        }
        for layer in layers
    }
    manifest = {
        "format": 1,
        "adapter": "llama",
        "model": fingerprint(model).model_dump(),
        "split": split,
        "stream": "hidden",
        "stream_width": d_in,
        "block_in_width": 32,
        "layers": {str(layer): "full_attn" for layer in layers},
        "tail": {"default": 512, "min": 1},
        "projector": {
            "dtype": "bf16",
            "layout": LAYOUT,
            "encoding": "bf16",
            "files": {str(layer): f"proj.L{layer}.safetensors" for layer in layers},
        },
        "files": {},
    }
    return Maps(Manifest.model_validate(manifest), parts)


@pytest.fixture
def folder(tiny: Callable[..., Any], tmp_path: Path) -> Path:
    build(tiny("llama")).save(tmp_path / "maps")
    return tmp_path / "maps"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    document = json.loads((folder / "ridgefill.json").read_bytes())
    edit(document)
    (folder / "ridgefill.json").write_text(json.dumps(document))


def test_the_published_sizes() -> None:
    """24 maps 10,240 -> 2,560 in int8 are 26,629,560 bytes a file; 48 of 5,120 squared are 1.2 GiB."""

    def file(layer: int, d_out: int, d_in: int) -> int:
        codes, scale = torch.zeros(d_out, d_in, dtype=torch.int8), torch.zeros(d_out, d_in // 128).bfloat16()
        tensors = {"codes": codes, "scale": scale, "bias": torch.zeros(d_out).bfloat16()}
        named = {f"proj.{layer}.{part}": tensor for part, tensor in tensors.items()}
        return len(tensorfile.pack(named, _metadata(int8.encoding_of(d_in))))

    assert file(24, 2560, 10240) == 26_629_560
    assert round(24 * 26_629_560 / 2**30, 2) == 0.60
    header = file(24, 2560, 10240) - (2560 * 10240 + 2560 * 80 * 2 + 2560 * 2)
    assert round(48 * (5120 * 5120 + 5120 * 40 * 2 + 5120 * 2 + header) / 2**30, 1) == 1.2


@pytest.mark.parametrize("dtype", ["bf16", "i8"])
@pytest.mark.parametrize("d_in", [32, 128])
def test_reading_and_writing_gives_identical_bytes(
    tiny: Callable[..., Any], tmp_path: Path, dtype: str, d_in: int
) -> None:
    build(tiny("llama"), d_in=d_in).save(tmp_path / "a", dtype)
    Maps.load(tmp_path / "a").save(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    Maps.load(tmp_path / "a").to(torch.float32).save(tmp_path / "c", dtype)
    assert contents(tmp_path / "a") == contents(tmp_path / "c")


def test_a_foreign_manifest_keeps_its_bytes_its_fields_and_the_other_files(folder: Path, tmp_path: Path) -> None:
    extra = b"row scores"
    (folder / "rowsel.safetensors").write_bytes(extra)
    (folder / "README.md").write_text("about")

    def foreign(document: dict[str, Any]) -> None:
        document["files"]["rowsel.safetensors"] = "5b6f0de8d1e5bb6bb4e5f1a6a5b0e0d6e1a6d7e4d9b8b9a0f0e4e1a3d2c1b0a9"
        document["x_before_release"] = {"kept": [1, 2.5, None]}
        document["model"]["note"] = "ü"

    edit_manifest(folder, foreign)
    with pytest.raises(FillMismatchError, match=r"rowsel\.safetensors is not the file"):
        Maps.load(folder)
    import hashlib

    edit_manifest(folder, lambda d: d["files"].update({"rowsel.safetensors": hashlib.sha256(extra).hexdigest()}))
    maps = Maps.load(folder)
    maps.save(tmp_path / "copy")
    original, copy = contents(folder), contents(tmp_path / "copy")
    del original["SHA256SUMS"], copy["SHA256SUMS"]  # ours was edited by hand above
    assert copy == original
    converted = maps.save(tmp_path / "i8", "i8")
    document = json.loads((tmp_path / "i8" / "ridgefill.json").read_bytes())
    assert document["x_before_release"] == {"kept": [1, 2.5, None]}
    assert document["model"]["note"] == "ü"
    assert (tmp_path / "i8" / "rowsel.safetensors").read_bytes() == extra
    assert converted.manifest.projector.encoding == int8.SHORT
    assert not list((tmp_path / "i8").glob("proj.L*"))


def test_sums_cover_every_file_and_none_is_unlisted(folder: Path) -> None:
    names = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert names == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    manifest = read_manifest(folder)
    (folder / "notes.md").write_text("documentation is never listed")
    assert unlisted(folder, manifest) == []
    (folder / "stray.bin").write_bytes(b"?")
    assert unlisted(folder, manifest) == ["stray.bin"]


def truncate(folder: Path) -> None:
    path = folder / "proj.L4.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def flip(folder: Path) -> None:
    path = folder / "proj.L4.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def swap(folder: Path) -> None:
    """A map file of another layer, listed with its true digest."""
    other = (folder / "proj.L3.safetensors").read_bytes()
    (folder / "proj.L4.safetensors").write_bytes(other)
    edit_manifest(folder, lambda d: d["files"].update({"proj.L4.safetensors": d["files"]["proj.L3.safetensors"]}))


def with_nan(folder: Path) -> None:
    import hashlib

    tensors, about = tensorfile.unpack((folder / "proj.L4.safetensors").read_bytes(), "x")
    tensors["proj.4.weight"][0, 0] = float("nan")
    data = tensorfile.pack(tensors, about)
    (folder / "proj.L4.safetensors").write_bytes(data)
    edit_manifest(folder, lambda d: d["files"].update({"proj.L4.safetensors": hashlib.sha256(data).hexdigest()}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, r"proj\.L4\.safetensors is not the file.*truncated"),
        (flip, r"proj\.L4\.safetensors is not the file"),
        (swap, r"does not hold the map of layer 4"),
        (with_nan, r"not finite"),
        (lambda f: (f / "proj.L4.safetensors").unlink(), r"proj\.L4\.safetensors is missing"),
        (lambda f: (f / "ridgefill.json").write_bytes(b'{"format": 1'), r"ridgefill\.json"),
        (lambda f: edit_manifest(f, lambda d: d.update(format=2)), r"field format"),
        (lambda f: edit_manifest(f, lambda d: d.pop("split")), r"field split"),
        (lambda f: edit_manifest(f, lambda d: d["projector"].update(dtype="fp8")), r"projector\.dtype"),
        (lambda f: edit_manifest(f, lambda d: d["projector"]["files"].pop("4")), r"different layers"),
        (lambda f: edit_manifest(f, lambda d: d["files"].pop("proj.L4.safetensors")), r"no sha256"),
        (lambda f: edit_manifest(f, lambda d: d["files"].update({"../x": "0"})), r"plain file name"),
        (lambda f: edit_manifest(f, lambda d: d["layers"].update(x="full_attn")), r"layer numbers"),
    ],
)
def test_damage_is_named_in_one_line(folder: Path, damage: Callable[[Path], Any], message: str) -> None:
    damage(folder)
    with pytest.raises(FillMismatchError, match=message) as caught:
        Maps.load(folder)
    assert "\n" not in caught.value.line()


def test_what_is_no_map_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FillUsageError, match="not a map folder"):
            Maps.load(path)


def test_int8_needs_its_width_s_encoding(tiny: Callable[..., Any], tmp_path: Path) -> None:
    build(tiny("llama"), d_in=160).save(tmp_path / "maps", "i8")
    edit_manifest(tmp_path / "maps", lambda d: d["projector"].update(encoding=int8.FULL))
    with pytest.raises(FillMismatchError, match="encoding does not fit 160"):
        Maps.load(tmp_path / "maps")


def test_saving_never_leaves_half_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps, before = Maps.load(folder), contents(folder)
    calls = []

    def fail(tensors: Any, metadata: Any) -> bytes:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return pack(tensors, metadata)

    pack = tensorfile.pack
    monkeypatch.setattr(tensorfile, "pack", fail)
    with pytest.raises(OSError, match="No space"):
        maps.save(folder, "i8")
    assert contents(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["maps"]


def test_saving_replaces_a_map_folder_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    maps = Maps.load(folder)
    assert maps.save(folder, "i8").manifest.projector.dtype == "i8"
    assert not list(folder.glob("proj.L*"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(FillUsageError, match="not a map folder"):
        maps.save(tmp_path / "mine")
    with pytest.raises(FillUsageError, match="unknown dtype"):
        maps.save(tmp_path / "new", "fp8")
    assert not (tmp_path / "new").exists()


def test_predict_is_the_affine_map(folder: Path) -> None:
    maps = Maps.load(folder)
    h = torch.randn(2, 5, 32)
    expected = torch.einsum("bni,oi->bno", h, maps.weight(4).float()) + maps.bias(4).float()
    torch.testing.assert_close(maps.predict(4, h), expected)
    assert maps.predict(4, h.bfloat16()).dtype == torch.bfloat16
    assert maps.to(torch.float64).weight(4).dtype == torch.float64


def test_the_model_they_were_fitted_on_is_accepted_silently(tiny: Callable[..., Any], folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Maps.load(folder).check_model(tiny("llama"))


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 64},
        {"num_hidden_layers": 7},
        {"num_key_value_heads": 4},
        {"intermediate_size": 96},
        {"vocab_size": 98},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    ],
)
def test_another_model_is_refused(tiny: Callable[..., Any], folder: Path, change: dict[str, Any]) -> None:
    with pytest.raises(FillMismatchError, match="belong to another model"):
        Maps.load(folder).check_model(tiny("llama", **change))


def test_another_family_or_tokenizer_is_refused_and_an_open_field_is_not(tiny: Callable[..., Any]) -> None:
    mine = fingerprint(tiny("llama"))
    with pytest.raises(FillMismatchError, match=r"model\.architecture"):
        compare(mine, fingerprint(tiny("qwen3")))
    known = mine.model_copy(update={"tokenizer": "a" * 64})
    assert compare(known, mine) == []
    with pytest.raises(FillMismatchError, match="tokenizer"):
        compare(known, mine.model_copy(update={"tokenizer": "b" * 64}))


def test_other_weights_and_another_name_only_warn(tiny: Callable[..., Any], folder: Path) -> None:
    other = tiny("llama", seed=1)
    with pytest.warns(UserWarning, match="weights_sha256 differs"):
        Maps.load(folder).check_model(other)


def test_the_same_weights_in_another_dtype_are_the_same_model(tiny: Callable[..., Any]) -> None:
    assert compare(fingerprint(tiny("llama")), fingerprint(tiny("llama", dtype=torch.bfloat16))) == []


def test_every_refusal_is_one_of_ours(folder: Path) -> None:
    shutil.rmtree(folder)
    with pytest.raises(FillError):
        Maps.load(folder)
