"""Pages: their numbers are those of the rows, they say verdicts in words, and they ask nobody for anything."""

import html
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from adaprivate import experiments, report
from adaprivate.check import InputError
from adaprivate.cli import app, showing
from adaprivate.experiments import Cell
from adaprivate.report import front
from adaprivate.report.site import paper_of

PAGE = Path(report.__file__).parent / "page"
HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
CELLS = [
    Cell("first", "epsilon 1", 1.0, 0.74, None, "agrees"),
    Cell("first", "epsilon 2", 2.0, 3.5, 0.1, "unsound-as-published"),
    Cell("second", "level", 90.0, 80.0, 1.0, "differs"),
    Cell("second", "share", None, 50.0, 2.0, "not-in-paper"),
]


def text(page):
    """What a page says, without style, script and tags."""
    bare = re.sub(r"<(script|style).*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare)))


def plot(rows, axes):
    """Two points."""
    axes.plot([1, 2], [3, 4], label=HOSTILE)


def written(folder, name="one", cells=CELLS, **more):
    given = {"source": "Doe & Roe 2020, Table 1", "about": "About it.\n\nMore `code`.", "question": "Is it so?", **more}
    return report.write_page(folder, name, cells=cells, rows=[{"row": "a", "value": 1.0}], plot=plot, **given)


def all_pages(folder):
    return sorted(folder.rglob("*.html"))


def test_numbers_of_the_first_page_are_those_of_the_rows(made):
    folder, _, glance = made
    said = text(folder / "index.html")
    rows = {(row["row"], row["epsilon"]): row for row in glance.rows}
    for epsilon in glance.epsilons:
        ours = rows[glance.names.ours, epsilon]
        assert (
            f"{ours['share']:.0f} % of what there is to learn is learned in {glance.rounds:,} rounds at epsilon {epsilon:g}"
            in said
        )
        assert f"by randomised response {rows[glance.names.flips, epsilon]['share']:.0f} %" in said
        assert f"{max(0, 100 - ours['percent_of_tuned']):.1f} % less reward at epsilon {epsilon:g}" in said
        assert f"(epsilon = {epsilon:g}, delta = 1e-05, event-level)" in said
    source = (folder / "index.html").read_text(encoding="utf-8")
    scales = json.loads(re.search(r'id="scales">(.*?)</script>', source, re.DOTALL)[1])
    for name, key in (("learned share", "share"), ("regret", "regret")):
        for series in scales[name]["series"]:
            for place, value, low, high in series["points"]:
                row = rows[series["name"], None if series.get("level") else place]
                assert value == pytest.approx(row[key], rel=1e-5)
                if not series.get("level"):
                    assert (low, high) == pytest.approx(
                        (row[key] - 2 * row[f"{key}_sem"], row[key] + 2 * row[f"{key}_sem"]), rel=1e-4
                    )
    for question in ("Does it work?", "What does privacy cost?", "Is it sound?"):
        assert question in said
    assert "not-in-paper" not in said


def test_the_baselines_stand_beside_ours_and_the_attack_is_told(made):
    folder, _, glance = made
    said = text(folder / "index.html")
    assert {"randomised response", "random play", "tuned LinUCB, not private", "AdaPrivate-TS, published"} <= {
        row["row"] for row in glance.rows
    }
    attack = glance.strongest
    assert attack["exact_noise"]
    assert glance.holds
    assert f"{attack['measured_epsilon']:.2f} ≤ 1" in said
    assert "their noise comes from a seed and protects nobody" in said


def test_a_broken_policy_would_be_told(made):
    _, _, glance = made
    worse = {**glance.attacks[0], "holds": False, "share": 2.0, "measured_epsilon": 2.0}
    broken = front.Glance(**{**vars(glance), "attacks": [worse]})
    assert "MORE COMES OUT THAN IS PROMISED" in " ".join(front.sound(broken))
    assert any("IT IS BROKEN" in line for line in front.terminal(broken, Path("page")))


def test_the_terminal_says_it_in_a_dozen_lines(made):
    folder, output, glance = made
    lines = output.rstrip().splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 120
    ours = next(row for row in glance.rows if row["row"] == glance.names.ours and row["epsilon"] == 1.0)
    assert f"{ours['share']:.0f} ± {2 * ours['share_sem']:.0f}" in output
    assert "not-in-paper" not in output
    assert "unsound as published" in output
    assert lines[-1].endswith("index.html")
    assert (folder / "results" / "claims.html").exists()


def test_pages_ask_no_network_and_their_links_lead_somewhere(made):
    folder, _, _ = made
    pages = all_pages(folder)
    assert len(pages) >= 6
    for page in pages:
        source = (
            page.read_text(encoding="utf-8")
            .replace("http://www.w3.org/2000/svg", "")
            .replace("http://www.w3.org/1999/xlink", "")
        )
        assert not re.search(
            r"https?:|//[a-z]+\.|@import|url\((?!#)|<link(?! rel=\"icon\" href=\"data:)|\ssrc=|fetch\(|XMLHttp", source
        )
        for target in re.findall(r'<a[^>]* href="([^"]+)"', source):
            assert (page.parent / target).exists(), (page, target)


def test_verdicts_are_words_and_signs_and_can_be_chosen(tmp_path):
    page = written(tmp_path, answer="It is.")
    said = text(page)
    for sign, word in (("✓", "agrees"), ("≠", "differs"), ("✗", "unsound as published")):
        assert f"{sign} {word}" in said
        assert f"{sign} 1 {word}" in said
    assert "not-in-paper" not in said
    assert "Is it so?" in said
    assert "It is." in said
    assert "Lines without a verdict are ours alone" in said
    assert {file.name for file in tmp_path.iterdir()} >= {
        "one.html",
        "one.csv",
        "one.parquet",
        "one.json",
        "one.svg",
        "index.html",
    }


def test_what_no_paper_prints_has_no_verdict_column(tmp_path):
    page = written(tmp_path, cells=CELLS[3:])
    assert "verdict" not in text(page)
    assert "paper" not in re.search(r"<thead>.*?</thead>", page.read_text(encoding="utf-8"))[0]


def test_names_cannot_become_script(tmp_path):
    page = written(
        tmp_path, cells=[Cell(HOSTILE, HOSTILE, 1.0, 1.0, None, "agrees")], question=HOSTILE, answer=HOSTILE, source=HOSTILE
    )
    for file in (page, tmp_path / "index.html"):
        source = file.read_text(encoding="utf-8")
        assert "<img" not in source
        assert source.count("window.hacked") == source.count("window.hacked=1&lt;/script") + source.count(
            "window.hacked=1\\u003c"
        ) + (source.count("window.hacked=1&quot;") + source.count('window.hacked=1\\"'))


def test_light_dark_and_print_in_the_dashboards_colours():
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    for needed in ("prefers-color-scheme: dark", "@media print", "max-width: 560px"):
        assert needed in style
    dashboard = (PAGE.parents[1] / "service" / "page" / "style.css").read_text(encoding="utf-8")

    def tokens(source):
        """The colours of light and of dark by name."""
        blocks = re.findall(r":root \{(.*?)\}", source, re.DOTALL)[:2]
        return [dict(re.findall(r"(--[\w-]+): ([^;]+);", block)) for block in blocks]

    for ours, theirs in zip(tokens(style), tokens(dashboard), strict=True):
        shared = ours.keys() & theirs.keys()
        assert len(shared) > 10  # verdicts have colours of their own
        assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


# Machado, Oliveira, Fernandes 2009: what people without one kind of cones see, in linear RGB
EYES = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.clip(to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089], 0, None)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_verdicts_are_told_apart_by_every_eye_and_can_be_read():
    """Besides their signs and words: no two colours nearer than 20 in CIELAB, and 4.5 to 1 on their ground."""
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    looks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    for look in looks[:2]:
        tokens = dict(re.findall(r"(--[\w-]+): ([^;]+);", look))
        for one, other in itertools.combinations(("agrees", "differs", "unsound"), 2):
            for eye, sees in EYES.items():
                apart = [lab(np.array(sees) @ linear(tokens[f"--{name}"])) for name in (one, other)]
                assert np.linalg.norm(apart[0] - apart[1]) > 20, (one, other, eye)
        for name in ("agrees", "differs", "unsound"):
            for ground in (f"--{name}-back", "--card"):
                low, high = sorted(linear(tokens[key]) @ [0.2126, 0.7152, 0.0722] for key in (f"--{name}", ground))
                assert (high + 0.05) / (low + 0.05) > 4.5, (name, ground)


def test_report_joins_what_it_finds(tmp_path):
    written(tmp_path, "one")
    written(tmp_path, "two", cells=CELLS[:1], source="our own", answer="Two.")
    (tmp_path / "other.json").write_text('{"cells": 3}')
    (tmp_path / "gone.json").write_text(json.dumps({"paper": "x", "question": "?", "answer": "", "cells": []}))
    (tmp_path / "index.html").unlink()
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert [entry["experiment"] for entry in found["experiments"]] == ["one", "two"]
    assert found["verdicts"] == "Printed values: 2 agree, 1 differs, 1 unsound as published"
    said = text(tmp_path / "index.html")
    assert "4 values that papers print, recomputed by 2 experiments: 2 agree, 1 differs, 1 unsound as published." in said
    assert "Doe & Roe 2020" in said
    assert "first, epsilon 2: paper 2, ours 3.5, unsound as published" in said
    assert (tmp_path / "index.html").read_text(encoding="utf-8").count("<li class=") == 4


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_reports_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"^Expected folder="):
        showing.report(tmp_path / folder)


def test_papers_by_their_authors():
    named = {paper_of(experiments.experiment(name).source) for name in experiments.names()}
    assert named == {
        "AdaPrivate-TS (Riyazat & Ukwatta)",
        "Ou, Avella Medina & Cummings 2024",
        "Shariff & Sheffet 2018",
        "Hu & Hegde 2022",
        "Several papers",
        "Our own",
    }


def test_counting_verdicts_as_a_sentence():
    assert experiments.counted(CELLS) == "Of 3 printed values 1 agrees, 1 differs and 1 is unsound as published."
    assert experiments.counted(CELLS[:1]) == "The one printed value agrees."
    assert experiments.counted([CELLS[0]] * 3) == "All 3 printed values agree."
    assert experiments.counted(CELLS[3:]) == "No printed value stands beside ours, of which there are 1."
