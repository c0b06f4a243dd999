"""What really ran: libraries compiled, loaded and swapped; a real process; a real properties endpoint."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import pytest

from ledger.encode import canonical
from ledger.errors import CannotCheck, Differs
from provenance import builds
from provenance.buildcheck import check_build
from provenance.builds import llamacpp_build, reference_build, server_build
from provenance.mapped import label, mapped_libraries, unlabel
from provenance.pins import build_pin
from provenance.source import source_pin

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to make real libraries with")

LOAD = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.version.restype = ctypes.c_char_p
from provenance.mapped import mapped_libraries
print(json.dumps({"version": library.version().decode(), "mapped": mapped_libraries()}))
"""


def _compile(folder: Path, answer: int) -> Path:
    """A library that says it is version 1.0 and answers `answer`."""
    folder.mkdir(exist_ok=True)
    source = folder / "engine.c"
    source.write_text(f'const char *version(void) {{ return "1.0"; }}\nint answer(void) {{ return {answer}; }}\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libengine.so", source], check=True)
    return folder / "libengine.so"


def _load(library: Path) -> tuple[str, dict[str, str]]:
    done = subprocess.run([sys.executable, "-c", LOAD, library], capture_output=True, check=True, text=True)
    said = json.loads(done.stdout)
    return said["version"], said["mapped"]


@needs_gcc
def test_two_builds_that_print_one_version_and_differ_in_bytes_are_told_apart(tmp_path: Path) -> None:
    library = _compile(tmp_path, 1)
    first_version, first = _load(library)
    _compile(tmp_path, 2)
    second_version, second = _load(library)
    assert first_version == second_version == "1.0"
    differing = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    assert differing == {label(bytes(library))}
    assert build_pin("e", first, {"version": first_version}).digest != build_pin("e", second, {"version": "1.0"}).digest
    assert second[label(bytes(library))] == hashlib.sha256(library.read_bytes()).hexdigest()


LLAMA = """
import ctypes, pathlib
library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libengine.so")))
llama_print_system_info = library.version
llama_print_system_info.restype = ctypes.c_char_p
"""


@needs_gcc
def test_llamacpp_is_the_libraries_it_has_loaded_whatever_it_says_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A binding with a real library inside, standing in for llama-cpp-python, which takes minutes to compile."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    package = tmp_path / "llama_cpp"
    code = "from provenance.builds import llamacpp_build; print(llamacpp_build('l').model_dump_json())"
    pins = []
    for answer in (1, 2):
        library = _compile(package, answer)
        (package / "__init__.py").write_text(LLAMA)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        pins.append(json.loads(done.stdout))
    first, second = pins
    assert first["detail"] == second["detail"]
    assert first["detail"]["system_info"] == "1.0"
    assert first["digest"] != second["digest"]
    assert first["files"][label(bytes(library))] != second["files"][label(bytes(library))]


@needs_gcc
def test_a_library_replaced_since_it_was_loaded_is_not_mistaken_for_what_runs(tmp_path: Path) -> None:
    library = _compile(tmp_path / "new\nline dir", 1)
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"loaded\n"
        assert label(bytes(library)) in mapped_libraries(process.pid)
        (library.parent / "other.so").write_bytes(library.read_bytes() + b"x")
        (library.parent / "other.so").replace(library)
        with pytest.raises(Differs, match=r"libengine\.so' was replaced on disk since"):
            mapped_libraries(process.pid)
    finally:
        process.communicate(b"")


def test_no_such_process_cannot_be_checked() -> None:
    with pytest.raises(CannotCheck, match="process 4194305 has mapped cannot be read"):
        mapped_libraries(4194305)  # beyond Linux's largest process id


def test_labels_lead_back_to_the_file() -> None:
    import _ctypes

    for path in (Path(_ctypes.__file__).resolve(), Path(sys.prefix).resolve() / "lib" / "x.so"):
        assert unlabel(label(bytes(path))) == path
    assert not label(bytes(Path(sys.prefix).resolve() / "lib" / "x.so")).startswith("/")
    with pytest.raises(ValueError, match=r"without '\.\.'"):
        unlabel("lib/../../etc/passwd")


def test_a_label_names_no_folder_of_the_python_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same Python in two homes gives one label; a system's own folders keep their names."""
    monkeypatch.setattr(sys, "prefix", "/home/one/venv")
    monkeypatch.setattr(sys, "base_prefix", "/home/one/python")
    mine = b"/home/one/python/lib/lib.so"
    assert label(mine) == "~python/lib/lib.so"
    assert unlabel(label(mine)) == Path(mine.decode())
    lookalike = b"/home/one/venv/~python/lib/lib.so"
    assert label(lookalike) == lookalike.decode()
    assert label(b"/home/one/python2/lib.so") == "/home/one/python2/lib.so"
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert label(b"/usr/lib/libc.so.6") == "/usr/lib/libc.so.6"


def test_the_reference_engine_is_described_by_bytes_and_words() -> None:
    torch = pytest.importorskip("torch")
    pin = reference_build("ref", "bfloat16")
    assert pin.files is not None
    assert pin.detail is not None
    assert any("libtorch_cpu" in name for name in pin.files)
    assert pin.detail["packages"]["torch"] == torch.__version__  # type: ignore[index,call-overload]
    assert pin.detail["threads"] == torch.get_num_threads()
    assert {"blas", "cpu_kernels", "dtype", "source_sha256"} <= pin.detail.keys()
    assert canonical(pin.as_entry())


def test_llamacpp_says_what_to_install_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(CannotCheck, match="llama-cpp-python is not installed"):
        llamacpp_build("llama")


class _Properties(BaseHTTPRequestHandler):
    stop = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/hang":
            self.stop.wait(30)
            return
        self.send_response(200)
        self.end_headers()
        text = (
            b"not JSON"
            if self.path == "/nonsense"
            else b'{"temperature": 0.8, "n": 9007199254740993, "\xc3\xa9": [true, null]}'
        )
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    _Properties.stop.clear()
    server = HTTPServer(("127.0.0.1", 0), _Properties)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    _Properties.stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_is_its_binary_its_command_line_and_its_own_words(endpoint: str) -> None:
    binary = Path(shutil.which("sleep") or "")
    process = subprocess.Popen([binary, "60"])
    try:
        # Popen returns at exec, before the loader has mapped the libraries.
        deadline = time.monotonic() + 10
        while "libc.so" not in Path(f"/proc/{process.pid}/maps").read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        pin = server_build(
            "server",
            binary,
            [str(binary), "60", "--api-key", "hush", "--token=hush"],
            pid=process.pid,
            properties_url=endpoint,
        )
    finally:
        process.kill()
        process.wait()
    assert pin.files is not None
    assert pin.files[label(bytes(binary.resolve()))] == hashlib.sha256(binary.read_bytes()).hexdigest()
    assert any("libc.so" in name for name in pin.files)
    assert pin.detail is not None
    assert pin.detail["properties"] == {
        "temperature": "0.8",
        "n": "9007199254740993",
        "\\xc3\\xa9": [True, None],
    }
    assert b"hush" not in canonical(pin.as_entry())


def test_what_a_server_does_not_tell_is_recorded_as_failed(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "TIMEOUT_S", 0.3)
    for path, said in [("/nonsense", "JSONDecodeError"), ("/hang", "timed out")]:
        detail = server_build("s", Path(sys.executable), [], properties_url=endpoint + path).detail
        assert detail is not None
        assert said in detail["properties"]["error"]  # type: ignore[index,call-overload,operator]
    detail = server_build("s", Path(sys.executable), [], pid=4194305).detail
    assert detail is not None
    assert "cannot be read" in detail["mapped"]["error"]  # type: ignore[index,call-overload,operator]


def test_the_words_of_a_build_are_held_against_what_is_installed(tmp_path: Path) -> None:
    sound = {
        "packages": {"click": metadata.version("click")},
        "source_sha256": source_pin("ridgefill", tmp_path).digest,
    }
    assert check_build(build_pin("b", {}, sound), "b") == []
    other = {"packages": {"click": "0.0.1", "no-such-thing": "1"}, "source_sha256": "0" * 64}
    findings = check_build(build_pin("b", {}, other), "b")
    assert [(finding.where, finding.exit_code) for finding in findings] == [
        ("b: click", 5),
        ("b: no-such-thing", 6),
        ("b: source", 5),
    ]
    assert findings[0].found == metadata.version("click")
    # A source with a pin of its own is looked for in the commit that ran, and told there.
    apart = check_build(build_pin("b", {}, other), "b", apart={"0" * 64})
    assert [finding.where for finding in apart] == ["b: click", "b: no-such-thing"]


def test_a_binarys_name_that_leaves_the_environment_is_refused() -> None:
    pin = build_pin("b", {"../../etc/passwd": "0" * 64}, {})
    (finding,) = check_build(pin, "b")
    assert (finding.code, finding.exit_code) == ("bad-pin", 5)
