"""What interrupts a call in the same thread, as a signal's handler does: refused wherever it comes, and nothing is torn."""

import contextlib
import logging
import sys
import warnings

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import check
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Book
from adaprivate.runtime.decision import Decision
from adaprivate.runtime.engines import ExactEngine
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy
from adaprivate.runtime.storage import Stored

EYE = np.eye(3)
KINDS = {
    "sums": ("adaprivate-ts", {"batch_size": 3}),
    "simulated": ("adaprivate-ts", {"batch_size": 3, "seed": 1}),
    "people": ("noise-aware-ucb", {"unit": "user"}),
    "flip": ("noise-aware-ts", {"channel": "flip"}),
    "open": ("noise-aware", {"channel": "gaussian", "batch_size": 6}),
    "open, simulated": ("noise-aware", {"channel": "gaussian", "batch_size": 6, "seed": 1}),
}


def made(kind, window=0, rounds=0):
    name, options = KINDS[kind]
    noise = {} if "seed" in options else {"source": Secure()}
    policy = ap.policy(name, dimension=3, rounds=60, reward_window=window, **options, **noise)
    who = {"user": "bert"} if kind == "people" else {}
    for _ in range(rounds):
        policy.learn(policy.decide(EYE, **who), 1.0)
    return policy


def counted(policy):
    """How many decisions the state takes to be open; None where it does not count them."""
    scalars = policy._engine.known.scalars
    return int(scalars["open"][0]) if "open" in scalars.dtype.names else None


class Steps:
    """Does something at the n-th place in the package's own code where Python looks at signals from here on.

    That is where one of its functions begins, or something compiled has come back.
    """

    def __init__(self, step, act):
        self.step, self.act, self.seen = step, act, 0

    def __enter__(self):
        sys.setprofile(self._place)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def _place(self, frame, event, argument):
        own = any(part in frame.f_code.co_filename for part in ("adaprivate/runtime", "mechanisms/book"))
        if own and event in ("call", "c_return"):
            self.seen += 1
            if self.seen == self.step:
                sys.setprofile(None)
                self.act()


def steps_of(call):
    with Steps(0, None) as steps:
        call()
    return steps.seen


CALLS = {
    "decide": lambda p, who: p.decide(EYE, **who),
    "decide_many": lambda p, who: p.decide_many(np.stack([EYE, EYE]), **({"users": ["bert"] * 2} if who else {})),
    "catalogue": lambda p, who: p.decide(ap.Catalogue(EYE), **who),
    "observe": lambda p, who: p.observe(EYE[0], 1.0, **who),
    "learn": lambda p, who: p.learn(p._open[p.decided - 1].decision, 0.5),
    "consider": lambda p, who: p.consider(EYE),
    "propensities": lambda p, who: p.propensities(EYE),
    "advance": lambda p, who: p.advance(),
    "finish": lambda p, who: p.finish(),
}
EVERY = (
    [("sums", call) for call in CALLS] + [(kind, "decide") for kind in KINDS if kind != "sums"] + [("people", "observe")]
)


def begun(kind, call):
    policy = made(kind, rounds=4)
    if call == "learn":
        policy.decide(EYE)
    return policy


@pytest.mark.parametrize(("kind", "call"), EVERY)
def test_a_handler_that_decides_at_any_place_is_refused_or_comes_before(kind, call):
    """Every decision has a round of its own, and whatever was decided is what is open; nothing is stuck after it."""
    who = {"user": "bert"} if kind == "people" else {}
    mine = {"user": "anna"} if kind == "people" else {}
    first = begun(kind, call)
    count = steps_of(lambda: CALLS[call](first, who))
    refused = 0
    for step in range(1, count + 1):
        policy, inner = begun(kind, call), []

        def handler(policy=policy, inner=inner):
            try:
                inner.append(policy.decide(EYE[:2], **mine))
            except ap.InputError as error:
                assert "what interrupts a call" in str(error)  # noqa: PT017

        before = policy.decided
        with Steps(step, handler):
            try:
                found = CALLS[call](policy, who)
            except ap.RewardRefusedError as error:  # the round was counted first
                assert (call, error.reason) == ("learn", "late")  # noqa: PT017
                found = None
        refused += not inner
        outer = found if isinstance(found, list) else [found] if isinstance(found, Decision) else []
        rounds = sorted(decision.round for decision in [*outer, *inner])
        if call != "observe":
            assert rounds == list(range(before, policy.decided))
        for decision in [*outer, *inner]:
            entry = policy._open.get(decision.round)
            if entry is not None:
                assert entry.decision is decision
                assert entry.person == policy._person((mine if decision in inner else who).get("user"))
        assert sorted(policy._open) == list(range(policy.round, policy.decided))
        for _ in range(8):
            policy.learn(policy.decide(EYE, **who), 1.0)
        policy.finish()
        assert policy.round == policy.decided
        if policy.source is not None:
            assert (policy.book.round, policy.book.batch) == (policy.round, policy.version)
            assert not policy.book.due
    assert refused > count / 3


@pytest.mark.parametrize("kind", ["sums", "simulated"])
def test_a_handler_that_comes_while_a_round_is_entered_is_refused(kind):
    """The reward that is being counted is not counted by the handler's own decision as well."""
    policy, errors = made(kind, rounds=4), []
    use = policy._engine.count_and_choose

    def handled(*arguments):
        for again in (policy.decide, policy.consider, lambda _: policy.advance(), lambda _: policy.to_bytes()):
            with pytest.raises(ap.InputError, match="what interrupts a call"):
                again(EYE)
            errors.append(again)
        return use(*arguments)

    policy._engine.count_and_choose = handled
    policy.decide(EYE)
    assert len(errors) == 4
    del policy._engine.count_and_choose
    if kind == "sums":
        assert policy.book.round == 4
        whole = policy.book._collector._whole
        assert whole._sums.scalars["reached"] == 2**20  # the one event since the batch of three


@pytest.mark.parametrize("kind", ["sums", "flip"])
def test_a_handler_that_comes_while_a_file_is_written_is_refused(kind, monkeypatch, tmp_path):
    """Else the file would hold the state before a release that was seen."""
    policy, refused = made(kind, rounds=3), []
    claim = Stored.claim

    def handled(self):
        with pytest.raises(ap.InputError, match="what interrupts a call"):
            policy.decide(EYE)
        refused.append(policy.version)
        claim(self)

    monkeypatch.setattr(Stored, "claim", handled)
    policy.save(tmp_path / "p")
    assert refused
    monkeypatch.undo()
    assert policy.decide(EYE).round == 3


# --- what is open -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["open", "open, simulated"])
@pytest.mark.parametrize("window", [0, 2])
def test_what_is_open_is_known_after_an_interruption_at_any_place(kind, window):
    def fresh():
        return made(kind, window, rounds=4 + window)

    first = fresh()
    count = steps_of(lambda: first.decide(EYE))
    assert count > 10

    def stop():
        raise KeyboardInterrupt

    for step in range(1, count + 1):
        policy = fresh()
        with Steps(step, stop), contextlib.suppress(KeyboardInterrupt):
            policy.decide(EYE)
        for _ in range(2):
            policy.learn(policy.decide(EYE), 0.5)
            assert counted(policy) == policy.decided - policy.round == window + 1
        policy.finish()
        assert counted(policy) == 0


WITHIN = [
    (Learner, "counted_and_choose"),
    (Book, "add_next"),
    (Policy, "_counted"),
    (Policy, "_after_count"),
    (Policy, "_made"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("kind", "method"), WITHIN, ids=lambda x: getattr(x, "__name__", x))
def test_what_is_open_is_known_after_an_interrupted_step(monkeypatch, kind, method, after):
    policy, original = made("open", rounds=4), getattr(kind, method)

    def interrupts(self, *arguments):
        if after:
            original(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kind, method, interrupts)
        with pytest.raises(KeyboardInterrupt):
            policy.decide(EYE)
    for _ in range(3):
        policy.learn(policy.decide(EYE), 0.5)
        assert counted(policy) == policy.decided - policy.round


def observed(policy):
    for _ in range(200):
        policy.observe(10 * EYE[0], 0.25)


@pytest.mark.parametrize(
    "call",
    [lambda p: p.decide(10 * EYE), lambda p: p.decide_many(10 * EYE[None]), observed],
    ids=["decide", "many", "observe"],
)
def test_a_warning_of_clipping_that_is_an_error_comes_when_the_decision_is_made(call):
    policy = made("open", rounds=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(check.ClippedWarning):
            call(policy)
    assert policy.decided == policy.round + 1
    waits = policy._open[policy.round]
    assert waits.decision.features.max() <= 1
    assert waits.reward == (0.25 if call is observed else None)
    policy.learn(policy.decide(EYE), 0.5)
    assert counted(policy) == 1
    policy.finish()
    assert counted(policy) == 0


# --- what is told of -----------------------------------------------------------------------------------------------------


class Fails(logging.Handler):
    """Of releases the first cannot be written down."""

    left = 1

    def emit(self, record):
        if self.left and "release" in record.getMessage():
            self.left = 0
            raise OSError


@pytest.mark.parametrize("kind", ["sums", "simulated", "flip", "open"])
def test_a_log_that_fails_leaves_the_number_of_releases_what_it_is(kind, tmp_path):
    policy, twin = made(kind), made(kind)
    logger, fails = logging.getLogger("adaprivate"), Fails()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(fails)
    try:
        for number in range(30):
            try:
                policy.learn(policy.decide(EYE), 1.0)
            except OSError:
                policy.learn(policy.decide(EYE), 1.0)
            twin.learn(twin.decide(EYE), 1.0)
            if policy.round == number:
                assert policy.version == twin.version
    finally:
        logger.removeHandler(fails)
        logger.setLevel(level)
    assert not fails.left
    assert policy.round == twin.round == 29
    assert policy.version == twin.version > 3
    if policy.source is not None:
        assert policy.version == policy.book.batch
        policy.save(tmp_path / "p")
        assert ap.load(tmp_path / "p").version == policy.version


# --- what a book takes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sums", "open"])
def test_a_book_takes_the_round_meant_and_none_that_closes_a_batch(kind):
    policy = made(kind, rounds=5)
    book, end = policy.book, policy.book.sums_until
    before = book.to_bytes()
    for number in (book.round - 1, book.round + 1):
        with pytest.raises(ap.InputError, match=rf"^Expected number={number} == {book.round}, the next round\.$"):
            book.add_next(number, EYE[0], 1.0)
    assert book.to_bytes() == before
    for number in range(book.round, end):
        book.add_next(number, EYE[0], 1.0)
    before = book.to_bytes()
    with pytest.raises(ap.InputError, match=rf"^Expected number={end} < {end}, the round that closes the batch\.$"):
        book.add_next(end, EYE[0], 1.0)
    assert book.to_bytes() == before


@pytest.mark.parametrize("step", ["add_next", "counted_and_choose"])
def test_after_an_interruption_the_learner_counts_a_round_once(monkeypatch, step):
    """Between the learner's count and the book's, the next decision counts the rest: root and statistic are the twin's."""
    policy, twin = made("sums"), made("sums")
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**40, dtype=float))
    kind = Book if step == "add_next" else Learner
    for number in range(12):
        row = EYE[number % 3 : number % 3 + 1]
        if number % 3 == 2:
            original = getattr(kind, step)

            def interrupts(self, *arguments, original=original):
                if step != "add_next":
                    original(self, *arguments)
                raise KeyboardInterrupt

            with monkeypatch.context() as patched:
                patched.setattr(kind, step, interrupts)
                with pytest.raises(KeyboardInterrupt):
                    policy.decide(row)
            assert policy.learner.done[0] == policy.book.round + 1
        for one in (policy, twin):
            one.learn(one.decide(row), 1.0)
        # what a choice is drawn by is not compared: the interrupted one was drawn, too
        for name in ("root", "coordinates", "statistic"):
            assert np.array_equal(getattr(policy.state, name), getattr(twin.state, name)), (name, number)
    assert policy.version == twin.version == 3


def test_engines_count_a_round_that_was_half_counted_once():
    """Asked to do both after an interruption in between, an engine counts what is left of the round, and chooses."""
    policy, twin = made("sums"), made("sums")
    for one in (policy, twin):
        for number in range(4):  # of one candidate each, as noise has no seed
            one.learn(one.decide(EYE[number % 3 : number % 3 + 1]), 1.0)
    entry = policy._open[3]
    policy.learner.counted(entry.features)
    assert isinstance(policy._engine, ExactEngine)
    for one in (policy, twin):
        one._engine.count_and_choose(3, entry.features, 1.0, -1, EYE[:1].copy())
    assert policy.learner.done.tolist() == twin.learner.done.tolist() == [4, 1]
    assert np.array_equal(policy.state.root, twin.state.root)
    assert policy.book.round == 4
    assert policy.state.scalars["round"] == 4
