"""The decision log of the service as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adaprivate.cli.keeping import opened
from adaprivate.cli.serving import DEFAULT, Address
from adaprivate.cli.terminal import Json, print_json, show
from adaprivate.errors import InputError


def log(
    name: Annotated[str, typer.Argument(help="The bandit.")],
    out: Annotated[Path, typer.Option(help="The parquet file to write.")],
    database: Address = DEFAULT,
    rewards: Annotated[
        Path | None, typer.Option(help="Your own rewards, a CSV or parquet file of decision_id and reward: PRIVATE.")
    ] = None,
    no_rewards: Annotated[
        bool, typer.Option("--no-rewards", help="Leave out rewards, which a bandit with keep_rewards has.")
    ] = False,
    stream: Annotated[
        str | None, typer.Option(help="policy or holdback alone, with its own propensities (holdback: uniform choice).")
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Name every decision, to join what you know of it.")] = False,
    absent: Annotated[
        float | None, typer.Option(help="What a decision without a reward earned (default: what the bandit counts it as).")
    ] = None,
    json: Json = False,
) -> None:
    """Write what a bandit offered and chose, one row a decision, for adaprivate evaluate.

    Without rewards the file holds only what the service treats as public. With rewards (--rewards, or where the bandit was
    made with keep_rewards) it is PRIVATE and outside the guarantee: for those who may see every reward.

    Columns: round, at, version, stream, item, action (the number of the item among the candidates), candidates, propensity,
    user (a keyed number, where people are protected), x_k_j (feature j of candidate k), reward. To judge policies by the
    features of candidates: adaprivate evaluate FILE --candidates x ...
    By items alone, or where features were left out: --action item --candidates candidates (and --items FILE).
    """
    if rewards is not None and no_rewards:
        raise InputError("Expected --rewards or --no-rewards, not both.")
    with opened(database) as source:
        from adaprivate.service.log import write_log

        own = not no_rewards if rewards is None else rewards
        facts = write_log(source, name, out, rewards=own, stream=stream, ids=ids, absent=absent)
    if json:
        print_json({"file": str(out), **facts})
        return
    show(f"{out}: {facts['rows']:,} decisions, {facts['columns']} columns")
    if not facts["features"]:
        show("Features of candidates are left out: there are too many columns.")
    if facts.get("rewards_of_other_decisions"):
        show(f"{facts['rewards_of_other_decisions']:,} of your rewards are of none of these decisions.")
    if facts["waiting"]:
        show(f"{facts['waiting']:,} decisions are left out: their batch still takes rewards. --no-rewards has them, too.")
    if not facts["rewards"] and not no_rewards:
        show(
            "No rewards are in it: this bandit does not keep them (keep_rewards). To evaluate, give yours: --rewards FILE."
        )
    if facts["flipped"]:
        show(f"{facts['flipped']:,} rewards are not in it: they were flipped before they were stored.")
    if facts["private"]:
        show("PRIVATE: it holds rewards, and is outside the guarantee.")
