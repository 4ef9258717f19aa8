"""The ledger of people: whatever their rewards, all of a person's visits together move what is released by at most 1."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from adaprivate import mechanisms
from adaprivate.check import Floats, InputError
from adaprivate.grid import LARGEST
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.informative import Informative, Reader
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.mechanisms.units import Event
from adaprivate.mechanisms.units.ledger import LedgerSum, UserLedgerUnit, followed
from adaprivate.people.ledger import PeopleLedger, empty_ledger
from adaprivate.people.shares import GRAM_BITS, WAYS, gram, shares

SIZE, BATCHES = 4, 6


def encoder(name: str, steps: int = BATCHES) -> Floats:
    if name == "informative":
        reader = Reader((3.0,) * steps, (2.0,) * steps, 4.0)
        built: Any = Informative(steps, reader, 1.5)
    else:
        built = mechanisms.strategy(name, steps)
    return np.asarray(built.matrix() / built.sensitivity())


def visited(ledger: PeopleLedger, rounds: int, people: int, seed: int, batches: int = BATCHES, spread: float = 1.0) -> Any:
    """The visits of each person: (batch, f), after so many rounds with random directions around a common one."""
    rng = np.random.default_rng(seed)
    found: dict[int, list[tuple[int, Floats]]] = {}
    common = rng.standard_normal(SIZE)
    for number in range(rounds):
        aim = common * (1 - spread) + spread * rng.standard_normal(SIZE)
        aim /= np.linalg.norm(aim)
        person, batch = int(rng.integers(people)), number * batches // rounds
        vector = ledger.charge(number, person, batch, aim).copy()
        found.setdefault(person, []).append((batch, vector))
    return found


def fractions(matrix: Floats) -> list[list[Fraction]]:
    return [[Fraction(float(entry)) for entry in row] for row in matrix]


def moved(encoder: Floats, visits: list[tuple[int, Floats]], changes: tuple[int, ...]) -> Fraction:
    """The squared move of all rows when the rewards of these visits change by so much: exact."""
    C, total = fractions(encoder), Fraction(0)
    for coordinate in range(SIZE):
        sums = [Fraction(0)] * len(C)
        for (batch, vector), change in zip(visits, changes, strict=True):
            sums[batch] += change * Fraction(int(vector[coordinate]), 1024)
        for row in C:
            total += sum((c * s for c, s in zip(row, sums, strict=True)), Fraction(0)) ** 2
    return total


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["independent", "sqrt", "informative"])
def test_no_rewards_of_a_person_move_the_rows_by_more_than_one(name: str, way: str) -> None:
    C = encoder(name)
    ledger = PeopleLedger(SIZE, C, way, 7)
    reached = []
    for visits in visited(ledger, 60, 8, seed=3, spread=0.4).values():
        counted = [(batch, vector) for batch, vector in visits if vector.any()]
        assert len(counted) <= 7
        signs = itertools.product((-1, 1), repeat=max(len(counted) - 1, 0))
        reached.append(max(moved(C, counted, (1, *sign)) for sign in signs))
    assert max(reached) <= 1  # exact: every way in which rewards may change
    full = [r for r, v in zip(reached, range(len(reached)), strict=True) if r > 0]
    assert max(full) > (0.85 if way != "equal" else 0.2)  # and the bound is not slack


def test_a_ledger_without_cross_terms_would_be_found_out() -> None:
    C = encoder("informative")
    ledger = PeopleLedger(SIZE, C, "scalar", 7)
    ledger.gram = np.diag(np.diag(ledger.gram))  # the fault
    worst = Fraction(0)
    for visits in visited(ledger, 60, 8, seed=3, spread=0.4).values():
        counted = [(batch, vector) for batch, vector in visits if vector.any()]
        worst = max(worst, moved(C, counted, (1,) * len(counted)))
    assert worst > Fraction(3, 2)


@pytest.mark.parametrize("name", ["sqrt", "informative", "signs"])
def test_what_batches_share_is_charged_in_full(name: str) -> None:
    """Every product of two columns of C, in exact fractions, is at most what the ledger charges: of either sign."""
    C = encoder(name) if name != "signs" else np.linalg.qr(np.random.default_rng(4).standard_normal((6, 6)) + np.eye(6))[1]
    exact = fractions(C)
    products = [[sum(C_row[i] * C_row[j] for C_row in exact) for j in range(len(C))] for i in range(len(C))]
    assert name != "signs" or min(map(min, products)) < 0
    charged = gram(C).tolist()
    for i, row in enumerate(products):
        for j, product in enumerate(row):
            units = abs(product) * 2**GRAM_BITS
            assert units <= charged[i][j] <= units * (1 + Fraction(1, 10**8)) + 2


@pytest.mark.parametrize("way", WAYS)
def test_what_is_spent_bounds_the_reach_and_stays_within_the_share(way: str) -> None:
    C, visits = encoder("sqrt"), 5
    ledger = PeopleLedger(SIZE, C, way, visits)
    rng, allowed = np.random.default_rng(0), shares(way, visits)
    earlier: list[tuple[int, Floats]] = []
    gram = [[abs(sum(C[k, i] * C[k, j] for k in range(BATCHES))) for j in range(BATCHES)] for i in range(BATCHES)]
    for number in range(8):
        aim = rng.standard_normal(SIZE)
        vector = ledger.charge(number, 4, number % 3, aim / np.linalg.norm(aim)).copy()
        if number >= visits:
            assert not vector.any()
            continue
        earlier.append((number % 3, vector / 1024))
        owed = sum(gram[i][j] * abs(float(f @ g)) for i, f in earlier for j, g in earlier)
        spent = int(ledger.arrays.spent[0])
        assert owed <= spent / 2**50 <= allowed[number] / 2**50 <= 1
        assert spent / 2**50 <= owed * (1 + 1e-5) + 1e-7
    assert ledger.counts() == {"people": 1, "counted": 5, "beyond": 3}


def test_shares_are_harmonic_and_equal_ones_are_those_of_a_group() -> None:
    harmonic = shares("directions", 4) / 2.0**50
    assert harmonic == pytest.approx(np.cumsum([1, 1 / 2, 1 / 3, 1 / 4]) / (25 / 12), rel=1e-8)
    assert shares("equal", 4) / 2.0**50 == pytest.approx(np.array([1, 4, 9, 16]) / 16, rel=1e-8)
    assert shares("scalar", 1)[0] < 2**50


def test_directions_leave_more_of_orthogonal_visits_and_of_alike_ones_no_less() -> None:
    C = np.ones((1, 1))
    alike, apart = np.eye(SIZE)[0], np.eye(SIZE)
    for way, least in (("scalar", 0.75), ("directions", 0.75)):
        ledger = PeopleLedger(SIZE, C, way, 4)
        told = [float(apart[n] @ ledger.charge(n, 1, 0, apart[n])) / 1024 for n in range(4)]
        assert told == pytest.approx([1 / np.sqrt((n + 1) * 25 / 12) for n in range(4)], abs=5e-3)
        again = PeopleLedger(SIZE, C, way, 4)
        assert sum(float(alike @ again.charge(n, 1, 0, alike)) / 1024 for n in range(4)) == pytest.approx(1, abs=5e-3)
        assert sum(told) / 2 > least
    mixed = [np.array([1.0, 0, 0, 0]), np.array([0.8, 0.6, 0, 0]), np.array([0.8, 0, 0.6, 0])]
    signal = {}
    for way in ("scalar", "directions"):
        ledger = PeopleLedger(SIZE, C, way, 3)
        signal[way] = sum(float(x @ ledger.charge(n, 1, 0, x)) / 1024 for n, x in enumerate(mixed))
    assert signal["directions"] > 1.02 * signal["scalar"]


def test_people_are_told_apart_and_a_ledger_that_grows_is_one_that_had_room() -> None:
    C = encoder("sqrt")
    growing = PeopleLedger(SIZE, C, "directions", 4)
    roomy = PeopleLedger(SIZE, C, "directions", 4)
    roomy.arrays = empty_ledger(SIZE, 1000, 1000)
    one, other = (visited(ledger, 900, 200, seed=5) for ledger in (growing, roomy))
    assert len(growing.arrays.numbers) >= growing.counts()["people"] == len(one) == len({*other})
    assert growing.counts() == roomy.counts()
    for person, visits in one.items():
        assert all(np.array_equal(f, g) for (_, f), (_, g) in zip(visits, other[person], strict=True))
        alone = PeopleLedger(SIZE, C, "directions", 4)  # as if nobody else had come
        assert len(visits) <= 4 or not visits[4][1].any()
        assert alone.counts()["people"] == 0


def test_a_round_is_charged_once_and_in_order() -> None:
    ledger = PeopleLedger(SIZE, encoder("sqrt"), "directions", 4)
    x = np.eye(SIZE)[0]
    first = ledger.charge(0, 7, 0, x).copy()
    assert np.array_equal(ledger.charge(0, 7, 0, x), first)
    assert ledger.counts()["counted"] == 1
    with pytest.raises(InputError, match="round=5 == 1"):
        ledger.charge(5, 7, 0, x)
    with pytest.raises(InputError, match="batch=6"):
        ledger.charge(1, 7, BATCHES, x)


def test_a_ledger_is_restored_and_a_damaged_one_refused() -> None:
    C = encoder("sqrt")
    ledger = PeopleLedger(SIZE, C, "directions", 4)
    visited(ledger, 50, 9, seed=1)
    twin = PeopleLedger(SIZE, C, "directions", 4)
    twin.restore(ledger.state())
    x = np.full(SIZE, 0.5)
    assert np.array_equal(ledger.charge(50, 3, 5, x), twin.charge(50, 3, 5, x))
    assert twin.counts() == ledger.counts()
    faults: list[tuple[str, Any]] = [
        ("spent", lambda a: a - 2**60),
        ("spent", lambda a: a * 0),
        ("spent", lambda a: a // 2),
        ("spent", lambda a: a + 2**49),
        ("before", lambda a: a * 0 - 1),
        ("visits", lambda a: a * 0),
        ("latest", lambda a: a + 1000),
        ("before", lambda a: a + 1000),
        ("batches", lambda a: a + 100),
        ("vectors", lambda a: a[:, :2]),
        ("numbers", lambda a: a[:-1]),
    ]
    for name, fault in faults:
        state = {**ledger.state()}
        state[name] = fault(state[name])
        with pytest.raises(InputError, match="ledger"):
            PeopleLedger(SIZE, C, "directions", 4).restore(state)
    with pytest.raises(InputError, match="ledger"):
        PeopleLedger(SIZE, C, "directions", 4).restore({})


def test_another_encoder_may_not_charge_more_for_what_was_added() -> None:
    cheap, dear = encoder("sqrt"), encoder("sqrt")
    dear[4, 1] += 0.5
    ledger = PeopleLedger(SIZE, cheap, "directions", 4)
    visited(ledger, 20, 3, seed=1, batches=3)
    other = PeopleLedger(SIZE, dear, "directions", 4).gram
    with pytest.raises(InputError, match="charge people no more"):
        ledger.follow(other, 3)
    assert ledger.follow(PeopleLedger(SIZE, followed(cheap), "directions", 4).gram, 3).arrays is ledger.arrays


def rows(epochs: tuple[Epoch, ...], ends: tuple[int, ...]) -> BatchPlan:
    return BatchPlan(
        delta=1e-5,
        dimension=SIZE,
        ends=ends,
        noise_multiplier=2.0,
        epochs=epochs,
        unit=UserLedgerUnit(5),
        centre=0.5,
        decoded=False,
        continues=True,
    )


def test_sums_in_whole_numbers_move_no_further_than_priced_whatever_a_person_answers() -> None:
    """Two epochs, exact arithmetic, missing rewards among the answers: the reach of a person over both is 1 at most."""
    two = (Epoch(0, 3, mechanisms.strategy("sqrt", 3)), Epoch(3, 5, mechanisms.strategy("sqrt", 2)))
    plan, rng = rows(two, (4, 8, 12, 16, 20)), np.random.default_rng(2)
    features = rng.standard_normal((20, SIZE)) * 0.3 + np.eye(SIZE)[0]
    who = [int(rng.random() < 0.4) for _ in range(20)]
    others = rng.random(20)
    C = plan.encoder()

    def sums(answers: tuple[float, ...]) -> list[list[Fraction]]:
        collector, mine, found = plan.collector(Secure()), iter(answers), []
        for number in range(20):
            reward = next(mine, 0.5) if who[number] == 0 else others[number]
            collector.count(Event(number, features[number] / 2, reward, who[number]))
            if number + 1 in plan.ends:
                found.append([Fraction(int(entry), 2**20) for entry in collector.take()])
        return found

    visits = who.count(0)
    assert visits >= 6
    worst = Fraction(0)
    for pattern in itertools.product((0.0, 1.0, 0.5), repeat=5):
        one, other = sums(pattern), sums(tuple(1 - answer if answer != 0.5 else 1.0 for answer in pattern))
        total = Fraction(0)
        for row in fractions(C):
            for i in range(SIZE):
                total += sum((c * (a[i] - b[i]) for c, a, b in zip(row, one, other, strict=True)), Fraction(0)) ** 2
        worst = max(worst, total)
    assert Fraction(1, 2) < worst <= 1


MOST = 2**25
"""What one visit adds to a number at most."""


def visit(sums: LedgerSum, number: int) -> None:
    sums.count(Event(number, np.eye(SIZE)[0], 1.0, number))


@pytest.mark.parametrize("how", ["counted", "restored", "gone on from"])
def test_sums_of_people_that_might_not_fit_are_refused_and_stay(how: str) -> None:
    plan = rows((Epoch(0, 2, mechanisms.strategy("sqrt", 2)),), (40, 80))
    sums: Any = plan.collector(Secure())
    if how == "restored":
        total = np.array([1 - LARGEST + 2 * MOST, *[0] * (SIZE - 1)], dtype=object)
        sums.restore({**sums.state(), "total": total})
    else:
        sums._reached = LARGEST - 1 - 2 * MOST
    if how == "gone on from":
        after: Any = plan.collector(Secure())
        after.go_on(sums)
        sums = after
    for number in range(2):
        visit(sums, number)
    before = sums.state()["total"].tolist()
    event = Event(2, np.eye(SIZE)[0], 1.0, 2)
    for enter in (sums.inspect, sums.count):
        with pytest.raises(InputError, match="to fit exact noise"):
            enter(event)
    assert sums.state()["total"].tolist() == before
    sums.take()
    visit(sums, 2)
    sums._reached = LARGEST - MOST  # which might reach 2^62 itself, and that is what noise refuses
    event = Event(3, np.eye(SIZE)[0], 1.0, 3)
    for enter in (sums.inspect, sums.count):
        with pytest.raises(InputError, match="to fit exact noise"):
            enter(event)


def test_a_stored_sum_of_people_that_does_not_fit_is_refused_and_not_repeated() -> None:
    sums: Any = rows((Epoch(0, 2, mechanisms.strategy("sqrt", 2)),), (40, 80)).collector(Secure())
    for number in (LARGEST, -LARGEST):
        with pytest.raises(InputError, match=r"^Expected state\.total to be below 2\^62 in size; it is private"):
            sums.restore({**sums.state(), "total": np.array([number, *[0] * (SIZE - 1)], dtype=object)})


def test_a_plan_says_whom_it_protects_and_that_its_bound_is_one() -> None:
    plan = rows((Epoch(0, 2, mechanisms.strategy("sqrt", 2)),), (4, 8))
    stated = plan.guarantee("x", exact_noise=True)
    assert (stated.unit, stated.neighbours, stated.exact) == ("user", "replace", False)
    assert stated.mu == pytest.approx(0.5, rel=1e-9)
    assert any("ledger" in text for text in stated.enforced)
    assert any("comes back" in text for text in stated.assumptions)
    assert any("one identifier" in text for text in stated.assumptions)


def test_events_must_say_whose_they_are_and_errors_repeat_no_reward() -> None:
    sums = UserLedgerUnit(3).collector(2, noise=Secure(), centre=0.5, shape=None)
    assert isinstance(sums, LedgerSum)
    with pytest.raises(InputError, match="user to be given"):
        sums.count(Event(0, np.zeros(2), 0.25))
    with pytest.raises(InputError) as caught:
        sums.count(Event(0, np.zeros(2), 7.25, 3))
    assert "7.25" not in str(caught.value)
    assert sums.people.rounds == 0  # nothing was charged


@pytest.mark.parametrize("options", [{"visits": 0}, {"visits": 101}, {"way": "free"}])
def test_units_refuse_what_they_cannot_keep(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        UserLedgerUnit(**options)
