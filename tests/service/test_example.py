"""The example application against the real service."""

import ast
import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.service.live import Live

from adaprivate.client import Decision

APP = Path(__file__).parents[2] / "examples" / "service" / "app.py"


@pytest.fixture
def live(tmp_path):
    found = Live(tmp_path)
    yield found
    found.close()


@pytest.fixture
def app():
    spec = importlib.util.spec_from_file_location("example_app", APP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shares(text):
    return [float(found) / 100 for found in re.findall(r"readers: +([\d.]+)% of the last 500 clicked", text)]


def test_it_waits_for_the_service_and_goes_on_where_it_was(live):
    """Started while the service is away; then started again, when the bandit is there."""
    live.stop()
    command = [sys.executable, str(APP), "--url", live.url, "--rounds", "500", "--pace", "1e9"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(1.0)
        assert started.poll() is None
        live.start()
        output, _ = started.communicate(timeout=120)
    finally:
        started.kill()
    assert started.returncode == 0
    assert len(shares(output)) == 1
    assert live.ask("GET", "/bandits/front-page/series")["rounds"]["decided"] == 500
    subprocess.run([*command[:-3], "50", *command[-2:]], check=True, timeout=120)
    assert live.ask("GET", "/bandits/front-page/series")["rounds"]["decided"] == 550


def test_more_readers_click_as_it_learns(live, app, capsys):
    """Random articles: 9 in 100. After 1,000 readers about 20; 14 is 5 standard deviations above 9."""
    app.BANDIT["reward_window"] = 0.05
    app.run(live.url, None, 2_000, 1e9, 0)
    found = shares(capsys.readouterr().out)
    assert len(found) == 4
    assert sum(found[2:]) / 2 > 0.14


def test_readers_are_the_same_for_the_same_seed(app, monkeypatch):
    """Whatever they are shown, who comes when and what they would click depends on the seed alone."""

    def played(item, seed):
        seen, clicked = [], []

        def decide(name, context, default):
            seen.append(context["edition"])
            return Decision(f"{len(seen)}", item)

        service = MagicMock(decide=decide, reward=lambda decision, reward: clicked.append(int(decision.decision_id)))
        service.__enter__.return_value = service
        monkeypatch.setattr(app, "Client", lambda url, key: service)
        app.run("", None, 2_000, 1e9, seed)
        return seen, clicked

    seen, clicked = played("sports", 0)
    assert played("sports", 0) == (seen, clicked)
    assert played("sports", 1)[0] != seen
    seen_too, culture = played("culture", 0)
    assert seen_too == seen
    assert set(culture) < set(clicked)  # who clicks the less liked one would click the other, too
    rates = [app.CLICKS[edition]["sports"] for edition in seen]
    assert abs(len(clicked) - sum(rates)) < 5 * sum(rate * (1 - rate) for rate in rates) ** 0.5


def test_it_is_short():
    tree = ast.parse(APP.read_text())
    (run,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    assert len({node.lineno for node in ast.walk(run) if isinstance(node, ast.stmt)}) <= 24


def test_its_words_are_true(app):
    """9 % at random, 24 % at best."""
    rates = [list(of.values()) for of in app.CLICKS.values()]
    assert "random would have 9 %, the best ones 24 %" in app.__doc__.replace("\n", " ")
    assert round(sum(sum(of) for of in rates) / 12, 2) == 0.09
    assert int(50 * sum(max(of) for of in rates)) in (23, 24)
