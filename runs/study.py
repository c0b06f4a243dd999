"""What a study is: models, maps, data sets, arms and tasks, as study.toml states them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SerializeAsAny, field_validator, model_validator

from ledger.events.base import Hash, Part, Slug
from provenance.pins import Walk
from runs.server import Server
from runs.tasks.base import Task

Names = Annotated[tuple[str, ...], Field(strict=False)]


def _plain(value: Any) -> str | int | bool:
    if not isinstance(value, str | int | bool):
        raise ValueError("expected text, a whole number, true or false")
    return value


Flag = Annotated[Any, AfterValidator(_plain)]
_DEPLOYED = ("split", "tail", "rows", "share", "corrections")  # what a deployment decides


class Input(Part):
    """A file or folder that a run reads: where it lies (`provenance.sources`) and which bytes it must be.

    only, ignore: patterns for a folder, as in `provenance.pins.Walk`.
    """

    source: str = Field(min_length=1)
    digest: Hash | None = None
    only: Names = ()
    ignore: Names = ()

    @property
    def walk(self) -> Walk:
        """How a folder is walked."""
        return Walk(only=self.only, ignore=self.ignore)


class Build(Part):
    """What an engine must be, where it matters: package versions, files by their names, or the digest of the whole.

    server: the server that it is about, of those that the study names; reports: what that says of itself.
    """

    engine: Slug
    server: Slug | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    files: dict[str, Hash] = Field(default_factory=dict)
    reports: dict[str, Flag] = Field(default_factory=dict)
    digest: Hash | None = None


class Arm(Part):
    """One way of answering: an engine, a model, and how its prompts are prefilled.

    fill: what stands in for the late layers' inputs at the rows of the prefix; split: the first layer that
    filled rows do not run; tail: the last tokens that run exactly; rows: the selector of prefix rows that run
    exactly too; share: how many these are, as a share of the prompt, instead of the selector's own budget;
    corrections: of what filled rows write; flags: what only the engine knows; server: what it asks, if it asks one.
    """

    engine: Slug
    model: Slug
    fill: Literal["exact", "no-fill", "identity", "map"] = "exact"
    maps: Slug | None = None
    split: int | None = Field(default=None, ge=1)
    tail: int = Field(default=512, ge=1)
    rows: str = ""
    share: float | None = Field(default=None, gt=0, lt=1)
    corrections: Names = ()
    deployment: str = ""
    dtype: str = "fp32"
    flags: dict[str, Flag] = Field(default_factory=dict)
    server: Slug | None = None

    @property
    def session(self) -> tuple[Any, ...]:
        """What arms must share to be answered by one opened engine."""
        asked = (self.server,) if self.server else ()
        return (self.engine, self.model, self.dtype, tuple(sorted(self.flags.items())), *asked)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Arm:
        if self.fill == "exact" and (self.split or self.maps or self.rows or self.corrections or self.deployment):
            raise ValueError("an exact arm has no split, maps, rows, corrections or deployment; did you forget fill?")
        if self.deployment and (beside := [name for name in _DEPLOYED if name in self.model_fields_set]):
            raise ValueError(
                f"the deployment {self.deployment!r} decides {', '.join(_DEPLOYED)}: no {beside[0]} beside it"
            )
        if self.fill != "exact" and self.split is None and not self.deployment:
            raise ValueError(f"fill = {self.fill!r} needs a split, or a deployment that has one")
        if (self.fill == "map") != (self.maps is not None):
            raise ValueError("fill = 'map' needs maps, and no other fill has them")
        if self.share is not None and not self.rows:
            raise ValueError("a share of which rows? name a selector: rows")
        return self


class Study(Part):
    """A whole study. `tasks` are of the classes in `runs.tasks`.

    pairing: "sample" answers one sample with every arm, in one session, before the next; "none" goes arm by
    arm. clean_source: refuse to run unless our own source is exactly a commit.
    """

    name: Slug
    seeds: Annotated[tuple[int, ...], Field(strict=False, min_length=1)] = (0,)
    pairing: Literal["sample", "none"] = "sample"
    clean_source: bool = False
    models: dict[Slug, Input]
    maps: dict[Slug, Input] = Field(default_factory=dict)
    datasets: dict[Slug, Input] = Field(default_factory=dict)
    builds: dict[Slug, Build] = Field(default_factory=dict)
    servers: dict[Slug, Server] = Field(default_factory=dict)
    arms: dict[Slug, Arm]
    tasks: dict[Slug, SerializeAsAny[Task]]

    @field_validator("seeds")
    @classmethod
    def _different(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("a seed stands twice")
        return seeds

    def arms_of(self, task: str) -> tuple[str, ...]:
        """The arms that answer a task, in the study's order."""
        chosen = self.tasks[task].arms
        return tuple(name for name in self.arms if not chosen or name in chosen)
