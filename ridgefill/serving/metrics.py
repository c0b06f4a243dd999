"""What the server counts, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)


class Metrics:
    """One server's counters, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.first_token = self._histogram("time_to_first_token", "From arrival to the first token")
        self.inter_token = self._histogram("inter_token", "Between two tokens of one answer")
        self.step = self._histogram("prefill_step", "One layer over at most 1,024 rows, or one layer above the split")
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts that were prefilled")
        self.generated_tokens = self._counter("generated_tokens", "Tokens that were generated")
        self.rows = self._counter("prompt_rows", "Prompt rows above the split", "kind")  # filled, exact
        self.requests = self._counter("requests", "Requests that ended", "outcome")
        for kind in ("filled", "exact"):
            self.rows.labels(kind)
        for outcome in ("stop", "length", "failed", "cancelled", "refused"):
            self.requests.labels(outcome)

    def watch(self, name: str, says: str, value: Callable[[], float]) -> None:
        """A gauge that is read whenever someone asks."""
        Gauge(f"ridgefill_{name}", says, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """Everything, in the text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"ridgefill_{name}", says, labels, registry=self._registry)

    def _histogram(self, name: str, says: str) -> Histogram:
        return Histogram(f"ridgefill_{name}_seconds", says, buckets=SECONDS, registry=self._registry)
