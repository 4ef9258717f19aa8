"""Results for people: tables in the terminal, one HTML page per experiment."""

from adaprivate.report.pages import write_page
from adaprivate.report.tables import cell_table, facts_table, listing, simulation_table

__all__ = ["cell_table", "facts_table", "listing", "simulation_table", "write_page"]
