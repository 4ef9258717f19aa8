"""A table of results: a polars DataFrame with a column for every setting, of which printing shows those that matter."""

from __future__ import annotations

import polars as pl

SHOWN = {
    "policy": 0,
    "epsilon": 4,
    "learned_share": 3,
    "learned_share_sem": 3,
    "percent_of_linucb": 1,
    "percent_of_tuned_linucb": 1,
    "regret_mean": 1,
    "regret_sem": 1,
}
"""The columns that are printed, in this order, and their digits after the point."""


class Results(pl.DataFrame):
    """A DataFrame; a selection of its columns prints as any other."""

    def _brief(self) -> pl.DataFrame | None:
        if not set(SHOWN) <= set(self.columns):
            return None
        numbers = [pl.col(name).cast(pl.Float64).round(digits) for name, digits in SHOWN.items() if digits]
        return pl.DataFrame(self.to_dict(as_series=True)).select("policy", *numbers)

    def __str__(self) -> str:
        found = self._brief()
        if found is None:
            return super().__str__()
        with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=150, fmt_str_lengths=60, tbl_hide_column_data_types=True):
            return f"{found}\n{self.width - found.width} more columns: every setting, the guarantee; .columns names them."

    __repr__ = __str__

    def _repr_html_(self, *, _from_series: bool = False) -> str:
        found = self._brief()
        return str(super()._repr_html_(_from_series=_from_series) if found is None else found._repr_html_())
