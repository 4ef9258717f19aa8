"""A person as the unit: a book keeps everyone within their reach, whatever they do, and says what that costs."""

import dataclasses
import math

import numpy as np
import pytest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, noise, strategy, units
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan, Epoch, plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.whole import WholeSum

D, BATCHES, SIZE, M = 2, 4, 6, 2


def plan(name="independent", **options):
    unit = UserUnit(batches=M, clip=1.0, **options)
    ends = tuple(SIZE * (k + 1) for k in range(BATCHES))
    epochs = (Epoch(0, BATCHES, strategy(name, BATCHES)),)
    return BatchPlan(delta=1e-5, dimension=D, ends=ends, noise_multiplier=3.0, epochs=epochs, unit=unit, centre=0.5)


@pytest.fixture
def quiet(monkeypatch):
    """Exact releases without their noise: what one person can move."""
    monkeypatch.setattr(noise, "_gaussian_sampler", lambda scale, size: lambda zeros: [0] * size)


def released(made, people, rewards):
    book = made.book(Secure())
    rows = []
    for number, (person, reward) in enumerate(zip(people, rewards, strict=True)):
        features = [1.0, 0.0] if person == "p0" else [math.cos(number), math.sin(number)]
        book.add(Event(number, np.array(features), reward, person))
        if book.due:
            release, book = book.close()
            rows.append(release.values)
    return np.array(rows)


def test_what_an_interruption_leaves_of_one_person_does_not_enter_for_another(monkeypatch):
    book = plan().book(Secure())
    with monkeypatch.context() as patched:
        enter = WholeSum.enter

        def interrupted(self, *arguments):
            enter(self, *arguments)
            raise KeyboardInterrupt

        patched.setattr(WholeSum, "enter", interrupted)
        with pytest.raises(KeyboardInterrupt):
            book.add(Event(0, np.array([1.0, 0.0]), 1.0, "alice"))
    book.add(Event(1, np.array([0.0, 1.0]), 1.0, "bob"))
    assert {user: list(vector) for user, vector in book._collector._users.items()} == {"bob": [0, 2**19]}
    assert book.round == 2


@pytest.mark.parametrize("name", ["independent", "sqrt"])
def test_one_person_moves_releases_by_no_more_than_the_price_pays_for(name, quiet):
    """One who comes in every batch, twice: replacing all their rewards moves the rows by at most mu noise deviations."""
    made = plan(name)
    people = [f"p{n % 3}" for n in range(BATCHES * SIZE)]
    base = [0.5] * len(people)
    low = [0.0 if person == "p0" else r for person, r in zip(people, base, strict=True)]
    high = [1.0 if person == "p0" else r for person, r in zip(people, base, strict=True)]
    mechanism = made.mechanism(made.epochs[0], Secure())
    rows = [np.linalg.solve(np.tril(np.ones((BATCHES, BATCHES))), released(made, people, r)) for r in (low, high)]
    moved = made.epochs[0].strategy.matrix() @ (rows[1] - rows[0])
    distance = float(np.linalg.norm(moved)) / mechanism.row_std
    assert distance <= made.price(exact_noise=True).mu * (1 + 1e-9)
    if name == "independent":  # and this person does: the price is exact
        assert distance == pytest.approx(made.price().mu, rel=1e-4)
    touched = np.linalg.norm(rows[1] - rows[0], axis=1) > 2.0**-NOISE_BITS
    assert touched.sum() == M  # the rest of what they did is dropped


def test_costs_what_the_participation_says():
    made = plan()
    plain = privacy.users(1.0, M, "replace")
    assert made.participation == dataclasses.replace(plain, conditions=(*plain.conditions, "public-visits"))
    assert made.price().mu == pytest.approx(1 / 3.0)
    assert made.mechanism(made.epochs[0], Secure()).row_std == pytest.approx(3.0 * 2 * math.sqrt(M))
    statement = made.guarantee("any", exact_noise=True)
    assert statement.unit == "user"
    assert {privacy.CONDITIONS[c] for c in ("user-clip", "user-batches")} <= set(statement.enforced)
    assert privacy.CONDITIONS["user-identity"] in statement.assumptions


def test_a_stored_book_knows_who_came():
    made = plan("sqrt")
    assert units.named("user") is UserUnit
    whole, part = made.book(Secure()), made.book(Secure())
    for number in range(2 * SIZE + 3):
        for book in (whole, part):
            book.add(Event(number, np.array([0.6, 0.8]), number % 2, f"p{number % 4}"))
        if part.due:
            part = part.close()[1]
            whole = whole.close()[1]
        same = plan_from_bytes(made.to_bytes())
        part = type(part).from_bytes(part.to_bytes(), same, Secure())
    kept, stored = whole._collector.state(), part._collector.state()
    assert kept["users"] == stored["users"]
    assert {k: tuple(v) for k, v in kept["ledger"].items()} == {k: tuple(v) for k, v in stored["ledger"].items()}


def test_an_event_without_a_person_and_a_second_mechanism_are_refused():
    book = plan().book(Secure())
    with pytest.raises(InputError, match=r"^Expected user to be given with every event: this plan protects people"):
        book.add(Event(0, np.array([1.0, 0.0]), 1.0))
    assert book.round == 0
    with pytest.raises(InputError, match=r"^Expected epochs=2 <= 1 for a unit that enters several batches"):
        BatchPlan(
            delta=1e-5,
            dimension=D,
            ends=(2, 4),
            noise_multiplier=1.0,
            epochs=(Epoch(0, 1, strategy("independent", 1)), Epoch(1, 2, strategy("independent", 1))),
            unit=UserUnit(batches=2),
        )
