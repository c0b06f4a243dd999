"""The group `ridgefill maps`: each command in its own file, imported when it is asked for."""

from __future__ import annotations

import click

from ledger.console import LazyGroup

MEMBERS = {
    "fit": ("ridgefill.commands.maps_fit:fit", "Fit maps for a model from texts."),
    "correct": ("ridgefill.commands.maps_correct:correct", "Measure and store a correction of recurrent states."),
    "table": ("ridgefill.commands.maps_table:table", "Compare no fill, identity and map with exact."),
    "inspect": ("ridgefill.commands.maps_folder:inspect", "Say what a map folder holds."),
    "verify": ("ridgefill.commands.maps_folder:verify", "Check a map folder's files, and that it fits a model."),
    "convert": ("ridgefill.commands.maps_folder:convert", "Rewrite maps in bf16, int8 or a GGUF's Q8_0."),
    "cost": ("ridgefill.commands.maps_cost:cost", "Count a prefill's multiply-accumulates, against POP."),
}


@click.group(cls=LazyGroup, members=MEMBERS)
def maps() -> None:
    """Fit, inspect, verify, convert and cost the ridge maps.

    A model is named by a source: pypi:NAME==VERSION#FILE, path:DIR, path:FILE.gguf or hf:ORG/NAME@REVISION.
    """
