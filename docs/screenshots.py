"""Take the dashboard's pictures anew, docs/images/dashboard-*.png: a real service, three days of visits, a real browser.

Needs Chromium and what ``pip install -e '.[test]'`` brings. The service's clock is set back three days and moved on between
visits, so that a minute is enough.
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

from tests.service.browser import browsing  # noqa: E402
from tests.service.live import Live  # noqa: E402

from adaprivate.client import Client  # noqa: E402

IMAGES = ROOT / "docs" / "images"
RATES = {"science": 0.41, "sport": 0.33, "travel": 0.28, "culture": 0.24, "politics": 0.21, "weather": 0.17}
DAYS, STEPS, VISITORS = 3, 36, 260
LOOKS = {
    "light": {"width": 1240, "height": 900, "scale": 1.5},
    "dark": {"width": 1240, "height": 900, "scale": 1.5, "dark": True},
    "phone": {"width": 390, "height": 1280, "scale": 2, "phone": True},
}


def visits(client: Client, rng: np.random.Generator, visitors: int) -> None:
    """So many people see the front page, and click at the rate of what they are shown."""
    decisions = client.decide_many("front-page", [{"candidates": list(RATES)}] * visitors)
    client.reward_many([(decision, bool(rng.random() < RATES[decision.item])) for decision in decisions])


def main() -> None:
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
                    page.look(**look)
                    page.run("new Promise((done) => setTimeout(done, 300))")
                    path = page.picture(IMAGES / f"dashboard-{name}.png", whole=name != "phone")
                    with Image.open(path) as image:  # a page has few colours: a third of the size
                        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
                    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB")
                assert not page.complaints, page.complaints
        finally:
            live.close()


if __name__ == "__main__":
    main()
