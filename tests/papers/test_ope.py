"""Off-policy evaluation beside the truth: what is certain in Table 5 and Sec 4.7, on short runs."""

import numpy as np

from adaprivate.experiments import ope_jester, table5


def test_table5_errors_are_what_their_standard_errors_say():
    """IPS on logs of 3,000 rounds: within four standard errors of the truth; nothing beats the best candidate."""
    rows = [table5.run(setting, 2) for setting in (table5.QUICK[0], table5.QUICK[2])]
    for row in rows:
        assert (np.array(row["IPS error"]) < 4 * np.array(row["IPS sem"]) + 0.01).all()
        assert (np.array(row[table5.TRUTH]) < np.array(row["best"])).all()
        assert max(row["best"]) < 0.7  # far below the printed 0.76
    verdicts = {(cell.row, cell.column): cell.verdict for cell in table5.compare(rows)}
    assert verdicts["AdaPrivate-TS, epsilon 5", table5.TRUTH] == "differs"


def test_jester_estimates_are_near_the_truth():
    """Every estimate within five of its standard errors; uniform choice is worth every row."""
    found = {
        setting["row"]: ope_jester.run(setting, 2) for setting in ope_jester.QUICK if setting["row"] in ("random", "LinUCB")
    }
    for row in found.values():
        for column in ope_jester.ESTIMATES.values():
            gap = np.abs(np.array(row[column]) - row["true value"])
            assert (gap < 5 * np.array(row[f"{column} sem"])).all()
    np.testing.assert_allclose(found["random"]["effective sample size"], 750)
    assert np.mean(found["LinUCB"]["true value"]) > np.mean(found["random"]["true value"])
