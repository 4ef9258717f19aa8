"""The command line: thin, one clear line for every mistake, --json everywhere."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from adaprivate import extras
from adaprivate.cli.accounting import calibrate
from adaprivate.cli.auditing import audit
from adaprivate.cli.decision_log import log
from adaprivate.cli.keeping import backup, export, health, import_, migrate, restore, resume
from adaprivate.cli.planning import plan
from adaprivate.cli.published import list_, reproduce
from adaprivate.cli.recorded import check_data, describe_data, evaluate
from adaprivate.cli.serving import keys_app, serve
from adaprivate.cli.showing import demo, report
from adaprivate.cli.terminal import QUIET, Json, print_json, quiet
from adaprivate.cli.trials import simulate
from adaprivate.errors import InputError

app = typer.Typer(
    name="adaprivate",
    help="Differentially private bandits: learn from people's behaviour under a stated (epsilon, delta).",
    epilog="To begin: adaprivate demo, or adaprivate list policies. Every command takes --help and --json, and exits with "
    "0 on success, 1 on a failed check, 2 on bad input, which one line on stderr explains.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Recorded data: ratings, logs, labelled tables.", no_args_is_help=True)
SERVICE = "The decision service"


def _add(to: typer.Typer, name: str, function: Callable[..., None], panel: str | None = None) -> None:
    """Add a command whose paragraphs are broken where the terminal ends, not where their source does."""
    said = [" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n")]
    to.command(name, help="\n\n".join(said), rich_help_panel=panel)(function)


_add(data_app, "check", check_data)
_add(data_app, "describe", describe_data)
_add(app, "list", list_)
for command in (demo, calibrate, simulate, evaluate, plan, reproduce, report, audit):
    _add(app, command.__name__, command)
app.add_typer(data_app, name="data")
for of_service in (serve, log, health, migrate, backup, restore, resume, export):
    _add(app, of_service.__name__, of_service, SERVICE)
_add(app, "import", import_, SERVICE)
app.add_typer(keys_app, name="keys", rich_help_panel=SERVICE)


def _hush(context: typer.Context, wanted: bool) -> None:
    """Have this process, and those it starts, say nothing else until the command is over."""
    if not wanted or quiet():
        return
    os.environ[QUIET] = "1"
    context.call_on_close(lambda: os.environ.pop(QUIET, None))


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _main(
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet_wanted: Annotated[
        bool,
        typer.Option(
            "--quiet", callback=_hush, help=f"No progress, no remarks; may stand anywhere. {QUIET}=1 says the same."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def version(json: Json = False) -> None:
    """Print the version."""
    from adaprivate import __version__

    if json:
        print_json({"version": __version__})
    else:
        sys.stdout.write(__version__ + "\n")


def _say(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line on stderr."""
    if quiet():
        return
    sys.stderr.write(f"adaprivate: {message}\n")


def _quiet_first(arguments: list[str]) -> list[str]:
    """The arguments with --quiet, wherever it stood, before the command: it is the same for all of them."""
    rest = [argument for argument in arguments if argument != "--quiet"]
    return arguments if len(rest) == len(arguments) else ["--quiet", *rest]


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit code 2."""
    warnings.showwarning = _say
    try:
        with extras.needed():
            code = app(_quiet_first(sys.argv[1:]), standalone_mode=False)
    except InputError as error:
        sys.stderr.write(f"adaprivate: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        sys.stderr.write(f"adaprivate: {f'{error.strerror}: {error.filename}' if named else error}\n")
        sys.exit(2)
    except Exception as error:
        # The option parser's own complaints (its exception classes differ between typer versions).
        if not hasattr(error, "format_message"):
            raise
        message = " ".join(str(error.format_message()).split())
        if message:
            sys.stderr.write(f"adaprivate: {message}\n")
        sys.exit(getattr(error, "exit_code", 2))
    sys.exit(code if isinstance(code, int) else 0)
