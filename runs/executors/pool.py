"""Several workers elsewhere, each fed by a thread of its own; one that dies is replaced and its sample asked again."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ledger.errors import Differs, EnvironmentProblem
from provenance.pins import Pin
from runs.executors.base import ATTEMPTS, DiedError, Lane, Loss
from runs.plan import Unit
from runs.record import Outcome
from runs.worker import Job, failed

_Message = Outcome | Loss | BaseException | None  # None: a feeder has nothing left to do


class Pool:
    """Lanes made by `make`, as many as `workers`."""

    def __init__(self, make: Callable[[], Lane], workers: int) -> None:
        self._make = make
        self._lanes = [make() for _ in range(workers)]
        self._job: Job | None = None
        self._stopping = threading.Event()

    def open(self, job: Job) -> list[Pin]:
        self._job = job
        return self._same(self._answered(lambda lane: lane.open(job)))

    def builds(self) -> list[Pin]:
        return self._same(self._answered(lambda lane: lane.builds()))

    def _answered(self, ask: Callable[[Lane], list[Pin]]) -> list[list[Pin]]:
        with ThreadPoolExecutor(len(self._lanes)) as threads:
            try:
                return list(threads.map(ask, self._lanes))
            except DiedError as died:
                raise EnvironmentProblem(
                    f"a worker could not be started: {died}", hint="see what it said, above; or use fewer workers"
                ) from None

    def _same(self, found: list[list[Pin]]) -> list[Pin]:
        for other in found[1:]:
            for mine, theirs in zip(found[0], other, strict=True):
                if mine.digest != theirs.digest:
                    raise Differs(
                        f"two workers run different builds of {mine.name}", expected=mine.digest, found=theirs.digest
                    )
        return found[0]

    def run(self, units: Iterable[Unit]) -> Iterator[Outcome | Loss]:
        source, lock = iter(units), threading.Lock()
        messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()

        def following() -> Unit | None:
            with lock:
                return None if self._stopping.is_set() else next(source, None)

        def feed(place: int) -> None:
            try:
                while (unit := following()) is not None:
                    for arm in unit.arms:
                        self._ask(place, unit, arm, messages)
            except BaseException as wrong:
                messages.put(wrong)
            else:
                messages.put(None)

        feeders = [threading.Thread(target=feed, args=(place,), daemon=True) for place in range(len(self._lanes))]
        for feeder in feeders:
            feeder.start()
        busy = len(feeders)
        while busy:
            message = messages.get()
            if message is None:
                busy -= 1
            elif isinstance(message, BaseException):
                raise message
            else:
                yield message

    def _ask(self, place: int, unit: Unit, arm: str, messages: queue.SimpleQueue[_Message]) -> None:
        """One answer from one lane, which is replaced when it dies."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                messages.put(self._lanes[place].answer(unit, arm))
                return
            except DiedError as died:
                if self._stopping.is_set():
                    return
                messages.put(Loss(unit.key(arm), attempt, str(died)))
                how = str(died)
                self._replace(place)
        messages.put(failed(unit, arm, f"its worker died {ATTEMPTS} times, at last: {how}"))

    def _replace(self, place: int) -> None:
        assert self._job is not None  # noqa: S101 - open comes first
        self._lanes[place].close()
        self._lanes[place] = self._make()
        try:
            self._lanes[place].open(self._job)
        except DiedError as died:
            raise EnvironmentProblem(
                f"a lost worker could not be replaced: {died}",
                hint="see the run's stderr.log, then ridgefill run resume",
            ) from None

    def close(self) -> None:
        self._stopping.set()
        for lane in self._lanes:
            lane.close()
