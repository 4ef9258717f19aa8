"""What every experiment must do, found by discovery."""

import html

import polars as pl
import pytest

from adaprivate import experiments, report
from adaprivate.report.promises import promises

NAMES = experiments.names()


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_gives_a_verdict_for_every_printed_value(name, tmp_path):
    chosen = experiments.experiment(name)
    assert chosen.source
    assert chosen.about
    rows = [chosen.run(setting, 2) for setting in chosen.quick]
    cells = chosen.judged(rows, 2, quick=True)
    if chosen.seeds > 1:
        assert not [c for c in cells if not c.computed and {c.verdict, c.number} & {"agrees", "differs"}]
        assert {cell.seeds for cell in cells} <= {2, None}
    printed = {(cell.row, cell.column): cell.paper for cell in cells if cell.paper is not None}
    assert printed == chosen.paper
    assert all(cell.verdict == "not-in-paper" for cell in cells if cell.paper is None)
    answer = chosen.answer(rows, cells)
    assert chosen.question.endswith("?")
    assert answer.endswith(".")
    page = report.write_page(
        tmp_path,
        name,
        source=chosen.source,
        about=chosen.about,
        cells=cells,
        rows=rows,
        plot=chosen.plot,
        question=chosen.question,
        answer=answer,
        provenance=report.Provenance(seeds=2, settings=chosen.quick, promises=promises(rows)),
    )
    text = html.unescape(page.read_text(encoding="utf-8"))
    assert all(cell.row in text for cell in cells)
    assert chosen.question in text
    assert answer in text
    assert (chosen.plot is None) == ("<figure" not in text)
    assert f"{name}.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
    lines = pl.read_parquet(tmp_path / f"{name}.parquet").height
    assert lines == sum(len(row["runs"]) if "runs" in row else 1 for row in rows)
