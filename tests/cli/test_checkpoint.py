"""An interrupted reproduction of a long experiment continues, and never with another code's rows."""

import pytest

from adaprivate import InputError, experiments
from adaprivate.cli import reproduce
from adaprivate.cluster import alike
from adaprivate.experiments import Cell, Experiment
from adaprivate.report.checkpoint import Checkpoint


@pytest.fixture
def long(monkeypatch):
    """An experiment of three settings that records what it runs and can be interrupted."""
    ran, stop = [], set()

    def run(setting, seeds):
        if setting["place"] in stop:
            raise KeyboardInterrupt
        ran.append((setting["place"], seeds))
        return {**setting, "value": 10 * setting["place"] + seeds}

    def compare(rows):
        return [Cell("row", f"column {r['place']}", None, r["value"], None, "not-in-paper") for r in rows]

    settings = [{"place": place} for place in range(3)]
    chosen = Experiment("long", "here", "About it.", settings, run, 4, compare, None, settings[:1], True)
    monkeypatch.setattr(experiments, "experiment", lambda name: chosen)
    return ran, stop


def run_elsewhere(setting, seeds):
    """A run that is written in another package than those of `long`, by its name."""
    return {}


run_elsewhere.__module__ = "mpmath"


def test_an_interrupted_run_continues(long, tmp_path, capsys):
    ran, stop = long
    stop.add(2)
    with pytest.raises(KeyboardInterrupt):
        reproduce("long", out=tmp_path, json=True)
    assert ran == [(0, 4), (1, 4)]
    with (tmp_path / "long.kept.jsonl").open("a") as file:
        file.write('{"key": "cut sho')
    stop.clear()
    reproduce("long", out=tmp_path, json=True)
    assert ran == [(0, 4), (1, 4), (2, 4)]
    assert '"ours": 24' in capsys.readouterr().out
    assert not (tmp_path / "long.kept.jsonl").exists()
    reproduce("long", out=tmp_path, json=True)
    assert len(ran) == 6  # nothing is left of a complete run


def test_rows_belong_to_their_setting_seeds_and_code(long, tmp_path, monkeypatch):
    ran, stop = long
    stop.add(1)
    with pytest.raises(KeyboardInterrupt):
        reproduce("long", out=tmp_path, json=True)
    with pytest.raises(KeyboardInterrupt):
        reproduce("long", seeds=5, out=tmp_path, json=True)
    assert ran == [(0, 4), (0, 5)]
    with Checkpoint(tmp_path, "long", experiments.experiment("long").run) as kept:
        assert kept.get({"place": 0}, 4) == {"place": 0, "value": 4}
        assert kept.get({"place": 0}, 5) == {"place": 0, "value": 5}
        assert kept.get({"place": 1}, 4) is None
        with pytest.raises(InputError, match="another one is writing to it"):
            reproduce("long", out=tmp_path, json=True)
    with Checkpoint(tmp_path, "long", run_elsewhere) as kept:
        assert kept.get({"place": 0}, 4) is None
    monkeypatch.setattr(alike, "fingerprint", lambda: {"source of adaprivate": "other code"})
    with Checkpoint(tmp_path, "long", experiments.experiment("long").run) as kept:
        assert kept.get({"place": 0}, 4) is None


def test_a_row_after_a_line_cut_short_is_not_lost(tmp_path):
    with Checkpoint(tmp_path / "new", "long", run_elsewhere) as kept:
        kept.put({"a": 1}, 2, {"value": 0.1})
        with kept.path.open("a") as file:
            file.write('{"key": "cut sho')
    with Checkpoint(tmp_path / "new", "long", run_elsewhere) as kept:
        kept.put({"a": 2}, 2, {"value": 0.2, "some": (1, None)})
    with Checkpoint(tmp_path / "new", "long", run_elsewhere) as again:
        assert [again.get({"a": a}, 2) for a in (1, 2)] == [{"value": 0.1}, {"value": 0.2, "some": [1, None]}]


def test_quick_runs_the_short_settings(long, tmp_path):
    ran, _ = long
    reproduce("long", quick=True, out=tmp_path, json=True)
    assert ran == [(0, 3)]
