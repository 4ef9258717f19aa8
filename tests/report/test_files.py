"""Raw rows beside a page: every run of every setting, the same in both files."""

from types import SimpleNamespace

import numpy as np
import polars as pl

from adaprivate.report.files import frame, raw, write_rows


def run(seed, regret):
    own = {"seed": seed, "reward": 10.0 - regret, "regret": regret, "best": 10.0, "random": 4.0}
    return SimpleNamespace(**own, learned_share=1 - regret / 6, curve=np.array([0.0, regret]))


SETTINGS = [{"row": "a", "options": {"epsilon": 1.0}}, {"row": "b", "options": {}}]
ROWS = [
    {**SETTINGS[0], "runs": (run(0, 1.5), run(1, 2.5)), "regret": 2.0, "baseline": (run(0, 9.0), run(1, 9.0))},
    {**SETTINGS[1], "runs": (run(0, 3.0), run(1, 4.0)), "regret": 3.5},
]


def test_a_line_for_every_setting_and_seed_with_what_the_seed_earned():
    lines = raw(ROWS, SETTINGS)
    assert [(line["row"], line["seed"], line["regret"]) for line in lines] == [
        ("a", 0, 1.5),
        ("a", 1, 2.5),
        ("b", 0, 3.0),
        ("b", 1, 4.0),
    ]
    assert lines[0]["options.epsilon"] == 1.0
    assert "options.epsilon" not in lines[2]


def test_both_files_hold_the_same_numbers(tmp_path):
    parquet, csv = write_rows(tmp_path, "both", raw(ROWS, SETTINGS))
    whole, flat = pl.read_parquet(parquet), pl.read_csv(csv)
    assert whole["curve"].to_list() == [[0.0, 1.5], [0.0, 2.5], [0.0, 3.0], [0.0, 4.0]]
    assert flat.columns == [column for column in whole.columns if column != "curve"]
    for column in flat.columns:
        assert flat[column].to_list() == whole[column].to_list()


def test_rows_without_runs_are_lines_of_their_own(tmp_path):
    rows = [
        {
            "noise": "tree",
            "std": np.array([1.0, 2.0]),
            "largest": np.float64(2),
            "none": None,
            "mixed": 1,
            "odd": {"a": {1, 2}},
        },
        {"noise": "sqrt", "std": np.array([3.0]), "largest": float("nan"), "none": None, "mixed": "x"},
    ]
    parquet, csv = write_rows(tmp_path, "alone", raw(rows))
    whole = pl.read_parquet(parquet)
    assert whole["std"].to_list() == [[1.0, 2.0], [3.0]]
    assert whole["largest"].to_list() == [2.0, None]
    assert whole["mixed"].to_list() == ["1", "x"]
    assert pl.read_csv(csv)["std"].to_list() == ["[1.0, 2.0]", "[3.0]"]


def test_no_lines_make_an_empty_table():
    assert frame([]).is_empty()
