"""The dashboard in a real Chromium, against the real service with traffic.

Set ADAPRIVATE_SCREENSHOTS to a folder to keep the pictures that are taken here.
"""

import json
import os
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.service.browser import Browser
from tests.service.live import Live, wait_for

from adaprivate.service import page as files
from adaprivate.service.access import create_key

RATES = {"news": 0.2, "sport": 0.5, "music": 0.8}
ITEMS = {"news": [1, 0, 0], "sport": [0, 1, 0], "music": [0, 0, 1]}
SENTENCE = "Everything here comes from released statistics and public counts; no reward is shown."
LOOKS = {"light": {}, "dark": {"dark": True}, "phone": {"width": 360, "height": 780, "scale": 2, "phone": True}}
HOSTILE = [
    '<img src=x onerror="window.hacked=1">',
    "<script>window.hacked=1</script>",
    '"><svg onload=window.hacked=1>',
    "javascript:window.hacked=1",
    "{{constructor}}${window.hacked=1}",
]


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def service(tmp_path):
    live = Live(tmp_path)
    yield live
    live.close()


@pytest.fixture
def page(browser):
    page = browser.page()
    yield page
    page.close()


@pytest.fixture
def pictures(tmp_path):
    return Path(os.environ.get("ADAPRIVATE_SCREENSHOTS") or tmp_path / "pictures")


def text(page, element):
    return page.run(f"document.getElementById('{element}').innerText")


def shown(page, element):
    page.wait(f"!document.getElementById('{element}').hidden")


def written(number):
    return f"{number:.4f}".replace("-", "\u2212")


def hosts(page):
    return {urlsplit(r["url"]).netloc for r in page.requests if not r["url"].startswith("data:")}


def test_it_shows_a_batch_that_closes_while_somebody_looks(page, service, pictures):
    service.make("front-page", ITEMS, holdback=0.3, epsilon=2.0)
    service.visit("front-page", RATES, 400, seed=1)
    version = service.settled("front-page")["version"]
    page.open(service.url)
    page.wait(f"document.getElementById('subtitle').innerText.includes('version {version},')")
    status = service.ask("GET", "/bandits/front-page")
    assert text(page, "name") == "front-page"
    assert text(page, "sentence") == status["guarantee"]["sentence"]
    assert page.run("document.querySelectorAll('#enforced li').length") == len(status["guarantee"]["enforced"])
    assert page.run("document.querySelectorAll('#assumptions li').length") == len(status["guarantee"]["assumptions"])
    assert page.run("document.getElementById('void').hidden")
    assert SENTENCE in page.run("document.body.innerText")
    assert page.run("document.title") == "front-page \u00b7 adaprivate"

    page.run("window.stayed = true; document.getElementById('enforced').open = true")
    drawn = page.run("document.querySelector('#plot svg').outerHTML")
    service.visit("front-page", RATES, 200, seed=2)
    later = service.settled("front-page")["version"]
    assert later > version
    page.wait(f"document.getElementById('subtitle').innerText.includes('version {later},')", 15)
    assert page.run("window.stayed && document.getElementById('enforced').open")  # the same page, not loaded again
    assert page.run("document.querySelector('#plot svg').outerHTML") != drawn
    assert page.run("document.getElementById('announcement').textContent").startswith(f"Version {later}.")

    for name, look in LOOKS.items():
        page.look(**look)
        page.wait("!document.getElementById('bandit').hidden")
        assert page.picture(pictures / f"{name}.png").stat().st_size > 20_000
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert hosts(page) == {urlsplit(service.url).netloc}
    assert {r["method"] for r in page.requests} == {"GET"}
    assert not page.complaints


def test_the_chart_shows_the_series_and_its_numbers_in_a_table(page, service):
    service.make("front-page", ITEMS, holdback=0.3, epsilon=2.0)
    service.visit("front-page", RATES, 500, seed=3)
    service.settled("front-page")
    page.open(service.url)
    shown(page, "bandit")
    page.run("document.getElementById('numbers').open = true")
    page.wait("document.querySelector('#numbers tbody tr')")
    series = service.ask("GET", "/bandits/front-page/series")
    for scope, pick in {"cumulative": lambda entry: entry["cumulative"], "batch": lambda entry: entry}.items():
        page.run(f"document.querySelector('input[value={scope}]').click()")
        cells = "[...row.cells].map((cell) => cell.textContent)"
        rows = page.run(f"[...document.querySelectorAll('#numbers tbody tr')].map((row) => {cells})")
        expected = [
            [f"{label}, batch {entry['batch'] + 1}", *(written(pick(entry)[name]) for name in ("mean", "low", "high"))]
            for label, stream in (("Learned", series["learned"]), ("Random choice", series["holdback"]))
            for entry in stream
            if pick(entry) and pick(entry)["mean"] is not None
        ]
        assert [[row[0], *row[3:]] for row in rows] == expected
        assert len(expected) > 6
        assert page.run("document.querySelectorAll('#plot polyline.learned').length") == 1
        points = page.run("document.querySelector('#plot polyline.learned').getAttribute('points').split(' ').length")
        assert points == sum(row[0].startswith("Learned") for row in rows)

    # by mouse and by keyboard
    page.run("document.querySelector('#plot svg').scrollIntoView({block: 'center'})")
    box = page.run("document.querySelector('#plot svg').getBoundingClientRect().toJSON()")
    page.hover(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait("!document.getElementById('tip').hidden && document.getElementById('tip').innerText.includes('Learned 0.')")
    page.hover(1, 1)
    page.wait("document.getElementById('tip').hidden")
    page.run("document.querySelector('#plot svg').focus()")
    page.press("ArrowLeft")
    page.wait("!document.getElementById('tip').hidden")
    page.press("Escape")
    page.wait("document.getElementById('tip').hidden")
    items = {item["id"]: item for item in series["items"]}
    found = page.run("[...document.querySelectorAll('#items tbody tr')].map((row) => row.innerText.split(/\\s+/))")
    assert {row[0] for row in found} == set(items)
    assert not page.complaints


def test_hostile_names_are_shown_as_text(page, service):
    items = {name: [float(i == k) for k in range(5)] for i, name in enumerate(HOSTILE)}
    service.make("front-page", items, dimension=5, default_item=HOSTILE[0])
    service.visit("front-page", dict.fromkeys(HOSTILE, 0.5), 120, seed=4)
    service.settled("front-page")
    page.open(service.url)
    page.wait("document.querySelectorAll('#items tbody tr').length === 5")
    assert set(page.run("[...document.querySelectorAll('#items .id')].map((node) => node.textContent)")) == set(HOSTILE)
    assert HOSTILE[0] in page.run("document.getElementById('settings').textContent")
    # whatever a service could say: in a name, a reason, a note, the guarantee, an error
    page.run(
        f"""(() => {{
            const evil = {json.dumps(HOSTILE)}, {{status}} = state;
            globalThis.wanted = () => evil[0];
            Object.assign(status, {{name: evil[0], reason: evil[1], notes: evil, policy: evil[2], state: evil[3]}});
            Object.assign(status.guarantee, {{sentence: evil[0], enforced: evil, assumptions: evil, void: evil}});
            status.budget.explanation = evil[0];
            state.list = evil.map((name) => ({{...state.list[0], name, policy: evil[1], state: evil[2]}}));
            drawNavigation();
            drawBandit();
            state.list.forEach((entry) => document.body.append(card(entry, state.series)));
            evil.forEach((line) => say(line, line));
        }})()"""
    )
    assert page.run("document.getElementById('name').textContent") == HOSTILE[0]
    page.wait("document.readyState === 'complete'")
    assert page.run("window.hacked") is None
    assert page.run("document.querySelectorAll('img, main script, main svg[onload], a[href^=javascript]').length") == 0
    assert not page.complaints


def test_a_guarantee_that_is_void_cannot_be_missed(page, service):
    service.make("front-page", ITEMS)
    page.open(service.url)
    shown(page, "bandit")
    page.run(
        """(() => {
            const broken = {epsilon: null, delta: null, at_most: {epsilon: 2.5, delta: 1e-5}};
            Object.assign(state.status.guarantee, broken, {void: ["a batch was released twice"]});
            Object.assign(state.status, {state: "halted", reason: "The database is older than the journal."});
            drawBandit();
        })()"""
    )
    assert text(page, "void") == "The guarantee below does not hold\na batch was released twice"
    assert page.run("document.getElementById('void').getAttribute('role')") == "alert"
    assert page.run("getComputedStyle(document.getElementById('sentence')).textDecorationLine") == "line-through"
    assert text(page, "state") == "Halted"
    assert text(page, "reason") == "The database is older than the journal."
    assert "void (at most 2.5)" in text(page, "seal")
    assert "Budget: epsilon void (at most 2.5)" in page.run("document.querySelector('#budget summary').textContent")
    card = "card({...state.list[0], epsilon: null, delta: null, at_most: null, void: ['lost']}, null).textContent"
    assert "epsilon void (not known), delta void (not known)" in page.run(card)


def test_without_bandits_it_says_how_to_make_one_and_then_shows_it(page, service):
    page.open(service.url)
    shown(page, "empty")
    commands = page.run("[...document.querySelectorAll('#steps pre')].map((node) => node.textContent)")
    assert len(commands) == 3
    for command in commands:  # what curl would do
        words = shlex.split(command.replace("\\\n", " "))
        assert words[:2] == ["curl", "-X"]
        assert words[4:6] == ["-H", "Content-Type: application/json"]
        assert words[6] == "-d"
        assert words[3].startswith(service.url)
        service.ask(words[2], words[3].removeprefix(service.url), json.loads(words[7]))
    shown(page, "bandit")
    page.wait("document.getElementById('subtitle').innerText.includes('1 round decided')")
    assert not page.complaints


def test_several_bandits_have_an_overview_and_addresses_of_their_own(page, service):
    service.make("front-page", ITEMS)
    service.make("check-out", ITEMS, unit="user", epsilon=3.0, holdback=0.1)
    page.open(service.url)
    shown(page, "overview")
    assert page.run("[...document.querySelectorAll('#cards a')].map((a) => a.hash)") == ["#front-page", "#check-out"]
    cards = page.run("[...document.querySelectorAll('#cards a')].map((a) => a.innerText)")
    assert "all rewards of any one person: epsilon 3" in cards[1]
    assert "this bandit has no holdback" in cards[0]
    assert "Too early to tell: no batch has been released yet." in cards[1]  # nor has a round been held back
    page.click("#cards a[href='#check-out']")
    page.wait("document.getElementById('name').innerText === 'check-out'")
    assert page.run("document.querySelector('#bandits [aria-current]').innerText") == "check-out"
    page.run("history.back()")
    shown(page, "overview")
    page.open(f"{service.url}/#front-page")
    page.wait("document.getElementById('name').innerText === 'front-page'")
    page.run("location.hash = 'nobody'")
    page.wait("document.getElementById('message').innerText.includes('No bandit is named nobody')")
    complaints = [line for line in page.complaints if "404" not in line]  # browsers say so themselves
    assert not complaints


def test_a_lost_connection_is_said_and_found_again(page, service):
    service.make("front-page", ITEMS)
    page.open(service.url)
    page.wait("document.getElementById('live-words').innerText === 'Live'")
    height = page.run("document.documentElement.scrollHeight")
    service.stop()
    try:
        page.wait("document.getElementById('lost').innerText.startsWith('Connection lost at ')", 15)
        assert text(page, "live-words") == "Not connected"
        assert text(page, "name") == "front-page"  # what was known stays
        assert page.run("document.documentElement.scrollHeight") == height  # and stays where it was
    finally:
        service.start()
    page.wait("document.getElementById('lost').hidden && document.getElementById('live-words').innerText === 'Live'", 15)


def test_with_keys_the_browser_sends_the_one_it_was_given(page, tmp_path):
    live = Live(tmp_path, require_keys=True)
    try:
        (_, admin), (_, reader), (_, other) = (
            create_key(live.database, scope, [scope]) for scope in ("admin", "read", "decide")
        )
        live.http.headers["Authorization"] = f"Bearer {admin}"
        wait_for(lambda: live.http.get("/bandits").status_code == 200)  # keys are read every now and then
        live.make("front-page", ITEMS)
        page.open(live.url.replace("://", f"://reader:{reader}@"))  # as if it had been typed into the browser's dialog
        page.wait("document.getElementById('name').innerText === 'front-page'")
        assert not page.complaints
        assert reader not in page.run("document.documentElement.outerHTML")
        assert live.http.get("/", headers={"Authorization": f"Bearer {other}"}).status_code == 403
        answer = live.http.get("/", headers={"Authorization": ""})
        assert answer.status_code == 401
        assert "Basic" in answer.headers["WWW-Authenticate"]
    finally:
        live.close()


def test_nobody_asks_while_the_page_is_hidden(page, service):
    service.make("front-page", ITEMS)
    page.open(service.url)
    shown(page, "bandit")
    page.run("Object.defineProperty(document, 'visibilityState', {get: () => globalThis.seen ?? 'hidden'})")
    page.run("new Promise((done) => setTimeout(done, 2500))")
    asked = len(page.requests)
    page.run("new Promise((done) => setTimeout(done, 3000))")
    assert len(page.requests) == asked
    page.run("globalThis.seen = 'visible'; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait("true")
    page.run("new Promise((done) => setTimeout(done, 500))")
    assert len(page.requests) > asked


def test_nothing_is_drawn_again_that_has_not_changed(page, service):
    service.make("front-page", ITEMS, holdback=0.2)
    service.visit("front-page", RATES, 200, seed=5)
    service.settled("front-page")
    page.open(service.url)
    shown(page, "bandit")
    page.run("new Promise((done) => setTimeout(done, 2500))")
    changes = page.run(
        """new Promise((done) => {
            let count = 0;
            const watcher = new MutationObserver((records) => { count += records.length; });
            watcher.observe(document.body, {subtree: true, childList: true, characterData: true});
            setTimeout(() => { watcher.disconnect(); done(count); }, 4500);
        })"""
    )
    assert changes == 0


def test_sentences_about_what_learning_is_worth(page, service):
    page.open(service.url)
    cases = {
        "{mean: 0.031, low: 0.012, high: 0.05}, true, 3": "Learned rounds earn 0.031 more than random choice "
        "(0.012 to 0.050).",
        "{mean: -0.031, low: -0.05, high: -0.012}, true, 3": "Learned rounds earn 0.031 less than random choice "
        "(0.012 to 0.050 less).",
        "{mean: 0.019, low: -0.012, high: 0.05}, true, 3": "Too early to tell whether learned rounds earn more than random "
        "choice: between 0.012 less and 0.050 more.",
        "{mean: -0.7, low: -1.981, high: 0.538}, true, 3": "Too early to tell whether learned rounds earn more than random "
        "choice: between 1.000 less and 0.538 more.",
        "null, true, 0": "Too early to tell: no batch has been released yet.",
        "null, false, 3": "What random choice would earn is not measured: this bandit has no holdback.",
    }
    for arguments, sentence in cases.items():
        assert page.run(f"liftWords({arguments}).text") == sentence
    for unit, words in {
        "event": "10\u202f% of rounds are held back: they choose at random, by a public coin, and show what learning adds.",
        "user": "10\u202f% of people are held back: all decisions for them are random, and only the first visit of each "
        "counts.",
    }.items():
        assert page.run(f"holdbackWords({{holdback: 0.1, unit: '{unit}'}})") == words
    times = {0.2: "under a second", 1: "1 second", 90: "90 seconds", 3600: "1 hour", 86_400: "1 day", 200_000: "2 days"}
    for seconds, words in times.items():
        assert page.run(f"duration({seconds})") == words
    next_batch = '{"start": 50, "end": 100, "assigned": %d, "closes_at": %s}'
    waiting = page.run(f"nextWords({next_batch % (12, 'null')}, 60, 0, 'open')")
    assert waiting == "12 of 50 rounds decided. It closes 1 minute after the last of them."
    assert page.run(f"nextWords({next_batch % (70, '130')}, 60, 100, 'open')").endswith("in 30 seconds.")
    ticks = page.run("ticks(0.372, 0.451, 5)")
    assert ticks["values"] == pytest.approx([0.38, 0.4, 0.42, 0.44])
    assert ticks["places"] == 2


def test_the_page_is_one_piece_without_anything_from_elsewhere():
    html = files.INDEX.decode()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", html)
    assert not re.findall(r"<[^>]+\s(?:on\w+|style)\s*=", re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL))
    assert html.count("<script>") == html.count("<style>") == 1
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "cookie",
        "Storage",
    ):
        assert word not in html
    assert "'unsafe" not in files.SECURITY_POLICY
