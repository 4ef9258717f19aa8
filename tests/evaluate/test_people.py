"""Logs that say whose decisions were: what policies are told, what intervals assume, what a published estimate costs."""

import json
import math
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.logs.estimators import Sample, estimate
from adaprivate.logs.judge import judge, learn_from
from adaprivate.logs.log import Log
from adaprivate.logs.log_table import read_log
from adaprivate.logs.offers import offers
from adaprivate.logs.release import first_rows, release, release_by_person, together
from adaprivate.logs.replay import replay
from adaprivate.mechanisms import Noise, Secure, Simulated
from adaprivate.runtime.policy import Policy

K, D = 3, 2
USER = {"unit": "user", "counted_visits": 4}


def logged(n=900, people=60, seed=0, users=True):
    """Uniform choice between three candidates of two features; some people come far more often than others."""
    rng = np.random.default_rng([seed, 2])
    candidates = rng.uniform(-0.7, 0.7, size=(n, K, D))
    actions = rng.integers(0, K, size=n)
    means = 0.5 + candidates[np.arange(n), actions] @ np.array([0.5, -0.2])
    rewards = (rng.uniform(size=n) < means).astype(float)
    weights = 1 / np.arange(1.0, people + 1)
    who = rng.choice(people, size=n, p=weights / weights.sum())
    return Log(candidates, actions, rewards, np.full(n, 1 / K), who if users else None)


def made(rounds, source=None, **options):
    settings = policies.settings("noise-aware", {"dimension": D, "rounds": rounds, **USER, **options})
    return Policy(settings, seed=None if source else 0, source=source)


def tally(who, most):
    """The visits that count of each person, in the order of their first ones."""
    return [min(most, int((who == person).sum())) for person in dict.fromkeys(who.tolist())]


@pytest.mark.parametrize("exact", [False, True])
def test_policies_are_told_whose_the_rows_are(exact):
    log = logged()
    player = made(200, Secure() if exact else None)
    accepted = replay(player, log, rounds=150)
    counted = tally(log.users[accepted], 4)
    assert player.people == {"people": len(counted), "counted": sum(counted), "beyond": 150 - sum(counted)}
    ledger = player.book._sums._collector.people.arrays if exact else player.state.book.ledger
    assert ledger.visits[: len(counted)].tolist() == counted
    trained = made(300, Secure() if exact else None)
    learn_from(trained, log.part(slice(0, 300)))
    counted = tally(log.users[:300], 4)
    assert trained.people == {"people": len(counted), "counted": sum(counted), "beyond": 300 - sum(counted)}
    assert made(300, unit="event").people is None


def test_a_log_without_people_is_refused_in_one_line():
    for estimator in ("replay", "snips", "dm"):
        with pytest.raises(InputError) as caught:
            judge(logged(users=False), "noise-aware", estimator, options=USER)
        assert str(caught.value) == "Expected user=None to be a column of the log: noise-aware protects people."
    with pytest.raises(InputError, match=r"^Expected len\(users\)=2 == 3\.$"):
        Log(np.eye(2)[None], np.zeros(3, dtype=int), np.zeros(3), users=np.zeros(2, dtype=int))


@pytest.mark.parametrize(
    ("one", "other"),
    [("12345678-1234-5678-1234-56789abcdeff", "{12345678-1234-5678-1234-56789ABCDEFF}"), ("\u00e9", "e\u0301")],
    ids=["UUID", "accent"],
)
def test_spellings_of_one_identifier_are_one_person_of_a_log(one, other):
    """Else their rewards would be bounded, and their visits counted, as those of two."""
    rows = {"action": [0, 1] * 3, "reward": [0.0, 1.0] * 3, "x_0_0": [0.1] * 6, "x_1_0": [0.2] * 6}
    read = read_log({**rows, "user": [one, other, "anna", other, one, "otto"]}, candidates="x")
    (part,) = read.parts()
    assert part.users is not None
    assert (read.people, len(np.unique(part.users))) == (3, 3)
    assert len({*part.users[[0, 1, 3, 4]].tolist()}) == 1
    table = pl.DataFrame({**rows, "user": [one, other, "anna", other, one, "otto"]})
    assert sorted(offers(table, action=None, features=[], candidates="x", user="user", reward=None).visits) == [1, 1, 4]


def test_policies_that_protect_events_are_told_nothing():
    """The same log without people gives the same estimates; its intervals differ, for people are not rows."""
    for name in ("noise-aware", "linucb"):
        for estimator in ("replay", "snips", "dr"):
            told, plain = judge(logged(), name, estimator), judge(logged(users=False), name, estimator)
            assert told.estimate.value == plain.estimate.value
            assert told.estimate.sem != plain.estimate.sem
            assert told.guarantee == plain.guarantee
            assert told.visits is None


def test_the_table_says_how_many_people_and_visits():
    log = logged(600)
    table = ap.evaluate(log, ["noise-aware", "linucb"], ["replay", "snips"], options=USER)
    assert table["log_people"].to_list() == [len(set(log.users.tolist()))] * 4
    trained = tally(log.users[:300], 4)
    learned = table.row(1, named=True)
    assert (learned["people"], learned["visits_counted"]) == (len(trained), sum(trained))
    assert learned["visits_counted"] + learned["visits_beyond"] == 300
    replayed = table.row(0, named=True)
    assert replayed["visits_counted"] + replayed["visits_beyond"] == replayed["rows"]
    assert "all rewards of any one person" in replayed["guarantee"]
    assert table["people"].to_list()[2:] == [None, None]
    nobody = ap.evaluate(logged(300, users=False), "linucb", "dm").row(0, named=True)
    assert nobody["log_people"] is None


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips"])
def test_rows_of_one_person_are_not_independent(estimator):
    """Every row five times, as of one person, is worth no more than once; as of five people the interval shrinks."""
    rng = np.random.default_rng(5)
    r, w = rng.uniform(size=300), rng.uniform(0.2, 3, 300)
    once = estimate(estimator, Sample(r, w))
    rows = Sample(np.repeat(r, 5), np.repeat(w, 5), people=np.repeat(rng.permutation(300), 5))
    again = estimate(estimator, rows)
    assert again.value == pytest.approx(once.value)
    assert (again.sem, again.low, again.high) == pytest.approx((once.sem, once.low, once.high))
    assert estimate(estimator, Sample(rows.rewards, rows.weights)).sem < 0.5 * once.sem
    drawn = estimate(estimator, rows, interval="bootstrap", resamples=2_000)
    assert drawn.high - drawn.low == pytest.approx(once.high - once.low, rel=0.12)  # the quantiles' own error is 3 %
    alone = estimate(estimator, Sample(r, w, people=np.full(300, 9)))
    assert alone == once  # of one person all one can say is by rows


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips", "dm", "dr"])
def test_people_who_come_once_are_rows(estimator):
    rng = np.random.default_rng(6)
    r, w, X, F = rng.uniform(size=80), rng.uniform(0.5, 2, 80), rng.standard_normal((80, 3)), rng.standard_normal((80, 3))
    plain, people = estimate(estimator, Sample(r, w, X, F)), estimate(estimator, Sample(r, w, X, F, rng.permutation(80)))
    assert (people.value, people.sem, people.low) == pytest.approx((plain.value, plain.sem, plain.low), rel=1e-12)


class Silent(Noise):
    """No noise: what would be released is seen as it is."""

    exact = False

    def gaussian(self, values, scale):
        self.seen = np.array(values, dtype=float)
        return self.seen

    laplace = gaussian

    def slack(self, scale, draws):
        return 0.0


def sum_of(estimator, rewards, weights, people):
    source = Silent()
    release_by_person(estimator, Sample(rewards, weights, people=people), epsilon=1.0, delta=1e-5, noise=source)
    return source.seen


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips"])
def test_all_rewards_of_a_person_move_what_is_released_by_at_most_one(estimator):
    """Every person, all rewards replaced by 0, 1 and anything: at most 1, up to the grid; one with the most reaches it."""
    rng = np.random.default_rng(7)
    most = 0.0
    for _ in range(30):
        n, count = int(rng.integers(4, 40)), int(rng.integers(2, 8))
        people, weights = rng.integers(count, size=n), rng.uniform(0, 4, n) ** 2
        rewards = rng.uniform(size=n)
        for person in np.unique(people):
            theirs = people == person
            versions = []
            for value in (0.0, 1.0, None, None):
                other = rewards.copy()
                other[theirs] = rng.uniform(size=theirs.sum()) if value is None else value
                versions.append(sum_of(estimator, other, weights, people))
            moves = [np.linalg.norm(one - two) for one in versions for two in versions]
            assert max(moves) <= 1 + 1e-5
            most = max(most, *moves)
    assert most > (0.99 if estimator != "ips" else 0.9)  # there the largest weight and the most rows may be two people's


def test_the_noise_is_that_of_a_person():
    """400 releases: standard deviation of the calibrated noise times the largest share. Rejected: 2/3 and 3/2 of it.

    The bound, 18 %, is five standard deviations of an estimated one.
    """
    rng = np.random.default_rng(8)
    people = np.repeat(np.arange(30), np.arange(1, 31))
    rewards = (rng.uniform(size=len(people)) < 0.4).astype(float)
    rows = Sample(rewards, people=people)
    plain = estimate("replay", rows)
    released = [release_by_person("replay", rows, epsilon=1.0, delta=1e-5, noise=Simulated(k))[0] for k in range(400)]
    expected = privacy.gaussian_sigma(1.0, 1e-5) * 30 / len(people) * math.sqrt(1.5)
    noise = np.array([one.value for one in released]) - plain.value
    assert abs(noise.mean()) < 5 * expected / 20
    assert abs(noise.std() / expected - 1) < 0.18
    assert all(one.sem >= expected for one in released)
    exact = release_by_person("replay", rows, epsilon=30.0, delta=1e-5, noise=Secure())[0]
    spread = privacy.gaussian_sigma(30.0, 1e-5) * 30 / len(people) * math.sqrt(1.5)
    assert abs(exact.value - plain.value) < 6 * spread  # no seed: one false alarm in 5e8
    assert spread < expected / 15


@pytest.mark.parametrize("estimator", ["replay", "ips", "snips"])
def test_without_noise_a_release_is_the_estimate_and_its_interval(estimator):
    """Any rewards in [0, 1], not only 0 and 1; up to the noise that the interval makes room for, and the grid."""
    rng = np.random.default_rng(9)
    people = rng.integers(2_000, size=6_000)
    taste = rng.uniform(size=2_000)
    rewards, weights = 0.5 * taste[people] + 0.5 * rng.uniform(size=6_000), rng.uniform(0.5, 1.5, 6_000)
    rows = Sample(rewards, weights, people=people)
    plain = estimate(estimator, rows)
    found, _ = release_by_person(estimator, rows, epsilon=1e6, delta=1e-5, noise=Simulated(0))
    assert found.value == pytest.approx(plain.value, abs=1e-4)
    assert found.sem == pytest.approx(plain.sem, rel=0.05)
    assert found.effective_sample_size == plain.effective_sample_size
    twice = np.repeat(np.arange(50), 2)
    for rewards in (np.ones(100), np.zeros(100), (twice < 20).astype(float)):  # as far as people can go: nothing is clipped
        level = Sample(rewards, np.ones(100), people=twice)
        most, _ = release_by_person(estimator, level, epsilon=1.0, delta=1e-5, noise=Silent())
        assert most.value == pytest.approx(rewards.mean(), abs=1e-5)


def test_published_intervals_cover_what_people_differ_in():
    """300 logs of people with tastes of their own: 95 % intervals cover the mean of all people in 88 % at least.

    Coverage of 95 % has standard deviation 1.3 % here, so that is five of them. Taken as of independent rows, the noise of
    one reward, they cover far less.
    """
    covered = alone = 0
    for k in range(300):
        rng = np.random.default_rng([10, k])
        people = np.repeat(np.arange(150), 8)
        taste = (rng.uniform(size=150) < 0.5).astype(float)
        rows = Sample((rng.uniform(size=len(people)) < 0.1 + 0.8 * taste[people]).astype(float), people=people)
        found, _ = release_by_person("replay", rows, epsilon=20.0, delta=1e-5, noise=Simulated(k))
        covered += found.low < 0.5 < found.high
        events, _ = release("replay", rows, epsilon=20.0, delta=1e-5, noise=Simulated(k))
        alone += events.low < 0.5 < events.high
    assert covered >= 0.88 * 300
    assert alone < 0.75 * 300


@pytest.mark.parametrize("estimator", ["replay", "snips"])
def test_a_published_estimate_protects_people_where_the_policy_does(estimator):
    """A person may have rewards in what was learned from and in the estimate, whichever rows those are: costs add up."""
    log = logged(600)
    found, guarantee, counts, *_, counting, published = judge(
        log, "noise-aware", estimator, options=USER, release_epsilon=0.5
    )
    assert guarantee.unit == "user"
    assert not guarantee.simulated
    assert guarantee.epsilon == pytest.approx(1.5, abs=5e-3)
    assert guarantee.delta == pytest.approx(2e-5)
    why = {"replay": "both use the same rewards", "snips": "people may be in both parts of the log"}[estimator]
    assert published.endswith(f"epsilon 0.5 (noise added). The policy's 1 is added because {why}.")
    assert counting == "the first 4 visits"
    assert not guarantee.exact
    assert guarantee.protects == "all rewards of any one person"
    assert privacy.CONDITIONS["public-visits"] in guarantee.assumptions
    assert privacy.CONDITIONS["user-identity"] in guarantee.assumptions
    assert privacy.CONDITIONS["user-clip"] in guarantee.enforced
    assert counts["counted"] > 0
    bounded, same, *_ = judge(log, "noise-aware", estimator, options=USER, release_epsilon=0.5, person_rows=1)
    assert same.epsilon == guarantee.epsilon
    sems = [
        np.median([judge(log, "noise-aware", estimator, options=USER, release_epsilon=0.5, **how)[0].sem for _ in range(3)])
        for how in ({"person_rows": 1}, {})
    ]
    # one person has a fifth of all rows; the noise is drawn afresh: 1 draw of 1,000 fails, two of three in 3e-6 of all runs
    assert sems[0] < sems[1] / 2
    assert bounded.rows < found.rows
    events = judge(log, "noise-aware", estimator, release_epsilon=0.5).guarantee
    assert events.unit == "event"
    assert "event-level" in events.sentence


def test_what_a_published_estimate_refuses():
    user = privacy.guarantee(privacy.GaussianPrice(0.5), privacy.people(), 1e-5)
    event = privacy.guarantee(privacy.GaussianPrice(0.5), privacy.events(), 1e-5)
    with pytest.raises(InputError, match=r"^Expected unit='event' == user, whom the policy protects\.$"):
        together(user, event, same_rewards=True)
    rows = Sample(np.array([0.0, 1.0, 1.0]))
    with pytest.raises(InputError, match=r"^Expected people to be given"):
        release_by_person("replay", rows, epsilon=1.0, delta=1e-5, noise=Simulated(0))
    far = Sample(np.array([0.0, 7.25, 1.0]), people=np.arange(3))
    with pytest.raises(InputError) as caught:
        release_by_person("replay", far, epsilon=1.0, delta=1e-5, noise=Simulated(0))
    assert "7.25" not in str(caught.value)
    for options, budget in (({}, 1.0), (USER, None)):
        with pytest.raises(InputError, match=r"^Expected person_rows=3 == None unless"):
            judge(logged(300), "noise-aware", "replay", options=options, release_epsilon=budget, person_rows=3)
    with pytest.raises(InputError, match=r"^Expected person_rows=0 >= 1"):
        judge(logged(300), "noise-aware", "replay", options=USER, release_epsilon=1.0, person_rows=0)


def test_the_first_rows_of_each_person():
    people = np.array([4, 1, 4, 4, 1, 7, 1, 4])
    assert first_rows(people, 1).tolist() == [0, 1, 5]
    assert first_rows(people, 2).tolist() == [0, 1, 2, 4, 5]
    assert first_rows(people, 9).tolist() == list(range(8))


def run(*arguments):
    command = [sys.executable, "-m", "adaprivate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_at_the_command_line(tmp_path):
    rng = np.random.default_rng(11)
    shown, who = rng.integers(3, size=600), rng.integers(40, size=600)
    liked = (rng.random(600) < 0.2 + 0.2 * shown).astype(int)
    path = tmp_path / "log.csv"
    pl.DataFrame({"action": shown, "reward": liked, "propensity": [1 / 3] * 600, "visitor": who}).write_csv(path)
    base = ("evaluate", path, "--policy", "noise-aware", "--option", "unit=user", "--option", "counted_visits=2")
    refused = run(*base)
    assert refused.returncode == 2
    assert refused.stderr.endswith("Expected user=None to be a column of the log: noise-aware protects people.\n")
    found = run(*base, "--user", "visitor", "--estimator", "snips", "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["log"]["people"] == len(set(who))
    assert document["rows"][0]["visits_counted"] == sum(tally(who[:300], 2))
    shared = ap.evaluate(path, "noise-aware", "snips", user="visitor", options={"unit": "user", "counted_visits": 2})
    assert document["rows"] == shared.to_dicts()
    printed = run(*base, "--user", "visitor").stdout
    assert f"600 decisions by {len(set(who))} people between 3 candidates" in printed
    assert "visits counted; " in printed
    assert "were beyond the first 2 visits of their user." in " ".join(printed.split())
    published = run(*base, "--user", "visitor", "--release-epsilon", "2", "--person-rows", "2", "--json")
    assert "user-level" in json.loads(published.stdout)["rows"][0]["guarantee"]
    facts = run("data", "check", path, "--user", "visitor", "--json")
    assert json.loads(facts.stdout)["people"] == len(set(who))


def test_simulating_people_at_the_command_line():
    people = ("--option", "people=2000", "--option", "visits=zipf")
    base = ("simulate", "--policy", "noise-aware", "--option", "unit=user", "--rounds", 500, "--seeds", 1)
    found = run(*base, *people, "--json")
    assert found.returncode == 0, found.stderr
    row = json.loads(found.stdout)["rows"][0]
    assert (row["unit"], row["environment_people"], row["environment_visits"]) == ("user", 2000, "zipf")
    refused = run(*base)
    assert refused.returncode == 2
    line = "Expected environment='synthetic' to tell people apart, as synthetic does with people=2000.\n"
    assert refused.stderr.endswith(line)
