"""The four-arm table: how far each fill moves what the model says of the real tokens that follow a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ridgefill.errors import FillUsageError
from ridgefill.maps import Maps
from ridgefill.plan import Fill, Identity, NoFill
from ridgefill.schedule import extend, prefill
from ridgefill.texts import digests

FOLLOW = 256


@dataclass(frozen=True)
class Row:
    """One arm at one split and prompt length, against exact, documents weighing equally.

    `d_nll` nats a token above exact, `kl` nats of KL(exact || arm), `agreement` share of equal top tokens.
    """

    length: int
    split: int
    arm: str
    documents: int
    d_nll: float
    kl: float
    agreement: float


def table(
    model: Any,
    tokenizer: Any,
    maps: Mapping[int, Maps],
    documents: Mapping[str, str],
    *,
    lengths: Sequence[int] = (2048, 4096),
    tail: int = 512,
    follow: int = FOLLOW,
) -> Iterator[Row]:
    """Rows for no fill, identity and map at every split and length, over `follow` tokens after the prompt,
    given as each length is done.

    A document counts at the lengths it is long enough for. Raises FillUsageError for a document that a map
    was fitted on, no document long enough for a length, and a tail that leaves nothing to fill.
    """
    _check(maps, documents, lengths, tail)
    ids = {name: tokenizer(text, verbose=False)["input_ids"] for name, text in documents.items()}
    fitting = {n: [name for name in ids if len(ids[name]) >= n + follow] for n in lengths}
    empty = [n for n, names in fitting.items() if not names]
    if empty:
        raise FillUsageError(
            f"no document is long enough for prompts of {empty[0]}",
            expected=f"at least {empty[0] + follow} tokens",
            found=f"at most {max(map(len, ids.values()), default=0)}",
        )
    arms = [(split, arm, fill) for split in sorted(maps) for arm, fill in _arms(maps[split])]
    total = sum(map(len, fitting.values())) * (len(arms) + 1)
    with tqdm(total=total, desc="arms", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:
        for n in lengths:
            sums = {(split, arm): torch.zeros(3, dtype=torch.float64) for split, arm, _ in arms}
            for name in fitting[n]:
                tokens = torch.tensor([ids[name][: n + follow]], device=model.device)
                reference = _following(model, None, tokens, n, tail)
                bar.update()
                for split, arm, fill in arms:
                    following = _following(model, fill, tokens, n, tail)
                    sums[split, arm] += _distances(reference, following, tokens[0, n:])
                    bar.update()
            for (split, arm), value in sums.items():
                yield Row(n, split, arm, len(fitting[n]), *(value / len(fitting[n])).tolist())


def _arms(maps: Maps) -> Iterator[tuple[str, Fill]]:
    yield "no fill", NoFill(maps.split)
    yield "identity", Identity(maps.split)
    yield "map", maps


def _following(model: Any, fill: Fill, tokens: Tensor, length: int, tail: int) -> Tensor:
    """Log-probabilities [follow, vocabulary] of each token after the first `length`, given all before."""
    cache = prefill(model, fill, tokens[:, :length], tail=tail, min_prompt=tail)
    return extend(model, cache, tokens[:, length - 1 : -1])[0].float().log_softmax(-1)


def _distances(exact: Tensor, arm: Tensor, targets: Tensor) -> Tensor:
    """Mean loss above exact, KL(exact || arm) and agreement over rows [n, vocabulary]: three, fp64."""
    at = targets[:, None]
    loss = (exact.gather(1, at) - arm.gather(1, at)).double().mean()
    divergence = (exact.exp() * (exact - arm)).sum(-1).double().mean()
    agreement = (exact.argmax(-1) == arm.argmax(-1)).double().mean()
    return torch.stack((loss, divergence, agreement)).cpu()


def _check(maps: Mapping[int, Maps], documents: Mapping[str, str], lengths: Sequence[int], tail: int) -> None:
    if not documents or not lengths or not maps:
        raise FillUsageError("nothing to evaluate", expected="maps, documents and prompt lengths")
    if not 1 <= tail < min(lengths):
        raise FillUsageError(
            "the tail leaves nothing to fill", expected=f"1..{min(lengths) - 1} tokens", found=str(tail)
        )
    for split, fitted in maps.items():
        about = fitted.manifest.fit
        seen = {*about.get("texts_sha256", ()), *about.get("held_out_sha256", ())}
        for name, sha256 in zip(documents, digests(documents.values()), strict=True):
            if sha256 in seen:
                raise FillUsageError(
                    f"the maps of split {split} were fitted on {name}",
                    expected="documents that are not calibration text",
                    hint="name other documents",
                )
