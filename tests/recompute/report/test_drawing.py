"""A plot as a file of its own: whole, the same again, and with every value of the chart in it."""

from __future__ import annotations

from types import ModuleType
from xml.etree import ElementTree

from recompute.report.charts import Chart, charts
from recompute.report.drawing import to_svg
from recompute.report.model import Report
from recompute.reported import Plot, Reported

SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart) -> ElementTree.Element:
    """The parsed file; there is nothing in it that could be loaded."""
    text = to_svg(chart)
    assert text == to_svg(chart)
    assert not any(word in text for word in ("href", "url(http", "@import", "<script"))
    return ElementTree.fromstring(text)  # noqa: S314 - our own


def test_every_value_is_drawn_and_told(samples: ModuleType) -> None:
    for chart in (*charts(samples.sample()), *charts(samples.crowded())):
        root = drawn(chart)
        points = [(series.name, point) for series in chart.series for point in series.points]
        titles = [one.text for one in root.iter(f"{SVG}title")]
        assert titles == [chart.plot.title, *(f"{name}, {point.label}: {point.text}" for name, point in points)]
        about = root.find(f"{SVG}desc")
        assert about is not None
        assert all(f"{point.label} {point.text}" in (about.text or "") for _, point in points)
        names = [series.name for series in chart.series]
        assert names == [one.text for one in root.findall(f"{SVG}g/{SVG}text")]


def test_names_are_text_and_never_markup(samples: ModuleType) -> None:
    (chart,) = charts(samples.renamed("<b>&\"'"))
    assert next(drawn(chart).iter(f"{SVG}title")).text == "<b>&\"'"


def test_a_plot_without_values_is_an_empty_field() -> None:
    (chart,) = charts(Report("s", False, (), reported=Reported(plots=(Plot(table="nosuch", title="Nothing"),))))
    assert drawn(chart).find(f"{SVG}g") is None
