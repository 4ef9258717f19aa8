"""Results for people: tables in the terminal, one HTML page per experiment."""

from adaprivate.report.kept import KeptRows
from adaprivate.report.pages import write_page
from adaprivate.report.tables import (
    cell_table,
    evaluation_table,
    facts_table,
    listing,
    plan_advice,
    plan_table,
    simulation_table,
    verdict_line,
)

__all__ = [
    "KeptRows",
    "cell_table",
    "evaluation_table",
    "facts_table",
    "listing",
    "plan_advice",
    "plan_table",
    "simulation_table",
    "verdict_line",
    "write_page",
]
