"""One plot of a study as an SVG file of its own, for a README or a paper."""

from __future__ import annotations

from itertools import accumulate

from recompute.report.charts import Chart
from recompute.report.page import environment, stylesheet

WIDTH = 640
_KEY, _LETTER = 64, 6.4  # px of a key's mark and room, and of a letter of its name


def to_svg(chart: Chart) -> str:
    """The drawing. The same chart gives the same bytes; it follows the reader's light or dark, and loads nothing."""
    rooms = (_KEY + _LETTER * len(one.name) for one in chart.series[:-1])
    lefts = [round(left, 1) for left in accumulate(rooms, initial=20.0)]
    svg = environment().get_template("plot.svg.j2")
    key = list(zip(chart.series, lefts, strict=False))
    return svg.render(chart=chart, key=key, width=WIDTH, style=stylesheet("drawing.css"))
