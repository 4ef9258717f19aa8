"""adaprivate audit as a user runs it: its document, its report, its exit codes."""

import contextlib
import io
import json
import sys

import pytest

import adaprivate.audit
from adaprivate import cli
from adaprivate.audit import EXHIBITS
from adaprivate.mechanisms import noise
from adaprivate.mechanisms.plan import BatchPlan


def called(*arguments):
    out, said = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        patched.setattr(sys, "argv", ["adaprivate", "audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return ended.value.code, out.getvalue(), said.getvalue()


QUICK = ("--policy", "adaprivate-ts", "--epsilon", "5", "--trials", "400")


def test_the_document():
    code, out, _ = called(*QUICK, "--option", "calibration=exact", "--json")
    assert code == 0
    found = json.loads(out)
    contract = {"policy", "claimed_epsilon", "measured_epsilon", "confidence", "trials", "holds"}
    assert (
        contract | {"claimed_mu", "measured_mu", "direct_epsilon", "delta", "share", "neighbour", "attack"} <= found.keys()
    )
    assert found["policy"] == "adaprivate-ts"
    assert found["claimed_epsilon"] == pytest.approx(5)
    assert found["claimed_mu"] == pytest.approx(1.12124, abs=1e-5)
    assert 0 < found["measured_mu"] < found["claimed_mu"]
    assert found["direct_epsilon"] <= found["measured_epsilon"] < 5
    assert (found["confidence"], found["trials"], found["holds"], found["delta"]) == (0.999, 400, True, 1e-5)


def test_the_same_seed_finds_the_same():
    first, second, other = (json.loads(called(*QUICK, "--json", "--seed", seed)[1]) for seed in ("1", "1", "2"))
    for found in (first, second, other):
        found.pop("seconds")
    assert first == second != other


def test_a_claim_that_does_not_hold_is_a_failed_check(monkeypatch):
    whole = BatchPlan.noise_tables
    monkeypatch.setattr(BatchPlan, "noise_tables", lambda self, seeds: 0.5 * whole(self, seeds))
    code, out, _ = called(*QUICK[:-1], "1500", "--option", "calibration=exact", "--json")
    assert code == 1
    assert json.loads(out)["holds"] is False


def test_numbers_off_the_grid_are_a_failed_check(monkeypatch):
    exact = noise._add
    monkeypatch.setattr(noise, "_add", lambda values, scale, sampler: exact(values, scale, sampler) + 2.0**-42)
    options = ("--exact-noise", "--option", "calibration=exact", "--option", "rounds=3", "--confidence", "0.999999")
    code, out, _ = called(*QUICK[:-1], "100", *options)
    assert code == 1
    assert "cannot be made by exact noise" in out


def test_where_nothing_is_released_it_says_so():
    options = ("--policy", "dp-se", "--exact-noise", "--trials", "100", "--option", "rounds=20")
    code, out, said = called(*options)
    assert code == 0
    assert "Nothing is released in 20 rounds" in out
    assert said == "Nothing is released in 20 rounds: 100 runs.\n"


def test_one_run_of_exact_noise():
    options = ("--policy", "rr-linucb", "--epsilon", "3", "--one-run", "--exact-noise", "--trials", "1000")
    code, out, _ = called(*options, "--confidence", "0.999999", "--json")
    found = json.loads(out)
    assert (code, found["exact_noise"], found["trials"]) == (0, True, 1)
    assert 1 < found["measured_epsilon"] <= 3


def test_a_report(tmp_path):
    code, out, _ = called(*QUICK, "--out", str(tmp_path))
    assert code == 0
    assert "holds" in out
    assert "99.9 %" in out
    page = (tmp_path / "audit-adaprivate-ts.html").read_text()
    assert "<svg" in page
    assert "the most that the claim allows" in page
    assert (tmp_path / "index.html").exists()


def test_the_gallery(tmp_path, monkeypatch):
    few = [exhibit for exhibit in EXHIBITS if exhibit.name in ("half-noise", "release-on-arrival")]
    monkeypatch.setattr(adaprivate.audit, "EXHIBITS", few)
    monkeypatch.setattr("adaprivate.audit.gallery.EXHIBITS", few)
    code, out, _ = called("--gallery", "--trials", "1500", "--json")
    found = json.loads(out)
    assert (code, found["caught"], len(found["rows"])) == (0, True, 2)
    for row in found["rows"]:
        assert row["caught"]
        assert row["broken"]["measured_mu"] > row["broken"]["claimed_mu"]
        assert row["sound"]["holds"]
    code, out, _ = called("--gallery", "--trials", "1500", "--out", str(tmp_path))
    assert code == 0
    assert "2 of 2 broken mechanisms caught" in out
    assert "BROKEN" in (tmp_path / "audit-gallery.html").read_text()


def test_a_mistake_that_is_missed_is_a_failed_check(monkeypatch):
    sound = [type(e)(e.name, e.what, e.sound, e.sound) for e in EXHIBITS if e.name == "half-noise"]
    monkeypatch.setattr(adaprivate.audit, "EXHIBITS", sound)
    assert called("--gallery", "--trials", "400", "--json")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Expected policy=None to be a policy"),
        (("--policy", "linucb"), "to be a private one"),
        (("--policy", "no-such"), "Expected policy='no-such'"),
        (("--policy", "adaprivate-ts", "--trials", "10"), "Expected trials=10 >= 100"),
        (("--policy", "adaprivate-ts", "--confidence", "2"), "Expected confidence=2"),
        (("--policy", "adaprivate-ts", "--option", "nonsense=1"), "nonsense"),
        (("--policy", "thompson", "--neighbour", "context"), "to be one that the guarantee speaks of"),
        (("--policy", "adac-oful", "--exact-noise"), "with exact noise"),
        (("--policy", "adaprivate-ts", "--one-run", "--neighbour", "user"), "== 'reward' with --one-run"),
        (("--gallery", "--policy", "adaprivate-ts"), "to come without a policy"),
    ],
)
def test_bad_input_is_one_line(arguments, said):
    code, out, errors = called(*arguments)
    assert code == 2
    assert out == ""
    assert said in errors
    assert errors.count("\n") == 1
