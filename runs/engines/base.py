"""What an engine is: opened on pinned files, it answers requests for any arm of its model.

engine.check(arm) -> opened = engine.open(Opening) -> opened.score | generate | prefill | ... -> opened.close()
known = one.known(baseline, request) -> another.score(arm, request, known)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from provenance.pins import Pin

if TYPE_CHECKING:
    from runs.server import Server
    from runs.study import Arm

SCORE, GENERATE, PREFILL, COMPARE, EQUIVALENCE = "score", "generate", "prefill", "compare", "equivalence"
LOAD = "load"


@dataclass(frozen=True)
class Score:
    """How likely is the end of `tokens`, from the token at `prompt` on, given all before?

    What only a baseline answers: greedy, so many tokens of its own continuation are scored, and `tokens` is the
    prompt alone; cut, its losses are given too where it sees only so many tokens of the prompt, the last ones.
    """

    tokens: tuple[int, ...]
    prompt: int
    greedy: int = 0
    cut: int = 0


@dataclass(frozen=True)
class Generate:
    """What follows `tokens`, greedily, in at most `limit` tokens?"""

    tokens: tuple[int, ...]
    limit: int


@dataclass(frozen=True)
class Prefill:
    """How long until the first token after `tokens`? Warm: the first answer of its kind is thrown away."""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Equivalence:
    """Does the arm leave of `tokens` exactly what the model's own forward pass leaves?"""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Load:
    """How long until the first token after `tokens`, and how do others fare, who are being answered as it arrives?

    others: their prompts, one for each; limit: how many tokens each of them is given.
    """

    tokens: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]
    limit: int


Request = Score | Generate | Prefill | Equivalence | Load


@dataclass(frozen=True)
class Stream:
    """What a client saw of one answer: when it asked and when each piece came, in seconds of one clock; its tokens."""

    asked: float
    arrivals: tuple[float, ...]
    tokens: int


@dataclass(frozen=True)
class Answer:
    """What came back.

    tokens: ids that were scored or generated; text: generated; losses: nats a scored token; top: the likeliest
    id at each scored place; kl, same: KL(baseline || arm) in nats and whether both have the same likeliest
    token, at each scored place, where a baseline was asked for; baseline, cut: the baseline's losses there, and
    those with the prompt cut; seconds: until the first token, of a prefill; server_seconds: that by a server's own
    clock, 0 where it tells none; ceiling: how many times fewer multiply-accumulates than the exact arm, 0 where
    nobody counted; peak_mib: the most memory a server held meanwhile, 0 where nobody looked; others: of a load;
    identical, difference: whether every bit is the model's own, and the largest difference of a logit; made: how
    many tokens were generated, where their ids are not told; notes: what a reader of the number must know, kept
    with its rows.
    """

    tokens: tuple[int, ...] = ()
    text: str = ""
    losses: tuple[float, ...] = ()
    top: tuple[int, ...] = ()
    kl: tuple[float, ...] = ()
    same: tuple[bool, ...] = ()
    baseline: tuple[float, ...] = ()
    cut: tuple[float, ...] = ()
    seconds: float = 0.0
    server_seconds: float = 0.0
    ceiling: float = 0.0
    peak_mib: int = 0
    others: tuple[Stream, ...] = ()
    made: int = 0
    identical: bool = False
    difference: float = 0.0
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """What a baseline answered, for arms of any engine to be held against.

    asked: the baseline and its request; tokens: the prompt's and those that are scored; rows: log-probabilities
    [scored, vocabulary] in nats, a tensor or an array; losses: of the scored tokens; cut: with the prompt cut.
    """

    asked: tuple[Arm, Score]
    tokens: tuple[int, ...]
    rows: Any
    losses: tuple[float, ...]
    cut: tuple[float, ...]


@dataclass(frozen=True)
class Opening:
    """What an engine may open: the model, and maps by their names in the study, each where its pin found it.

    source: what the study calls the model; server: what its arms ask, where they ask one.
    """

    source: str
    model: Path
    maps: Mapping[str, Path]
    dtype: str
    flags: Mapping[str, str | int | bool]
    server: Server | None = None
    server_name: str = ""


class Opened(Protocol):
    """One model in one process, ready to answer for every arm that differs only in how it fills."""

    def build(self) -> Pin:
        """What really runs, by its bytes. Computed anew at every call."""

    def encode(self, text: str) -> Sequence[int]:
        """Token ids of a prompt, with the special tokens that the model's tokenizer begins one with."""

    def score(self, arm: Arm, request: Score, known: Known | None) -> Answer:
        """The losses of a continuation; with a baseline's answer also how the arm's predictions differ from its."""

    def known(self, baseline: Arm, request: Score) -> Known:
        """A baseline's answer, which arms that follow with the same request are held against; of `COMPARE` alone."""

    def generate(self, arm: Arm, request: Generate) -> Answer:
        """A greedy continuation."""

    def prefill(self, arm: Arm, request: Prefill) -> Answer:
        """The time to the first token."""

    def equivalence(self, arm: Arm, request: Equivalence) -> Answer:
        """The arm against the model's own forward pass."""

    def load(self, arm: Arm, request: Load) -> Answer:
        """A long prompt among users who are being answered; of `LOAD` alone."""

    def close(self) -> None:
        """Let everything go."""


class Engine(Protocol):
    """A way to run models. `packages`: the importable packages whose source it is, pinned with every run."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str:
        """One line for the person; says so when its answers are not a language model's."""

    @property
    def packages(self) -> tuple[str, ...]: ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Which of score, generate, prefill, equivalence, load and compare it has."""

    def check(self, arm: Arm) -> str:
        """Why it cannot run an arm, judged by the arm alone and without heavy imports; "" when it can."""

    def open(self, opening: Opening) -> Opened:
        """Load the model. Raises a failure that carries `exit_code` and `line()`."""


def answer(opened: Opened, arm: Arm, request: Request, baseline: Arm | None, elsewhere: Opened | None = None) -> Answer:
    """One request of any kind; `elsewhere` is what is open for the baseline, where that is not the same."""
    if isinstance(request, Score):
        return opened.score(arm, request, (elsewhere or opened).known(baseline, request) if baseline else None)
    if isinstance(request, Generate):
        return opened.generate(arm, request)
    if isinstance(request, Prefill):
        return opened.prefill(arm, request)
    if isinstance(request, Load):
        return opened.load(arm, request)
    return opened.equivalence(arm, request)
