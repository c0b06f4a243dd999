"""reference: RidgeFill's own implementation in PyTorch, for every fill. Imports torch only when opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ledger.errors import EnvironmentProblem
from provenance.builds import reference_build
from provenance.pins import Pin
from runs.engines.base import (
    COMPARE,
    EQUIVALENCE,
    GENERATE,
    PREFILL,
    SCORE,
    Answer,
    Equivalence,
    Generate,
    Opened,
    Opening,
    Prefill,
)
from runs.engines.scoring import Scoring
from runs.study import Arm

if TYPE_CHECKING:
    from torch import Tensor

_DTYPES = ("fp32", "bf16", "fp16")
# What ridgefill.selectors and ridgefill.corrections have; named here so that a study can be read without torch.
_SELECTORS = (
    "attention",
    "random",
    "question_blind",
    "longer_tail",
    "digits",
    "special",
    "lexical_net",
    "protected",
    "probe",
)
_RESCALES = frozenset({"value-rescale", "key-rescale"})
_CORRECTIONS = (*sorted(_RESCALES), "terminal-state")
# Splices, which a study names beside them -> what filled rows are given of an exact run.
_SPLICES: dict[str, Literal["keys", "values"]] = {"exact-keys": "keys", "exact-values": "values"}


class Reference:
    """The engine. Its flags: threads, how many torch computes with, which decides the last bits; maps, where they lie:
    "stored" as in their files and decoded at each use, or "resident", decoded once in the model's dtype.
    """

    name = "reference"
    about = "reference: RidgeFill in PyTorch"
    packages = ("ridgefill",)
    capabilities = frozenset({SCORE, GENERATE, PREFILL, COMPARE, EQUIVALENCE})

    def check(self, arm: Arm) -> str:
        if arm.dtype not in _DTYPES:
            return f"the dtype is one of {', '.join(_DTYPES)}, not {arm.dtype!r}"
        if unknown := sorted(arm.flags.keys() - {"threads", "maps"}):
            return f"the reference engine knows only the flags threads and maps, not {', '.join(unknown)}"
        if arm.flags.get("maps", "stored") not in ("stored", "resident"):
            return f"maps are stored or resident, not {arm.flags['maps']!r}"
        if arm.rows and arm.rows not in _SELECTORS:
            return f"rows are {', '.join(_SELECTORS)}, not {arm.rows!r}"
        known = [*_CORRECTIONS, *_SPLICES]
        if wrong := [name for name in arm.corrections if name not in known]:
            return f"corrections are {', '.join(known)}, not {', '.join(wrong)}"
        return _undeployed(arm.deployment) if arm.deployment else ""

    def open(self, opening: Opening) -> Opened:
        try:
            return OpenedReference(opening)
        except ImportError as missing:
            raise EnvironmentProblem(
                f"the reference engine needs torch and transformers: {missing}", hint="pip install 'ridgefill[fill]'"
            ) from None


class OpenedReference(Scoring):
    """A model in memory; maps are read when an arm first needs them."""

    def __init__(self, opening: Opening) -> None:
        import torch

        from ridgefill.shared import Shared
        from ridgefill.sources import load, parse_dtype

        if "threads" in opening.flags:
            torch.set_num_threads(int(opening.flags["threads"]))
        self._opening = opening
        self._model, self._tokenizer = load(f"path:{opening.model}", parse_dtype(opening.dtype))
        scheme, _, rest = opening.source.partition(":")
        if scheme != "path":  # maps know their model by what it is called, not by where it lies on this machine
            self._model.config.name_or_path = rest.partition("@")[0] if scheme == "hf" else opening.source
        self._maps: dict[str, Any] = {}
        self._selectors: dict[tuple[str, str | None, float | None], Any] = {}
        self._exact: tuple[tuple[int, ...], int, Any] | None = None  # prompt, split, exact heads
        self._shared = Shared()  # for every answer but times
        self._warm: list[tuple[Arm, int]] = []

    def build(self) -> Pin:
        return reference_build("reference", self._opening.dtype)

    def encode(self, text: str) -> Sequence[int]:
        ids: list[int] = self._tokenizer(text, verbose=False)["input_ids"]
        return ids

    def _following(self, arm: Arm, tokens: tuple[int, ...], prompt: int) -> tuple[Tensor, dict[str, str]]:
        """Log-probabilities [follow, vocabulary], fp32, of each token after the prompt given all before."""
        import torch

        from ridgefill.schedule import extend, run

        ids = torch.tensor([tokens], device=self._model.device)
        options = self._options(arm, tokens[:prompt])
        with torch.inference_mode():
            done = run(self._model, self._fill(arm), ids[:, :prompt], **options, shared=self._shared)
            logits = extend(self._model, done.cache, ids[:, prompt - 1 : -1])
        return logits[0].float().log_softmax(-1).cpu(), _notes(arm, done.plan)

    def generate(self, arm: Arm, request: Generate) -> Answer:
        import torch

        from ridgefill import filling

        ids, options = torch.tensor([request.tokens], device=self._model.device), self._options(arm, request.tokens)
        with torch.inference_mode(), filling(self._model, self._fill(arm), **options, shared=self._shared) as filled:
            out = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.limit,
                do_sample=False,
                pad_token_id=self._tokenizer.eos_token_id,
            )
        made = tuple(out[0, ids.shape[1] :].tolist())
        text = self._tokenizer.decode(made, skip_special_tokens=True)
        return Answer(tokens=made, text=text, notes=_notes(arm, filled.plan))

    def prefill(self, arm: Arm, request: Prefill) -> Answer:
        import torch

        from ridgefill import filling

        ids, options = torch.tensor([request.tokens], device=self._model.device), self._options(arm, request.tokens)
        kind = (arm, len(request.tokens))
        with torch.inference_mode(), filling(self._model, self._fill(arm), **options) as filled:
            for _ in range(1 if kind in self._warm else 2):
                started = time.perf_counter()
                self._model(ids, logits_to_keep=1)[0].argmax().item()  # item() waits for the device
                seconds = time.perf_counter() - started
        self._warm.append(kind)
        ceiling = self._ceiling(arm, filled.plan, len(filled.rows))
        return Answer(tokens=request.tokens, seconds=seconds, ceiling=ceiling, notes=_notes(arm, filled.plan))

    def _ceiling(self, arm: Arm, plan: Any, rows: int) -> float:
        """Exact multiply-accumulates over the arm's, whose late layers ran for `rows` rows; 0 if nobody counted."""
        from ridgefill import cost

        arm = self._settled(arm)
        if plan.exactly:
            return 1.0
        if arm.fill == "no-fill":
            return 0.0
        shape = cost.shape_of(self._model.config)
        spent = cost.filled(
            shape,
            plan.length,
            plan.split,
            plan.tail,
            maps=arm.fill == "map",
            exact_rows=rows - plan.tail,
            probe_rows=self._rows(arm).probes if arm.rows else 0,
            rescale_rows=min(plan.tail, 512) if _RESCALES & {*arm.corrections} else 0,
        )
        return cost.exact(shape, plan.length) / spent

    def equivalence(self, arm: Arm, request: Equivalence) -> Answer:
        import torch
        from transformers import DynamicCache

        from ridgefill import filling

        arm = self._settled(arm)
        ids, keep = torch.tensor([request.tokens], device=self._model.device), min(arm.tail, len(request.tokens))
        with torch.inference_mode():
            own, cache = DynamicCache(config=self._model.config), DynamicCache(config=self._model.config)
            true = self._model(ids, cache=own, logits_to_keep=keep).logits
            with filling(self._model, self._fill(arm), **self._options(arm, request.tokens)) as filled:
                mine = self._model(ids, cache=cache, logits_to_keep=keep).logits
        pairs = [(mine, true)]
        for layer, its_own in zip(cache.layers, own.layers, strict=True):
            pairs += zip(_kept(layer), _kept(its_own), strict=True)
        return Answer(
            tokens=request.tokens,
            identical=all(torch.equal(a, b) for a, b in pairs),
            difference=float((mine.float() - true.float()).abs().max()),
            notes=_notes(arm, filled.plan),
        )

    def _settled(self, arm: Arm) -> Arm:
        """The arm with what its deployment says of a model of this depth, if it names one."""
        from ridgefill.deployments import deployment
        from ridgefill.families import family_of

        if not arm.deployment:
            return arm
        ready, config = deployment(arm.deployment), self._model.config
        said = {"tail": ready.tail, "rows": ready.rows, "corrections": ready.corrections, "deployment": ""}
        return arm.model_copy(update=said | {"split": ready.split(len(family_of(config).layer_kinds(config)))})

    def _fill(self, arm: Arm) -> Any:
        """The arm as ridgefill has it."""
        from ridgefill import Identity, Maps, NoFill

        arm = self._settled(arm)
        make: dict[str, Callable[[], Any]] = {
            "exact": lambda: None,
            "no-fill": lambda: NoFill(arm.split),
            "identity": lambda: Identity(arm.split),
            "map": lambda: self._maps[arm.maps or ""],
        }
        if arm.maps and arm.maps not in self._maps:
            maps = Maps.load(self._opening.maps[arm.maps])
            maps.check_model(self._model, self._tokenizer)
            resident = self._opening.flags.get("maps") == "resident"
            self._maps[arm.maps] = maps.to(self._model.dtype, self._model.device) if resident else maps
        return make[arm.fill]()

    def _options(self, arm: Arm, prompt: tuple[int, ...]) -> dict[str, Any]:
        arm = self._settled(arm)
        return {
            "split": arm.split if arm.fill != "exact" else None,
            "tail": arm.tail,
            "min_prompt": arm.tail,
            "rows": self._rows(arm),
            "edits": self._edits(arm, prompt),
        }

    def _rows(self, arm: Arm) -> Any:
        """The arm's selector; made once, since a table of rarities takes seconds."""
        from ridgefill.rows import rows_of

        key = (arm.rows, arm.maps, arm.share)
        if key not in self._selectors:
            self._selectors[key] = rows_of(arm.rows, self._tokenizer, self._fill(arm), arm.share)
        return self._selectors[key]

    def _edits(self, arm: Arm, prompt: tuple[int, ...]) -> list[Any]:
        """The arm's corrections, and what it is given of an exact run; splices come last."""
        from ridgefill.corrections import correction
        from ridgefill.splice import Splice

        edits: list[Any] = [correction(name)(self._fill(arm)) for name in arm.corrections if name in _CORRECTIONS]
        parts = [_SPLICES[name] for name in arm.corrections if name in _SPLICES]
        return [*edits, Splice(self._heads(prompt, arm.split or 0), parts)] if parts else edits

    def _heads(self, prompt: tuple[int, ...], split: int) -> Any:
        """What the late layers write of a prompt in an exact run, computed once for all arms that splice it."""
        import torch

        from ridgefill.splice import exact_heads

        if self._exact is None or self._exact[:2] != (prompt, split):
            ids = torch.tensor([prompt], device=self._model.device)
            self._exact = (prompt, split, exact_heads(self._model, ids, split))
        return self._exact[2]

    def close(self) -> None:
        self._maps.clear()
        self._selectors.clear()
        self._baseline = self._exact = None


def deployed(name: str) -> str:
    """What a deployment stands for, in a line. Raises ridgefill's FillUsageError for an unknown name."""
    from ridgefill.deployments import deployment

    return deployment(name).about


def _undeployed(name: str) -> str:
    """Why there is no deployment of this name; "" if there is one. They can be read without torch."""
    from ridgefill.deployments import DEPLOYMENTS

    return "" if name in DEPLOYMENTS else f"deployments are {', '.join(DEPLOYMENTS)}, not {name!r}"


def _kept(layer: Any) -> list[Tensor]:
    """What a layer of a cache holds: keys and values, or the states of a recurrent layer, one a group."""
    import torch

    held = [each for value in vars(layer).values() for each in (value.values() if isinstance(value, dict) else [value])]
    return [each for each in held if isinstance(each, torch.Tensor)]


def _notes(arm: Arm, plan: Any) -> dict[str, str]:
    """A prompt that was to be filled and ran exactly must not count as filled unseen."""
    return {"exactly": plan.exactly} if arm.fill != "exact" and plan is not None and plan.exactly else {}


ENGINE = Reference()
