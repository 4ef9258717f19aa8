"""The experiment on people: what was published is not what it says, and every other row keeps its epsilon for people."""

import pytest

from adaprivate import privacy
from adaprivate_papers import ts_users
from adaprivate_papers._world import prepared


@pytest.mark.parametrize("events", ts_users.VISITS)
def test_the_published_noise_gives_more_than_it_states(events):
    true = ts_users.true_epsilon(events)
    # one batch with all k events, half of them along -x: they move it by 2 floor(k/2) or more, and at most by 2 sqrt(k)
    alone = min((events + 1) // 2, events**0.5) + min(events // 2, events**0.5)
    noise = events**0.5 / (2 * privacy.zcdp_rho(5.0, 1e-5)) ** 0.5
    assert true >= privacy.gdp_epsilon(alone / noise, 1e-5) > 1.6 * ts_users.CLAIMED
    assert ts_users.true_epsilon(events, 1.0) > 1.2


def test_every_scheme_keeps_the_epsilon_of_its_column_for_people():
    seen = set()
    for setting in ts_users.UserLevel.SETTINGS:
        if setting["kind"] != "uniform":
            continue
        policy, place = prepared(setting)
        statement, scheme = policy.guarantee(), setting["scheme"]
        if scheme in ts_users.UNPROTECTED[:2]:
            assert statement is None or statement.epsilon == 0
        elif scheme == ts_users.UNPROTECTED[2]:
            assert statement.unit == "event"
        elif scheme == ts_users.PUBLISHED:
            assert statement.epsilon >= ts_users.true_epsilon(setting["visits"]) * (1 - 1e-9)
            assert statement.nominal_epsilon == ts_users.CLAIMED
        else:
            assert statement.unit == "user"
            assert statement.epsilon == pytest.approx(setting["epsilon"], rel=1e-6)
            assert statement.nominal_epsilon is None
        assert place.people * setting["visits"] == ts_users.USER_ROUNDS
        seen.add(scheme)
    assert {*ts_users.schemes(10)} <= seen


def test_people_of_movielens_are_its_own():
    (setting,) = [
        s
        for s in ts_users.UserLevel.SETTINGS
        if s["kind"] == "movielens" and s["visits"] == 10 and s["scheme"] == "ledger" and s["epsilon"] == 1.0
    ]
    assert setting["environment"] == "movielens"
    assert "people" not in setting["world"]
    assert setting["options"]["counted_visits"] == 10


def test_sound_rows_of_group_privacy_protect_people_at_its_epsilon():
    ours = [s for s in ts_users.GroupPrivacy.SETTINGS if s["rule"] in ts_users.OURS]
    assert {(s["rule"], s["events"]) for s in ours} == {(rule, k) for rule in ts_users.OURS for k in (5, 10, 20)}
    for setting in ours:
        statement = prepared(setting)[0].guarantee()
        assert (statement.unit, statement.epsilon) == ("user", pytest.approx(ts_users.CLAIMED, rel=1e-6))
        assert setting["world"]["people"] * setting["events"] == 10_000


def test_verdicts_and_columns():
    class Run:
        learned_share = 0.5

    common = {"visits": 10, "regret": 100.0, "regret_sem": 1.0, "runs": [Run(), Run()]}
    rows = [
        {
            **common,
            "row": f"uniform, k = 10: {ts_users.PUBLISHED}",
            "scheme": ts_users.PUBLISHED,
            "epsilon": 5.0,
        },
        {
            **common,
            "row": f"zipf, k = 10: {ts_users.PUBLISHED}",
            "scheme": ts_users.PUBLISHED,
            "epsilon": 5.0,
        },
        {**common, "row": "uniform, k = 10: ledger", "scheme": "ledger", "epsilon": 1.0},
        {**common, "row": "uniform, k = 10: random", "scheme": "random", "epsilon": None},
    ]
    cells = {(cell.row, cell.column): cell for cell in ts_users.UserLevel().compare(rows)}
    claim = cells[rows[0]["row"], ts_users.TRUE]
    assert (claim.paper, claim.verdict, claim.ours) == (5.0, "unsound-as-published", pytest.approx(11.0, abs=0.05))
    assert cells[rows[1]["row"], ts_users.TRUE].verdict == "not-in-paper"
    assert cells["uniform, k = 10: ledger", "epsilon 1: regret"].ours == 100.0
    assert cells["uniform, k = 10: random", ts_users.SHARE].ours == pytest.approx(50.0)
