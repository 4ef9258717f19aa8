"""Every example runs by itself with small settings, and what it concludes follows from its own numbers."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = {
    "coba_comparison": ["--rows", "300", "--orders", "2"],
    "late_clicks": ["--rounds", "1500", "--epsilon", "5"],
    "own_log": ["--rows", "3000"],
    "own_policy": ["--rounds", "600", "--seeds", "3"],
}


def said(name, *arguments):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_all_are_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SMALL)


def test_coba_comparison():
    """Every learner played every picture; the verdict is that of the table."""
    text = said("coba_comparison", *SMALL["coba_comparison"])
    table = {
        name.strip(): (float(mean), float(error))
        for name, mean, error in re.findall(r"^  (.{26}) *([\d.]+) ± ([\d.]+)", text, re.M)
    }
    assert len(table) == 8
    (ours, spread), (simple, other) = table["adaprivate noise-aware"], table["adaprivate rr-linucb"]
    verdict = re.search(r"noise-aware is (.+) plain randomised response", text)[1]
    apart = 2 * (spread**2 + other**2) ** 0.5
    assert verdict == ("ahead of" if ours - simple > apart else "behind" if simple - ours > apart else "level with")
    assert text.count("epsilon 1") == 2
    assert text.count("not private") == 6
    assert table["Random"][0] < 0.17 < table["LinUCB"][0]  # 0.1 of 600, at a standard deviation of 0.012


def test_late_clicks():
    """Against a service that it starts itself and ends."""
    text = said("late_clicks", *SMALL["late_clicks"])
    clicked, late = map(int, re.search(r"(\d+) clicked, (\d+) of these clicks came too late", text).groups())
    assert 20 < clicked < 150  # 2 to 7.5 % of 1,500
    assert late <= clicked
    gain = int(re.search(r"it earned (-?\d+)% of what", text)[1])
    assert ("it learned." in text) == (gain > 25)


def test_own_log():
    text = said("own_log", *SMALL["own_log"])
    logged = float(re.search(r"as logged ([\d.]+)", text)[1])
    lows = {name: float(low) for name, low in re.findall(r"^  ([\w-]+) +[\d.]+ +([\d.-]+) to", text, re.M)}
    assert set(lows) == {"random", "rr-linucb", "noise-aware", "tuned-linucb"}
    better = re.search(r"more than what was done: (.+) \(95 %", text)[1].split(", ")
    assert [name for name in better if name != "none"] == [name for name, low in lows.items() if low > logged]


def test_own_policy():
    text = said("own_policy", *SMALL["own_policy"])
    bands = {
        name: (int(low), int(high)) for name, low, high in re.findall(r"^  ([\w-]+) +\d+ +(-?\d+) to (-?\d+)", text, re.M)
    }
    assert len(bands) == 6
    (low, high), (their_low, their_high) = bands["rr-careful"], bands["rr-linucb"]
    verdict = "better than" if high < their_low else "worse than" if low > their_high else "level with"
    assert f"rr-careful is {verdict} rr-linucb" in text


def test_the_own_policy_is_as_private_as_it_says():
    """The suite that every policy of adaprivate passes; in a process of its own, where the name may be taken."""
    code = "import adaprivate as ap, own_policy; from adaprivate.testing import check_policy; "
    code += "ap.register(own_policy); check_policy(own_policy.EXAMPLES[0])"
    subprocess.run([sys.executable, "-c", code], cwd=EXAMPLES, check=True, timeout=120)


def test_what_the_page_on_harnesses_shows_runs():
    page = (EXAMPLES.parent / "docs" / "harnesses.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    played, fitted = (
        subprocess.run([sys.executable, "-c", block], check=True, capture_output=True, text=True, timeout=120).stdout
        for block in blocks
    )
    ours, random = map(float, re.findall(r": ([\d.]+)", played)[:2])
    assert ours > random  # coba leaves out whoever raised: then there would be no mean
    assert fitted.startswith("This protects whether the class chosen for any one row was right")
    for name in re.findall(r"\.\./examples/(\w+)\.py", page):
        assert name in SMALL
