"""reference: RidgeFill's own implementation in PyTorch, for every fill. Imports `ridgefill` only when opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ledger.errors import EnvironmentProblem
from provenance.builds import reference_build
from provenance.pins import Pin
from runs.engines.base import (
    COMPARE,
    GENERATE,
    PREFILL,
    SCORE,
    Answer,
    Generate,
    Opened,
    Opening,
    Prefill,
    Score,
)
from runs.study import Arm

if TYPE_CHECKING:
    from torch import Tensor

_DTYPES = ("fp32", "bf16", "fp16")
# Corrections by their names in a study -> the function of ridgefill.corrections that makes them.
_CORRECTIONS = {"value-rescale": "value_rescale", "key-rescale": "key_rescale"}


class Reference:
    """The engine. Its one flag, threads, is how many threads torch computes with; it decides the last bits."""

    name = "reference"
    about = "reference: RidgeFill in PyTorch"
    packages = ("ridgefill",)
    capabilities = frozenset({SCORE, GENERATE, PREFILL, COMPARE})

    def check(self, arm: Arm) -> str:
        if arm.dtype not in _DTYPES:
            return f"the dtype is one of {', '.join(_DTYPES)}, not {arm.dtype!r}"
        if unknown := sorted(arm.flags.keys() - {"threads"}):
            return f"the reference engine knows only the flag threads, not {', '.join(unknown)}"
        if wrong := [name for name in arm.corrections if name not in _CORRECTIONS]:
            return f"corrections are {', '.join(_CORRECTIONS)}, not {', '.join(wrong)}"
        return ""

    def open(self, opening: Opening) -> Opened:
        try:
            return OpenedReference(opening)
        except ImportError as missing:
            raise EnvironmentProblem(
                f"the reference engine needs torch and transformers: {missing}", hint="pip install 'ridgefill[fill]'"
            ) from None


class OpenedReference:
    """A model in memory; maps are read when an arm first needs them."""

    def __init__(self, opening: Opening) -> None:
        import torch

        from ridgefill.sources import load, parse_dtype

        if "threads" in opening.flags:
            torch.set_num_threads(int(opening.flags["threads"]))
        self._opening = opening
        self._model, self._tokenizer = load(f"path:{opening.model}", parse_dtype(opening.dtype))
        scheme, _, rest = opening.source.partition(":")
        if scheme != "path":  # maps know their model by what it is called, not by where it lies on this machine
            self._model.config.name_or_path = rest.partition("@")[0] if scheme == "hf" else opening.source
        self._maps: dict[str, Any] = {}
        self._baseline: tuple[Arm, Score, Any] | None = None

    def build(self) -> Pin:
        return reference_build("reference", self._opening.dtype)

    def encode(self, text: str) -> Sequence[int]:
        ids: list[int] = self._tokenizer(text, verbose=False)["input_ids"]
        return ids

    def score(self, arm: Arm, request: Score, baseline: Arm | None) -> Answer:
        import torch

        with torch.inference_mode():
            reference = self._reference(baseline, request) if baseline else None
            rows, notes = (reference, {}) if arm == baseline else self._following(arm, request)
            assert rows is not None  # noqa: S101 - an arm that equals its baseline has one
            after = torch.tensor(request.tokens[request.prompt :])
            losses = -rows.gather(1, after[:, None])[:, 0]
            top = rows.argmax(-1)
            kl: list[float] = []
            same: list[bool] = []
            if reference is not None:
                kl = (reference.exp() * (reference - rows)).sum(-1).tolist()
                same = (reference.argmax(-1) == top).tolist()
        return Answer(
            tokens=tuple(after.tolist()),
            losses=tuple(losses.tolist()),
            top=tuple(top.tolist()),
            kl=tuple(kl),
            same=tuple(same),
            notes=notes,
        )

    def _reference(self, baseline: Arm, request: Score) -> Tensor:
        """The baseline's log-probabilities, computed once for all arms that follow with the same request."""
        known = self._baseline
        if known is None or known[:2] != (baseline, request):
            known = self._baseline = (baseline, request, self._following(baseline, request)[0])
        rows: Tensor = known[2]
        return rows

    def _following(self, arm: Arm, request: Score) -> tuple[Tensor, dict[str, str]]:
        """Log-probabilities [follow, vocabulary], fp32, of each token after the prompt given all before."""
        import torch

        from ridgefill.schedule import extend, run

        ids = torch.tensor([request.tokens], device=self._model.device)
        done = run(self._model, self._fill(arm), ids[:, : request.prompt], **self._options(arm))
        logits = extend(self._model, done.cache, ids[:, request.prompt - 1 : -1])
        return logits[0].float().log_softmax(-1).cpu(), _notes(arm, done.plan)

    def generate(self, arm: Arm, request: Generate) -> Answer:
        import torch

        from ridgefill import filling

        ids = torch.tensor([request.tokens], device=self._model.device)
        with torch.inference_mode(), filling(self._model, self._fill(arm), **self._options(arm)) as filled:
            out = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.limit,
                do_sample=False,
                pad_token_id=self._tokenizer.eos_token_id,
            )
        made = tuple(out[0, ids.shape[1] :].tolist())
        text = self._tokenizer.decode(made, skip_special_tokens=True)
        return Answer(tokens=made, text=text, seconds=filled.seconds, notes=_notes(arm, filled.plan))

    def prefill(self, arm: Arm, request: Prefill) -> Answer:
        import torch

        from ridgefill import filling

        ids = torch.tensor([request.tokens], device=self._model.device)
        with torch.inference_mode(), filling(self._model, self._fill(arm), **self._options(arm)) as filled:
            started = time.perf_counter()
            self._model(ids, logits_to_keep=1)[0].argmax().item()  # item() waits for the device
            seconds = time.perf_counter() - started
        return Answer(tokens=request.tokens, seconds=seconds, notes=_notes(arm, filled.plan))

    def _fill(self, arm: Arm) -> Any:
        """The arm as ridgefill has it."""
        from ridgefill import Identity, Maps, NoFill

        make: dict[str, Callable[[], Any]] = {
            "exact": lambda: None,
            "no-fill": lambda: NoFill(arm.split),
            "identity": lambda: Identity(arm.split),
            "map": lambda: self._maps[arm.maps or ""],
        }
        if arm.maps and arm.maps not in self._maps:
            maps = Maps.load(self._opening.maps[arm.maps])
            maps.check_model(self._model, self._tokenizer)
            self._maps[arm.maps] = maps
        return make[arm.fill]()

    def _options(self, arm: Arm) -> dict[str, Any]:
        from ridgefill import corrections
        from ridgefill.selectors import selector

        return {
            "split": arm.split if arm.fill != "exact" else None,
            "tail": arm.tail,
            "min_prompt": arm.tail,
            "rows": selector(arm.rows)(self._tokenizer) if arm.rows else None,
            "edits": [getattr(corrections, _CORRECTIONS[name])() for name in arm.corrections],
        }

    def close(self) -> None:
        self._maps.clear()
        self._baseline = None


def _notes(arm: Arm, plan: Any) -> dict[str, str]:
    """A prompt that was to be filled and ran exactly must not count as filled unseen."""
    return {"exactly": plan.exactly} if arm.fill != "exact" and plan is not None and plan.exactly else {}


ENGINE = Reference()
