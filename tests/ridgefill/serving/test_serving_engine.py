"""The engine without HTTP: whose turn it is, what a turn costs the others, what is freed when."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import ridgefill
from ridgefill.maps import Maps
from ridgefill.plan import make_plan
from ridgefill.prompt import read_prompt
from ridgefill.serving.engine import Engine, QueueFullError
from ridgefill.serving.job import Job, Piece
from ridgefill.serving.metrics import Metrics
from ridgefill.serving.sampling import Sampler

TAIL = 8


class Bench:
    """An engine that is turned by hand, and everything it sent, in order."""

    def __init__(self, model: Any, tokenizer: Any, arm: Maps | None = None, **options: Any) -> None:
        self.model, self.arm, self.metrics = model, arm, Metrics()
        limits = {"slots": 4, "queue": 8, "pause": 0.0} | options
        self.engine = Engine(model, tokenizer, arm, (), self.metrics, **limits)
        self.sent: list[tuple[Job, Piece]] = []

    def job(self, length: int, seed: int = 0, limit: int = 6, fill: bool = True, **options: Any) -> Job:
        """A greedy job of random tokens, not yet submitted."""
        ids = torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(seed))
        arm = self.arm if fill else None
        plan = make_plan(self.model, arm, read_prompt(self.model, ids), TAIL, None)
        job = Job(ids, plan, limit, Sampler(0, 1, None), lambda piece: self.sent.append((job, piece)), **options)
        return job

    def submit(self, *jobs: Job) -> None:
        for job in jobs:
            self.engine.submit(job)

    @torch.no_grad()
    def turns(self, most: int = 10_000) -> None:
        """Until nothing is left to do."""
        for _ in range(most):
            if not self.engine.running and not self.engine.waiting:
                return
            self.engine.turn()
        raise AssertionError("the engine does not come to an end")

    def text(self, job: Job) -> str:
        return "".join(piece.text for owner, piece in self.sent if owner is job)

    def end(self, job: Job) -> Any:
        (end,) = [piece.end for owner, piece in self.sent if owner is job and piece.end is not None]
        return end


@pytest.fixture(params=["llama", "qwen3_5"])
def model(request: pytest.FixtureRequest, tiny: Any) -> Any:
    """A dense model and a hybrid, whose states must not mix between users."""
    return tiny(request.param)


@pytest.fixture
def maps(model: Any, words: Any) -> Maps:
    texts = [" ".join(f"w{i * i % 95 + 2}" for i in range(200))]
    return ridgefill.fit(model, words, texts, splits=[4], penalty=0.1)[4]


def test_alone_and_beside_others_answers_are_the_same(model: Any, words: Any, maps: Maps) -> None:
    """Bit for bit the same steps: filled, exact and short prompts that run in each other's pauses."""
    kinds = [{"length": 90}, {"length": 90, "fill": False}, {"length": 5}, {"length": 1}, {"length": 60}]

    def jobs(bench: Bench) -> list[Job]:
        return [bench.job(**kind, seed=i, limit=4 + i) for i, kind in enumerate(kinds)]

    alone = []
    for i in range(len(kinds)):
        bench = Bench(model, words, maps)
        job = jobs(bench)[i]
        bench.submit(job)
        bench.turns()
        alone.append(bench.text(job))
    bench = Bench(model, words, maps)
    together = jobs(bench)
    bench.submit(*together)
    bench.turns()
    assert [bench.text(job) for job in together] == alone
    assert [bench.end(job).exact for job in together] == [TAIL, 90, 5, 1, TAIL]
    owners = [owner for owner, _ in bench.sent]
    assert owners != sorted(owners, key=together.index)  # they did run in turns


def test_the_answer_is_the_librarys(model: Any, words: Any, maps: Maps) -> None:
    bench = Bench(model, words, maps)
    filled, exact = bench.job(90), bench.job(90, fill=False)
    bench.submit(filled, exact)
    bench.turns()
    own = model.generate(exact.ids, max_new_tokens=6, do_sample=False)
    with ridgefill.filling(model, maps, tail=TAIL):
        mine = model.generate(filled.ids, max_new_tokens=6, do_sample=False)
    assert bench.text(exact) == words.decode(own[0, 90:], skip_special_tokens=True)
    assert bench.text(filled) == words.decode(mine[0, 90:], skip_special_tokens=True)


def test_between_two_tokens_lies_at_most_one_step(tiny: Any, words: Any) -> None:
    """With no pause of its own a prefill takes one layer of one chunk, and then everybody else has a token."""
    model = tiny("llama")
    bench = Bench(model, words)
    steps = bench.metrics.step
    users = [bench.job(3, seed=i, limit=40) for i in range(3)]
    bench.submit(*users)
    while bench.engine.answers < 3:
        bench.engine.turn()
    late = bench.job(400, seed=9, limit=2)
    bench.submit(late)
    before, seen = None, []
    while late not in [owner for owner, _ in bench.sent]:
        said = len(bench.sent)
        bench.engine.turn()
        count = next(sample.value for sample in steps.collect()[0].samples if sample.name.endswith("_count"))
        if before is not None:
            seen.append((count - before, [owner for owner, _ in bench.sent[said:]][:3]))
        before = count
    assert max(taken for taken, _ in seen) == 1
    assert all(owners == users for _, owners in seen)
    assert len(seen) >= 6


def caches() -> int:
    """How many there are in this process."""
    gc.collect()
    return sum(type(one) is DynamicCache for one in gc.get_objects())


@pytest.mark.parametrize("when", ["waiting", "prefilling", "decoding"])
def test_a_cancelled_job_is_gone_after_one_turn(when: str, tiny: Any, words: Any) -> None:
    bench, before = Bench(tiny("llama"), words, slots=1), caches()
    others, job = [bench.job(4, limit=9)] if when == "waiting" else [], bench.job(300, limit=50)
    bench.submit(*others, job)
    while when == "decoding" and not bench.engine.answers:
        bench.engine.turn()
    bench.engine.turn()
    assert caches() == before + 1
    bench.engine.cancel(job)
    bench.engine.turn()
    assert caches() == before + (when == "waiting")
    assert (bench.engine.cache_tokens > 0) == (when == "waiting")
    sent = len(bench.sent)
    bench.turns()
    assert job not in [owner for owner, _ in bench.sent[sent:]]
    assert bench.metrics.text().count(b'requests_total{outcome="cancelled"} 1.0') == 1


def test_a_full_queue_refuses_and_places_are_given_in_order(tiny: Any, words: Any) -> None:
    bench = Bench(tiny("llama"), words, slots=2, queue=3)
    jobs = [bench.job(5, seed=i) for i in range(4)]
    bench.submit(*jobs[:3])
    with pytest.raises(QueueFullError):
        bench.submit(jobs[3])
    bench.engine.cancel(jobs[1])
    bench.submit(jobs[3])
    bench.turns()
    ended = [owner for owner, piece in bench.sent if piece.end is not None]
    assert ended == [jobs[0], jobs[2], jobs[3]]


@pytest.mark.parametrize("place", ["prefill", "token"])
def test_what_breaks_is_one_request(place: str, tiny: Any, words: Any) -> None:
    model = tiny("llama")
    bench = Bench(model, words)
    good, bad = bench.job(6, seed=1), bench.job(7, seed=2)

    def poison(_: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if place == "token" and 7 <= kwargs["cache"].get_seq_length() < 9:
            raise MemoryError("no room")

    handle = model.model.register_forward_pre_hook(poison, with_kwargs=True)
    if place == "prefill":
        bad.ids[0, 3] = 10_000  # outside the vocabulary: the embedding refuses
    else:
        good.limit = 1
    bench.submit(good, bad)
    bench.turns()
    handle.remove()
    assert bench.end(good).reason == "length"
    assert bench.end(bad).reason == "failed"
    assert bench.end(bad).failed == ("IndexError" if place == "prefill" else "MemoryError")
    again = bench.job(7, seed=2)
    bench.submit(again)
    bench.turns()
    assert bench.end(again).reason == "length"


def test_the_prompts_chances_are_the_models_own(tiny: Any, words: Any) -> None:
    model = tiny("llama")
    bench = Bench(model, words)
    job = bench.job(300, echo=True, top=2)
    bench.submit(job)
    bench.turns()
    (echo,) = [piece.echo for _, piece in bench.sent if piece.echo is not None]
    logprobs = model(job.ids).logits[0].log_softmax(-1)
    told = torch.tensor([one.logprob for one in echo])
    assert [one.token for one in echo] == job.ids[0, 1:].tolist()
    assert torch.allclose(told, logprobs[torch.arange(299), job.ids[0, 1:]], atol=1e-4)
    assert [one.likeliest[0][0] for one in echo] == logprobs[:-1].argmax(-1).tolist()
