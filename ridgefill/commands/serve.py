"""`ridgefill serve`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger.console import json_option, print_json

if TYPE_CHECKING:
    from ridgefill.serving.service import Service

NEEDED = ("fastapi", "uvicorn", "prometheus_client")


@click.command()
@click.argument("model")
@click.option("--maps", type=click.Path(path_type=Path), help="The map folder; without it every prompt runs exactly.")
@click.option("--tail", type=int, help="Last prompt tokens that run exactly; the maps' default.")
@click.option("--name", help="What clients call the model; the last part of MODEL by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; off loopback a token is needed.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--token",
    envvar="RIDGEFILL_TOKEN",
    help="What clients must bear; others on the machine see options, so better give it in $RIDGEFILL_TOKEN.",
)
@click.option("--context", type=click.IntRange(min=2), help="Most tokens of prompt and answer; the model's by default.")
@click.option("--slots", type=click.IntRange(min=1), default=8, show_default=True, help="Requests that hold a cache.")
@click.option("--queue", type=click.IntRange(min=1), default=64, show_default=True, help="Requests that may wait.")
@click.option(
    "--pause",
    type=click.FloatRange(min=0),
    default=0.2,
    show_default=True,
    help="Seconds of a prefill before others have their turn.",
)
@click.option("--max-body", type=click.IntRange(min=1), default=1 << 22, show_default=True, help="Bytes of a request.")
@click.option("--dtype", default="auto", show_default=True, help="The model's: auto, bf16, fp32 or fp16.")
@json_option
def serve(as_json: bool, **given: Any) -> None:
    """Serve MODEL to OpenAI's clients, long prompts filled with the maps.

    A prefill pauses after --pause seconds, at the end of the layer it is in, for one token of every other answer.
    The address is printed once connections are taken. SIGTERM ends the server after the requests it has taken,
    at most a minute later.
    """
    _check_extra()
    from ridgefill.serving.server import Options
    from ridgefill.serving.server import serve as run

    def ready(url: str, service: Service) -> None:
        if as_json:
            print_json({"ok": True, "url": url, "model": service.name, "context": service.context})
        else:
            click.echo(f"serving {service.name} at {url}")

    run(Options(**given), ready)


def _check_extra() -> None:
    from ridgefill.errors import FillEnvironmentError

    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise FillEnvironmentError(
            "serving needs further packages", found=f"no {missing[0]}", hint='pip install "ridgefill[fill,serve]"'
        )
