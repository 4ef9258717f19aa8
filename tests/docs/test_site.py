"""The documentation builds without a warning, knows every policy and command, and its tutorials run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adaprivate import policies

ROOT = Path(__file__).parents[2]
TUTORIALS = ("first.md", "choosing.md", "howto.md", "large.md")
BLOCKS = [
    (name, place, block)
    for name in TUTORIALS
    for place, block in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL))
]


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    algorithms = (tmp_path / "algorithms" / "index.html").read_text()
    assert all(f'id="{name}"' in algorithms for name in policies.names())
    commands = (tmp_path / "commands" / "index.html").read_text()
    assert all(f"adaprivate {name}" in commands for name in ("plan", "evaluate", "serve", "keys create", "reproduce"))
    reference = (tmp_path / "api" / "index.html").read_text()
    assert "epsilon" in reference
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r'<(script|link)[^>]+(src|href)="https?://', page.read_text()), f"{page} asks the network"


@pytest.mark.parametrize(("name", "place", "block"), BLOCKS, ids=[f"{name} {place}" for name, place, _ in BLOCKS])
def test_tutorials_run(name, place, block, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    if (name, place) == ("first.md", 0):
        share = re.search(r"weather was shown in (\d+)%", done.stdout)
        assert share, done.stdout
        assert int(share[1]) > 60, "it learns"
