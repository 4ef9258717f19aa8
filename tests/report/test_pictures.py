"""What the page's chart draws is what matplotlib was told to draw."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from adaprivate.report.pictures import MOST_POINTS, OKABE_ITO, draw, read


@pytest.fixture
def axes():
    return Figure().subplots()


def test_a_line_with_its_band(axes):
    (line,) = axes.plot([1, 2, 4], [10, 20, 30], "o--", color=OKABE_ITO[2], lw=3, label="ours")
    axes.fill_between([1, 2, 4], [9, 18, 27], [11, 22, 33], color=line.get_color(), alpha=0.1)
    axes.plot([1, 2, 4], [5, 5, 5], color=OKABE_ITO[2])
    axes.set(xscale="log", xlabel="epsilon", ylabel="share")
    found = read(axes)
    assert found["along"] == "x"
    assert (found["x"]["label"], found["x"]["scale"], found["y"]["scale"]) == ("epsilon", "log", "linear")
    ours, other = found["series"]
    assert ours["points"] == [[1, 10, 9, 11], [2, 20, 18, 22], [4, 30, 27, 33]]
    assert (ours["name"], ours["slot"], ours["band"], ours["strong"], ours["dots"]) == ("ours", 2, True, True, True)
    assert ours["dash"]
    assert other["name"] == ""
    assert other["points"][0] == [1, 5, None, None]


def test_error_bars_levels_and_names_of_ticks(axes):
    axes.errorbar([0, 1], [3, 4], yerr=[0.5, 1.0], label="measured", capsize=3)
    axes.axhline(2, ls=":", color="0.5", label="random play")
    axes.set_xticks([0, 1], ["few", "many"])
    measured, level = read(axes)["series"]
    assert measured["points"] == [[0, 3, 2.5, 3.5], [1, 4, 3, 5]]
    assert (level["level"], level["slot"], level["points"][0][1]) == (True, "soft", 2)
    assert read(axes)["x"]["ticks"] == [[0, "few"], [1, "many"]]


def test_bars_become_dots_on_named_rows_from_above(axes):
    axes.barh([0, 1], [7, 8], 0.3, xerr=[1, 2], label="epsilon 1")
    axes.set_yticks([0, 1], ["first", "second"])
    axes.invert_yaxis()
    found = read(axes)
    assert found["along"] == "y"
    assert found["y"]["ticks"] == [[0, "first"], [1, "second"]]
    assert [[round(v, 9) for v in p] for p in found["series"][0]["points"]] == [[0, 7, 6, 8], [1, 8, 6, 10]]


def test_dots_of_two_colours_beside_a_reference(axes):
    axes.scatter([0.5, 3.0], [0, 1], c=["tab:blue", "tab:red"])
    axes.axvline(1)
    axes.set_yticks([0, 1], ["kept", "broken"])
    found = read(axes)
    assert found["reference"] == 1
    (dots,) = found["series"]
    kept, broken = sorted(dots["points"], key=lambda point: point[1])
    assert (kept[:2], broken[:2]) == ([1, 0.5], [0, 3.0])  # not turned round: the last row is on top
    assert kept[4] != broken[4]


def test_a_range_alone_and_lines_of_one_colour_are_told_apart(axes):
    axes.fill_between([1, 2], [3, 4], [5, 6], label="printed")
    for k in range(2):
        axes.plot([1, 2], [k, k], color="black", label=f"line {k}")
    first, second, printed = read(axes)["series"]
    assert printed["points"] == [[1, 4, 3, 5], [2, 5, 4, 6]]
    assert printed["band"]
    assert first["slot"] == second["slot"] == "ink"
    assert first["dash"] != second["dash"]


def test_long_lines_keep_their_ends_and_gaps_are_left_out(axes):
    values = np.linspace(0, 1, 1000)
    values[3] = np.nan
    axes.plot(np.arange(1000), values)
    points = read(axes)["series"][0]["points"]
    assert len(points) <= MOST_POINTS + 1
    assert (points[0][:2], points[-1][:2]) == ([0, 0], [999, 1])


def test_a_picture_of_cells_stays_as_it_is(tmp_path):
    svg, chart = draw(lambda rows, axes: axes.imshow([[1, 2]]), [], tmp_path / "cells.svg")
    assert chart is None
    assert svg.startswith("<svg")
    assert (tmp_path / "cells.svg").exists()
