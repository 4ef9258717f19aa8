"""Results for people: tables in the terminal, one HTML page per experiment."""

from adaprivate.logs.format import COMPOSITION, evaluation_notes, evaluation_table
from adaprivate.report.front import Glance, Names, terminal, write_front
from adaprivate.report.pages import Provenance, write_audit, write_page
from adaprivate.report.pictures import draw
from adaprivate.report.site import write_site
from adaprivate.report.tables import (
    POLICY_WORDS,
    audit_table,
    cell_table,
    checked_tables,
    facts_table,
    listing,
    meaning_lines,
    plan_advice,
    plan_table,
    policy_table,
    remarks_of,
    simulation_table,
    verdict_line,
)
from adaprivate.report.verdicts import entry, seeds_line

__all__ = [
    "COMPOSITION",
    "POLICY_WORDS",
    "Glance",
    "Names",
    "Provenance",
    "audit_table",
    "cell_table",
    "checked_tables",
    "draw",
    "entry",
    "evaluation_notes",
    "evaluation_table",
    "facts_table",
    "listing",
    "meaning_lines",
    "plan_advice",
    "plan_table",
    "policy_table",
    "remarks_of",
    "seeds_line",
    "simulation_table",
    "terminal",
    "verdict_line",
    "write_audit",
    "write_front",
    "write_page",
    "write_site",
]
