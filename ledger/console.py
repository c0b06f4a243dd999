"""How every command talks: the answer on stdout, the rest on stderr, one line an error, one object with --json."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
import orjson

INTERRUPTED = 130
INTERNAL = 7

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, also on failure.")


def print_json(value: dict[str, Any]) -> None:
    """Write one JSON object and a newline to stdout, keys in the order given."""
    click.echo(orjson.dumps(value).decode())


def say(text: str) -> None:
    """One line for the person, on stderr."""
    click.echo(text, err=True)


def guard(command: click.Command) -> None:
    """Run a command and leave with its exit code; no failure of the user's input shows a traceback.

    Anything that carries `exit_code` and `line()` is one of our own failures (`ledger.errors`,
    `ridgefill.errors`). RIDGEFILL_DEBUG=1 lets the traceback through, for the person mending the program.
    """
    if os.environ.get("RIDGEFILL_DEBUG"):
        command(standalone_mode=True)
        return
    sys.exit(_run(command))


def _run(command: click.Command) -> int:
    try:
        result = command.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return _fail("interrupted", "Interrupted", INTERRUPTED)
    except KeyboardInterrupt:
        return _fail("interrupted", "Interrupted", INTERRUPTED)
    except click.ClickException as wrong:
        hint = (
            f"; next: {wrong.ctx.command_path} --help"
            if isinstance(wrong, click.UsageError) and wrong.ctx
            else ""
        )
        return _fail(wrong.format_message().replace("\n", " ") + hint, "UsageProblem", 2)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing is wrong, and a second flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        line, code = getattr(error, "line", None), getattr(error, "exit_code", None)
        if callable(line) and isinstance(code, int):
            return _fail(str(line()), type(error).__name__, code)
        if isinstance(error, OSError):
            where = f" ({error.filename})" if error.filename else ""
            return _fail(
                f"the system refused: {error.strerror or error}{where}", type(error).__name__, INTERNAL
            )
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
    click.echo(f"error: {line}", err=True)
    return code
