"""The list of mutations fits the source: every old text occurs once, and every test file it names exists."""

import ast
from pathlib import Path

import pytest
from tests.mutants.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.why)
def test_fits_the_source(mutation):
    text = (ROOT / "src" / "adaprivate" / mutation.file).read_text()
    assert text.count(mutation.old) == 1
    changed = text.replace(mutation.old, mutation.new)
    assert changed != text
    ast.parse(changed)
    for test in mutation.tests:
        assert (ROOT / (test if isinstance(test, str) else test[0])).exists()


def test_reasons_are_unique():
    assert len({mutation.why for mutation in MUTATIONS}) == len(MUTATIONS) >= 25
