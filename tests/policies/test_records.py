"""Records have named fields, and their types do not depend on how a setting was written."""

import dataclasses

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.compiled import record
from adaprivate.mechanisms import packing


def dtypes(state):
    return [found for part in state for found in dtypes(part)] if isinstance(state, tuple) else [state.dtype]


def test_fields_have_the_type_of_what_they_are_given():
    made = record(width=1.0, round=3, adapts=True)
    assert made.dtype.names == ("width", "round", "adapts")
    assert [made.dtype[name] for name in made.dtype.names] == [np.float64, np.int64, np.bool_]
    assert made.dtype.isalignedstruct  # numba compiles slower code for others
    assert made[0].tolist() == (1.0, 3, True)


@pytest.mark.parametrize("name", policies.names())
def test_a_setting_of_1_is_one_of_1_0(name):
    """A whole number in a record would be cut to whole numbers for ever: a width times its decay becomes 0."""
    for settings in policies.examples(name):
        whole = {
            field.name: int(value)
            for field in dataclasses.fields(settings)
            if type(value := getattr(settings, field.name)) is float and value == int(value)
        }
        other = dataclasses.replace(settings, **whole)
        table = settings.noise_tables([0])[0]
        assert dtypes(other.start(table)) == dtypes(settings.start(table))


def test_memory_between_fields_is_not_stored():
    """What was there before a record was made may be anything, and what is stored of a learner is public."""
    made = record(adapts=True, width=1.0, learns=False, round=3)
    stored = []
    for left_over in (0, 255):
        raw = np.full(made.nbytes, left_over, dtype=np.uint8).view(made.dtype)
        for name in made.dtype.names:
            raw[name] = made[name]
        assert raw.tobytes().count(left_over) >= 14  # seven after each bool
        stored.append(packing.to_bytes({"parts": raw}))
        assert packing.from_bytes(stored[-1])["parts"] == made
    assert stored[0] == stored[1]
