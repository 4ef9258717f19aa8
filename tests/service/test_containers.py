"""The container image and the compose file, as far as they can be checked without an engine: their commands exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from adaprivate.cli import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and their arguments, in order."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def _given(instructions: list[tuple[str, str]], name: str) -> str:
    """The argument of the last such instruction: it is the one that counts."""
    return [argument for word, argument in instructions if word == name][-1]


def _parsed(words: list[str]) -> Any:
    """What the command line makes of these words, without running them."""
    commands: Any = typer.main.get_command(app)
    assert words[0] in commands.commands, f"there is a command {words[0]}"
    with commands.commands[words[0]].make_context(words[0], words[1:]) as context:
        return words[0], context.params


def test_the_container_serves_to_all_and_knows_its_command(instructions: list[tuple[str, str]]) -> None:
    assert json.loads(_given(instructions, "ENTRYPOINT")) == ["adaprivate"]
    name, options = _parsed(json.loads(_given(instructions, "CMD")))
    assert name == "serve"
    assert (options["host"], options["port"]) == ("0.0.0.0", int(_given(instructions, "EXPOSE")))
    assert options["require_keys"] is False, "beyond the machine itself keys are needed anyway"


def test_its_check_asks_the_port_that_it_serves(instructions: list[tuple[str, str]]) -> None:
    line = _given(instructions, "HEALTHCHECK")
    words = json.loads(line[line.index("[") :])
    assert words[0] == "adaprivate"
    name, options = _parsed(words[1:])
    assert (name, options["url"]) == ("health", f"http://127.0.0.1:{_given(instructions, 'EXPOSE')}")
    seconds = int(str(re.search(r"--timeout=(\d+)s", line)[1]))  # type: ignore[index]
    assert options["timeout"] < seconds


def test_it_runs_as_nobody_in_particular_and_owns_what_it_writes(instructions: list[tuple[str, str]]) -> None:
    words = [word for word, _ in instructions]
    assert _given(instructions, "USER") not in ("root", "0")
    assert words.index("USER") > max(place for place, word in enumerate(words) if word in ("RUN", "COPY"))
    settings = dict(pair.split("=", 1) for pair in shlex.split(_given(instructions, "ENV")))
    made = next(argument for word, argument in instructions if word == "RUN" and "install -d" in argument)
    assert "-m 0700" in made
    folders = made[made.index("-m 0700") :].split()[2:]
    assert Path(settings["ADAPRIVATE_DATABASE"].removeprefix("sqlite:///")).parent == Path(folders[0])
    assert settings["ADAPRIVATE_JOURNAL"] in folders
    assert settings["NUMBA_CACHE_DIR"] in folders
    assert settings["ADAPRIVATE_JOURNAL"] != folders[0], "the journal must not be rolled back with the database"
    assert json.loads(_given(instructions, "VOLUME")) == folders[:2]


def test_what_is_copied_exists_and_is_not_kept_out(instructions: list[tuple[str, str]]) -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for word, argument in instructions
        if word == "COPY"
        for source in argument.split()[:-1]
        if not source.startswith("--")
    }
    assert copied == kept
    assert all((ROOT / source).exists() for source in copied)


def test_names_of_the_environment_are_those_that_are_read(
    instructions: list[tuple[str, str]], compose: dict[str, Any]
) -> None:
    source = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    settings = {pair.split("=", 1)[0] for pair in shlex.split(_given(instructions, "ENV"))}
    for name in settings | {*compose["services"]["service"]["environment"]}:
        assert not name.startswith("ADAPRIVATE_") or f'"{name}"' in source


def test_compose_serves_from_postgresql_once_that_is_healthy(compose: dict[str, Any]) -> None:
    service, database = compose["services"]["service"], compose["services"]["database"]
    name, options = _parsed(service["command"])
    assert name == "serve"
    assert (options["host"], options["port"]) == ("0.0.0.0", 8000)
    assert service["ports"] == ["127.0.0.1:8000:8000"], "what the outside world reaches is for a proxy with TLS"
    assert database["image"].startswith("postgres:17")
    assert database["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    address = service["environment"]["ADAPRIVATE_DATABASE"]
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    assert re.fullmatch(rf"postgresql://{user}:\$\{{POSTGRES_PASSWORD:\?[^}}]+\}}@database:5432/{name}", address)


def test_compose_keeps_the_journal_apart_and_holds_no_secret(compose: dict[str, Any], instructions: Any) -> None:
    mounts = {
        name: dict(reversed(mount.split(":")) for mount in one["volumes"]) for name, one in compose["services"].items()
    }
    journal = mounts["service"][compose["services"]["service"]["environment"]["ADAPRIVATE_JOURNAL"]]
    assert journal not in mounts["database"].values()
    assert {volume for found in mounts.values() for volume in found.values()} == {*compose["volumes"]}
    writable = {*mounts["service"], *compose["services"]["service"]["tmpfs"]}
    settings = dict(pair.split("=", 1) for pair in shlex.split(_given(instructions, "ENV")))
    assert compose["services"]["service"]["read_only"] is True
    assert {settings["NUMBA_CACHE_DIR"], "/tmp", "/data", "/journal"} == writable
    password = compose["services"]["database"]["environment"]["POSTGRES_PASSWORD"]
    assert password.startswith("${POSTGRES_PASSWORD:?")
