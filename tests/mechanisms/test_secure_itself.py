"""Only Secure itself is printed as exact: what a subclass draws nobody knows."""

import numpy as np

from adaprivate import privacy
from adaprivate.mechanisms import Gaussian, Secure, examples


class Silent(Secure):
    """Adds no noise at all."""

    def gaussian(self, values, scale):
        return np.array([float(v) for v in values.ravel()]).reshape(values.shape)


def test_a_subclass_of_secure_promises_nothing():
    own, other = (
        Gaussian(dimension=2, noise_multiplier=2.0, noise=source).guarantee(1e-5) for source in (Secure(), Silent())
    )
    exact = {privacy.CONDITIONS[name] for name in ("exact-noise", "secret-noise")}
    assert exact <= set(own.enforced)
    assert not own.simulated
    assert exact <= set(other.assumptions)
    assert other.simulated
    assert other.sentence.startswith("SIMULATED NOISE, NOBODY IS PROTECTED")


def test_so_do_all_mechanisms():
    for example in examples():
        try:
            mechanism = example.build(Silent())
        except ValueError:  # no exact noise at all
            continue
        assert mechanism.guarantee(1e-5).simulated, example.name
