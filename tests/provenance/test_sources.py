"""Source strings to files on disk: each scheme against something real, each refusal by name."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from ledger.errors import CannotCheck, Differs, UsageProblem
from provenance.measure import hash_located, take
from provenance.sources import locate

CLICK = f"pypi:click=={importlib.metadata.version('click')}"


def test_a_path_is_taken_from_the_study_or_absolute(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert locate("path:a", tmp_path).path == tmp_path / "a"
    assert locate(f"path:{tmp_path}/a", Path("/nonexistent")).path == tmp_path / "a"


@pytest.mark.parametrize(
    "source",
    [
        "path:../x",
        "path:a/../../x",
        "path:",
        "path:a\0b",
        "ftp:x",
        "x",
        "hf:x",
        "deb:x",
        "pypi:x",
        "pypi:x==1",
        "hf:a/b@c#../x",
    ],
)
def test_what_is_no_source_is_refused_by_name(tmp_path: Path, source: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        locate(source, tmp_path)
    assert source in caught.value.message
    assert caught.value.expected


def test_a_missing_path_is_not_here_and_a_link_out_of_the_study_differs(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (tmp_path / "secret").write_text("x")
    (study / "out").symlink_to("../secret")
    (study / "loop").symlink_to("loop")
    with pytest.raises(CannotCheck, match="'gone' is missing"):
        locate("path:gone", study)
    for name, said in [("out", "a link out of the study's folder"), ("loop", "loop")]:
        with pytest.raises(Differs, match=said):
            locate(f"path:{name}", study)


def test_a_file_of_an_installed_package_by_path_by_end_and_as_a_folder(tmp_path: Path) -> None:
    import click

    core = Path(click.__file__).resolve().with_name("core.py")
    assert locate(f"{CLICK}#click/core.py", tmp_path).path == core
    assert locate(f"{CLICK}#core.py", tmp_path).path == core
    pin = take("dataset", "click", f"{CLICK}#click", tmp_path)
    assert (pin.files or {})["core.py"] == hashlib.sha256(core.read_bytes()).hexdigest()


def test_a_package_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    for source, found in [("pypi:click==0.0.1#core.py", "installed"), ("pypi:no-such-thing==1#x", "not installed")]:
        with pytest.raises(CannotCheck) as caught:
            locate(source, tmp_path)
        assert found in caught.value.found
        assert caught.value.hint.startswith("pip install --no-deps ")
    with pytest.raises(CannotCheck, match="names no single file"):
        locate(f"{CLICK}#nothing.txt", tmp_path)


def test_a_member_of_a_downloaded_wheel_is_hashed_without_unpacking(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "Some_Thing-1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some_thing/data.bin", b"data")
    located = locate("pypi:some-thing==1.2#data.bin", tmp_path)
    hashed = hash_located(located)
    assert (hashed.sha256, hashed.size) == (hashlib.sha256(b"data").hexdigest(), 4)
    with pytest.raises(CannotCheck):
        locate("pypi:some-thing==1.3#data.bin", tmp_path)


def test_the_hugging_face_cache_is_read_through_its_links_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--name"
    snapshot = repository / "snapshots" / "abc123"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "b1").write_text("weights")
    (snapshot / "model.bin").symlink_to("../../blobs/b1")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    digest = hashlib.sha256(b"weights").hexdigest()
    assert take("model", "m", "hf:org/name@main#model.bin", tmp_path).digest == digest
    assert take("model", "m", "hf:org/name@abc123", tmp_path).files == {"model.bin": digest}
    (tmp_path / "secret").write_text("x")
    (snapshot / "bad").symlink_to(tmp_path / "secret")
    with pytest.raises(Differs, match="a link out of"):
        locate("hf:org/name@main#bad", tmp_path)
    with pytest.raises(Differs, match="'bad' is refused"):
        take("model", "m", "hf:org/name@abc123", tmp_path)
    with pytest.raises(CannotCheck, match="not in the Hugging Face cache"):
        locate("hf:org/name@other", tmp_path)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian system")
def test_a_file_of_a_debian_package(tmp_path: Path) -> None:
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", "coreutils"], capture_output=True, text=True, check=True
    )
    source = f"deb:coreutils={shown.stdout}#/usr/share/doc/coreutils/copyright"
    assert locate(source, tmp_path).path.name == "copyright"
    with pytest.raises(CannotCheck, match="is not here"):
        locate("deb:coreutils=0.1#/bin/ls", tmp_path)
    with pytest.raises(CannotCheck, match="not a file of coreutils"):
        locate(f"deb:coreutils={shown.stdout}#/etc/passwd", tmp_path)


def test_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "explosive").mkdir()
    (tmp_path / "explosive" / "__init__.py").write_text("raise SystemExit(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert locate("package:explosive", tmp_path).path == tmp_path / "explosive"
    for name in ("no_such_package", "a.b", "json.tool", "sys", "__main__"):
        with pytest.raises(CannotCheck, match="cannot be imported here"):
            locate(f"package:{name}", tmp_path)
