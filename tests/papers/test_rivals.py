"""Table 6 and the leaderboard, where they are certain: who is compared with whom, and at which privacy."""

import pytest

from adaprivate import experiments, policies, privacy
from adaprivate.experiments import _synthetic, leaderboard, table6


def test_the_divided_budget_is_what_table_6_compares():
    rows = [table6.run(setting, 2) for setting in table6.SETTINGS if setting["column"] == "epsilon 1"]
    true = {row["row"]: row["true_epsilon"] for row in rows}
    sigma = privacy.zcdp_sigma(1.0, 1e-5)
    assert true["AdaPrivate-TS"] == pytest.approx(0.7416, abs=1e-4)  # the published calibration, sound and loose
    assert true["CoreSet-Elim"] == pytest.approx(privacy.gaussian_epsilon(5**0.5 * sigma, 1e-5))  # 256 ... 4096 rounds
    assert true["Batched-Agg"] == pytest.approx(privacy.gaussian_epsilon(33**0.5 * sigma, 1e-5))
    assert true["CoreSet-Elim, budget not divided"] == true["Batched-Agg, budget not divided"] == true["AdaPrivate-TS"]
    ours = [run.reward for run in next(row for row in rows if row["row"] == "Batched-Agg, budget not divided")["runs"]]
    assert ours == [run.reward for run in _synthetic.runs("adaprivate-ucb", 2, epsilon=1.0)]


def test_every_linear_policy_is_on_the_leaderboard_at_the_epsilon_of_its_column():
    names = {setting["policy"] for setting in leaderboard.SETTINGS}
    assert names == set(leaderboard.linear_policies())
    assert {"linucb", "adaprivate-ts", "adac-oful", "ldp-linucb"} <= names <= set(policies.names())
    for setting in leaderboard.SETTINGS:
        if setting["epsilon"] is not None:
            found = leaderboard.at_true_epsilon(
                setting["policy"], tuple(setting["options"].items()), setting["epsilon"]
            ).guarantee()
            assert found.delta == leaderboard.DELTA
            assert setting["epsilon"] * 0.99 < found.epsilon <= setting["epsilon"] * (1 + 2e-4), setting


def test_a_nominal_epsilon_is_solved_for_where_no_exact_calibration_serves():
    found = leaderboard.at_true_epsilon("zcdp-episodic", (("calibration", "zcdp"), ("mode", "published-unsound")), 2.0)
    assert found.calibration == "zcdp"
    assert found.guarantee().epsilon == pytest.approx(2.0, rel=2e-4)
    assert found.epsilon < 1.2  # six estimates of all history: two and a half times what is stated
    stuck = leaderboard.at_true_epsilon("adaprivate-ts", (("calibration", "zcdp"),), 1e15)
    assert stuck.guarantee().epsilon <= 1e15


def row(label, notion, share):
    return {
        "row": label,
        "notion": notion,
        "epsilon": None if notion == leaderboard.NOT_PRIVATE else 1.0,
        "true_epsilon": 1.0 if label != "c" else 0.5,
        "learned_share": (share, 1.0),
        "regret": (100 - share, 1.0),
        "reward": (share, 1.0),
    }


def test_notions_are_listed_apart_and_the_best_of_each_first():
    rows = [
        row("a", "local, replace", 90.0),
        row("b", "event, replace", 10.0),
        row("c", "event, replace", 20.0),
        row("d", leaderboard.NOT_PRIVATE, 95.0),
    ]
    cells = leaderboard.compare(rows)
    order = list(dict.fromkeys(cell.row for cell in cells))
    assert order == ["[not private] d", "[event, replace] c", "[event, replace] b", "[local, replace] a"]
    assert all(cell.paper is None for cell in cells)
    missed = [cell for cell in cells if "not reached" in cell.column]
    assert [(cell.row, cell.ours) for cell in missed] == [("[event, replace] c", 0.5)]


def test_the_plot_names_every_unit_on_its_axis():
    figure_axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    leaderboard.plot([row("a", "local, replace", 90.0), row("b", "event, replace", 10.0)], figure_axes)
    label = figure_axes.get_xlabel()
    assert "local, replace" in label
    assert "event, replace" in label
    assert "do not compare" in label
    styles = {line.get_linestyle() for line in figure_axes.get_lines()} - {"None"}
    assert len(styles) == 2


def test_both_are_found():
    assert {"table6", "leaderboard"} <= set(experiments.names())
