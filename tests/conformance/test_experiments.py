"""What every experiment must do, found by discovery."""

import pytest

from adaprivate import experiments, report

NAMES = experiments.names()


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_gives_a_verdict_for_every_printed_value(name, tmp_path):
    chosen = experiments.experiment(name)
    assert chosen.source
    assert chosen.about
    rows = [chosen.run(setting, 2) for setting in chosen.quick]
    cells = chosen.compare(rows)
    printed = {(cell.row, cell.column): cell.paper for cell in cells if cell.paper is not None}
    module = __import__(f"adaprivate.experiments.{name.replace('-', '_')}", fromlist=["PAPER"])
    assert printed == module.PAPER
    assert all(cell.verdict == "not-in-paper" for cell in cells if cell.paper is None)
    page = report.write_page(
        tmp_path, name, source=chosen.source, about=chosen.about, cells=cells, rows=rows, plot=chosen.plot
    )
    text = page.read_text(encoding="utf-8")
    assert all(cell.row in text for cell in cells)
    assert (chosen.plot is None) == ("<svg" not in text)
    assert f"{name}.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
