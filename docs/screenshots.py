"""Take the pictures of docs/images anew: ``python docs/screenshots.py [dashboard] [reports] [planner]``.

The dashboard's (dashboard-*.png) are of a real service and three days of visits: its clock is set back three days and
moved on between visits, so that a minute is enough. The reports' are of the page that ``make demo`` ends in (demo-*.png)
and of the papers, cell by cell (papers-*.png); what that command prints in a terminal is terminal.svg. The planner's
(plan.svg) is what ``adaprivate plan --out`` writes. Needs Chromium and what ``pip install -e '.[test]' -e papers`` brings.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.service.browser import Page, browsing  # noqa: E402
from tests.service.live import Live  # noqa: E402

from adaprivate import experiments  # noqa: E402
from adaprivate.cli.published import reproduced  # noqa: E402
from adaprivate.client import Client  # noqa: E402

IMAGES = ROOT / "docs" / "images"
RATES = {"science": 0.41, "sport": 0.33, "travel": 0.28, "culture": 0.24, "politics": 0.21, "weather": 0.17}
PLAN = "adaprivate plan --dimension 20 --candidates 5 --rounds 10000 --base-rate 0.03 --epsilon .1 .5 1 2 5"
WIDE = 116
"""Columns of the terminal."""
DAYS, STEPS, VISITORS = 3, 36, 260
LOOKS = {
    "light": {"width": 1240, "height": 900, "scale": 1.5},
    "dark": {"width": 1240, "height": 900, "scale": 1.5, "dark": True},
    "phone": {"width": 390, "height": 1280, "scale": 2, "phone": True},
}
PAPERS = (
    "table2",
    "table4",
    "table6",
    "robustness",
    "t-scaling",
    "proposition4",
    "effective-dimension",
    "ou-figure1",
    "ou-figure4",
)
"""Beside those of the demo, for a site of some size."""


def visits(client: Client, rng: np.random.Generator, visitors: int) -> None:
    """So many people see the front page, and click at the rate of what they are shown."""
    decisions = client.decide_many("front-page", [{"candidates": list(RATES)}] * visitors)
    client.reward_many([(decision, bool(rng.random() < RATES[decision.item])) for decision in decisions])


def pictured(page: Page, name: str, look: dict[str, object], *, whole: bool) -> None:
    """One picture, of few colours, as pages have: a third of the size."""
    page.look(**look)
    page.run("document.documentElement.style.scrollbarGutter = 'auto'")  # there are no scrollbars in pictures
    page.run("new Promise((done) => setTimeout(done, 300))")
    path = page.picture(IMAGES / f"{name}.png", whole=whole)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB")


def printed(command: str, folder: Path) -> str:
    """What a command writes to a terminal, colours and all; progress, which goes another way, is not kept."""
    arguments = [sys.executable, "-m", *shlex.split(command)]
    ours, theirs = pty.openpty()
    wide = {**os.environ, "COLUMNS": str(WIDE), "TERM": "xterm-256color"}
    with subprocess.Popen(arguments, stdout=theirs, stderr=subprocess.DEVNULL, cwd=folder, env=wide) as process:
        os.close(theirs)
        found = b""
        try:
            while part := os.read(ours, 1 << 16):
                found += part
        except OSError:  # the other end was closed
            pass
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return found.decode().replace("\r\n", "\n")


def terminal(command: str, said: str) -> None:
    """A terminal in which a command was run: its text as SVG, in whatever monospaced font there is."""
    screen = Console(record=True, width=WIDE, file=io.StringIO())
    screen.print(Text.assemble(("$ ", "bold green"), command))
    screen.print(Text.from_ansi(said.rstrip()))
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", screen.export_svg(title="adaprivate", theme=MONOKAI), flags=re.DOTALL)
    drawn = drawn.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace")
    (IMAGES / "terminal.svg").write_text(drawn, encoding="utf-8")


def planner() -> None:
    """The picture that the planner draws."""
    with tempfile.TemporaryDirectory() as folder:
        printed(f"{PLAN} --out plan.svg", Path(folder))
        (IMAGES / "plan.svg").write_bytes((Path(folder) / "plan.svg").read_bytes())


def reports() -> None:
    """The first page and the papers, from runs made now, and what was printed meanwhile."""
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        command = "adaprivate demo --out demo"
        terminal(command, printed(command, Path(folder)))
        for name in PAPERS:
            reproduced(experiments.experiment(name), Path(folder) / "demo" / "results", lambda steps: None)
        page = browser.page()
        page.open((Path(folder) / "demo" / "index.html").as_uri())
        for name, look in LOOKS.items():
            pictured(page, f"demo-{name}", {**look, "scale": 1.25}, whole=False)
        page.open((Path(folder) / "demo" / "results" / "index.html").as_uri())
        pictured(page, "papers-light", {**LOOKS["light"], "scale": 1.25}, whole=False)
        assert not page.complaints, page.complaints


def dashboard() -> None:
    """Play three days, then look."""
    rng = np.random.default_rng(7)
    moved = {"by": -DAYS * 86_400.0}
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder), clock=lambda: time.time() + moved["by"])
        try:
            with Client(live.url) as client:
                client.create("front-page", dimension=6, rounds=50_000, batch_size=200, holdback=0.15, default_item="sport")
                client.items("front-page", dict(zip(RATES, np.eye(6).tolist(), strict=True)))
                for _ in range(STEPS):
                    visits(client, rng, VISITORS)
                    moved["by"] += DAYS * 86_400 / STEPS
                    live.settled("front-page")
                visits(client, rng, 90)
            with browsing() as browser:
                page = browser.page()
                page.open(live.url)
                page.wait("!document.getElementById('bandit').hidden")
                for name, look in LOOKS.items():
                    pictured(page, f"dashboard-{name}", look, whole=name != "phone")
                assert not page.complaints, page.complaints
        finally:
            live.close()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ("dashboard", "reports", "planner"):
        {"dashboard": dashboard, "reports": reports, "planner": planner}[wanted]()
