"""Do the oldest and the newest packages that pyproject.toml allows install, and work? With every Python that is found.

``python -m tests.versions [PYTHON ...]``: a few minutes each. Tests that start processes, or repeat what others say of
statistics, are left to ``make test``: what differs between versions shows in the others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("python3.11", "python3.12", "python3.13")
"""Those of pyproject.toml's classifiers."""
RESOLUTIONS = ("lowest-direct", "highest")
PARTS = (
    "cli/test_commands.py",
    "cli/test_extras.py",
    "privacy",
    "mechanisms",
    "data",
    "evaluate",
    "planning",
    "report",
    "adapters",
    "policies/test_lanes.py",
    "policies/test_noise_aware.py",
    "policies/test_catalogues.py",
    "service/test_core.py",
    "service/test_access.py",
    "service/test_openapi.py",
    "cluster/test_cluster.py",
)


def tried(python, resolution, uv, folder):
    """Whether everything installs from wheels and these tests pass."""
    place = folder / f"{Path(python).name}-{resolution}"
    subprocess.run([uv, "venv", "--quiet", "--python", python, place], check=True)
    inside = place / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--python", inside, "--resolution", resolution]
    wheels = ["--only-binary", ":all:", "--no-binary", "adaprivate", "--no-binary", "adaprivate-papers"]
    if subprocess.run([*install, *wheels, "-e", f"{ROOT}[test]", "-e", ROOT / "papers"], check=False).returncode:
        return "does not install"
    environment = os.environ | {"ADAPRIVATE_CACHE": str(place / "cache")}
    # old packages use what new ones deprecate
    options = ["-q", "-n", "auto", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    command = [inside, "-m", "pytest", *options, *(f"tests/{part}" for part in PARTS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        print(*lines[-30:], sep="\n")
    return lines[-1].strip("= ") if lines else done.stderr.strip()


def main():
    """Try all, say what came of it; 1 if anything failed, or no Python was found."""
    found = [path for name in sys.argv[1:] or PYTHONS if (path := shutil.which(name))]
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        subprocess.run([sys.executable, "-m", "venv", folder / "uv"], check=True)
        subprocess.run([folder / "uv" / "bin" / "pip", "install", "--quiet", "uv"], check=True)
        uv = folder / "uv" / "bin" / "uv"
        outcomes = {(python, how): tried(python, how, uv, folder) for python in found for how in RESOLUTIONS}
    for (python, how), outcome in outcomes.items():
        print(f"{python}, {how}: {outcome}")
    sys.exit(not outcomes or any("passed" not in text or "failed" in text for text in outcomes.values()))


if __name__ == "__main__":
    main()
