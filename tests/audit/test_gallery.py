"""Every broken mechanism is caught, and no sound twin is: confidence 0.999 each, seeds fixed; 1 - 1e-6 for exact noise."""

import numpy as np
import pytest

from adaprivate.audit import EXHIBITS, exhibited
from adaprivate.audit.attack import reachable


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_exhibit(exhibit):
    confidence = 1 - 1e-6 if exhibit.name == "float-noise" else 0.999
    found = exhibited(exhibit, trials=600 if exhibit.name == "squares-only" else 2000, confidence=confidence)
    assert not found.broken.holds, found.broken
    assert found.sound.holds, found.sound
    assert found.caught


def test_the_gallery_is_complete():
    assert len(EXHIBITS) >= 12
    assert len({exhibit.name for exhibit in EXHIBITS}) == len(EXHIBITS)


def test_low_bits_of_floating_point_noise():
    """A sum with noise is always reachable from its own mean, and one in twenty or more is not from another."""
    noise = 3.73 * np.random.default_rng(0).standard_normal(4000)
    scale = np.full(4000, 3.73)
    assert reachable(0.0 + noise, np.zeros(4000), scale).all()
    assert reachable(1.0 + noise, np.ones(4000), scale).all()
    assert (~reachable(noise, np.ones(4000), scale)).mean() > 0.02
