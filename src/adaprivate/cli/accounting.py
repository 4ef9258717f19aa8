"""Before anyone's data is touched: how much noise."""

from __future__ import annotations

from typing import Annotated

import typer

from adaprivate.cli.terminal import Json, print_json, show
from adaprivate.errors import InputError


def calibrate(
    epsilon: Annotated[float, typer.Option(help="The privacy loss to allow.")],
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")],
    sensitivity: Annotated[float, typer.Option(help="The largest l2 change one event makes to a batch sum.")] = 1.0,
    batches: Annotated[int | None, typer.Option(help="Release a running sum after each of so many batches.")] = None,
    rounds: Annotated[int | None, typer.Option(help="With --batch-size: so many rounds, whole batches released.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rounds in a batch.")] = None,
    noise: Annotated[
        str, typer.Option(help="How running sums share noise: independent, tree, honaker, sqrt, banded, blt, optimal.")
    ] = "independent",
    unit: Annotated[str, typer.Option(help="Whom to protect: event or user.")] = "event",
    batches_per_user: Annotated[int | None, typer.Option(help="Batches one user may enter (unit user).")] = None,
    separation: Annotated[int, typer.Option(help="Least distance between two batches of one user.")] = 1,
    clip: Annotated[float | None, typer.Option(help="Norm of a user's contribution to a batch (unit user).")] = None,
    neighbours: Annotated[
        str, typer.Option(help="replace: any values instead; add-remove: a user left out (unit user).")
    ] = "replace",
    sampling_rate: Annotated[float | None, typer.Option(help="Poisson sampling of events, inclusion kept secret.")] = None,
    json: Json = False,
) -> None:
    """The least noise for (epsilon, delta), exactly, before anyone's data is touched."""
    from adaprivate import check
    from adaprivate.mechanisms.calibration import calibrate as find

    if (rounds is None) != (batch_size is None) or (batches is not None and rounds is not None):
        raise InputError(f"Expected rounds={rounds}, batch_size={batch_size} to be given together, and instead of batches.")
    if rounds is not None and batch_size is not None:
        check.whole("batch_size", batch_size, at_least=1, at_most=check.whole("rounds", rounds, at_least=1))
        batches = rounds // batch_size
    found = find(
        epsilon,
        delta,
        sensitivity=sensitivity,
        batches=batches,
        noise=noise,
        unit=unit,
        batches_per_user=batches_per_user,
        separation=separation,
        clip=clip,
        neighbours=neighbours,
        sampling_rate=sampling_rate,
    )
    if json:
        print_json(found.to_dict())
        return
    from adaprivate import report

    show(report.facts_table("calibration", found.facts()), str(found.guarantee))
