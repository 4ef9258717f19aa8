"""Take the pictures of docs/images anew in a real browser: ``python docs/screenshots.py [dashboard] [reports]``.

The dashboard's (dashboard-*.png) are of a real service and three days of visits: its clock is set back three days and
moved on between visits, so that a minute is enough. The reports' are of the page that ``make demo`` ends in (demo-*.png)
and of the papers, cell by cell (papers-*.png). Needs Chromium and what ``pip install -e '.[test]'`` brings.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.service.browser import Page, browsing  # noqa: E402
from tests.service.live import Live  # noqa: E402

from adaprivate import experiments  # noqa: E402
from adaprivate.cli.published import reproduced  # noqa: E402
from adaprivate.cli.showing import demo  # noqa: E402
from adaprivate.client import Client  # noqa: E402

IMAGES = ROOT / "docs" / "images"
RATES = {"science": 0.41, "sport": 0.33, "travel": 0.28, "culture": 0.24, "politics": 0.21, "weather": 0.17}
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
    page.run("new Promise((done) => setTimeout(done, 300))")
    path = page.picture(IMAGES / f"{name}.png", whole=whole)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB")


def reports() -> None:
    """The first page and the papers, from runs made now."""
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        demo(out=Path(folder))
        for name in PAPERS:
            reproduced(experiments.experiment(name), Path(folder) / "results", lambda steps: None)
        page = browser.page()
        page.open((Path(folder) / "index.html").as_uri())
        for name, look in LOOKS.items():
            pictured(page, f"demo-{name}", {**look, "scale": 1.25}, whole=False)
        page.open((Path(folder) / "results" / "index.html").as_uri())
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
    for wanted in sys.argv[1:] or ("dashboard", "reports"):
        {"dashboard": dashboard, "reports": reports}[wanted]()
