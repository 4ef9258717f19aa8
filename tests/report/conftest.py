"""The first page, made once for all tests of pages."""

import pytest
from typer.testing import CliRunner

from adaprivate import report
from adaprivate.cli import app


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The first page, made of few seeds, what was printed, and what it was made of."""
    folder = tmp_path_factory.mktemp("demo")
    kept = {}
    write = report.write_front
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            report, "write_front", lambda out, glance, *rest: kept.update(glance=glance) or write(out, glance, *rest)
        )
        done = CliRunner().invoke(app, ["demo", "--quick", "--out", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0
    return folder, done.stdout, kept["glance"]  # whoever comes first compiles, and says so on stderr
