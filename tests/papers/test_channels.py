"""The comparison of private policies over worlds: its arithmetic on made rows, its two halves, and what it leaves out."""

import dataclasses
import json

import numpy as np
import pytest

from adaprivate import environments, experiments
from adaprivate.check import InputError
from adaprivate.simulation import policy_settings, run_all
from adaprivate_papers import channels

EXACT, GAUSSIAN = channels.EXACT, channels.GAUSSIAN


def made(name, epsilon, **shares):
    named = {
        {"exact": EXACT, "gaussian": GAUSSIAN, "ours": "noise-aware"}.get(k, k.replace("_", "-")): v
        for k, v in shares.items()
    }
    return {"row": name, "column": f"epsilon {epsilon:g}", "epsilon": epsilon, "shares": named}


ROWS = [
    made("a", 1, rr_linucb=[0.1, 0.3], rr_lints=[0.7, 0.7], exact=[0.4, 0.5], gaussian=[0.2, 0.2], ours=[0.42, 0.45]),
    made("a", 5, rr_linucb=[0.5, 0.7], rr_lints=[0.1, 0.1], exact=[0.4, 0.5], gaussian=[0.2, 0.2], ours=[0.5, 0.6]),
    made("b", 1, rr_linucb=[0.1, 0.1], rr_lints=[0.2, 0.2], exact=[0.1, 0.1], gaussian=[0.8, 0.9], ours=[0.9, 0.9]),
    {"row": "c", "column": "epsilon 1", "epsilon": 1.0, "left_out": "Expected data to be there."},
]


def test_who_is_best_and_by_how_much():
    cells = {(cell.row, cell.column): cell for cell in channels.Channels().compare(ROWS)}
    assert channels.best(ROWS[0], channels.YARDSTICKS) == EXACT
    assert channels.best(ROWS[0], channels.RIVALS) == "rr-lints"
    good = cells["noise-aware", "not more than 0.02 below the best of the yardsticks, % of cells"]
    assert good.ours == pytest.approx(100 * 2 / 3)  # 0.015 below, 0.05 below, 0.05 above
    assert cells[
        "noise-aware", "not more than 0.02 below the best of all private rivals, % of cells"
    ].ours == pytest.approx(100 / 3)
    short = [cell for cell in cells.values() if cell.row == "noise-aware falls short"]
    assert [cell.column for cell in short] == ["a, epsilon 5: minus rr-linucb"]
    assert short[0].ours == pytest.approx(-0.05)
    assert short[0].sem == pytest.approx(0.05)  # of 0 and -0.1
    lead = cells["b", f"epsilon 1: noise-aware minus {GAUSSIAN}"]
    assert (lead.ours, lead.sem) == (pytest.approx(0.05), pytest.approx(0.05))
    assert cells["a", "epsilon 5: best is rr-linucb"].ours == pytest.approx(0.6)
    assert cells["b", "epsilon 1: best is noise-aware"].ours == pytest.approx(0.9)
    share = cells["a", "epsilon 1: rr-linucb"]
    assert (share.ours, share.sem) == (pytest.approx(0.2), pytest.approx(0.1))
    assert cells["left out", "c: Expected data to be there."].ours == 1
    json.dumps([dataclasses.asdict(cell) for cell in cells.values()], allow_nan=False)


def test_the_map_shows_the_winner_of_every_cell():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    channels.Channels().plot(ROWS, axes)
    private = [*channels.RIVALS, *channels.OURS]
    grid = np.asarray(axes.images[0].get_array().filled(-1))
    assert grid.tolist() == [
        [private.index("rr-lints"), private.index("rr-linucb")],
        [private.index("noise-aware"), -1],
    ]


def test_shares_are_those_of_the_policies_on_the_same_seeds():
    (setting,) = channels.settings({"rare": channels.World("synthetic", {"base_rate": 0.1}, 150, 0.1)}, (2.0,), 40)
    row = channels.Channels().run(setting, 3, only=["rr-linucb", "linucb", "random"])
    assert list(row["shares"]) == ["rr-linucb", "linucb", "random"]
    place = environments.environment("synthetic", {"base_rate": 0.1})
    told = policy_settings("rr-linucb", place, 150, {"epsilon": 2.0, "centre": 0.1})
    untold = policy_settings("linucb", place, 150, {})
    for name, chosen in (("rr-linucb", told), ("linucb", untold)):
        assert row["shares"][name] == [run.learned_share for run in run_all([chosen], place, [40, 41, 42])[0]]
    assert len(channels.Channels().run({**setting, "most_seeds": 1}, 3, only=["random"])["shares"]["random"]) == 1


def test_a_world_without_its_data_is_left_out(tmp_path):
    world = channels.World("classification", {"data": str(tmp_path / "nothing.npz")}, 100)
    (setting,) = channels.settings({"lost": world}, (1.0,))
    row = channels.Channels().run(setting, 2)
    assert "shares" not in row
    assert row["left_out"].startswith("Expected ")


def test_what_is_set_aside_is_never_played_before():
    seen, kept = experiments.experiment("channels"), experiments.experiment("channels-set-aside")
    worlds = [
        {json.dumps([s["environment"], s["options"], s["rounds"]], sort_keys=True) for s in chosen.settings}
        for chosen in (seen, kept)
    ]
    assert not worlds[0] & worlds[1]
    assert {s["row"] for s in kept.settings} == set(channels.SET_ASIDE)
    assert min(s["first_seed"] for s in kept.settings) > max(s["first_seed"] for s in seen.settings) + 10_000
    assert all(s["first_seed"] == 0 for s in kept.quick)
    assert all(len(half) >= 20 for half in worlds)


def test_worlds_can_be_built():
    for name, world in {**channels.DEVELOPMENT, **channels.SET_ASIDE}.items():
        place = environments.environment(world.environment, world.options)  # refused if impossible
        if not getattr(place, "recorded", False):
            assert place.world(0), name


def test_only_some_rows():
    chosen = experiments.experiment("channels")
    assert {s["row"] for s in chosen.only(["d 50", "needle"])} == {"d 50, K 20", "fresh, d 50", "needle"}
    assert chosen.only([]) == list(chosen.settings)
    assert {s["row"] for s in chosen.only(["short"], quick=True)} == {"short"}
    with pytest.raises(InputError, match=r"^Expected only='moon' in a row of channels\.$"):
        chosen.only(["short", "moon"])
    with pytest.raises(InputError, match=r"^Expected only=\['TS'\] not to be given: table1 needs all of its settings\.$"):
        experiments.experiment("table1").only(["TS"])
