"""An experiment's plot, drawn once with matplotlib: as NAME.svg, and as what the page's own chart draws of it.

The page's chart has lines, dots, bars (as dots with whiskers), bands and levels, in the page's colours, light or dark, and
says its values when it is pointed at. A plot that has anything else (a picture of cells) is shown as matplotlib draws it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adaprivate import extras

Plot = Callable[[Sequence[Any], Any], None]
OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a800", "#6b4fa0")
"""Colours that are told apart without seeing red or green; the two last, of lines beyond its six, are ours."""
_DASHES = {"-": "", "--": "7 5", ":": "2 4", "-.": "8 4 2 4"}
MOST_POINTS = 120


def draw(plot: Plot, rows: Sequence[Any], file: Path) -> tuple[str, dict[str, Any] | None]:
    """Write the picture; its SVG, and what the page's chart draws, None where it cannot."""
    with extras.needed():
        import matplotlib as mpl
        from cycler import cycler
        from matplotlib.figure import Figure

    look: Any = {
        "svg.hashsalt": "adaprivate",
        "svg.fonttype": "none",
        "axes.prop_cycle": cycler(color=OKABE_ITO),
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(look):
        figure = Figure(figsize=(9, 5), layout="constrained")
        axes = figure.subplots()
        plot(rows, axes)
        found = read(axes)
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    text = drawing.getvalue()
    file.write_text(text, encoding="utf-8")
    return text[text.index("<svg") :], found


def read(axes: Any) -> dict[str, Any] | None:
    """What axes show, as plain values for the page's chart; None if there is more than it can draw."""
    from matplotlib.collections import LineCollection, PathCollection, PolyCollection

    if axes.images:
        return None
    reader = _Reader(axes)
    for container in axes.containers:
        reader.container(container)
    for line in axes.lines:
        reader.line(line)
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            reader.scatter(collection)
        elif isinstance(collection, PolyCollection):
            reader.band(collection)
        elif isinstance(collection, LineCollection) and not reader.is_known(collection):
            reader.levels(collection)
    return reader.found()


class _Reader:
    """Series as they are found, and colours as they are met."""

    def __init__(self, axes: Any) -> None:
        self._axes = axes
        self._slots: dict[str, int] = {}
        self._known: set[int] = set()
        self._reference: float | None = None
        self._series: list[dict[str, Any]] = []
        self._colours: list[str] = []
        self._x, self._y = (
            self._axis(axis, scale) for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale()))
        )
        self._along = "y" if self._y["ticks"] and not self._x["ticks"] else "x"
        self._named = {id(artist): label for artist, label in zip(*axes.get_legend_handles_labels(), strict=True)}

    @staticmethod
    def _axis(axis: Any, scale: str) -> dict[str, Any]:
        from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

        ticks, write = None, axis.get_major_formatter()
        if isinstance(axis.get_major_locator(), FixedLocator):
            named = isinstance(write, FixedFormatter | FuncFormatter)
            places = [float(at) for at in axis.get_majorticklocs()]
            ticks = [[at, str(write(at, k)) if named else f"{at:g}"] for k, at in enumerate(places)]
        kind = "log" if scale == "log" else "linear"
        return {"label": axis.get_label_text().replace("\n", " "), "scale": kind, "ticks": ticks}

    def is_known(self, artist: Any) -> bool:
        return id(artist) in self._known

    def _slot(self, colour: Any) -> int | str:
        from matplotlib.colors import to_hex, to_rgb

        red, green, blue = to_rgb(colour)
        if max(red, green, blue) - min(red, green, blue) < 0.03:
            return "ink" if red < 0.3 else "soft"
        name = to_hex((red, green, blue))
        if name in OKABE_ITO:
            return OKABE_ITO.index(name)
        free = [k for k in range(8) if k not in self._slots.values()]
        return self._slots.setdefault(name, free[0] if free else len(self._slots) % 8)

    def _add(self, points: Any, colour: Any, name: str, **look: Any) -> dict[str, Any]:
        from matplotlib.colors import to_hex

        series = {"name": "" if name.startswith("_") else name, "slot": self._slot(colour), "points": points, **look}
        self._series.append(series)
        self._colours.append(to_hex(colour))
        return series

    def _points(self, xs: Any, ys: Any, spread: Sequence[tuple[float, float]] | None = None) -> list[list[float | None]]:
        """[place, value, low, high] along the axis that has the places."""
        found: list[list[float | None]] = []
        pairs = zip(ys, xs, strict=True) if self._along == "y" else zip(xs, ys, strict=True)
        for i, (place, value) in enumerate(pairs):
            if math.isfinite(float(value)):
                low, high = (None, None) if spread is None else spread[i]
                found.append([float(place), float(value), low, high])
        return found

    def line(self, line: Any) -> None:
        if self.is_known(line):
            return
        on_x, on_y = line.get_transform().contains_branch_seperately(self._axes.transData)
        xs, ys = np.ravel(line.get_xdata()), np.ravel(line.get_ydata())
        if len(xs) == 0:
            return
        name, dash = str(line.get_label()), _DASHES.get(line.get_linestyle(), "")
        if on_y and not on_x:
            self._add([[0.0, float(ys[0]), None, None]], line.get_color(), name, level=True, dash=dash)
            return
        if on_x and not on_y:
            self._reference = float(xs[0])
            return
        every = max(1, math.ceil(len(xs) / MOST_POINTS))
        keep = sorted({*range(0, len(xs), every), len(xs) - 1})
        joined = line.get_linestyle() not in ("None", "", " ") and len(xs) > 1
        marker = line.get_marker()
        dots: Any = False if marker in ("None", "", None) and joined else "cross" if marker in ("x", "+") else True
        strong = line.get_linewidth() >= 2.2
        self._add(
            self._points(xs[keep], ys[keep]), line.get_color(), name, line=joined, dots=dots, dash=dash, strong=strong
        )

    def container(self, container: Any) -> None:
        from matplotlib.container import BarContainer, ErrorbarContainer

        if isinstance(container, BarContainer):
            bars = container.errorbar
            if bars is not None:
                self._know(bars)
            flat = container.orientation == "horizontal"
            xs = [p.get_width() if flat else p.get_x() + p.get_width() / 2 for p in container.patches]
            ys = [p.get_y() + p.get_height() / 2 if flat else p.get_height() for p in container.patches]
            spread = None if bars is None else self._spread(bars)
            colour = container.patches[0].get_facecolor()
            self._add(self._points(xs, ys, spread), colour, str(container.get_label()), line=False, dots=True)
        elif (
            isinstance(container, ErrorbarContainer)
            and container.lines[0] is not None
            and not self.is_known(container.lines[0])
        ):
            self._know(container)
            before = len(self._series)
            line = container.lines[0]
            self._known.discard(id(line))
            self.line(line)
            self._known.add(id(line))
            if len(self._series) == before:
                return
            series = self._series[before]
            series["name"] = str(container.get_label())
            series["dots"] = series["dots"] or True
            at, values = np.ravel(line.get_xdata()), np.ravel(line.get_ydata())
            series["points"] = self._points(at, values, self._spread(container))

    def _know(self, container: Any) -> None:
        data, caps, bars = container.lines
        self._known |= {id(artist) for artist in (data, *caps, *bars) if artist is not None}

    @staticmethod
    def _spread(container: Any) -> list[tuple[float, float]]:
        segments = container.lines[2][0].get_segments()
        column = 0 if container.has_xerr else 1
        return [
            (float(np.min(s[:, column])), float(np.max(s[:, column]))) if len(s) else (math.nan, math.nan) for s in segments
        ]

    def scatter(self, collection: Any) -> None:
        places = np.asarray(collection.get_offsets())
        points = self._points(places[:, 0], places[:, 1])
        colours = collection.get_facecolors()
        if len(colours) == len(points) > 1:
            for point, colour in zip(points, colours, strict=True):
                point.append(self._slot(colour))  # type: ignore[arg-type]
        self._add(points, colours[0], str(collection.get_label()), line=False, dots=True)

    def band(self, collection: Any) -> None:
        """Of the line of its colour that has the same places, or alone."""
        from matplotlib.colors import to_hex

        vertices = collection.get_paths()[0].vertices[:-1]
        edges: dict[float, list[float]] = {}
        for x, y in vertices:
            edges.setdefault(float(x), []).append(float(y))
        colour = to_hex(collection.get_facecolor()[0][:3])
        owners = [
            s
            for s, own in zip(self._series, self._colours, strict=True)
            if own == colour and s.get("line") and not s.get("band")
        ]
        owner = next((s for s in owners if all(p[0] in edges for p in s["points"])), None)
        if owner is None:
            places = sorted(edges)
            points = [[x, (min(edges[x]) + max(edges[x])) / 2, min(edges[x]), max(edges[x])] for x in places]
            self._add(
                points, collection.get_facecolor()[0][:3], str(collection.get_label()), line=False, dots=False, band=True
            )
            return
        owner["band"] = True
        for point in owner["points"]:
            point[2:4] = [min(edges[point[0]]), max(edges[point[0]])]

    def levels(self, collection: Any) -> None:
        """Short lines (hlines): from one place to another at one value."""
        if self._along == "y":
            return
        for segment in collection.get_segments():
            points = self._points(segment[:, 0], segment[:, 1])
            self._add(points, collection.get_colors()[0], "_", line=True, dots=False, dash="2 4")

    def found(self) -> dict[str, Any] | None:
        shown = [series for series in self._series if series["points"]]
        if not shown:
            return None
        for series in shown:
            for point in series["points"]:
                point[1:4] = [None if v is None or not math.isfinite(v) else _rounded(v) for v in point[1:4]]
        met: dict[tuple[Any, str], int] = {}
        for series in shown:  # a colour that comes back is told apart by its dashes
            again = met.get((series["slot"], series.get("dash", "")), 0)
            met[series["slot"], series.get("dash", "")] = again + 1
            if again and (series.get("line") or series.get("level")) and series["name"] and not series.get("dash"):
                series["dash"] = ("", "7 5", "2 4", "8 4 2 4")[again % 4]
        if self._along == "y":
            self._rows(shown)
        return {"x": self._x, "y": self._y, "along": self._along, "series": shown, "reference": self._reference}

    def _rows(self, shown: list[dict[str, Any]]) -> None:
        """Names of rows from above: 0, 1, 2 ..."""
        ticks = sorted(self._y["ticks"])
        if not self._axes.yaxis_inverted():
            ticks.reverse()
        place = {at: k for k, (at, _) in enumerate(ticks)}
        for series in shown:
            for point in series["points"]:
                nearest = min(place, key=lambda at: abs(at - point[0]))
                offset = point[0] - nearest
                point[0] = place[nearest] + (offset if self._axes.yaxis_inverted() else -offset)
        self._y["ticks"] = [[k, text] for k, (_, text) in enumerate(ticks)]


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
