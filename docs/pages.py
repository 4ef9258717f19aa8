"""Pages of the documentation that the code writes itself: the index of algorithms, the commands, the Python reference.

A hook of MkDocs (mkdocs.yml). Links out of this folder lead nowhere on a site; they are named instead.
"""

from __future__ import annotations

import re
from typing import Any

import typer
from mkdocs.structure.files import File, Files

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)")
_PYTHON = """# Python

What `import adaprivate as ap` offers. Names that are not here may change.

{parts}
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for name, text in {"algorithms.md": algorithms(), "commands.md": commands(), "api.md": python()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name files that are not part of the site."""
    return _OUTSIDE.sub(r"\1 (`\2` in the repository)", markdown)


def algorithms() -> str:
    """All registered policies: what they are, whom they protect, where they come from, and where they deviate."""
    from adaprivate import policies

    lines = [
        "# Algorithms",
        "",
        "Made from the registry: what `adaprivate list policies` knows. *Production noise*: drawn exactly, from the "
        "system's randomness; without it a policy is for simulations. How fast each is: `benchmarks/README.md`.",
        "",
        "| policy | protects | promises | production noise |",
        "|---|---|---|---|",
    ]
    found = {name: (policies.describe(name), policies.overview(name).to_dict()) for name in policies.names()}
    ordered = sorted(found, key=lambda name: (found[name][1]["start_here"] or 1_000, name))
    for name in ordered:
        facts = found[name][1]
        units = ", ".join(facts["units"]) or "nobody"
        lines.append(f"| [{name}](#{name}) | {units} | {facts['promises']} | {facts['production_noise']} |")
    for name in ordered:
        (line, about), facts = found[name]
        lines += ["", f"## {name}", "", line, ""]
        lines += [f"Use it: {facts['recommended_for']}.", ""] if facts["recommended_for"] else []
        fields = next((part for part in about.split("\n\n") if part.startswith("Paper:")), "")
        lines += [f"- {entry}" for entry in re.sub(r"\n +", " ", fields).split("\n") if entry]
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Every command, with its arguments and options."""
    from adaprivate.cli import app

    found: list[str] = []
    _add_command(typer.main.get_command(app), "adaprivate", found)
    head = "# Commands\n\nMade from the program itself; `adaprivate COMMAND --help` says the same.\n"
    return head + "\n".join(found) + "\n"


def _add_command(command: Any, name: str, lines: list[str]) -> None:
    within = getattr(command, "commands", None)
    if within is None:
        lines += ["", f"## {name}", "", _plain(command.help or ""), ""]
        rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
        lines += ["| | |", "|---|---|", *rows] if rows else []
        return
    for part, inner in within.items():
        if not inner.hidden:
            _add_command(inner, f"{name} {part}", lines)


def _row(parameter: Any) -> str:
    names = ", ".join(parameter.opts) if parameter.param_type_name == "option" else str(parameter.name).upper()
    return f"| `{names}` | {_plain(getattr(parameter, 'help', None) or '')} |"


def _plain(text: str) -> str:
    return text.replace("\b", "").replace("|", "\\|").strip()


def python() -> str:
    """The public names, for mkdocstrings to fill in."""
    import adaprivate as ap

    parts = []
    for name in sorted(ap.__all__):
        found = getattr(ap, name)
        module = getattr(found, "__module__", None)
        if module is not None and not isinstance(found, type(re)):
            parts.append(f"::: {module}.{found.__qualname__}")
    return _PYTHON.format(parts="\n\n".join(parts))
