"""Plant every mistake of the list in a copy of the source, and run the tests that must notice: ``python -m tests.mutants``.

Words on the command line choose mutations by file or reason. Exit code 1 if any survives.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]
LONGEST = 600
"""Seconds that the tests of one mutation may take."""


def outcome(copy, tests):
    """Whether the tests notice ("killed"), pass ("survived") or cannot run."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "ADAPRIVATE_CACHE": str(copy / "cache")}
    for test in tests:
        file, *expression = (test,) if isinstance(test, str) else test
        chosen = ["-k", expression[0]] if expression else []
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", file, *chosen]
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            return "not run", f"after {LONGEST} seconds {command} was not done"
        if done.returncode == 1:
            return "killed", done.stdout
        if done.returncode != 0:
            return "not run", done.stdout + done.stderr
    return "survived", ""


def main(words):
    """Run the chosen mutations; the number of those that survive, or whose tests do not run."""
    chosen = [m for m in MUTATIONS if not words or any(word in f"{m.file} {m.why}" for word in words)]
    with tempfile.TemporaryDirectory(prefix="adaprivate-mutants-") as folder:
        copy = Path(folder)
        for part in ("src", "tests", "examples"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        lost = 0
        for tests in dict.fromkeys(mutation.tests for mutation in chosen):
            result, output = outcome(copy, tests)
            if result != "survived":
                print(f"without any mutation {tests} does not pass:\n{output[-2000:]}")
                return 1
        for mutation in chosen:
            file = copy / "src" / "adaprivate" / mutation.file
            kept, text = file.stat(), file.read_text()
            assert text.count(mutation.old) == 1, f"{mutation.file}: {mutation.old!r}"
            file.write_text(text.replace(mutation.old, mutation.new))
            result, output = outcome(copy, mutation.tests)
            file.write_text(text)
            os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            print(f"{result:9} {mutation.file}: {mutation.why}", flush=True)
            noticed = [line for line in output.splitlines() if line.startswith("FAILED")]
            print("".join(f"          {line:.200}\n" for line in noticed) or output[-1500:], end="", flush=True)
            lost += result != "killed"
    print(f"{len(chosen) - lost} of {len(chosen)} mutations are noticed")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
