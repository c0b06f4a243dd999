"""Printed numbers against each other: what can be checked of a text whose samples nobody has. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from recompute.bound import Bindings, Bound
from recompute.boxes import NoBox
from recompute.check import contradict, prints, told
from recompute.equations import Equation, Reference, meets, parse
from recompute.misreadings import Case, likely
from recompute.reported import REPORTED_FILE, Relation, Reported
from recompute.standing import FAILS, Checked, Standing
from runs.crosscheck import nearest


def check_relations(reported: Reported, bindings: Bindings) -> list[Checked]:
    """The standing of every number that is printed only: one each, of the first relation about it that fails, or else
    that holds; what is an input of one that holds, or printed twice alike, stands with it; the rest is unbound.

    Of numbers that have samples only failing relations are told: they have their standing from the samples.
    """
    web = _Web(bindings, reported.let)
    for at, relation in enumerate(reported.relations):
        web.examine(relation, reported.lines.get(("relation", at), 1))
    web.explain()
    return [*web.missing, *(checked for bound in bindings.bounds for checked in web.stands(bound))]


@dataclass
class _Web:
    """Relations as they are examined. about: what is told of the number on the left; inputs: of those on the right,
    whether a relation holds that they are in, and its id; holding: by number, the relations that hold; broken: by the
    number on the left, the relation that `about` tells of."""

    bindings: Bindings
    let: Mapping[str, str]
    missing: list[Checked] = field(default_factory=list)
    about: dict[Reference, Checked] = field(default_factory=dict)
    inputs: dict[Reference, tuple[bool, str]] = field(default_factory=dict)
    holding: dict[Reference, list[Equation]] = field(default_factory=lambda: defaultdict(list))
    broken: dict[Reference, Equation] = field(default_factory=dict)

    def examine(self, relation: Relation, line: int) -> None:
        """Hold one relation; a failure stays, whatever else holds."""
        equation = parse(relation.holds, self.let)
        if (texts := _texts(equation, self.bindings)) is not None:
            self._compare(relation, *texts)
            return
        for reference in (equation.left, *equation.names.values()):
            if reference not in self.bindings.printed:
                self.missing.append(self._unprinted(reference, relation, line))
                return
        checked = _examine(relation, equation, self.bindings)
        fails = checked.standing in FAILS
        before = self.about.get(equation.left)
        if before is None or (fails and before.standing not in FAILS):
            self.about[equation.left] = checked
            if fails and not relation.note:  # whoever states the relation has said why
                self.broken[equation.left] = equation
        sure = not fails and equation.granule is None  # many a wrong number is a number of items too
        for reference in (equation.left, *equation.names.values()) if sure else ():
            self.holding[reference].append(equation)
        for reference in equation.names.values():
            self.inputs[reference] = max(self.inputs.get(reference, (False, "")), (not fails, relation.id))

    def explain(self) -> None:
        """Say the likely cause of each failure, now that it is known which relations hold."""
        for reference, equation in self.broken.items():
            bounds = {name: self.bindings.printed[one][0] for name, one in equation.names.items()}
            case = Case(equation, self.bindings.printed[reference][0], bounds, self.bindings, self._vouched)
            checked = self.about[reference]
            self.about[reference] = replace(checked, cause="; ".join(filter(None, (checked.cause, likely(case)))))

    def _vouched(self, bound: Bound) -> bool:
        """Whether a relation holds that would not if the number were a tenth larger."""
        reference = (bound.id, bound.slot)
        larger = replace(bound.digits, value=(bound.digits.value or 1) * Fraction(11, 10))
        for equation in self.holding.get(reference, ()):
            numbers = {name: self.bindings.printed[one][0].digits for name, one in equation.names.items()}
            left = larger if equation.left == reference else self.bindings.printed[equation.left][0].digits
            changed = {name: larger if equation.names[name] == reference else one for name, one in numbers.items()}
            try:
                if not meets(left, equation.target(changed)):
                    return True
            except NoBox:
                return True
        return False

    def _compare(self, relation: Relation, one: Bound, other: Bound) -> None:
        """Hold two texts against each other: alike, or one the beginning of the other."""
        mine, theirs = (bound.number.text if bound.number else "" for bound in (one, other))
        alike = mine.startswith(theirs) or theirs.startswith(mine)
        standing = Standing.RELATION_ONLY if alike else Standing.MISMATCH
        rule = f"relation {relation.id}: {relation.holds}"
        self.about.setdefault((one.id, "value"), told(one, standing, recomputed=theirs, rule=rule))
        self.inputs[other.id, "value"] = max(self.inputs.get((other.id, "value"), (False, "")), (alike, relation.id))

    def _unprinted(self, reference: Reference, relation: Relation, line: int) -> Checked:
        name, slot = reference
        known = {bound.id for bound in self.bindings.bounds}
        why = "no number is printed for it" if name in known else f"no cell is called {name!r}{nearest(name, known)}"
        rule = f"relation {relation.id}"
        return Checked(Standing.MISSING, REPORTED_FILE, line, value=name, slot=slot, rule=rule, cause=why)

    def stands(self, bound: Bound) -> Iterator[Checked]:
        """What is told of one place of a number."""
        reference = (bound.id, bound.slot)
        if bound.named:
            yield self.about.get(reference) or self._alone(bound)
            return
        if bound.number is None or bound.number.value is None:
            if bound.spec is None and bound.why:
                yield told(bound, Standing.MISSING, cause=bound.why)
            return
        first, *others = self.bindings.printed[reference]
        about = self.about.get(reference) if bound is first else None
        if about is not None and (bound.spec is None or about.standing in FAILS):
            yield about
        elif bound.spec is None:
            yield self._without(bound, first, others)

    def _without(self, bound: Bound, first: Bound, others: list[Bound]) -> Checked:
        """A printed number that no relation is about, here."""
        if bound is not first and contradict(bound, first):
            return told(bound, Standing.MISMATCH, rule="one value, two places", cause=prints(first))
        alike = [other for other in ([first] if bound is not first else others) if not contradict(bound, other)]
        if alike:
            return told(bound, Standing.RELATION_ONLY, rule=f"{prints(alike[0])} too")
        return self._alone(bound)

    def _alone(self, bound: Bound) -> Checked:
        """What no relation is about: an input of one, or unbound."""
        holds, relation = self.inputs.get((bound.id, bound.slot), (False, ""))
        if holds:
            return told(bound, Standing.RELATION_ONLY, rule=f"an input of relation {relation}")
        rule = f"only relation {relation} speaks of it, and fails" if relation else "no relation speaks of it"
        return told(bound, Standing.UNBOUND, rule=rule)


def _texts(equation: Equation, bindings: Bindings) -> tuple[Bound, Bound] | None:
    """Both sides of `{a} = {b}` where a is a text; None for every other relation, and where b is none."""
    left, *others = equation.left[0], *(name for name, _ in equation.names.values())
    if left not in bindings.named or len(others) != 1 or others[0] not in bindings.named:
        return None
    return bindings.named[left], bindings.named[others[0]]


def _examine(relation: Relation, equation: Equation, bindings: Bindings) -> Checked:
    """The standing of the number on the left by one relation."""
    left = bindings.printed[equation.left][0]
    numbers = {name: bindings.printed[reference][0].digits for name, reference in equation.names.items()}
    rule = f"relation {relation.id}: {relation.holds}" + (f"; {relation.note}" if relation.note else "")
    try:
        shown = equation.shown(left.digits, numbers)
        holds = meets(left.digits, equation.target(numbers))
        return told(left, Standing.RELATION_ONLY if holds else Standing.MISMATCH, recomputed=shown, rule=rule)
    except NoBox as refused:
        return told(left, Standing.REFUSED, rule=rule, cause=str(refused))
