"""Run the commands whose output the README and the guide show and write it there: ``make readme``.

A line ``<!-- output: COMMAND -->`` is followed by a fenced block that holds what COMMAND prints; ``<!-- sample: ...``
is the same for output that depends on the machine (speed, the order of floating-point sums). With ``--check`` nothing is
written and the exit code says whether every output is up to date.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "guide.md")
FIGURES = ("privacy-cost", "prefix-noise")


def output(command: str) -> str:
    """What an adaprivate command prints, without trailing blanks."""
    arguments = shlex.split(command)
    if arguments[0] != "adaprivate":
        raise SystemExit(f"Expected command={command!r} to start with adaprivate.")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "adaprivate", *arguments[1:]], capture_output=True, text=True, check=True, cwd=folder
        )
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines() if not line.startswith("Report: "))


def refreshed(text: str, kinds: str) -> str:
    """A page with every block of these kinds brought up to date."""
    block = re.compile(rf"(<!-- (?:{kinds}): (?P<command>.+?) -->\n```text\n)(.*?)(```\n)", re.DOTALL)
    return block.sub(lambda match: match[1] + output(match["command"]) + match[4], text)


def main() -> None:
    """Refresh, or check."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if "--check" not in sys.argv:
            page.write_text(refreshed(text, "output|sample"), encoding="utf-8")
        elif refreshed(text, "output") != text:
            sys.exit(f"{page.name} is out of date: run make readme.")
    if "--check" in sys.argv:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in FIGURES:
            subprocess.run([sys.executable, "-m", "adaprivate", "reproduce", name, "--out", folder], check=True)
            shutil.copy(Path(folder) / f"{name}.svg", ROOT / "docs" / "images" / f"{name}.svg")


if __name__ == "__main__":
    main()
