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


def test_a_tall_window_does_not_pull_sections_apart(page, folder):
    gap = """(() => {
        const [one, two] = [...document.querySelector('main').children].filter((e) => e.offsetParent);
        return two.getBoundingClientRect().top - one.getBoundingClientRect().bottom;
    })()"""
    page.open((folder / "index.html").as_uri())
    usual = page.run(gap)
    page.look(width=1280, height=9000)
    page.run("new Promise(requestAnimationFrame)")
    assert page.run(gap) == usual


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
    page.run("document.querySelector('.filter input[value=none]').click()")
    chosen = page.run(f"{lines}.map((row) => row.dataset.verdict)")
    assert 0 < len(chosen) < every
    assert set(chosen) == {"none"}  # a quick run is not judged
    assert page.run(f"!{lines}[0].classList.contains('again')")
    page.look(width=390, phone=True)
    page.wait("document.querySelectorAll('.legend button').length > 5")
    before = page.run("document.querySelectorAll('.plot g').length")
    page.run("document.querySelector('.legend button').click()")
    page.wait(f"document.querySelectorAll('.plot g').length === {before - 1}")


SHOWN = "[...document.querySelectorAll('#cells tbody tr')].filter((row) => !row.hidden)"


def type_in(page, text):
    page.run(
        f"(({{value}}, box) => {{ box.value = value; box.dispatchEvent(new Event('input')); }})"
        f"({{value: {text!r}}}, document.querySelector('.seek input'))"
    )


def test_a_table_is_ordered_by_its_heads_from_the_keyboard_too(page, folder):
    page.open((folder / "results" / "table1.html").as_uri())
    heads = page.run("[...document.querySelectorAll('#cells th[scope=col]')].map((head) => head.innerText)")
    place = heads.index("ours")
    ours = f"{SHOWN}.map((row) => Number(row.cells[{place}].dataset.value))"
    said = f"[...document.querySelectorAll('#cells th[scope=col]')][{place}].getAttribute('aria-sort')"
    before = page.run(ours)
    page.click(f"#cells th:nth-child({place + 1}) button")
    page.wait(f"{said} === 'ascending'")
    assert page.run(ours) == sorted(before) != before
    assert not page.run(f"{SHOWN}.some((row) => row.classList.contains('again'))")
    page.press("Enter")  # the button that was clicked has the focus
    page.wait(f"{said} === 'descending'")
    assert page.run(ours) == sorted(before, reverse=True)
    page.press("Enter")
    page.wait(f"{said} === null")
    assert page.run(ours) == before
    paper = f"{SHOWN}.map((row) => row.cells[{heads.index('paper')}].dataset.value)"
    empty = page.run(paper).count("")
    for _ in range(2):
        page.click(f"#cells th:nth-child({heads.index('paper') + 1}) button")
        assert page.run(paper)[len(before) - empty :] == [""] * empty, "what no paper prints comes last"


def test_a_table_is_searched_and_says_how_much_it_shows(page, folder):
    page.open((folder / "results" / "table1.html").as_uri())
    every = page.run(f"{SHOWN}.length")
    told = "document.querySelector('.seek output').innerText"
    assert page.run(told) == ""
    word = page.run(f"{SHOWN}[0].cells[0].innerText")
    type_in(page, word.upper())
    page.wait(f"{told} !== ''")
    found = page.run(f"{SHOWN}.map((row) => row.innerText.toLowerCase())")
    assert 0 < len(found) < every
    assert all(word.lower() in line for line in found)
    assert page.run(told) == f"{len(found)} of {every} lines"
    page.run("document.querySelector('.filter input[value=none]').click()")
    assert page.run(f"{SHOWN}.length") < len(found) or page.run(f"{SHOWN}.every((row) => row.dataset.verdict === 'none')")
    type_in(page, "nothing says this")
    assert page.run(f"{SHOWN}.length") == 0
    type_in(page, "")
    page.run("document.querySelector('.filter input[value=all]').click()")
    assert page.run(f"{SHOWN}.length") == every
    assert page.run("document.querySelector('.seek input').labels[0].innerText.trim()") == "Find"
    page.look(width=390, phone=True)
    assert page.run("getComputedStyle(document.querySelector('.seek .order')).display") != "none"
    assert page.run("getComputedStyle(document.querySelector('#cells thead')).visibility") == "hidden"
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.querySelector('.seek label')).display") == "none"


def test_rows_with_names_answer_too(page, folder):
    page.open((folder / "results" / "ablation.html").as_uri())
    page.run("document.querySelector('.plot svg').focus()")
    page.press("ArrowRight")
    page.wait("!document.querySelector('.tip').hidden")
    first = page.run("charts[0].data.y.ticks[0][1]")
    assert page.run("document.querySelector('.tip').innerText").startswith(first)
