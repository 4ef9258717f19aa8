"""Pages in a real Chromium: pointing at a chart says its values, an epsilon can be chosen, and a phone is wide enough.

Set ADAPRIVATE_SCREENSHOTS to a folder to keep the pictures that are taken here.
"""

import os
from pathlib import Path

import pytest
from tests.service.browser import Browser

from adaprivate import experiments
from adaprivate.cli.published import reproduced


@pytest.fixture(scope="module")
def folder(made):
    """The first page and its results, and a page with bars on named rows."""
    out = made[0]
    reproduced(experiments.experiment("ablation"), out / "results", lambda steps: None, quick=True)
    return out


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def page(browser):
    page = browser.page(width=1280)
    yield page
    assert not page.complaints
    assert all(request["url"].startswith(("file:", "data:")) for request in page.requests)
    page.close()


def shown(page, selector):
    return page.run(f"[...document.querySelectorAll('{selector}')].filter((e) => e.offsetParent).map((e) => e.innerText)")


def test_pointing_at_the_chart_says_values_and_bands(page, folder):
    page.open((folder / "index.html").as_uri())
    assert page.run("document.querySelector('.tip').hidden")
    box = page.run(
        "(({x, y, width, height}) => [x, y, width, height])(document.querySelector('.plot svg').getBoundingClientRect())"
    )
    page.run(f"scrollTo(0, {box[1] - 100})")
    chart = "charts[0].data.series[0].points.find(([place]) => place === 1)"
    place = page.run("charts[0].box.x(1)")
    page.hover(box[0] + place, 200)
    page.wait("!document.querySelector('.tip').hidden")
    tip = page.run("document.querySelector('.tip').innerText")
    assert tip.startswith("epsilon 1")
    mean, low, high = page.run(f"(({chart})).slice(1, 4).map((v) => written(v, (({chart})[3] - ({chart})[2]) / 2))")
    assert f"noise-aware (ours)\t{mean}\t{low} … {high}" in tip
    assert "random play" in tip
    page.hover(5, 5)
    page.wait("document.querySelector('.tip').hidden")
    page.run("document.querySelector('.plot svg').focus()")
    for place in ("epsilon 1", "epsilon 5"):
        page.press("ArrowRight")
        page.wait(f"document.querySelector('.tip').innerText.startsWith('{place}')")


def test_choosing_an_epsilon_changes_numbers_and_guarantee(page, folder):
    page.open((folder / "index.html").as_uri())
    at_one, sentence = shown(page, ".big"), shown(page, ".sentence")
    assert len(at_one) == 3
    assert "epsilon = 1," in sentence[0]
    page.click('#epsilon input[value="5"] + span')
    page.wait("charts[0].marked === 5")
    at_five = shown(page, ".big")
    assert at_five[:2] != at_one[:2]
    assert at_five[2] == at_one[2]
    assert [("epsilon = 5," in text) for text in shown(page, ".sentence")] == [True]
    page.click('#scale input[value="regret"] + span')
    page.wait("document.querySelector('.plot .title').textContent.startsWith('regret')")


@pytest.mark.parametrize("name", ["index", "results/index", "results/claims", "results/table1", "results/ablation"])
def test_a_phone_is_wide_enough_and_dark_is_dark(page, folder, name):
    pictures = os.environ.get("ADAPRIVATE_SCREENSHOTS")
    page.open((folder / f"{name}.html").as_uri())
    light = page.run("getComputedStyle(document.body).backgroundColor")
    for look in (
        {"width": 1280},
        {"width": 1280, "dark": True},
        {"width": 390, "phone": True},
        {"width": 320, "phone": True},
    ):
        page.look(**look)
        page.run("new Promise(requestAnimationFrame)")
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        dark = page.run("getComputedStyle(document.body).backgroundColor") != light
        assert dark == bool(look.get("dark"))
        if pictures:
            page.picture(Path(pictures) / f"{name.replace('/', '-')}-{'-'.join(map(str, look.values()))}.png")
    assert page.run(
        "[...document.querySelectorAll('figure.interactive')].every((f) => f.querySelector('svg').childElementCount > 5)"
    )


def test_verdicts_can_be_chosen_and_lines_hidden(page, folder):
    page.open((folder / "results" / "table1.html").as_uri())
    lines = "[...document.querySelectorAll('#cells tbody tr')].filter((row) => !row.hidden)"
    every = page.run(f"{lines}.length")
    page.run("document.querySelector('.filter input[value=differs]').click()")
    chosen = page.run(f"{lines}.map((row) => row.dataset.verdict)")
    assert 0 < len(chosen) < every
    assert set(chosen) == {"differs"}
    assert page.run(f"!{lines}[0].classList.contains('again')")
    page.look(width=390, phone=True)
    page.wait("document.querySelectorAll('.legend button').length > 5")
    before = page.run("document.querySelectorAll('.plot g').length")
    page.run("document.querySelector('.legend button').click()")
    page.wait(f"document.querySelectorAll('.plot g').length === {before - 1}")


def test_rows_with_names_answer_too(page, folder):
    page.open((folder / "results" / "ablation.html").as_uri())
    page.run("document.querySelector('.plot svg').focus()")
    page.press("ArrowRight")
    page.wait("!document.querySelector('.tip').hidden")
    first = page.run("charts[0].data.y.ticks[0][1]")
    assert page.run("document.querySelector('.tip').innerText").startswith(first)
