"""What pages and help texts say of odds, of people who come back, and of worlds."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import adaprivate as ap
from adaprivate import environments, policies
from adaprivate.cli import app
from adaprivate.environments.adversarial import Gap
from adaprivate_papers._world import rounds_of

ROOT = Path(__file__).parents[2]
OTHERWISE = ("privacy.md", "harnesses.md", "audit.md", "CHANGELOG.md")
"""The proofs, which have N everywhere; a page that says it is refused; a table of attacks."""
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.name not in OTHERWISE]
OFFERED = [page for page in PAGES if re.search(r"unit=\\?\"?user", page.read_text(encoding="utf-8"))]
ONLY = re.compile(r"only\s+the\s+first\s+(``?counted_visits``?\s+|so\s+many\s+|ten\s+)?visits\s+of\s+each", re.IGNORECASE)


def test_pages_offer_it():
    assert {"README.md", "choosing.md", "guide.md", "noise-aware.md", "faq.md", "logs.md"} <= {
        page.name for page in OFFERED
    }


@pytest.mark.parametrize("page", OFFERED, ids=lambda page: page.name)
def test_pages_that_offer_users_say_that_later_visits_never_count(page):
    assert ONLY.search(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["noise-aware", "noise-aware-ts", "rr-linucb", "rr-lints", "adaprivate-ts-user"])
def test_settings_say_so_too(name):
    kind = type(policies.settings(name, {"dimension": 3, "rounds": 600}))
    assert any(ONLY.search(base.__doc__ or "") for base in kind.__mro__)


def test_help_says_so_too():
    assert ONLY.search(ap.NoiseAware.__doc__ + (ap.NoiseAware.__init__.__doc__ or ""))
    assert ONLY.search(ap.plan.__doc__)
    for command in ("plan", "evaluate"):
        told = CliRunner().invoke(app, [command, "--help"], terminal_width=200).stdout
        assert ONLY.search(re.sub(r"[\s│]+", " ", told)), command


def test_no_page_takes_odds_for_probabilities():
    for page in PAGES:
        assert not re.search(r"times\s+as\s+sure", page.read_text(encoding="utf-8")), page.name
    text = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    for epsilon in (0.1, 1, 5):
        odds = math.exp(epsilon)
        assert f"{odds:.2g}" in text or f"{odds:.0f}" in text
        assert f"{odds / (1 + odds):.2f}" in text or f"{odds / (1 + odds):.3f}" in text


def test_the_gap_is_of_actions_on_the_sphere_and_half_of_the_papers_regret():
    """20,000 actions: in five dimensions theta' x of a point of the sphere has density proportional to 1 - s^2.

    Its share between -0.25 and 0.25, given [-0.75, 0.65], is 0.442; a uniform law would have 0.357. Standard error 0.0035:
    false alarm below 1e-6.
    """
    _, means, _ = rounds_of(Gap(), 3, 850)
    share = np.mean(np.abs(2 * means[means < 0.87] - 1) <= 0.25)

    def below(s):
        return s - s**3 / 3

    right = (below(0.25) - below(-0.25)) / (below(0.65) - below(-0.75))
    assert abs(share - right) < 0.02
    assert abs(share - 0.5 / 1.4) > 0.04
    told = environments.describe("gap")
    assert "uniform on the sphere" in told
    assert "regret is half the paper's" in told
