"""Verdicts say no more than the seeds support, and the same in the terminal, in JSON and on the page."""

import html
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from adaprivate import experiments, report
from adaprivate.experiments import Cell, Experiment, compared, not_comparable, unsound
from adaprivate.report.verdicts import detail, said
from adaprivate_papers import ts_ratings, ts_tables
from adaprivate_papers._cells import cell as measured


def level(row, ours, sem=1.0):
    return compared(row, "level", 90.0, ours, sem, abs(ours - 90.0), 3 * sem)


CELLS = {
    "near": level("near", 92.0),
    "far": level("far", 80.0),
    "elsewhere": not_comparable(level("elsewhere", 80.0)),
    "cheat, near": unsound(level("cheat, near", 91.0)),
    "cheat, far": unsound(level("cheat, far", 77.0)),
    "cheat elsewhere": unsound(not_comparable(level("cheat elsewhere", 77.0))),
    "slow": level("slow", 80.0),
    "formula": Cell("formula", "level", 1.0, 2.0, None, "differs", computed=True),
    "ours alone": Cell("ours alone", "level", None, 2.0, None, "not-in-paper"),
}
ROWS = [{"row": row, **({"most_seeds": 2} if row == "slow" else {})} for row in CELLS]
WORDS = {
    "near": "agrees (within 3)",
    "far": "differs (by more than 3)",
    "elsewhere": "not comparable",
    "cheat, near": "unsound as published (its number agrees within 3)",
    "cheat, far": "unsound as published (its number differs by more than 3)",
    "cheat elsewhere": "unsound as published (its number not comparable)",
    "slow": "not judged (2 seeds)",
    "formula": "differs",
    "ours alone": "",
}


def made(seeds=12, quick=None):
    settings = ROWS
    return Experiment(
        "made",
        "Doe 2020",
        "Made.",
        settings,
        dict,
        seeds,
        lambda rows: list(CELLS.values()),
        None,
        quick or settings,
        False,
    )


def words(cells):
    return {cell.row: said(cell) for cell in cells}


def test_every_verdict_in_words_and_one_row_of_two_seeds_has_none():
    cells = made().judged(ROWS, 12)
    assert words(cells) == WORDS
    assert report.seeds_line(cells) == "12 seeds (slow: 2)"
    assert {cell.row: cell.seeds for cell in cells} == dict.fromkeys(CELLS, 12) | {"slow": 2, "formula": None}


@pytest.mark.parametrize(("seeds", "quick"), [(2, False), (3, True)])
def test_two_seeds_and_a_quick_run_support_no_verdict(seeds, quick):
    found = {cell.row: cell for cell in made().judged(ROWS, seeds, quick=quick)}
    assert {found[row].verdict for row in ("near", "far", "slow")} == {"none"}
    assert [found[row].number for row in ("cheat, near", "cheat, far", "cheat elsewhere")] == [
        "none",
        "none",
        "not-comparable",
    ]
    assert all(found[row].verdict == "unsound-as-published" for row in found if row.startswith("cheat"))
    assert found["formula"].verdict == "differs"
    assert said(found["near"]) == ("not judged (3 seeds, cut short)" if quick else "not judged (2 seeds)")
    why = {"a first look that was cut short", "fewer than three seeds"} if quick else {"fewer than three seeds"}
    (line,) = [line for line in report.meaning_lines(found.values()) if line.startswith("not judged")]
    assert set(line.removeprefix("not judged: Too little to say: ").rstrip(".").split(" or ")) == why


def test_a_quick_run_that_cuts_nothing_is_judged():
    assert words(made(seeds=3).judged(ROWS, 3, quick=True))["near"] == "agrees (within 3)"
    assert words(made(seeds=3, quick=ROWS[:]).judged(ROWS, 3, quick=True))["near"].startswith("not judged")
    assert words(made(seeds=1).judged(ROWS, 1, quick=True))["near"] == "agrees (within 3)"  # nothing is random


def test_the_terminal_json_and_the_page_say_the_same(tmp_path):
    cells = made().judged(ROWS, 12)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.cell_table("made", cells))
    told = console.export_text()
    page = report.write_page(tmp_path, "made", source="Doe 2020", about="Made?", cells=cells)
    said_there = html.unescape(page.read_text(encoding="utf-8"))
    stored = json.loads((tmp_path / "made.json").read_text())["cells"]
    assert {cell["row"]: cell["says"] for cell in stored} == WORDS
    for cell in cells:
        assert said(cell) in told
        assert detail(cell) in said_there
        assert said(SimpleNamespace(**{key: value for key, value in stored[0].items() if key != "says"})) == WORDS["near"]
    assert report.verdict_line(cells) == (
        "Printed values: 1 agrees, 2 differ, 3 unsound as published, 1 not comparable, 1 not judged"
    )
    assert len(report.meaning_lines(cells)) == 5


@pytest.mark.parametrize("half", [ts_ratings.Table3Jester, ts_ratings.Table3MovieLens])
def test_levels_of_another_protocol_are_not_compared_and_slow_rows_have_their_own_seeds(half, monkeypatch):
    def levels(rows, printed):
        return [measured(row, column, value, 99.0, 1.0) for (row, column), value in printed.items()]

    monkeypatch.setattr(ts_ratings, "level_cells", levels)
    monkeypatch.setattr(ts_ratings, "click_rate", lambda row: (0.4, 0.01))
    monkeypatch.setattr(ts_ratings, "paired_points", lambda *runs: (-2.0, 0.5))
    monkeypatch.setattr(ts_ratings, "reward_rate", lambda run, rounds: np.arange(4.0))
    rows = [{**setting, "runs": [0] * setting.get("most_seeds", 12)} for setting in half.SETTINGS]
    made = experiments.experiment(half.NAME).judged(rows, 12)
    assert report.seeds_line(made) == "12 seeds (DGS-LinUCB: 2; JDP-LinUCB (joint): 4)"
    cells = [cell for cell in made if cell.paper is not None]
    leads = [cell for cell in cells if cell.row == "TS - UCB (points)"]
    assert {cell.verdict for cell in leads} == {"differs"}
    assert {cell.tolerance for cell in leads} == {1.5}
    cheats = [cell for cell in cells if cell.row == "zCDP-Episodic"]
    assert {(cell.verdict, cell.number) for cell in cheats} == {("unsound-as-published", "not-comparable")}
    assert {cell.verdict for cell in cells if cell not in leads + cheats} == {"not-comparable"}


@pytest.mark.parametrize(
    ("table", "unsound"), [(ts_tables.Table2, ts_tables.SAMPLED_UNSOUND), (ts_tables.Table4, ts_tables.STEPS_UNSOUND)]
)
def test_what_is_unsound_says_whether_its_number_agrees(table, unsound, monkeypatch):
    def levels(rows, printed):
        return [compared(row, column, mean, mean, 0.1, 0.0, 1.0) for (row, column), (mean, _) in printed.items()]

    monkeypatch.setattr(ts_tables, "percent_cells", levels)
    monkeypatch.setattr(ts_tables, "paired_points", lambda *_: (0.0, 1.0))
    rows = [{**setting, "runs": [0] * 12, "baseline": [0] * 12} for setting in table.SETTINGS]
    found = [cell for cell in table().compare(rows) if cell.row in unsound and cell.column != "gain, points"]
    assert found
    assert {(cell.verdict, cell.number) for cell in found} == {("unsound-as-published", "agrees")}
    assert {said(replace(cell, tolerance=1.0)) for cell in found} == {"unsound as published (its number agrees within 1)"}
