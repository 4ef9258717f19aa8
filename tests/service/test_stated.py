"""What the service states of a bandit is true: its settings, the price of going on after a rollback."""

import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.service.calling import Caller
from tests.service.conftest import Clock, decide, made

from adaprivate import mechanisms
from adaprivate.mechanisms.channels import KEPT_BY
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.mechanisms.plan_base import NOTHING_KEPT, SUMS_KEPT
from adaprivate.privacy.price import EitherPrice, compose
from adaprivate.service import backups, documents, erasure, keeping, moving, schema
from adaprivate.service.bandit import BanditSpec, differing_in_words
from adaprivate.service.core import Ask, Service
from adaprivate.service.faults import Fault
from adaprivate.service.journal import Journal
from adaprivate.service.migrations import upgrade

PEOPLE = {"policy": "noise-aware", "unit": "user", "batch_size": 4, "options": {"channel": "gaussian"}}


@pytest.fixture
def url(tmp_path):
    address = f"sqlite:///{tmp_path / 'service.db'}"
    upgrade(address)
    return address


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(url, tmp_path, clock):
    found = Service(url, journal=tmp_path / "journal", clock=clock)
    yield found
    found.close()


class TestAfterARollback:
    @pytest.fixture
    def resumed(self, service, url, tmp_path, clock):
        """A bandit of people with a holdback: batches of both streams were published, lost, and may be published again."""
        made(service, **PEOPLE, holdback=0.5)
        backups.backup(url, tmp_path / "backup.db")
        for user in range(40):
            decide(service, 1, user=f"u{user}")
        clock.now += 61
        while service.close_due():
            pass
        service.close()
        journal = Journal(tmp_path / "journal")
        backups.restore(tmp_path / "backup.db", url, journal, replace=True)
        again = Service(url, journal=tmp_path / "journal", clock=clock)
        text = keeping.resume(again.database, journal, "page", void="no-replay")
        assert "of the policy and batch" in text or "of the policy and batches" in text, "both streams are lost"
        again.refresh()
        yield again, text
        again.close()

    def test_the_price_is_that_of_the_dearest_stream_at_the_delta_that_is_stated(self, resumed):
        service, text = resumed
        with service.database.reading() as connection:
            rows = connection.execute(sa.select(schema.books.c.stream, schema.books.c.plan)).all()
        plans = {row.stream: plan_from_bytes(row.plan) for row in rows}
        prices = {stream: plan.price(exact_noise=True) for stream, plan in plans.items()}
        delta = plans[schema.POLICY].delta
        twice = EitherPrice(tuple(compose([price] * 2) for price in prices.values()))
        epsilon = twice.epsilon(delta)
        assert f"epsilon = {epsilon:.4g} at most (delta = {delta:g}), not 1, for everyone" in text
        assert twice.delta(epsilon) <= delta * (1 + 1e-6)
        assert delta == 1e-5
        gaussian = compose([prices[schema.POLICY]] * 2)
        assert gaussian.delta(epsilon) > 0, "of sums with Gaussian noise no epsilon holds at delta = 0"

    def test_no_place_says_that_what_was_stated_holds(self, resumed):
        service, text = resumed
        status, (card,) = service.status("page"), service.bandits()
        assert status["guarantee"]["void"] == status["budget"]["void"] == card["void"] == [text]
        for place in (status["guarantee"], status["budget"], card):
            assert place["epsilon"] is place["delta"] is None
            assert place["at_most"]["delta"] == 1e-5
            assert f"epsilon = {place['at_most']['epsilon']:.4g} at most" in text
        assert status["budget"]["explanation"].startswith("VOID: the epsilon and delta that were stated no longer hold. ")
        for shown, document in ((status, documents.Status), (card, documents.BanditSummary)):
            document.model_validate(shown)
        with Caller(service) as caller:
            lines = caller.get("/metrics").text.splitlines()
        assert 'adaprivate_epsilon{bandit="page"} NaN' in lines
        assert 'adaprivate_delta{bandit="page"} NaN' in lines
        assert 'adaprivate_guarantee_void{bandit="page"} 1' in lines

    def test_where_nothing_was_lost_it_holds(self, service):
        made(service, **PEOPLE, holdback=0.5)
        status, (card,) = service.status("page"), service.bandits()
        assert status["budget"]["void"] == card["void"] == []
        assert status["budget"]["epsilon"] == card["epsilon"] == 1
        assert status["guarantee"]["at_most"] is status["budget"]["at_most"] is card["at_most"] is None
        assert status["budget"]["explanation"].startswith("The budget does not run down")
        with Caller(service) as caller:
            lines = caller.get("/metrics").text.splitlines()
        assert 'adaprivate_epsilon{bandit="page"} 1' in lines
        assert 'adaprivate_guarantee_void{bandit="page"} 0' in lines


MADE = {"policy": "noise-aware", "dimension": 3, "rounds": 5000, "base_rate": 0.04, "missing": 0.0, "reward_window": 60.0}
OTHER = {
    "policy": "rr-linucb",
    "dimension": 4,
    "rounds": 5001,
    "epsilon": 2.0,
    "delta": 1e-4,
    "batch_size": 7,
    "reward_window": 61.0,
    "unit": "user",
    "holdback": 0.1,
    "default_item": "a",
    "keep_rewards": True,
    "local": True,
    "base_rate": 0.1,
    "missing": 0.5,
}


class TestANameThatIsTaken:
    @pytest.mark.parametrize("name", OTHER)
    def test_names_the_setting_that_differs(self, service, name):
        service.create(BanditSpec(name="page", **MADE))
        other = BanditSpec(name="page", **{**MADE, name: OTHER[name]})
        there = BanditSpec(name="page", **MADE)
        assert [*other.differing(there)] == [*there.differing(other)] == [name]

    def test_is_refused_with_the_names(self, service):
        service.create(BanditSpec(name="page", **MADE))
        changed = {"epsilon": 0.5, "delta": 1e-6, "base_rate": 0.1, "missing": 0.5}
        with pytest.raises(Fault) as refused:
            service.create(BanditSpec(name="page", **(MADE | changed), options={"growth": 1.2}))
        assert refused.value.extra["differs"] == ["epsilon", "delta", "base_rate", "missing", "options.growth"]
        assert refused.value.detail.endswith(
            ", made with other settings: epsilon 1 there, 0.5 asked; delta 1e-05 there, 1e-06 asked; base_rate 0.04 there, "
            "0.1 asked; missing 0 there, 0.5 asked; options.growth not set there, 1.2 asked."
        )
        with Caller(service) as caller:
            answer = caller.post("/bandits", {"name": "page", **MADE, **changed})
            assert answer.status_code == 409
            assert answer.json()["differs"] == [*changed]
            same = caller.post("/bandits", {"name": "page", **MADE})
        assert same.status_code == 409
        assert same.json()["differs"] == []

    def test_noise_that_nobody_named_is_not_among_them(self, service):
        service.create(BanditSpec(name="page", **MADE, options={"noise": "informative"}))
        with pytest.raises(Fault) as refused:
            service.create(BanditSpec(name="page", **(MADE | {"rounds": 100_000})))  # for which independent noise is chosen
        assert refused.value.extra["differs"] == ["rounds"]
        assert refused.value.detail.endswith(": rounds 5000 there, 100000 asked.")

    def test_long_values_are_not_repeated(self):
        many = BanditSpec(name="page", **MADE, featuriser={"context": [{"name": "hour"}] * 20})
        assert differing_in_words(many.differing(BanditSpec(name="page", **MADE))) == "featuriser"

    def test_all_settings_are_compared(self):
        assert {*OTHER, "name", "featuriser", "options"} == {*BanditSpec.__dataclass_fields__}


def test_the_status_shows_what_rewards_were_taken_for(service):
    service.create(BanditSpec(name="page", **MADE))
    service.create(BanditSpec(name="plain", dimension=3))
    status = service.status("page")
    assert (status["base_rate"], status["missing"]) == (0.04, 0.0)
    status = service.status("plain")
    assert (status["base_rate"], status["missing"]) == (None, 0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"options": {"noise": "sqrt"}},
        {"options": {"noise": "blt"}},
        {"policy": "noise-aware", "options": {"channel": "items"}},
        {"policy": "noise-aware-ts", "unit": "user", "options": {"weights": "clip"}},
        {"policy": "noise-aware-ts", "unit": "user", "options": {"noise": "sqrt"}},
    ],
    ids=["sums", "buffers", "items", "clipped", "people"],
)
def test_the_size_of_an_export_is_that_of_its_shape(tmp_path_factory, clock, monkeypatch, options):
    """Whatever was rewarded: sums of 0, of eight digits, of odd numbers, or no reward at all."""
    monkeypatch.setattr(moving, "_BLOCK", 1)
    monkeypatch.setattr("adaprivate.service.core.secrets.token_bytes", bytes)  # people's numbers are the same
    sizes, contents = set(), set()
    for reward in (None, 0.0, 1.0, 0.123456, 1e-9, 1 / 3):
        folder = tmp_path_factory.mktemp("export")
        upgrade(f"sqlite:///{folder / 'service.db'}")
        service = Service(f"sqlite:///{folder / 'service.db'}", journal=folder / "journal", clock=clock)
        made(service, **options)
        users = [f"u{n % 7}" if options.get("unit") == "user" else None for n in range(13)]
        for _ in range(2):
            asks = [service.check("page", Ask(["a"], user=user)) for user in users]  # what is chosen tells of releases
            ids = [one.decision_id for one in service.decide([("page", asks, None)])[0]]
            service.reward([(one, reward) for one in ids if reward is not None])
            clock.now += 61
            while service.close_due():
                pass
        with service.database.reading() as connection:
            row = connection.execute(sa.select(schema.bandits)).one()
            _, private = moving._parts(connection, row, whole=True)
        service.close()
        sizes.add(len(private))
        contents.add(len(private.rstrip(b" ")))
    assert len(sizes) == 1
    assert len(contents) > 1, "what is in it does differ in size"


class TestWhatIsKept:
    @pytest.mark.parametrize(
        ("options", "noise"),
        [
            ({"dimension": 3}, "independent"),
            ({"dimension": 3, "unit": "user"}, "independent"),
            ({"dimension": 3, "options": {"noise": "informative"}}, "informative"),
            ({"dimension": 3, "options": {"noise": "independent"}}, "independent"),
            ({"dimension": 20}, None),
            ({"dimension": 3, "rounds": 3000, "unit": "user"}, None),
            ({"dimension": 3, "local": True}, None),
            ({"dimension": 3, "options": {"channel": "flip"}}, None),
            ({"dimension": 3, "unit": "user", "options": {"weights": "clip"}}, None),
            ({"dimension": 3, "rounds": 3000, "policy": "adaprivate-ts"}, None),
        ],
    )
    def test_noise_that_keeps_nothing_is_chosen_where_it_costs_little(self, service, options, noise):
        service.create(BanditSpec(name="page", **options))
        assert service.status("page")["options"].get("noise") == noise

    def test_a_description_without_noise_is_that_of_a_bandit_whose_noise_was_chosen(self, service):
        spec = BanditSpec(name="page", dimension=3)
        service.create(spec)
        with pytest.raises(Fault) as refused:
            service.create(spec)
        assert refused.value.extra["differs"] == []

    @pytest.mark.parametrize(
        ("noise", "kept"),
        [
            ("independent", NOTHING_KEPT),
            ("informative", f"The exact sums of released batches are kept until round 3000. {SUMS_KEPT}"),
        ],
    )
    def test_the_status_says_it_before_and_after_the_plan_is_settled(self, service, clock, noise, kept):
        made(service, policy="noise-aware", rounds=3000, options={"channel": "gaussian", "noise": noise})
        status = service.status("page")
        assert status["retention"] == kept
        assert f"{erasure.STATED} {kept}" in status["notes"]
        decide(service, 60)
        clock.now += 61
        while service.close_due():
            pass
        status = service.status("page")
        assert status["releases"] > 1
        if noise == "independent":
            assert status["retention"] == NOTHING_KEPT
        else:
            assert re.fullmatch(
                r"The exact sums of each released batch are kept until .* round 2\d{3}\. .*", status["retention"]
            )

    def test_flips_and_raw_rewards(self, service):
        service.create(BanditSpec(name="flips", dimension=3, keep_rewards=True, options={"channel": "flip"}))
        assert f"Raw rewards are kept. {KEPT_BY['flip']}" in service.status("flips")["notes"]
        service.create(BanditSpec(name="local", dimension=3, local=True))
        assert erasure.STATED not in str(service.status("local")["notes"])

    def test_the_page_about_the_service_says_the_same_of_every_strategy(self):
        page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
        said = {}
        for row in re.findall(r"^\| (`.*`) \| (of .*) \|$", page, re.MULTILINE):
            said |= dict.fromkeys(re.findall(r"`([\w-]+)`", row[0]), row[1])
        words = {0: "of no released batch", 39: "of each released batch, until its epoch ends"}
        for name in mechanisms.strategies():
            kept = mechanisms.strategy(name, 40).kept
            assert said.pop(name) == words.get(kept, f"of the last {kept} released batches")
        assert not said
        left = "If an item is never shown again, its last exact sum is not deleted."
        assert left in page
        assert KEPT_BY["items"].endswith(left)


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        ({"policy": "noise-aware"}, "the first 10 visits"),
        ({"policy": "noise-aware", "options": {"counted_visits": 4}}, "the first 4 visits"),
        ({"policy": "noise-aware-ts", "options": {"weights": "clip"}}, "the first 3 batches"),
        ({"policy": "rr-linucb"}, "the first visit"),
    ],
)
def test_where_people_are_protected_the_status_says_which_visits_count(service, options, counted):
    service.create(BanditSpec(name="page", dimension=3, rounds=3000, unit="user", **options))
    (note,) = [one for one in service.status("page")["notes"] if "ever count" in one]
    assert note == f"Of each person only {counted} ever count. Later ones are decided, and nothing is learned of them."


@pytest.mark.parametrize(("unit", "said"), [("event", False), ("user", True)])
def test_the_holdback_of_people_is_said_to_be_one(service, unit, said):
    service.create(BanditSpec(name="page", dimension=3, unit=unit, holdback=0.1))
    note = "The holdback is a share of people (0.1), not of rounds."
    assert any(one.startswith(note) for one in service.status("page")["notes"]) == said
