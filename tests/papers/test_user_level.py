"""The experiment on people: what was published is not what it says, and every other row keeps its epsilon for people."""

import pytest

from adaprivate import privacy
from adaprivate.experiments import group_privacy, user_level
from adaprivate.experiments._measured import prepared


@pytest.mark.parametrize("events", user_level.VISITS)
def test_the_published_noise_gives_more_than_it_states(events):
    true = user_level.true_epsilon(events)
    # one batch with all k events, half of them along -x: they move it by 2 floor(k/2) or more, and at most by 2 sqrt(k)
    alone = min((events + 1) // 2, events**0.5) + min(events // 2, events**0.5)
    noise = events**0.5 / (2 * privacy.zcdp_rho(5.0, 1e-5)) ** 0.5
    assert true >= privacy.gdp_epsilon(alone / noise, 1e-5) > 1.6 * user_level.CLAIMED
    assert user_level.true_epsilon(events, 1.0) > 1.2


def test_every_scheme_keeps_the_epsilon_of_its_column_for_people():
    seen = set()
    for setting in user_level.SETTINGS:
        if setting["kind"] != "uniform":
            continue
        policy, place = prepared(setting)
        statement, scheme = policy.guarantee(), setting["scheme"]
        if scheme in user_level.UNPROTECTED[:2]:
            assert statement is None or statement.epsilon == 0
        elif scheme == user_level.UNPROTECTED[2]:
            assert statement.unit == "event"
        elif scheme == user_level.PUBLISHED:
            assert statement.epsilon >= user_level.true_epsilon(setting["visits"]) * (1 - 1e-9)
            assert statement.nominal_epsilon == user_level.CLAIMED
        else:
            assert statement.unit == "user"
            assert statement.epsilon == pytest.approx(setting["epsilon"], rel=1e-6)
            assert statement.nominal_epsilon is None
        assert place.people * setting["visits"] == user_level.ROUNDS
        seen.add(scheme)
    assert {*user_level.schemes(10)} <= seen


def test_people_of_movielens_are_its_own():
    (setting,) = [
        s
        for s in user_level.SETTINGS
        if s["kind"] == "movielens" and s["visits"] == 10 and s["scheme"] == "ledger" and s["epsilon"] == 1.0
    ]
    assert setting["environment"] == "movielens"
    assert "people" not in setting["world"]
    assert setting["options"]["counted_visits"] == 10


def test_sound_rows_of_group_privacy_protect_people_at_its_epsilon():
    ours = [s for s in group_privacy.SETTINGS if s["rule"] in group_privacy.OURS]
    assert {(s["rule"], s["events"]) for s in ours} == {(rule, k) for rule in group_privacy.OURS for k in (5, 10, 20)}
    for setting in ours:
        statement = prepared(setting)[0].guarantee()
        assert (statement.unit, statement.epsilon) == ("user", pytest.approx(group_privacy.EPSILON, rel=1e-6))
        assert setting["world"]["people"] * setting["events"] == 10_000


def test_verdicts_and_columns():
    class Run:
        learned_share = 0.5

    common = {"visits": 10, "regret": 100.0, "regret_sem": 1.0, "runs": [Run(), Run()]}
    rows = [
        {**common, "row": f"uniform, k = 10: {user_level.PUBLISHED}", "scheme": user_level.PUBLISHED, "epsilon": 5.0},
        {**common, "row": f"zipf, k = 10: {user_level.PUBLISHED}", "scheme": user_level.PUBLISHED, "epsilon": 5.0},
        {**common, "row": "uniform, k = 10: ledger", "scheme": "ledger", "epsilon": 1.0},
        {**common, "row": "uniform, k = 10: random", "scheme": "random", "epsilon": None},
    ]
    cells = {(cell.row, cell.column): cell for cell in user_level.compare(rows)}
    claim = cells[rows[0]["row"], user_level.TRUE]
    assert (claim.paper, claim.verdict, claim.ours) == (5.0, "unsound-as-published", pytest.approx(11.0, abs=0.05))
    assert cells[rows[1]["row"], user_level.TRUE].verdict == "not-in-paper"
    assert cells["uniform, k = 10: ledger", "epsilon 1: regret"].ours == 100.0
    assert cells["uniform, k = 10: random", user_level.SHARE].ours == pytest.approx(50.0)
