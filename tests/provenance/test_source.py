"""Real repositories in every odd state: each is told in words, and no trick of git's makes a change clean."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger.errors import Differs
from provenance.gitcall import ask
from provenance.source import capture, capture_editable, editable_projects, require_clean, source_pin
from provenance.tree import SOURCE_WALK, hash_tree


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "trunk")
    (repo / "code.py").write_text("answer = 42\n")
    (repo / "script").mkdir()
    (repo / "script" / "run.py").write_text("run\n")
    (repo / ".gitignore").write_text("built\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "first")
    return repo


def test_a_clean_tree_is_clean_from_the_root_and_from_below(repo: Path) -> None:
    commit = git(repo, "rev-parse", "HEAD")
    for folder in (repo, repo / "script"):  # bug log row 17: no commit from the script's own folder
        state = capture(folder)
        assert (state.state, state.commit, state.head) == ("a git repository", commit, "branch trunk")
        assert state.clean
        require_clean(state, "repo")


def test_capture_writes_nothing_into_the_repository(repo: Path) -> None:
    before = hash_tree(repo, SOURCE_WALK.model_copy(update={"ignore": ()})).files
    (repo / "code.py").touch()  # a stale index is what `git status` would rewrite
    capture(repo)
    assert hash_tree(repo, SOURCE_WALK.model_copy(update={"ignore": ()})).files == before


def _assume_unchanged(repo: Path) -> None:
    git(repo, "update-index", "--assume-unchanged", "code.py")
    (repo / "code.py").write_text("answer = 41\n")


def _skip_worktree(repo: Path) -> None:
    git(repo, "update-index", "--skip-worktree", "code.py")
    (repo / "code.py").write_text("answer = 41\n")


def _same_stamps(repo: Path) -> None:
    git(repo, "config", "core.trustctime", "false")
    os.utime(repo / "code.py", (1_000_000_000, 1_000_000_000))  # older than the index: not racily clean
    git(repo, "update-index", "--refresh")
    (repo / "code.py").write_text("answer = 41\n")
    os.utime(repo / "code.py", (1_000_000_000, 1_000_000_000))


def _clean_filter(repo: Path) -> None:
    git(repo, "config", "filter.hide.clean", "echo 'answer = 42' #")
    (repo / ".git" / "info" / "attributes").write_text("code.py filter=hide\n")
    (repo / "code.py").write_text("answer = 41\n")


def _git_dir(repo: Path) -> None:
    other = repo.parent / "other"
    git(repo.parent, "clone", "-q", str(repo), str(other))
    (repo / "code.py").write_text("answer = 41\n")
    os.environ["GIT_DIR"] = str(other / ".git")
    os.environ["GIT_WORK_TREE"] = str(other)


def _replace(repo: Path) -> None:
    (repo / "code.py").write_text("answer = 41\n")
    git(repo, "commit", "-qam", "hidden change")
    changed = git(repo, "rev-parse", "HEAD")
    git(repo, "reset", "-q", "--soft", "HEAD~1")
    git(repo, "replace", "HEAD", changed)


HIDDEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "assume-unchanged": (_assume_unchanged, "assume-unchanged: code.py"),
    "skip-worktree": (_skip_worktree, "skip-worktree: code.py"),
    "same stamps": (_same_stamps, ""),
    "clean filter": (_clean_filter, ""),
    "GIT_DIR": (_git_dir, ""),
    "replace ref": (_replace, "replace ref: "),
}


@pytest.mark.parametrize("trick", HIDDEN)
def test_a_change_hidden_from_git_is_seen_in_the_bytes(repo: Path, trick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 17. Git itself calls each of these trees clean (asserted), our own hashing does not."""
    monkeypatch.setenv("GIT_DIR", "")  # so that monkeypatch restores what the trick sets
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.setenv("GIT_WORK_TREE", "")
    monkeypatch.delenv("GIT_WORK_TREE")
    hide, told = HIDDEN[trick]
    hide(repo)
    assert git(repo, "status", "--porcelain") == ""
    state = capture(repo)
    assert state.changed.first == ["code.py"]
    assert any(line.startswith(told) for line in state.hidden) or not told
    assert ("GIT_DIR" in state.left_aside) == (trick == "GIT_DIR")
    with pytest.raises(Differs, match="not exactly a commit") as caught:
        require_clean(state, "repo")
    assert "found changed: code.py" in caught.value.line()
    assert caught.value.exit_code == 5


def test_a_file_excluded_outside_the_tree_is_told_and_one_the_tree_ignores_is_not(repo: Path) -> None:
    (repo / ".git" / "info" / "exclude").write_text("helper.py\n")
    (repo / "helper.py").write_text("hidden\n")
    (repo / "built").write_text("built\n")
    assert git(repo, "status", "--porcelain") == ""
    state = capture(repo)
    assert state.untracked.first == ["helper.py"]
    assert state.hidden == ["excluded outside the tree's own rules: helper.py"]
    assert not state.clean


def test_a_pipe_or_a_link_in_the_place_of_a_file_is_a_change_and_no_hang(repo: Path) -> None:
    for name in ("code.py", "script/run.py"):
        (repo / name).rename(repo.parent / "aside")
        if name == "code.py":
            os.mkfifo(repo / name)
        else:
            (repo / name).symlink_to(repo.parent / "aside")
    assert capture(repo).changed.first == ["code.py", "script/run.py"]


def test_links_are_compared_by_where_they_point(repo: Path) -> None:
    (repo / "link").symlink_to("code.py")
    git(repo, "add", "link")
    git(repo, "commit", "-qm", "a link")
    assert capture(repo).clean
    (repo / "link").unlink()
    (repo / "link").symlink_to("script/run.py")
    assert capture(repo).changed.first == ["link"]


def test_staged_deleted_and_odd_names_are_changes(repo: Path) -> None:
    odd = os.fsdecode(b"\xff\n\\")
    (repo / odd).write_text("x")
    git(repo, "add", ".")
    (repo / "code.py").unlink()
    assert capture(repo).changed.first == ["code.py", "\\xff\\x0a\\\\"]


def test_unborn_head(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "a").write_text("a")
    state = capture(tmp_path)
    assert (state.state, state.head, state.commit) == (
        "a git repository without a commit",
        "unborn trunk",
        "",
    )
    assert state.untracked.first == ["a"]
    assert not state.clean


def test_detached_and_shallow(repo: Path, tmp_path: Path) -> None:
    (repo / "code.py").write_text("answer = 43\n")
    git(repo, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    shallow = capture(tmp_path / "shallow")
    assert (shallow.shallow, shallow.clean, shallow.head) == (True, True, "branch trunk")
    git(repo, "checkout", "-q", "--detach", "HEAD~1")
    detached = capture(repo)
    assert (detached.shallow, detached.clean, detached.head) == (False, True, "detached")


def test_submodules_in_each_state(repo: Path, tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    git(tmp_path, "clone", "-q", str(repo), str(lib))
    git(repo, "submodule", "--quiet", "add", str(lib), "lib")
    git(repo, "commit", "-qm", "with lib")
    label = f"submodule lib at {git(lib, 'rev-parse', 'HEAD')[:12]}:"
    assert capture(repo).submodules == [f"{label} clean"]
    assert capture(repo).clean
    (repo / "lib" / "code.py").write_text("answer = 41\n")
    dirty = capture(repo)
    assert dirty.submodules == [f"{label} changed"]
    with pytest.raises(Differs) as caught:
        require_clean(dirty, "repo")
    assert caught.value.found == f"{label} changed"
    git(repo / "lib", "commit", "-qam", "moved on")
    assert "another commit is checked out" in capture(repo).submodules[0]
    git(tmp_path, "clone", "-q", str(repo), "fresh")
    assert capture(tmp_path / "fresh").submodules == [f"{label} not checked out"]


def test_a_linked_worktree(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert capture(tmp_path / "tree").head == "branch side"
    assert capture(tmp_path / "tree").clean


def test_no_repository_no_folder_and_no_git(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert capture(plain).state == "not in a git repository"
    assert capture(plain / "absent").state == "there is no such folder"
    monkeypatch.setenv("PATH", str(plain))
    without = capture(repo)
    assert without.state == "git is not installed"
    with pytest.raises(Differs) as caught:
        require_clean(without, "repo")
    assert caught.value.found == "git is not installed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_dubious_ownership_is_said_and_not_recorded_as_nothing(repo: Path) -> None:
    os.chown(repo, 12345, 12345)
    os.chown(repo / ".git", 12345, 12345)
    assert capture(repo).state.startswith("git refuses: the repository belongs to another user")


def test_a_token_in_a_remotes_address_is_not_recorded(repo: Path) -> None:
    git(repo, "remote", "add", "origin", "https://user:token@example.org/x.git")
    assert capture(repo).remotes == {"origin": "https://example.org/x.git"}


@pytest.mark.parametrize("address", ["/somewhere/main", "../main", "file:///somewhere/main", "./a:b"])
def test_a_folder_as_a_remote_is_not_named(repo: Path, address: str) -> None:
    git(repo, "remote", "add", "origin", address)
    git(repo, "remote", "add", "other", "git@example.org:x.git")
    assert capture(repo).remotes == {"origin": "a local folder", "other": "git@example.org:x.git"}


def test_the_state_is_of_what_ran_and_not_of_head_at_the_end(repo: Path) -> None:
    """Bug log row 17: edit, run, commit. What was recorded at the start keeps telling them apart."""
    (repo / "code.py").write_text("answer = 41\n")
    before = hash_tree(repo, SOURCE_WALK).digest
    state = capture(repo)
    git(repo, "commit", "-qam", "after the run")
    assert state.changed.first == ["code.py"]
    assert hash_tree(repo, SOURCE_WALK).digest == before
    git(repo, "checkout", "-q", state.commit)
    assert hash_tree(repo, SOURCE_WALK).digest != before


def test_a_second_project_in_editable_mode_is_not_overlooked(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug log row 17: `pip install -e ../lib` with a dirty lib. The metadata is what pip writes (PEP 610)."""
    spaced = repo.rename(tmp_path / "a lib")
    metadata = tmp_path / "site" / "some_lib-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: some-lib\nVersion: 1.0\n")
    (metadata / "direct_url.json").write_text(f'{{"url": "{spaced.as_uri()}", "dir_info": {{"editable": true}}}}')
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (spaced / "code.py").write_text("answer = 41\n")
    assert editable_projects()["some-lib"] == spaced
    assert capture_editable()["some-lib"].changed.first == ["code.py"]


def test_a_packages_source_is_pinned_without_git_and_without_importing_it(tmp_path: Path) -> None:
    pin = source_pin("provenance", tmp_path)
    assert pin.files is not None
    assert {"pins.py", "source.py"} <= set(pin.files)
    assert not any("__pycache__" in name for name in pin.files)


def test_threads_that_ask_leave_the_environment_as_it_was(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one for all threads; an audit asks from several."""
    monkeypatch.setenv("GIT_DIR", str(repo.parent))
    before = dict(os.environ)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: ask(repo, "rev-parse", "HEAD"), range(40)))
    assert dict(os.environ) == before
    assert {answer.text for answer in answers} == {(repo / ".git" / "refs" / "heads" / "trunk").read_text().strip()}
