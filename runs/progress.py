"""How far a run is, on stderr: a line that rewrites itself on a terminal, elsewhere one line a finished arm."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable

from ledger.console import say
from runs.record import Key

_EVERY_S = 0.2


class Progress:
    """Counts acknowledged answers against `keys`, everything the run has; `done` were there before."""

    def __init__(self, keys: Iterable[Key], done: Collection[Key]) -> None:
        self._totals: Counter[tuple[str, str]] = Counter()
        self._done: Counter[tuple[str, str]] = Counter()
        for key in keys:
            self._totals[key.task, key.arm] += 1
            self._done[key.task, key.arm] += key in done
        self._before = self.done
        self._told = {arm for arm, count in self._totals.items() if self._done[arm] == count}
        self._began = self._drawn = time.monotonic()
        self._live = sys.stderr.isatty()

    @property
    def total(self) -> int:
        return self._totals.total()

    @property
    def done(self) -> int:
        return self._done.total()

    def advance(self, keys: Iterable[Key]) -> None:
        """These answers are durable now."""
        for key in keys:
            arm = (key.task, key.arm)
            self._done[arm] += 1
            if self._done[arm] == self._totals[arm] and arm not in self._told:
                self._told.add(arm)
                self._clear()
                say(f"done  {key.task} / {key.arm}: {self._totals[arm]} samples, {duration(self._elapsed)}")
        if self._live and time.monotonic() - self._drawn >= _EVERY_S:
            self._drawn = time.monotonic()
            sys.stderr.write("\r\x1b[K" + self._line())
            sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._clear()

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _line(self) -> str:
        asked = self.done - self._before
        rate = asked / self._elapsed if self._elapsed else 0.0
        left = f"{duration((self.total - self.done) / rate)} left" if rate else "no rate yet"
        return f"{self.done}/{self.total} samples, {rate:.2f}/s, {left}"

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
