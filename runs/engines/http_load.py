"""Several users of one server at once: others are being answered when a long prompt arrives (paper 4.8)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runs.engines.base import Stream
from runs.engines.http_client import Client, Completion

SETTLED = 4  # pieces that each of the others has before the new prompt is sent


def crowd(
    client: Client, new: dict[str, Any], others: Sequence[dict[str, Any]]
) -> tuple[Completion, tuple[Stream, ...], int]:
    """(the new user's answer, what the others saw, how many of them were still being answered at its first token).

    The others are asked together; once each has `SETTLED` pieces, or its whole answer, the new prompt is sent. A
    server that answers one user after the other so begins on it when the last of them is being answered.
    """
    settled, decoding = threading.Semaphore(0), len(others)
    with ThreadPoolExecutor(max(1, len(others))) as threads:
        running = [threads.submit(_watched, client, body, settled) for body in others]
        for _ in running:
            settled.acquire()
        failed = next((one for one in running if one.done() and one.exception()), None)
        if failed is None:
            done = client.complete(new)
            decoding = sum(not one.done() for one in running)
        answers = [one.result() for one in running]
    return done, tuple(Stream(one.asked, one.arrivals, one.tokens) for one in answers), decoding


def _watched(client: Client, body: dict[str, Any], settled: threading.Semaphore) -> Completion:
    """One user's answer; it says once that it is settled."""
    pieces = 0

    def seen() -> None:
        nonlocal pieces
        pieces += 1
        if pieces == SETTLED:
            settled.release()

    try:
        return client.complete(body, seen)
    finally:
        if pieces < SETTLED:
            settled.release()
