"""The verdicts on published privacy claims, pinned: they are mathematics, not measurements."""

from adaprivate import experiments


def test_verdicts():
    chosen = experiments.experiment("claims")
    cells = chosen.compare([chosen.run(setting, 2) for setting in chosen.settings])
    unsound = {}
    for cell in cells:
        unsound.setdefault(cell.row, []).append(cell.verdict == "unsound-as-published")
    assert not any(unsound["AdaPrivate-TS Eq. 2.8 (zCDP)"])
    assert all(unsound["AdaPrivate-TS Eq. 3.6 (sampling)"])
    assert unsound["AdaPrivate-TS Sec 6.1 (users)"] == [True, False, True, True, True, True]
    assert all(unsound["AdaPrivate-TS Sec 6.3 (DP-SVD)"])
    assert all(unsound["Ou et al. Theorem 7 (argmax)"])
    assert not any(unsound["Shariff-Sheffet Gaussian tree"])
    assert {c.verdict for c in cells if "groups" in c.row or "GDP" in c.row} == {"agrees"}


def test_theorem_7s_noise_is_not_algorithm_1s():
    chosen = experiments.experiment("prefix-noise")
    cells = {(c.row, c.column): c for c in chosen.compare([chosen.run(setting, 2) for setting in chosen.settings])}
    for batches, largest in ((33, 5.74), (200, 14.14), (1000, 31.62)):
        cell = cells["independent", f"{batches} batches, largest"]
        assert cell.verdict == "differs"
        assert round(cell.ours, 2) == largest
