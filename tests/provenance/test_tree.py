"""Walking trees: what is refused is refused by name; rules are repeated; nothing found is never fine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.errors import CannotCheck, Differs
from provenance.pins import Walk
from provenance.tree import SOURCE_WALK, hash_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    return root


def _out(root: Path) -> None:
    (root / "bad").symlink_to("../secret")


def _loop(root: Path) -> None:
    (root / "bad").symlink_to(".")


def _self_loop(root: Path) -> None:
    (root / "bad").symlink_to("bad")


def _dangling(root: Path) -> None:
    (root / "bad").symlink_to("nobody@host.1234")


def _pipe(root: Path) -> None:
    os.mkfifo(root / "bad")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_out, "out of the root"),
        (_loop, "to a folder, which could loop"),
        (_self_loop, "loops"),
        (_dangling, "a link to nothing"),
        (_pipe, "neither a file nor a folder"),
    ],
)
def test_what_is_no_plain_file_of_the_root_is_refused_by_name(
    root: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(root)
    with pytest.raises(Differs, match=f"'bad' is refused: .*{why}") as caught:
        hash_tree(root, Walk())
    assert caught.value.exit_code == 5


def test_a_link_to_a_file_inside_counts_as_that_file(root: Path) -> None:
    (root / "link").symlink_to("sub/b.txt")
    files = hash_tree(root, Walk()).files
    assert files["link"] == files["sub/b.txt"]


def test_links_as_text_are_followed_nowhere(root: Path) -> None:
    _out(root)
    first = hash_tree(root, Walk(links="text"))
    assert first.files["bad"].startswith("link:")
    (root / "bad").unlink()
    (root / "bad").symlink_to("../other")
    assert hash_tree(root, Walk(links="text")).digest != first.digest


def test_a_wider_limit_lets_a_cache_folder_link_to_its_blobs(root: Path) -> None:
    _out(root)
    assert "bad" in hash_tree(root, Walk(), within=root.parent).files


def test_ignored_names_are_left_out_at_any_depth(root: Path) -> None:
    (root / "sub" / "__pycache__").mkdir()
    (root / "sub" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (root / "sub" / "y.pyc").write_bytes(b"y")
    assert set(hash_tree(root, SOURCE_WALK).files) == {"a.txt", "sub/b.txt"}


def test_a_pattern_takes_what_it_names_and_nothing_else(root: Path) -> None:
    assert set(hash_tree(root, Walk(only=("sub/*",))).files) == {"sub/b.txt"}


def test_a_pattern_that_matches_nothing_is_exit_6_and_named(root: Path) -> None:
    with pytest.raises(CannotCheck, match=r"the pattern \*\.jsonl matches nothing") as caught:
        hash_tree(root, Walk(only=("*.txt", "*.jsonl")))
    assert caught.value.exit_code == 6


def test_an_empty_tree_is_never_fine(tmp_path: Path) -> None:
    with pytest.raises(CannotCheck, match="there is no file"):
        hash_tree(tmp_path, Walk())


def test_line_endings_are_content(root: Path) -> None:
    """Bug log row 13: CRLF and LF files had one hash, and a CRLF over a chunk's edge another."""
    text = b"x" * (2**20 - 1)
    (root / "lf").write_bytes(text + b"\n")
    (root / "crlf").write_bytes(text + b"\r\n")
    files = hash_tree(root, Walk()).files
    assert files["lf"] != files["crlf"]
