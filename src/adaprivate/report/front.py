"""The first page: what is this, does it work, what does privacy cost, is it sound.

All numbers and sentences on it are made of rows that were just computed; those of every epsilon are in the page, and one
epsilon's are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from adaprivate.logs.format import number
from adaprivate.report import html
from adaprivate.report.pages import foot
from adaprivate.report.verdicts import VERDICTS, chips, counts, plural, square

USUAL = 1.0
TITLE = "Learn from people without learning about any one of them"
_ABOUT = "Choices that get better by what they earn; (epsilon, delta) bounds what they reveal about any one reward."
_IN_WORDS = (
    "adaprivate picks one of a few candidates, sees what comes of it, and gets better; a stated (epsilon, delta) bounds "
    "what all of it reveals about any one reward, or any one person."
)
_USE = """import adaprivate as ap

policy = ap.policy("noise-aware", rounds=10_000, epsilon=1.0,
                   source=ap.Secure())
decision = policy.decide(candidates)  # show decision.action
policy.learn(decision, clicked)       # when it is known
print(policy.guarantee)"""
_NEXT = {
    "make serve": "the decision service, made-up readers and its dashboard",
    ".venv/bin/adaprivate list policies": "all policies: whom each protects, and how",
    ".venv/bin/adaprivate plan --arms 5 --rounds 2000 --epsilon 1": "what it costs, before anyone's data is touched: fixed "
    "arms are noise-aware's, with channel=items",
    ".venv/bin/adaprivate audit --policy noise-aware --one-run --exact-noise": "attack it yourself",
    ".venv/bin/adaprivate reproduce --list": "every table and claim that can be recomputed",
}
_DOCS = (
    "README.md; docs/privacy.md: every guarantee with its proof; docs/noise-aware.md: how ours works, and where it loses."
)


@dataclass(frozen=True)
class Names:
    """Which rows of the measured ones are ours, and which stand beside it."""

    ours: str
    published: str
    flips: str
    tuned: str
    random: str


@dataclass(frozen=True)
class Glance:
    """All that the first page is made of."""

    rows: Sequence[Mapping[str, Any]]
    """Each with row, epsilon, share, regret and percent_of_tuned, and a standard error of each."""
    names: Names
    promises: Mapping[float, Mapping[str, Any]]
    """What ours promises with exact noise at every epsilon: guarantee, remarks, enforced, assumptions."""
    attacks: Sequence[Mapping[str, Any]]
    claims: Sequence[Any]
    """Cells of what papers state about privacy."""
    levels: Sequence[Any]
    """Cells of what papers print besides."""
    world: str
    rounds: int
    seeds: int
    seconds: float

    @property
    def epsilons(self) -> list[float]:
        """Those that ours was measured at."""
        return sorted({row["epsilon"] for row in self.rows if row["epsilon"] is not None})

    @property
    def usual(self) -> float:
        """The epsilon to show first."""
        return USUAL if USUAL in self.epsilons else self.epsilons[0]

    @property
    def holds(self) -> bool:
        """Whether no attack found more than is claimed."""
        return all(attack["holds"] for attack in self.attacks)

    @property
    def strongest(self) -> Mapping[str, Any]:
        """The attack that found the largest share of what is claimed."""
        return max(self.attacks, key=lambda attack: float(attack["share"]))

    def at(self, name: str, epsilon: float, measure: str) -> float:
        """What the row of this name measured at this epsilon, or at none."""
        row = next(row for row in self.rows if row["row"] == name and row["epsilon"] in (epsilon, None))
        return float(row[measure])

    def lost(self, name: str, epsilon: float) -> str:
        """How much less it earned than tuned LinUCB without privacy."""
        return f"{max(0.0, 100 - self.at(name, epsilon, 'percent_of_tuned')):.1f} %"


class Told(NamedTuple):
    """A number, what it is, and what stands beside it."""

    number: str
    what: str
    beside: str


def works(glance: Glance, epsilon: float) -> Told:
    """How much is learned."""
    share = {key: f"{glance.at(name, epsilon, 'share'):.0f} %" for key, name in vars(glance.names).items()}
    return Told(
        share["ours"],
        f"of what there is to learn is learned in {glance.rounds:,} rounds at epsilon {epsilon:g}.",
        f"Without privacy {share['tuned']}, by randomised response {share['flips']}, AdaPrivate-TS as published "
        f"{share['published']}; 0 is random play, 100 the best candidate every time.",
    )


def cost(glance: Glance, epsilon: float) -> Told:
    """What privacy costs."""
    lost = {key: glance.lost(name, epsilon) for key, name in vars(glance.names).items()}
    return Told(
        lost["ours"],
        f"less reward at epsilon {epsilon:g} than by the best policy here that protects nobody.",
        f"By randomised response {lost['flips']}, AdaPrivate-TS as published {lost['published']}, "
        f"random play {lost['random']} less.",
    )


def sound(glance: Glance) -> Told:
    """What the strongest attack proved beside what is claimed, and what it was."""
    attack, found = glance.strongest, counts(glance.claims)
    measured, claimed = f"{attack['measured_epsilon']:.2f}", f"{attack['claimed_epsilon']:g}"
    said = "no more comes out than is promised" if glance.holds else "MORE COMES OUT THAN IS PROMISED"
    others = "".join(
        f"; through the other channel ({other['channel']}) {other['measured_epsilon']:.2f}"
        for other in glance.attacks
        if other is not attack
    )
    return Told(
        f"{measured} ≤ {claimed}" if glance.holds else "✗ BROKEN",
        f"An attack on the exact noise proves epsilon to be at least {measured} where {claimed} is claimed: {said}.",
        f"{attack['attack']}{others}. Of {sum(found.values())} statements about privacy in papers, "
        f"{found.get('unsound-as-published', 0)} are unsound as published.",
    )


def terminal(glance: Glance, page: Path) -> list[str]:
    """The same in a dozen lines."""
    names, at = glance.names, glance.usual
    width = max(len(row["row"]) for row in glance.rows)
    heads = "".join(f"{f'ε = {epsilon:g}':>9}" for epsilon in glance.epsilons)
    lines = [_ABOUT, f"{'learned, % of what there is':{width}} {heads}"]
    for name in dict.fromkeys(row["row"] for row in glance.rows if row["epsilon"] is not None):
        here = [_with_band(row) for row in glance.rows if row["row"] == name]
        lines.append(f"{name:{width}} " + "".join(f"{told:>9}" for told in here))
    tuned, random = (f"{glance.at(name, at, 'share') + 0.0:.0f}" for name in (names.tuned, names.random))
    measured, claimed = glance.strongest["measured_epsilon"], glance.strongest["claimed_epsilon"]
    verdicts = ", ".join(f"{n} {plural(v, n)}" for v, n in counts([*glance.claims, *glance.levels]).items())
    return [
        *lines,
        f"{names.tuned}: {tuned}; {names.random}: {random.replace('-0', '0')}. At epsilon {at:g} privacy costs "
        f"{cost(glance, at).number} of the reward.",
        f"With source=Secure(): {glance.promises[at]['guarantee']}",
        *_weak(glance),
        f"An attack proves epsilon >= {measured:.2f} of {claimed:g}: {'it holds' if glance.holds else 'IT IS BROKEN'}. "
        f"The papers' values: {verdicts}.",
        f"Report: {page}",
    ]


def _weak(glance: Glance) -> list[str]:
    """What makes the guarantees measured weak, each once."""
    return list(dict.fromkeys(remark for promise in glance.promises.values() for remark in promise["remarks"]))


def _with_band(row: Mapping[str, Any]) -> str:
    return f"{row['share']:.0f}" + (f" ± {2 * row['share_sem']:.0f}" if row["share_sem"] is not None else "")


def _only(epsilon: float, shown: float) -> str:
    """The mark of what belongs to one epsilon."""
    return f' data-epsilon="{epsilon:g}"' + " hidden" * (epsilon != shown)


def _tile(look: str, question: str, parts: Iterable[tuple[str, Told]]) -> str:
    inside = (
        f'<div{mark}><p class="big">{html.escape(told.number)}</p><p>{html.escape(told.what)}</p>'
        f'<p class="soft small">{html.escape(told.beside)}</p></div>'
        for mark, told in parts
    )
    return html.card(question, *(part.replace(" %", "\u00a0%") for part in inside), look=f"number-card {look}")


def _numbers(glance: Glance) -> str:
    marks = [(_only(epsilon, glance.usual), epsilon) for epsilon in glance.epsilons]
    tiles = (
        _tile("works", "Does it work?", [(mark, works(glance, epsilon)) for mark, epsilon in marks]),
        _tile("cost", "What does privacy cost?", [(mark, cost(glance, epsilon)) for mark, epsilon in marks]),
        _tile("sound", "Is it sound?", [("", sound(glance))]),
    )
    return f'<div class="numbers">{"".join(tiles)}</div>'


def _guarantee(glance: Glance) -> str:
    parts = []
    for epsilon in glance.epsilons:
        promise = glance.promises[epsilon]
        folds = html.fold("What the software enforces", html.listing(promise["enforced"]))
        folds += html.fold("What you must keep to", html.listing(promise["assumptions"]))
        sentence = f'<p class="sentence">{html.escape(promise["guarantee"])}</p>'
        weak = "".join(f"<p>{html.escape(remark)}</p>" for remark in promise["remarks"])
        parts.append(f"<div{_only(epsilon, glance.usual)}>{sentence}{weak}{folds}</div>")
    note = (
        "So it is with source=Secure(), which draws exact noise. The runs on this page are simulated: their noise comes "
        "from a seed and protects nobody."
    )
    return html.card("The guarantee, in a sentence", *parts, f'<p class="soft small">{note}</p>', look="guarantee")


_UNJUDGED = ("none", "not-comparable")


def _furthest(cells: Sequence[Any]) -> Any:
    """The cell with the worst verdict that is furthest from its printed value."""
    order = [*_UNJUDGED, *(verdict for verdict in VERDICTS if verdict not in _UNJUDGED)]
    return max(cells, key=lambda c: (order.index(c.verdict), abs(c.ours - c.paper) / max(abs(c.paper), 1e-9)))


def _claims(glance: Glance) -> str:
    groups: dict[str, list[Any]] = {}
    for cell in (*glance.claims, *glance.levels):
        if cell.paper is not None:
            groups.setdefault(cell.row, []).append(cell)
    lines = []
    for name, cells in groups.items():
        worst = _furthest(cells)
        far = html.escape(f"{worst.column}: paper {number(worst.paper)}, ours {number(worst.ours)}")
        strip = f'<ul class="strip">{"".join(square(cell) for cell in cells)}</ul>'
        told = f'<td>{strip}</td><td class="soft">{far}</td><td><span class="verdicts">{chips(cells)}</span></td>'
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{told}</tr>')
    table = html.table(("what is printed", "every printed value", "furthest off", "verdict"), lines, look="claims")
    links = (("claims", "the privacy statements, cell by cell"), ("table1", "Table 1"), ("index", "all results"))
    return html.card(
        "What the papers claim, recomputed",
        f'<p class="verdicts">{chips([*glance.claims, *glance.levels])}</p>',
        f'<div class="scroll">{table}</div>',
        f"<p>{' · '.join(html.link(f'results/{name}.html', text) for name, text in links)}</p>",
    )


def _chart(glance: Glance, charts: Mapping[str, dict[str, Any]], svg: str) -> str:
    for chart in charts.values():
        chart["x"]["short"] = "epsilon"
    first = next(iter(charts))
    caption = f"{glance.world}; {glance.rounds:,} rounds, {glance.seeds} seeds. Bands: two standard errors."
    reading = (
        "Learned share: 0 is random play, 100 the best candidate every time. All policies meet the same rounds on the same "
        "seeds, and every private one protects the value of one reward. Epsilon is the true one; AdaPrivate-TS as "
        "published states it, and truly gives less. Repaired: the least noise, shared between releases, and centred "
        "rewards, which randomised response is given too. One world is not all worlds: on labelled tables randomised "
        "response keeps level with ours (adaprivate reproduce channels)."
    )
    return html.card(
        "What is learned, and at what privacy",
        html.switch("scale", "Show", charts, first),
        html.figure(charts[first], svg, caption, "results/privacy-cost.svg"),
        html.fold("How to read this", f"<p>{html.escape(reading)}</p>"),
        html.data(charts, "scales"),
    )


def write_front(folder: Path, glance: Glance, charts: Mapping[str, dict[str, Any]], svg: str) -> Path:
    """Write the folder's index.html; ``charts`` are the same runs on several scales, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    made = (
        f"Computed on this machine in {glance.seconds:.0f} seconds, from {glance.seeds} simulated runs of every policy: no "
        "person's data was used."
    )
    epsilons = [f"{epsilon:g}" for epsilon in glance.epsilons]
    choose = html.switch("epsilon", "Privacy: epsilon", epsilons, f"{glance.usual:g}")
    commands = ((f"<code>{html.escape(command)}</code>", html.escape(what)) for command, what in _NEXT.items())
    read_on = html.card("Read on", html.facts(commands, "commands"), f'<p class="soft">{html.escape(_DOCS)}</p>')
    use = html.card("Use it", f'<pre class="code">{html.escape(_USE)}</pre>')
    parts = (
        html.lead(TITLE, _IN_WORDS, after=f'<p class="soft">{html.escape(made)}</p>'),
        f'<div class="bar-of-choice no-print">{choose}<span class="ends">smaller: more privacy</span></div>',
        f'<div class="glance">{_chart(glance, charts, svg)}{_numbers(glance)}</div>',
        _guarantee(glance),
        _claims(glance),
        f'<div class="columns">{use}{read_on}</div>',
    )
    links = [("results/privacy-cost.html", "What privacy costs"), ("results/index.html", "The papers, cell by cell")]
    page = folder / "index.html"
    page.write_text(html.document(TITLE, "".join(parts), links=links, foot=foot()), encoding="utf-8")
    return page
