"""Is a policy as private as it says? Attacks on what it shows."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from adaprivate.cli.terminal import Cluster, Json, parsed, print_json, progress, quiet, show, using
from adaprivate.errors import InputError, LittleToLearnWarning

MOST_ROUNDS = 1_200_000
"""Of all runs with exact noise together, unless their number is given; 400 are played anyway."""
LITTLE = 0.1
"""Findings of a smaller share of the claim say nothing."""


class Neighbour(enum.StrEnum):
    """What differs between neighbours."""

    reward = "reward"
    missing = "missing"
    user = "user"
    context = "context"


def audit(
    policy: Annotated[str | None, typer.Option(help="The policy to attack: one of `adaprivate list policies`.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy loss that it is to claim (default: 1).")] = None,
    delta: Annotated[float, typer.Option(help="The probability of exceeding it.")] = 1e-5,
    trials: Annotated[
        int | None, typer.Option(help="Runs (default: 10000, with exact noise 4000); with --one-run, canaries (5000).")
    ] = None,
    one_run: Annotated[bool, typer.Option("--one-run", help="Many canaries in a single run: quick, and looser.")] = False,
    exact_noise: Annotated[
        bool, typer.Option("--exact-noise", help="Attack the policy as it runs on real people's data.")
    ] = False,
    neighbour: Annotated[
        Neighbour | None, typer.Option(help="What differs between neighbours (default: what the guarantee protects).")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="A setting of the policy, key=value; repeatable.")] = None,
    confidence: Annotated[float, typer.Option(help="Of both bounds together.")] = 0.999,
    seed: Annotated[int, typer.Option(help="Another seed, other runs.")] = 1,
    gallery: Annotated[
        bool, typer.Option("--gallery", help="Broken mechanisms instead, each beside its sound twin.")
    ] = False,
    cluster: Cluster = None,
    out: Annotated[Path | None, typer.Option(help="Folder for an HTML report.")] = None,
    json: Json = False,
) -> None:
    """Attack everything a policy shows, for lower bounds on epsilon and mu. Exit code 1 if it shows more than it claims."""
    if gallery:
        if policy is not None or one_run or exact_noise or neighbour is not None:
            raise InputError("Expected gallery=True to come without a policy and how to attack it.")
        _gallery(trials, confidence, seed, cluster, out, json)
        return
    if one_run and cluster is not None:
        raise InputError(f"Expected cluster={cluster!r} not to be given with --one-run, which is one run.")
    if policy is None:
        raise InputError("Expected policy=None to be a policy; adaprivate list policies names them.")
    found, claim = _attacked(
        policy,
        parsed(option),
        epsilon=epsilon,
        delta=delta,
        trials=trials,
        one_run=one_run,
        exact_noise=exact_noise,
        neighbour=None if neighbour is None else neighbour.value,
        confidence=confidence,
        seed=seed,
        cluster=cluster,
    )
    row = found.to_dict()
    curve = row.pop("curve")
    page = None
    if out is not None:
        from adaprivate import report
        from adaprivate.audit import trade_off_plot

        plot = trade_off_plot(claim, curve) if curve else None
        page = report.write_audit(out, f"audit-{policy}", about=_summary(row), rows=[row], plot=plot)
    if json:
        print_json(row)
    else:
        from adaprivate import report

        facts = [f"Neighbours: {row['neighbour']}.", f"Attack: {row['attack']}.", _summary(row), *_advice(row)]
        show(report.audit_table("audit", [row]), *facts, *([f"Report: {page}"] if page else []))
    if not found.holds:
        raise typer.Exit(1)


def _attacked(
    policy: str,
    values: dict[str, Any],
    *,
    epsilon: float | None,
    delta: float,
    trials: int | None,
    one_run: bool,
    exact_noise: bool,
    neighbour: str | None,
    confidence: float,
    seed: int,
    cluster: str | None,
) -> tuple[Any, Any]:
    """What the attack found, and the claim."""
    import warnings

    from adaprivate import policies
    from adaprivate.audit import audited, audited_in_one_run, policy_target

    known = policies.options(policy)
    (budget,) = policies.budgets(policy, epsilon, values)
    own = {"delta": delta} | ({} if budget is None else {"epsilon": budget})
    values = {**{key: value for key, value in own.items() if key in known}, **values}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LittleToLearnWarning)  # a few rounds are meant to be few
        if one_run:
            if neighbour not in (None, "reward"):
                raise InputError(f"Expected neighbour={neighbour!r} == 'reward' with --one-run.")
            count = 5000 if trials is None else trials
            done = audited_in_one_run(
                policy, values, canaries=count, exact_noise=exact_noise, confidence=confidence, seed=seed
            )
            return done, None
        target = policy_target(policy, values, neighbour=neighbour, exact_noise=exact_noise)
        usual = max(400, min(4000, MOST_ROUNDS // target.settings.rounds)) if exact_noise else 10_000
        count = usual if trials is None else trials
        if target.note and not quiet():
            typer.echo(f"{target.note}: {count} runs.", err=True)
        with using(cluster):
            return audited(target, trials=count, confidence=confidence, seed=seed), target.claim


def _advice(row: dict[str, Any]) -> list[str]:
    """What to make of it, where that is not plain."""
    said = [f"{row['note']}."] if row["note"] else []
    if row["off_grid"]:
        off = f"{row['off_grid']} of {row['looked_at']} released numbers cannot be made by exact noise"
        return [*said, f"{off}: their low bits tell what they were made of. Keep it from people's data."]
    if not row["holds"]:
        return [
            *said,
            "More is shown than is claimed: keep it from people's data; --neighbour and --option help to find why.",
        ]
    if row["share"] < LITTLE:
        return [*said, "So few runs at this epsilon say next to nothing: more --trials, or --epsilon 5, would say more."]
    return said


def _summary(row: dict[str, Any]) -> str:
    noise = "exact noise" if row["exact_noise"] else "simulated noise"
    runs = "1 run" if row["trials"] == 1 else f"{row['trials']} runs"
    return (
        f"{runs} with {noise}, {row['seconds']:.1f} s. With confidence {100 * row['confidence']:g} % epsilon "
        f"at delta {row['delta']:g} is at least {row['measured_epsilon']:.4g} (by counts {row['direct_epsilon']:.4g}) "
        f"and mu at least {row['measured_mu']:.4g}."
    )


def _gallery(trials: int | None, confidence: float, seed: int, cluster: str | None, out: Path | None, json: bool) -> None:
    from adaprivate import report
    from adaprivate.audit import EXHIBITS, exhibited_all

    rows = []
    with using(cluster), progress(len(EXHIBITS), "gallery", unit="exhibits", silent=json) as advance:
        given = {} if trials is None else {"trials": trials}
        shown = exhibited_all(confidence=confidence, seed=seed, progress=advance, **given)
    for found in shown:
        for finding, name in ((found.broken, found.name), (found.sound, f"  sound twin of {found.name}")):
            rows.append({**dataclasses.asdict(finding), "policy": name})
    caught = all(found.caught for found in shown)
    said = f"{sum(found.caught for found in shown)} of {len(shown)} broken mechanisms caught; no sound twin may be."
    page = None if out is None else report.write_audit(out, "audit-gallery", about=said, rows=rows)
    if json:
        fields = [found.to_dict() for found in shown]
        for row in fields:
            for twin in ("broken", "sound"):
                row[twin].pop("curve")
        print_json({"caught": caught, "rows": fields})
    else:
        show(report.audit_table("gallery", rows), *(f"{found.name}: {found.what}." for found in shown), said)
        if page:
            show(f"Report: {page}")
    if not caught:
        raise typer.Exit(1)
