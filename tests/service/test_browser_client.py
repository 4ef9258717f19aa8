"""The browser's client in a real Chromium, on a page of another origin, against the real service.

What left the page is read from the browser's own record of its network, not from our server.
"""

import json
import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest
from scipy import stats
from tests.service.browser import Browser
from tests.service.live import Live, Site, wait_for

from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.service import page as files
from adaprivate.service.access import create_key

FALSE_ALARM = 1e-6
KEEP = RandomisedResponse(1.0).keep
LIES = ("1", "0", "0.2", "0.5", '"0.7"', "null", "undefined", "NaN", "-Infinity", "Infinity", "1 - 2 ** -53")


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory, site):
    live = Live(tmp_path_factory.mktemp("service"), allow_origins=[site.url])
    live.make("open", reward_window=3600)
    live.make("people", reward_window=3600, unit="user")
    live.make("flipped", reward_window=3600, local=True)
    yield live
    live.close()


@pytest.fixture
def page(browser, site, service):
    site.pages["/"] = (
        f'<!doctype html><title>shop</title><link rel="icon" href="data:,"><script src="{service.url}/client.js"></script>'
        '<button id="one">one</button><button id="two">two</button><script>const SLOW = {patience: 30};</script>'
    )
    site.pages["/elsewhere"] = "<!doctype html><title>elsewhere</title>"
    page = browser.page()
    page.open(f"{site.url}/")
    yield page
    page.close()


def stored(service, name):
    return service.ask("GET", f"/bandits/{name}/arrivals")["stored"]


def reports(page):
    """What left the page about rewards: decision id, body, headers, in order."""
    sent = [r for r in page.requests if r["method"] == "PUT"]
    return [(r["url"].split("/")[-2], r["body"], r["headers"]) for r in sent]


def accepted(count, keep):
    """How many truths among so many bits raise no alarm: all but a probability of FALSE_ALARM."""
    return stats.binom.ppf(FALSE_ALARM / 2, count, keep), stats.binom.isf(FALSE_ALARM / 2, count, keep)


def test_bits_are_told_at_the_rate_asked_for_and_nothing_else_leaves_the_page(page, service):
    """Power: flips 2/3 or 3/2 as often would be noticed, but for a probability below 1e-6."""
    count = 2_400
    asked = """(async () => {
        const bandit = adaprivate.bandit("flipped"), truths = [], answers = {};
        let next = 0;
        const visitor = async () => {
            for (let i = next++; i < COUNT; i = next++) {
                const truth = (i * 2654435761 >>> 16) & 1;
                const decision = await bandit.decide(["a", "b", "c"], SLOW);
                truths.push([decision.decisionId, truth]);
                const answer = await decision.reward(truth);
                answers[answer] = (answers[answer] ?? 0) + 1;
            }
        };
        await Promise.all(Array.from({length: 16}, visitor));
        return [truths, answers];
    })()""".replace("COUNT", str(count))
    truths, answers = page.run(asked, timeout=300)
    assert sum(answers.values()) == count
    assert set(answers) <= {"recorded", "duplicate"}
    truth = dict(truths)
    told = {}
    for decision, body, _ in reports(page):
        assert body in ('{"reward":0}', '{"reward":1}')
        assert told.setdefault(decision, body) == body
    assert told.keys() == truth.keys()
    assert len(truth) == count

    true_bits = {which: [told[d] == f'{{"reward":{t}}}' for d, t in truths if t == which] for which in (0, 1)}
    for bits in (true_bits[0], true_bits[1], true_bits[0] + true_bits[1]):
        low, high = accepted(len(bits), KEEP)
        assert low <= sum(bits) <= high
    low, high = accepted(count, KEEP)
    for wrong in (2 / 3, 3 / 2):
        kept = stats.binom(count, 1 - wrong * (1 - KEEP))
        assert kept.cdf(high) - kept.cdf(low - 1) < 1e-6

    # headers, addresses and everything else are alike, whatever the truth was; decisions are asked for before there is one
    heads = {which: {json.dumps(h, sort_keys=True) for d, _, h in reports(page) if truth[d] == which} for which in (0, 1)}
    assert heads[0] == heads[1]
    assert len(heads[0]) == 1
    others = [r for r in page.requests if r["method"] not in ("PUT", "OPTIONS")]
    posts = [r for r in others if r["method"] == "POST"]
    assert {r["body"] for r in posts} == {'{"candidates":["a","b","c"]}'}
    assert {r["url"] for r in others if r not in posts} <= {page.run("location.href"), f"{service.url}/client.js", "data:,"}
    assert not any("cookie" in map(str.lower, r["headers"]) for r in page.requests)
    assert not page.complaints


def test_many_bits_have_the_right_rates_for_every_reward(page):
    count = 200_000
    for reward in (0, 0.25, 0.5, 1):
        count_ones = f"let n = 0; for (let i = 0; i < {count}; i++) n += adaprivate.told({reward}, {KEEP!r}); return n;"
        ones = page.run(f"(() => {{ {count_ones} }})()")
        low, high = accepted(count, reward * KEEP + (1 - reward) * (1 - KEEP))
        assert low <= ones <= high


def test_the_threshold_is_exact(page):
    keeps = [KEEP, 0.5, 0.75, 2 / 3, 0.1, 1 / 3, 1 - 2**-53, 1.0, 2**-64, 3 * 2**-65, 5e-324, 0.0, 0.9999546021312976]
    found = page.run(f"{json.dumps(keeps)}.map((keep) => adaprivate.threshold(keep).toString())")
    assert [int(text) for text in found] == [int(Fraction(keep) * 2**64) for keep in keeps]


def test_a_bit_is_true_below_the_threshold_and_not_at_it(page):
    """With 64 bits of our choice in place of the browser's: the comparison has no slack on either side."""
    threshold = int(Fraction(KEEP) * 2**64)
    told = page.run(
        f"""(() => {{
            Math.random = () => {{ throw new Error("not random enough"); }};
            const real = crypto.getRandomValues.bind(crypto);
            let script = [];
            crypto.getRandomValues = (array) => {{ array[0] = script.shift(); return array; }};
            const tell = (reward, ...bits) => {{ script = bits; return adaprivate.told(reward, {KEEP!r}); }};
            const found = [
                tell(1, 0n, {threshold - 1}n), tell(1, 0n, {threshold}n),
                tell(0, 0n, {threshold - 1}n), tell(0, 0n, {threshold}n),
                tell(0.25, (1n << 62n) - 1n, 0n), tell(0.25, 1n << 62n, 0n), tell(1, (1n << 64n) - 1n, 0n),
            ];
            crypto.getRandomValues = real;
            return found;
        }})()"""
    )
    assert told == [1, 0, 0, 1, 1, 0, 1]


def test_what_is_sent_again_is_the_same_bit(page):
    """Every report is cut off twice on its way; were bits drawn again, all 60 would be the same once in 10^20 runs."""
    cuts = {}

    def fails(method, url):
        cuts[url] = cuts.get(url, 0) + (method == "PUT")
        return method == "PUT" and cuts[url] <= 2

    page.meddle("*/reward", fails)
    answers = page.run(
        """(async () => {
            const bandit = adaprivate.bandit("flipped");
            const asked = Array.from({length: 60}, () => bandit.decide(["a", "b", "c"], SLOW));
            const decisions = await Promise.all(asked);
            const first = decisions.map((decision) => decision.reward(1));
            const again = decisions.map((decision) => decision.reward(0));  // of another truth: the same report
            return [...await Promise.all(first), ...await Promise.all(again)];
        })()"""
    )
    assert set(answers) <= {"recorded", "duplicate"}
    told = {}
    for decision, body, _ in reports(page):
        told.setdefault(decision, []).append(body)
    assert len(told) == 60
    assert all(len(bodies) == 3 and len(set(bodies)) == 1 for bodies in told.values())
    assert len({bodies[0] for bodies in told.values()}) == 2


def test_in_local_mode_the_time_of_a_report_does_not_tell_the_click(page):
    page.run(
        """(async () => {
            const bandit = adaprivate.bandit("flipped");
            window.decisions = {one: await bandit.decide(null, SLOW), two: await bandit.decide(null, SLOW)};
            const report = (id) => decisions[id].rewardOnClick(document.getElementById(id), {within: 4});
            window.reported = Promise.all([report("one"), report("two")]);
        })()"""
    )
    began = page.run("performance.now()")
    page.click("#one")
    assert reports(page) == []
    assert page.run("performance.now()") - began < 3_500
    assert set(page.run("reported")) == {"recorded"}
    sent = [r["at"] for r in page.requests if r["method"] == "PUT"]
    assert len(reports(page)) == 2
    assert {d for d, _, _ in reports(page)} == set(page.run("[decisions.one.decisionId, decisions.two.decisionId]"))
    assert page.run("performance.now()") - began >= 3_500
    assert abs(sent[0] - sent[1]) < 0.5
    assert page.run("Promise.all([decisions.one.settle(), decisions.two.reward(1)])") == ["recorded", "recorded"]
    assert len(reports(page)) == 2  # settled is settled


def test_leaving_the_page_reports_every_decision_of_local_mode_once(page, service, site):
    before = stored(service, "flipped")
    page.run(
        """(async () => {
            const bandit = adaprivate.bandit("flipped");
            const [one, two, three] = await Promise.all([1, 2, 3].map(() => bandit.decide(null, SLOW)));
            one.rewardOnClick(document.getElementById("one"), {within: 600});
            two.rewardOnClick(document.getElementById("two"), {within: 600});
            window.third = three;  // nobody said what becomes of this one
        })()"""
    )
    page.click("#one")
    assert reports(page) == []
    page.open(f"{site.url}/elsewhere")
    page.wait("document.title === 'elsewhere'")
    wait_for(lambda: stored(service, "flipped") == before + 3)


def test_a_click_sends_its_reward_at_once_and_the_service_records_it(page, service):
    before = stored(service, "people")
    page.run(
        """(async () => {
            const bandit = adaprivate.bandit("people");
            window.one = await bandit.decide(["b", "c"], {...SLOW, user: "u-17"});
            window.two = await bandit.decide(["a"], {...SLOW, user: "u-18"});
            window.clicked = one.rewardOnClick(document.getElementById("one"), {within: 60});
            window.unclicked = two.rewardOnClick(document.getElementById("two"), {within: 0.3});
        })()"""
    )
    assert page.run("[one.fallback, one.local, ['b', 'c'].includes(one.item), two.item, typeof one.propensity]") == [
        False,
        False,
        True,
        "a",
        "number",
    ]
    page.click("#one")
    assert page.run("clicked") == "recorded"
    assert page.run("unclicked") == "unsent"
    page.click("#two")  # too late
    ((decision, body, _),) = reports(page)
    assert decision == page.run("one.decisionId")
    assert body == '{"reward":1}'
    assert stored(service, "people") == before + 1
    assert page.run("adaprivate.bandit('open').decide(null, SLOW).then((decision) => decision.reward(0.25))") == "recorded"
    assert reports(page)[-1][1] == '{"reward":0.25}'
    bad = "adaprivate.bandit('open').decide(null, SLOW).then((decision) => decision.reward(1.5)).catch(String)"
    assert page.run(bad) == "RangeError: Expected reward between 0 and 1."


def test_an_answer_that_was_lost_is_asked_for_again_and_decided_once(page, service):
    before = service.ask("GET", "/bandits/open")["rounds"]["decided"]
    cut = []

    def fails(method, url):
        cut.append(method)
        return len(cut) == 1

    page.meddle("*/decisions", fails, answered=True)
    assert page.run("adaprivate.bandit('open').decide(['a', 'b'], SLOW).then((d) => d.fallback)") is False
    keys = [r["headers"]["Idempotency-Key"] for r in page.requests if r["method"] == "POST"]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert service.ask("GET", "/bandits/open")["rounds"]["decided"] == before + 1


def test_where_nothing_is_decided_there_is_something_to_show(page, service):
    service.make("resting", default_item="b", reward_window=3600)
    service.ask("POST", "/bandits/resting:pause")
    say = ".then(async (decision) => [decision.item, decision.fallback, await decision.reward(1)])"
    ask = "adaprivate.bandit('{}').decide({}, {})" + say
    assert page.run(ask.format("resting", "['a', 'b']", "SLOW")) == ["b", True, "unsent"]
    assert page.run(ask.format("resting", "['a', 'c']", "SLOW")) == ["a", True, "unsent"]
    assert page.run(ask.format("resting", "undefined", "SLOW")) == ["b", True, "unsent"]
    assert page.run(ask.format("unheard-of", "[{id: 'x', features: [1, 0, 0]}]", "SLOW")) == ["x", True, "unsent"]
    service.stop()
    try:
        assert page.run(ask.format("open", "['c', 'a']", "{patience: 1}")) == ["c", True, "unsent"]
    finally:
        service.start()
    assert page.run(ask.format("open", "['c', 'a']", "SLOW"))[1:] == [False, "recorded"]
    assert [b for _, b, _ in reports(page)] == ['{"reward":1}']


def test_a_page_can_insist_on_private_bits_whatever_the_service_says(page):
    say = ".then(async (decision) => [decision.fallback, await decision.reward(1)])"
    ask = "adaprivate.bandit('{}', {{localEpsilon: {}}}).decide(['a'], SLOW)" + say
    assert page.run(ask.format("flipped", 1)) == [False, "recorded"]
    assert page.run(ask.format("flipped", 0.99)) == [True, "unsent"]
    assert page.run(ask.format("open", 1)) == [True, "unsent"]
    assert len(reports(page)) == 1
    # a service that lies: it asks for bits that are always true, always false, or says so in another type
    for epsilon, keep in (
        *((1, keep) for keep in LIES),
        *((28, keep) for keep in LIES),
        (1, "0.74"),
        ("NaN", "0.7"),
        (0, "0.5"),
    ):
        lied = page.run(
            f"""(async () => {{
                const real = fetch;
                const lie = {{decision_id: "x", item: "a", keep: {keep}}};
                globalThis.fetch = async () => ({{status: 200, json: async () => lie}});
                const decision = await adaprivate.bandit("flipped", {{localEpsilon: {epsilon}}}).decide(["a"], SLOW);
                globalThis.fetch = real;
                return [decision.fallback, await decision.reward(0.123456)];
            }})()"""
        )
        assert lied == [True, "unsent"], (epsilon, keep)
    assert len(reports(page)) == 1


def test_what_a_local_epsilon_allows_is_exact(page):
    """Python's own keep passes; of it and its neighbors on either side those pass whose odds are at most e^epsilon."""
    rng = random.Random(5)
    epsilons = [1e-3, 0.1, 0.5, 1, 2, 5, 20, 27.0, 27.7, 28, 30, *(rng.uniform(0.01, 30) for _ in range(300))]
    cases, right = [], []
    with localcontext(prec=60):
        for epsilon in epsilons:
            keep = RandomisedResponse(epsilon).keep
            keeps = [math.nextafter(keep, 0), keep, math.nextafter(keep, 1), math.nextafter(math.nextafter(keep, 1), 1)]
            cases.append((epsilon, keeps))
            right.append([Decimal(p) <= Decimal(epsilon).exp() * (1 - Decimal(p)) for p in keeps])
    found = page.run(
        f"{json.dumps(cases)}.map(([epsilon, keeps]) => keeps.map((keep) => adaprivate.allows(epsilon, keep)))"
    )
    assert found == right
    assert all(passes[:2] == [True, True] and passes[3] is False for passes in right)


def test_with_keys_the_publishable_one_is_sent_along_and_can_do_no_more(browser, site, tmp_path):
    live = Live(tmp_path, allow_origins=[site.url], require_keys=True)
    page = browser.page()
    try:
        _, admin = create_key(live.database, "operator", ["admin"])
        _, publishable = create_key(live.database, "shop", ["decide", "reward"])
        live.http.headers["Authorization"] = f"Bearer {admin}"
        wait_for(lambda: live.http.get("/bandits").status_code == 200)  # keys are read every now and then
        live.make("open")
        site.pages["/keys"] = (
            f'<!doctype html><script src="{live.url}/client.js?key={publishable}"></script>'
            "<script>const SLOW = {patience: 30};</script>"
        )
        page.open(f"{site.url}/keys")
        say = ".then(async (decision) => [decision.fallback, await decision.reward(1)])"
        assert page.run("adaprivate.bandit('open').decide(['a'], SLOW)" + say) == [False, "recorded"]
        assert all(publishable not in r["url"] for r in page.requests if "client.js" not in r["url"])
        live.http.headers["Authorization"] = f"Bearer {publishable}"
        assert live.http.get("/bandits/open/arrivals").status_code == 403
    finally:
        page.close()
        live.close()


def test_the_script_is_small_and_keeps_nothing():
    text = files.CLIENT.decode()
    assert len(files.CLIENT) < 6_500
    code = "\n".join(line.split("//")[0] for line in text.splitlines() if not line.lstrip().startswith(("*", "/*")))
    for word in ("Math.random", "cookie", "Storage", "indexedDB", "navigator", "screen", "sendBeacon", "console"):
        assert word not in code
    folder = Path(files.__file__).parent
    assert (folder / "client.js").read_bytes() == files.CLIENT
