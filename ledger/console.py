"""How every command talks: the answer on stdout, the rest on stderr, one line an error, one object with --json."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import orjson

from ledger.encode import MAX_TEXT
from ledger.errors import visible

INTERRUPTED = 130
INTERNAL = 7
NOBODY_READS = 141  # what a shell reports of a program that SIGPIPE ended; 0 would pass for a verdict

folder_option = click.option(
    "-C",
    "folder",
    type=click.Path(path_type=Path),
    default=None,
    help="The study's folder (default: found upwards from here).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, also on failure.")


def words(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    """Callback of options and arguments whose words are entered: not empty, not too long, and text."""
    if text is None:
        return None
    if not text.strip():
        raise click.BadParameter("empty words say nothing")
    if len(text) > MAX_TEXT:
        raise click.BadParameter(f"{len(text)} characters; at most {MAX_TEXT} fit an entry")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise click.BadParameter("not UTF-8")
    return text


class LazyGroup(click.Group):
    """A group whose members are imported by name, so that one command never pays for another."""

    def __init__(self, *args: Any, members: dict[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.members = members or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.members:
            return None
        module, attribute = self.members[cmd_name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.members.items()])


def print_json(value: dict[str, Any]) -> None:
    """Write one JSON object and a newline to stdout, keys in the order given."""
    click.echo(orjson.dumps(value).decode())


def say(text: str) -> None:
    """One line for the person, on stderr."""
    click.echo(text, err=True)


def study_folder(folder: Path | None) -> Path:
    """The folder given with -C, or the nearest one upwards that holds a ledger or a study, or this one."""
    if folder is not None:
        return folder
    here = Path.cwd()
    marks = ("ledger.jsonl", "study.toml")
    return next((up for up in (here, *here.parents) if any((up / mark).exists() for mark in marks)), here)


def guard(command: click.Command) -> None:
    """Run a command and leave with its exit code; no failure of the user's input shows a traceback.

    Anything that carries `exit_code` and `line()` is one of our own failures (`ledger.errors`,
    `ridgefill.errors`). RIDGEFILL_DEBUG=1 lets the traceback through, for the person mending the program.
    """
    if os.environ.get("RIDGEFILL_DEBUG"):
        command(standalone_mode=True)
        return
    # A warning is one line too, without the place in our code.
    warnings.formatwarning = lambda message, *_, **__: visible(f"warning: {message}") + "\n"
    sys.exit(_run(command))


def _run(command: click.Command) -> int:
    try:
        result = command.main(standalone_mode=False)
        sys.stdout.flush()
    except SystemExit:  # how click takes a BrokenPipeError
        return NOBODY_READS
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return _fail("interrupted", "Interrupted", INTERRUPTED)
    except KeyboardInterrupt:
        return _fail("interrupted", "Interrupted", INTERRUPTED)
    except click.ClickException as wrong:
        hint = f"; next: {wrong.ctx.command_path} --help" if isinstance(wrong, click.UsageError) and wrong.ctx else ""
        return _fail(wrong.format_message().replace("\n", " ") + hint, "UsageProblem", 2)
    except BrokenPipeError:
        # The reader went away (`| head`): a second flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except Exception as error:
        line, code = getattr(error, "line", None), getattr(error, "exit_code", None)
        if callable(line) and isinstance(code, int):
            return _fail(str(line()), type(error).__name__, code)
        if isinstance(error, OSError):
            where = f" ({error.filename})" if error.filename else ""
            return _fail(f"the system refused: {error.strerror or error}{where}", type(error).__name__, INTERNAL)
        return _fail(
            f"this is a fault in ridgefill, not in your input: {type(error).__name__}: {error}; "
            "next: run again with RIDGEFILL_DEBUG=1 and report what it prints",
            type(error).__name__,
            INTERNAL,
        )
    return result if isinstance(result, int) else 0


def _fail(line: str, kind: str, code: int) -> int:
    if "--json" in sys.argv:
        print_json({"ok": False, "exit_code": code, "error": {"kind": kind, "message": line}})
    for fault in line.split("\n"):  # only Faults has several
        click.echo(visible(f"error: {fault}"), err=True)
    return code
