"""What is cited of docs/privacy.md is there: sections by their names, lemmas and theorems by their numbers."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
NAMED = re.findall(r"^(?:- )?\*\*([^*]+?)\.?\*\*", PAGE, re.MULTILINE)
STATED = re.findall(r"\*\*((?:Lemma|Theorem) \d+) \(([^)]+)\)\.\*\*", PAGE)
MATHEMATICS = {"Lemma 2", "Lemma 8", "Lemma 9"}
"""These speak of distributions and numbers alone."""
PAPERS = r"Dwork|Muirhead|of Ou et al|Sec\.|AdaPrivate|Prop\.|\| (?:Lemma|Theorem|Thm)|Corollary|Prop\. 12|Lemma 12"
FILES = [
    path
    for folder, ending in (("src", "py"), ("docs", "md"), ("examples", "py"), ("tests", "py"), ("benchmarks", "py"))
    for path in sorted((ROOT / folder).rglob(f"*.{ending}"))
    if path.name not in ("privacy.md", "test_citations.py")
] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
ONE = r'(?:"[^"]+"|(?:Lemma|Theorem) \d+)'
CITED = re.compile(rf"privacy\.md\)?\]?(?:\([^)]*\))?\)?,?\s+({ONE}(?:(?:,| and| \()\s*{ONE}\)?)*)")


def citations():
    found = []
    for path in FILES:
        text = re.sub(r"\n\s*(?:#|\*)?\s*", " ", path.read_text(encoding="utf-8"))
        for cited in CITED.findall(text):
            for name in re.findall(r'"([^"]+)"|((?:Lemma|Theorem) \d+)', cited):
                found.append((path.relative_to(ROOT).as_posix(), next(filter(None, name)).rstrip(".")))
    return found


def test_statements_are_numbered_one_after_another():
    for kind in ("Lemma", "Theorem"):
        numbers = [int(name.split()[1]) for name, _ in STATED if name.startswith(kind)]
        assert numbers == list(range(1, len(numbers) + 1)), kind
    assert len(STATED) >= 19


def test_every_statement_names_its_assumptions():
    for name, title in STATED:
        text = PAGE.partition(f"**{name} ({title}).**")[2][:420]
        assert name in MATHEMATICS or "Assume" in text.split("*Proof.*")[0], name


def test_assumptions_are_there_and_name_printed_conditions():
    from adaprivate import privacy

    listed = dict(re.findall(r"^- \*\*(C\d)\*\* (.+?)(?=^- \*\*C|^\S)", PAGE, re.MULTILINE | re.DOTALL))
    assert list(listed) == ["C1", "C2", "C3", "C4", "C5"]
    used = {int(number) for number in re.findall(r"\bC(\d)\b", PAGE)}
    assert used == {1, 2, 3, 4, 5}
    for text in listed.values():
        conditions = re.findall(r"`([a-z-]+)`", text)
        assert conditions
        assert {*conditions} <= {*privacy.CONDITIONS}


def test_numbers_cited_within_the_page_exist():
    own = {name for name, _ in STATED}
    for line in PAGE.splitlines():
        if line.startswith("|") or re.search(PAPERS, line):
            continue
        for cited in re.findall(r"(?<!\*\*)\b((?:Lemma|Theorem) \d+)\b", line):
            assert cited in own, line


def test_there_are_citations():
    assert len(citations()) > 40
    assert {name for _, name in citations()} >= {"Theorem 1", "Theorem 8", "Theorem 9", "Private features"}


@pytest.mark.parametrize(("path", "name"), sorted(set(citations())))
def test_what_is_cited_exists(path, name):
    if re.fullmatch(r"(Lemma|Theorem) \d+", name):
        assert name in {stated for stated, _ in STATED}
    else:
        assert name in HEADINGS or name in NAMED or name in {title for _, title in STATED}
