"""The public featuriser: norms, stability across processes, what it can represent, and what it refuses."""

import copy
import hashlib
import json
import math
import os
import pickle
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaprivate.check import InputError
from adaprivate.features import Clipping, Featuriser, clipping_warning

ROOT = Path(__file__).parents[2]
PYTHON = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "features.md").read_text(encoding="utf-8"), re.DOTALL)

HOUR = {"name": "hour", "kind": "number", "low": 0, "high": 24}
DEVICE = {"name": "device", "kind": "category", "values": ["phone", "desktop"]}
COUNTRY = {"name": "country", "kind": "hashed", "buckets": 16}
EMBEDDING = {"name": "embedding", "kind": "vector", "length": 8, "norm": 1.0}
CLOCK = {"name": "clock", "kind": "cyclic", "period": 24}
FIELDS = [HOUR, DEVICE, COUNTRY, EMBEDDING, CLOCK]
FEATURES = {"kind": "features", "length": 4, "norm": 1.0}
DESCRIPTION = {"context": FIELDS, "items": FEATURES, "interactions": "products"}
CONTEXT = {"hour": 6, "device": "desktop", "country": "de", "embedding": [0.5, 0, 0, 0, 0, 0, 0, -0.5], "clock": 6}


def made(*context, items=FEATURES, interactions="products"):
    return Featuriser(context, items, interactions)


def vector(field, value):
    return made(field).context_vector({field["name"]: value})


# --- the description --------------------------------------------------------------------------------------------------


def test_description_survives_json():
    featuriser = Featuriser.from_dict(DESCRIPTION)
    again = Featuriser.from_dict(json.loads(json.dumps(featuriser.to_dict())))
    assert featuriser.to_dict() == DESCRIPTION
    assert again == featuriser
    assert hash(again) == hash(featuriser)
    assert again != made(HOUR)
    assert np.array_equal(again.context_vector(CONTEXT)[0], featuriser.context_vector(CONTEXT)[0])


def test_options_survive_json():
    fields = [
        HOUR | {"missing": 12.0},
        DEVICE | {"other": False, "missing": "phone"},
        COUNTRY | {"missing": "?"},
        EMBEDDING | {"missing": [0.0] * 8},
        CLOCK | {"missing": 0.0},
    ]
    for items in ({"kind": "one-hot", "most": 3, "name": "article"}, FEATURES | {"name": "topic"}):
        description = {"context": fields, "items": items, "interactions": "products"}
        assert Featuriser.from_dict(json.loads(json.dumps(description))).to_dict() == description


def test_frozen_copied_and_pickled():
    featuriser = Featuriser.from_dict(DESCRIPTION)
    with pytest.raises(FrozenInstanceError):
        featuriser.interactions = "none"
    featuriser.context_vector(CONTEXT)
    for other in (copy.deepcopy(featuriser), pickle.loads(pickle.dumps(featuriser))):
        assert other == featuriser
        assert np.array_equal(other.context_vector(CONTEXT)[0], featuriser.context_vector(CONTEXT)[0])
    assert eval(repr(featuriser), {"Featuriser": Featuriser}) == featuriser


def test_defaults():
    featuriser = Featuriser.from_dict({"items": {"kind": "features", "length": 2}})
    assert featuriser.to_dict() == {
        "context": [],
        "items": {"kind": "features", "length": 2, "norm": 1.0},
        "interactions": "products",
    }
    rows = np.array([[0.6, 0.8], [0.0, 0.1]])
    assert np.array_equal(featuriser.build(None, rows), rows)  # without a context, products are the items
    assert np.array_equal(made(items=FEATURES | {"length": 2}, interactions="none").build({}, rows), rows)


def test_dimension_and_names():
    featuriser = made(HOUR, DEVICE, CLOCK, items={"kind": "one-hot", "most": 2, "name": "article"})
    parts = ["hour", "device=phone", "device=desktop", "device:other", "clock:cos", "clock:sin"]
    assert featuriser.context_length == 6
    assert featuriser.item_length == 2
    assert featuriser.dimension == (1 + 6) * 2
    assert featuriser.names == ("article_0", "article_1", *(f"{part}*article_{i}" for part in parts for i in range(2)))
    blocks = made(HOUR, items={"kind": "one-hot", "most": 2}, interactions="blocks")
    assert blocks.names == ("item_0", "hour*item_0", "item_1", "hour*item_1")
    names = Featuriser.from_dict(DESCRIPTION).names
    assert len(set(names)) == len(names) == Featuriser.from_dict(DESCRIPTION).dimension == (1 + 1 + 3 + 16 + 8 + 2) * 4
    assert names[-1] == "clock:sin*feature_3"
    assert {"country#15*feature_0", "embedding[7]*feature_0"} <= set(names)


def test_names_say_where_a_coordinate_is():
    """Whatever moves when one part of context or item changes has that part in its name."""
    for interactions in ("products", "blocks"):
        featuriser = made(HOUR, DEVICE, items={"kind": "one-hot", "most": 3}, interactions=interactions)
        early, late = (featuriser.build({"hour": hour, "device": "tv"}, [1])[0] for hour in (1, 2))
        moved = [name for name, a, b in zip(featuriser.names, early, late, strict=True) if a != b]
        assert moved == ["hour*item_1"]
        assert {name for name, a in zip(featuriser.names, early, strict=True) if a} == {
            "item_1",
            "hour*item_1",
            "device:other*item_1",
        }


# --- contexts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "wanted", "clipped"), [(0, -1, 0), (24, 1, 0), (12, 0, 0), (6.0, -0.5, 0), (25, 1, 1), (-1e300, -1, 1)]
)
def test_numbers_are_mapped_and_clipped(value, wanted, clipped):
    found, count = vector(HOUR, value)
    assert found.tolist() == [wanted]
    assert count == clipped


def test_categories_and_others():
    assert vector(DEVICE, "phone")[0].tolist() == [1, 0, 0]
    assert vector(DEVICE, "desktop")[0].tolist() == [0, 1, 0]
    assert vector(DEVICE, "fridge")[0].tolist() == vector(DEVICE, "")[0].tolist() == [0, 0, 1]
    closed = DEVICE | {"other": False}
    assert vector(closed, "desktop")[0].tolist() == [0, 1]
    with pytest.raises(InputError, match=r"^Expected context\.device in \{phone, desktop\}\.$"):
        vector(closed, "fridge")


def test_categories_are_json_texts():
    field = {"name": "member", "kind": "category", "values": [True, False, 1, "x"]}
    assert made(field).to_dict()["context"][0]["values"] == ["true", "false", "1", "x"]
    for place, values in enumerate(
        [(True, "true", np.True_), (False, "false"), (1, "1", np.int64(1)), ("x", np.str_("x"))]
    ):
        for value in values:
            assert vector(field, value)[0].tolist() == np.eye(5)[place].tolist()


def test_hashes_by_definition():
    for value, text in (("de", "de"), (17, "17"), (True, "true"), ("日本", "日本"), ("\ud800", "\ud800")):
        digest = hashlib.blake2b(b"country\0" + text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        wanted = np.zeros(16)
        wanted[number // 2 % 16] = 2 * (number % 2) - 1
        assert np.array_equal(vector(COUNTRY, value)[0], wanted)


def test_hashes_spread_and_depend_on_the_field():
    """10,000 values over 16 buckets and 2 signs: a chi-square of 31 degrees, whose 1e-6 quantile is 80."""
    rows = made(COUNTRY).context_vectors([{"country": f"value {i}"} for i in range(10_000)])
    counts = np.concatenate([(rows == 1).sum(axis=0), (rows == -1).sum(axis=0)])
    assert counts.sum() == 10_000
    assert ((counts - 312.5) ** 2 / 312.5).sum() < 80
    both = made(COUNTRY, COUNTRY | {"name": "city"}).context_vectors([{"country": i, "city": i} for i in range(100)])
    assert (both[:, :16] != both[:, 16:]).any(axis=1).mean() > 0.8  # 31/32 expected


def test_vectors_are_scaled_and_clipped():
    field = EMBEDDING | {"length": 2, "norm": 5.0}
    assert vector(field, [3, 4])[0].tolist() == [0.6, 0.8]
    assert vector(field, [3, 4])[1] == 0
    assert vector(field, np.float32([0.5, 0]))[0].tolist() == [0.1, 0]
    for scale in (10.0, 1e200, 3e307):
        found, count = vector(field, [3 * scale, 4 * scale])
        assert count == 1
        assert found == pytest.approx([0.6, 0.8], rel=1e-15)


def test_unit_vectors_are_not_reported_as_clipped():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2_000, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert (np.linalg.norm(rows, axis=1) > 1).any()  # by rounding
    clipping = Clipping()
    featuriser = made(EMBEDDING, items=FEATURES | {"length": 8})
    featuriser.context_vectors([{"embedding": row} for row in rows], clipping)
    assert (clipping.clipped, clipping.seen) == (0, 2_000)
    assert featuriser.item_vectors(rows)[1] == 0


def test_cyclic_closes():
    assert vector(CLOCK, 0)[0].tolist() == vector(CLOCK, 24)[0].tolist() == vector(CLOCK, 24 * 10**15)[0].tolist() == [1, 0]
    assert vector(CLOCK, 6)[0] == pytest.approx([0, 1])
    assert vector(CLOCK, -6)[0] == pytest.approx(vector(CLOCK, 18)[0])
    near = np.linalg.norm(vector(CLOCK, 23.9)[0] - vector(CLOCK, 0.1)[0])
    assert near == pytest.approx(2 * math.sin(math.pi * 0.2 / 24))


def test_missing_values():
    for context in ({}, {"hour": None}, None):
        with pytest.raises(InputError, match=r"^Expected context\.hour to be given: its description has no 'missing'\.$"):
            made(HOUR).context_vector(context)
    for field, default in [
        (HOUR, 12),
        (DEVICE, "desktop"),
        (DEVICE, "none"),
        (COUNTRY, "?"),
        (EMBEDDING, [0.1] * 8),
        (CLOCK, 3),
    ]:
        featuriser, name = made(field | {"missing": default}), field["name"]
        wanted = made(field).context_vector({name: default})[0]
        for context in ({}, {name: None}, None):
            assert np.array_equal(featuriser.context_vector(context)[0], wanted)


def test_many_contexts_are_each_of_them():
    featuriser = Featuriser.from_dict(DESCRIPTION)
    contexts = [CONTEXT | {"hour": hour, "country": hour} for hour in range(30)]
    clipping = Clipping()
    rows = featuriser.context_vectors(contexts, clipping)
    each = [featuriser.context_vector(context) for context in contexts]
    assert np.array_equal(rows, [row for row, _ in each])
    assert clipping.clipped == sum(count for _, count in each) == 5
    assert clipping.seen == 60  # an hour and an embedding in each
    assert clipping.by_name == {"hour": 5}


def test_different_contexts_differ():
    """Every value in range, every category, every hour of the clock: no two give the same candidates."""
    featuriser = made(HOUR, DEVICE, CLOCK, EMBEDDING | {"length": 2})
    contexts = [
        {"hour": hour, "device": device, "clock": clock, "embedding": point}
        for hour in (0, 0.1, 23.9, 24)
        for device in ("phone", "desktop", "fridge")
        for clock in range(24)
        for point in ([0, 0], [0, 0.1], [0.1, 0])
    ]
    rows = featuriser.context_vectors(contexts)
    features = featuriser.build_many(rows, np.broadcast_to(np.eye(4)[:1], (len(rows), 1, 4)))[:, 0]
    assert len(np.unique(features, axis=0)) == len(contexts)


# --- candidates -------------------------------------------------------------------------------------------------------


def test_products_by_definition():
    featuriser = Featuriser.from_dict(DESCRIPTION | {"items": FEATURES | {"norm": 2.0}})
    rng = np.random.default_rng(2)
    items = rng.standard_normal((5, 4)) / 3
    c, clipped = featuriser.context_vector(CONTEXT)
    wanted = [np.kron(np.concatenate([[1.0], c]), item / 2.0) / math.sqrt(6.0) for item in items]
    assert clipped == 0
    for context in (CONTEXT, c, c.tolist(), c.astype(">f8")):
        found = featuriser.build(context, items)
        assert np.allclose(found, wanted, rtol=1e-15)
        assert found.shape == (5, featuriser.dimension)
        assert found.dtype == np.float64
        assert found.flags.c_contiguous
    assert np.allclose(featuriser.build(CONTEXT, items.tolist()), wanted, rtol=1e-15)
    assert np.allclose(featuriser.build(CONTEXT, np.asfortranarray(items)), wanted, rtol=1e-15)


def test_result_is_contiguous_and_its_own():
    plain = made(items=FEATURES, interactions="none")
    items = np.asfortranarray(np.full((3, 4), 0.1))
    found = plain.build(None, items)
    assert found.flags.c_contiguous
    found[:] = 7.0
    rows, _ = plain.item_vectors(items)
    rows[:] = 7.0
    assert (items == 0.1).all()


@pytest.mark.parametrize("interactions", ["products", "blocks"])
def test_one_hot_positions_and_rows(interactions):
    featuriser = made(HOUR, DEVICE, items={"kind": "one-hot", "most": 5}, interactions=interactions)
    c = featuriser.context_vector({"hour": 3, "device": "phone"})[0]
    left = np.concatenate([[1.0], c]) / math.sqrt(3.0)
    items = [4, 0, 2]
    order = (lambda row: np.kron(row, left)) if interactions == "blocks" else (lambda row: np.kron(left, row))
    wanted = [order(row) for row in np.eye(5)[items]]
    for given_items in (items, np.array(items, dtype=np.uint8), np.eye(5)[items], np.eye(5, dtype=int)[items]):
        found = featuriser.build(c, given_items)
        assert np.allclose(found, wanted, rtol=1e-15, atol=0)
        assert found.flags.c_contiguous
    assert featuriser.item_vectors(np.eye(5)[items])[0].tolist() == items
    contexts = featuriser.context_vectors([{"hour": hour, "device": "x"} for hour in range(6)])
    positions = np.random.default_rng(3).integers(5, size=(6, 4))
    each = [featuriser.build(context, row) for context, row in zip(contexts, positions, strict=True)]
    assert np.array_equal(featuriser.build_many(contexts, positions), each)
    assert np.array_equal(featuriser.build_many(contexts, np.eye(5)[positions]), each)


def test_build_many_is_build_of_each():
    featuriser = Featuriser.from_dict(DESCRIPTION)
    rng = np.random.default_rng(4)
    contexts = featuriser.context_vectors([CONTEXT | {"hour": hour} for hour in range(7)])
    items = rng.standard_normal((7, 3, 4))  # many are longer than 1
    clipping, other = Clipping(), Clipping()
    found = featuriser.build_many(contexts, items, clipping)
    each = [featuriser.build(context, rows, other) for context, rows in zip(contexts, items, strict=True)]
    assert np.allclose(found, each, rtol=1e-14)
    assert found.flags.c_contiguous
    assert clipping == other
    assert clipping.seen == 21
    assert clipping.clipped == (np.linalg.norm(items, axis=-1) > 1).sum() > 5
    assert featuriser.build_many(contexts.tolist(), items.tolist()) == pytest.approx(found)


def test_items_are_clipped_to_their_norm_and_counted():
    featuriser = made(items={"kind": "features", "length": 2, "norm": 2.0}, interactions="none")
    items = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0], [1e200, 0.0]])
    clipping = Clipping()
    found = featuriser.build(None, items, clipping)
    assert found == pytest.approx(np.array([[0.6, 0.8], [0, 0.5], [0, 0], [1, 0]]))
    assert (clipping.clipped, clipping.seen, clipping.by_name) == (2, 4, {"items": 2})
    rows, clipped = featuriser.item_vectors(items)
    assert clipped == 2
    assert rows == pytest.approx(np.array([[1.2, 1.6], [0, 1], [0, 0], [2, 0]]))
    assert featuriser.item_vectors(rows)[1] == 0  # once is enough
    assert np.allclose(featuriser.build(None, rows), found, rtol=1e-15)


# --- the norm ---------------------------------------------------------------------------------------------------------

any_float = st.floats(allow_nan=False, allow_infinity=False)
norms = st.sampled_from([1e-100, 1e-3, 1.0, 7.0, 1e100])


@st.composite
def bounds(draw):
    low, high = sorted(draw(st.lists(st.floats(-8e307, 8e307), min_size=2, max_size=2, unique=True)))
    return {"kind": "number", "low": low, "high": high}, st.one_of(any_float, st.sampled_from([low, high]))


@st.composite
def fields_and_values(draw, name):
    """A field's description, and a strategy of values for it."""
    kind = draw(st.sampled_from(["number", "category", "hashed", "vector", "cyclic"]))
    if kind == "number":
        field, values = draw(bounds())
    elif kind == "category":
        field, values = (
            {"kind": kind, "values": ["a", "b"]},
            st.one_of(st.sampled_from(["a", "b"]), st.text(), st.integers()),
        )
    elif kind == "hashed":
        field, values = {"kind": kind, "buckets": draw(st.integers(1, 5))}, st.one_of(st.text(), st.booleans())
    elif kind == "vector":
        field = {"kind": kind, "length": draw(st.integers(1, 4)), "norm": draw(norms)}
        values = st.lists(any_float, min_size=field["length"], max_size=field["length"])
    else:
        field, values = {"kind": kind, "period": draw(st.floats(5e-324, 1e308))}, any_float
    return {"name": name} | field, values


@st.composite
def cases(draw):
    parts = [draw(fields_and_values(f"field{i}")) for i in range(draw(st.integers(0, 4)))]
    length = draw(st.integers(1, 3))
    items = draw(
        st.sampled_from([{"kind": "one-hot", "most": 3}, {"kind": "features", "length": length, "norm": draw(norms)}])
    )
    blocks = items["kind"] == "one-hot" and draw(st.booleans())
    featuriser = Featuriser([field for field, _ in parts], items, "blocks" if blocks else "products")
    context = {field["name"]: draw(values) for field, values in parts}
    row = st.lists(any_float, min_size=length, max_size=length)
    given_items = (
        st.lists(st.integers(0, 2), min_size=1, max_size=3) if "most" in items else st.lists(row, min_size=1, max_size=3)
    )
    return featuriser, context, draw(given_items)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(cases())
def test_norm_is_at_most_one(case):
    featuriser, context, items = case
    found = featuriser.build(context, items)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12
    c, _ = featuriser.context_vector(context)
    assert np.array_equal(featuriser.build(c, items), found)  # what is made of a context is never refused
    many = featuriser.build_many(np.stack([c, c]), [items, items])
    assert np.allclose(many, [found, found], rtol=1e-14, atol=0)


def test_norm_reaches_one():
    """The constants are no larger than they must be."""
    for context in ({"hour": 24}, {"hour": -3}):
        featuriser = made(HOUR, DEVICE, COUNTRY, EMBEDDING, CLOCK)
        full = CONTEXT | context | {"embedding": [9.0] * 8}
        assert np.linalg.norm(featuriser.build(full, [[0, 0, 5.0, 0]])) == pytest.approx(1.0, abs=1e-14)


def test_prepared_contexts_that_are_too_long_are_refused():
    featuriser = made(HOUR, CLOCK)
    featuriser.build([1.0, 0.0, 1.0], np.eye(4))
    with pytest.raises(InputError, match=r"^Expected context\.norm <= 1\.41421, as context_vector makes it\.$"):
        featuriser.build([0.0, 2.0, 0.0], np.eye(4))
    with pytest.raises(InputError, match=r"^Expected contexts\.norm <= 1\.41421"):
        featuriser.build_many([[0.0, 1.0, 0.0], [0.0, 2.0, 0.0]], [np.eye(4)] * 2)
    with pytest.raises(InputError, match=r"^Expected context\.norm <= "):
        featuriser.build([1e300, 0.0, 0.0], np.eye(4))


# --- what a linear model can say --------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [FEATURES | {"length": 3}, {"kind": "one-hot", "most": 3}])
def test_a_model_of_context_times_item_is_recovered(items):
    """Rewards that are linear in hour x item and device x item: least squares on x finds every coefficient."""
    featuriser = made(HOUR, DEVICE | {"other": False}, items=items)
    rng = np.random.default_rng(5)
    contexts = [{"hour": hour, "device": ("phone", "desktop")[n % 2]} for n, hour in enumerate(rng.uniform(0, 24, 200))]
    z = rng.standard_normal((200, 3)) / 5 if items["kind"] == "features" else np.eye(3)[rng.integers(3, size=200)]
    level, slope, phone = rng.standard_normal((3, 3))
    hour = np.array([context["hour"] for context in contexts])
    on_phone = np.array([context["device"] == "phone" for context in contexts])
    rewards = z @ level + (hour / 12 - 1) * (z @ slope) + on_phone * (z @ phone)
    x = featuriser.build_many(featuriser.context_vectors(contexts), z[:, None])[:, 0]
    assert np.linalg.matrix_rank(x) == 3 * 3  # of 12: constant and categories say the same thing once more
    theta = np.linalg.lstsq(x, rewards, rcond=None)[0]
    assert np.abs(x @ theta - rewards).max() < 1e-12
    by_name = dict(zip(featuriser.names, theta / math.sqrt(3.0), strict=True))  # undo the public scale
    name = featuriser.items.name
    for i in range(3):
        assert by_name[f"hour*{name}_{i}"] == pytest.approx(slope[i], abs=1e-10)
        on, off = by_name[f"device=phone*{name}_{i}"], by_name[f"device=desktop*{name}_{i}"]
        assert on - off == pytest.approx(phone[i], abs=1e-10)
        assert by_name[f"{name}_{i}"] + off == pytest.approx(level[i], abs=1e-10)


def test_items_alone_cannot_say_it():
    """The same rewards without the context: something is left over."""
    rng = np.random.default_rng(6)
    z, hour = np.eye(3)[rng.integers(3, size=200)], rng.uniform(-1, 1, 200)
    rewards = hour * (z @ np.array([1.0, -1.0, 0.5]))
    x = made(items={"kind": "one-hot", "most": 3}, interactions="none").build(None, z)
    assert np.abs(x @ np.linalg.lstsq(x, rewards, rcond=None)[0] - rewards).max() > 0.5


# --- the same everywhere ----------------------------------------------------------------------------------------------


def test_the_same_in_another_process():
    program = (
        "import json, sys, numpy as np\n"
        "from adaprivate.features import Featuriser\n"
        "description, context, items = json.load(sys.stdin)\n"
        "featuriser = Featuriser.from_dict(description)\n"
        "print(featuriser.build(context, items).tobytes().hex())\n"
    )
    items = np.random.default_rng(7).standard_normal((3, 4)).tolist()
    here = Featuriser.from_dict(DESCRIPTION).build(CONTEXT, items).tobytes().hex()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps([DESCRIPTION, CONTEXT, items]),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == here


def test_order_of_keys_does_not_matter():
    featuriser = Featuriser.from_dict(DESCRIPTION)
    turned = dict(reversed(CONTEXT.items()))
    assert np.array_equal(featuriser.context_vector(turned)[0], featuriser.context_vector(CONTEXT)[0])


def test_imports_little():
    """Low in the layers: the featuriser needs check and NumPy."""
    program = "import sys, adaprivate.features as f; print(*sorted(m for m in sys.modules if m.startswith('adaprivate.')))"
    source = "".join(path.read_text() for path in (ROOT / "src" / "adaprivate" / "features").glob("*.py"))
    imported = set(re.findall(r"^from (adaprivate[\w.]*) import (\w+)", source, re.MULTILINE))
    assert {name for name, _ in imported if not name.startswith("adaprivate.features")} == {
        "adaprivate",
        "adaprivate.check",
    }
    assert {what for name, what in imported if name == "adaprivate"} == {"check"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert "adaprivate.compiled" not in done.stdout


# --- counting what was clipped ----------------------------------------------------------------------------------------


def test_clipping_warning():
    assert clipping_warning(0, 0) is None
    assert clipping_warning(3, 100) is None
    assert clipping_warning(5, 5) is None  # may be chance
    assert clipping_warning(30, 1_000) is None
    said = clipping_warning(310, 1_000)
    assert said.startswith("310 of 1,000 values (31%) lay beyond their public bounds and were clipped:")
    for wrong in ((-1, 5), (6, 5), (1.5, 5)):
        with pytest.raises(InputError, match=r"^Expected clipped="):
            clipping_warning(*wrong)


def test_a_counter_names_the_worst_field():
    featuriser, clipping = made(HOUR, EMBEDDING), Clipping()
    assert clipping.share == 0.0
    for hour in range(40):
        featuriser.build({"hour": hour, "embedding": [float(hour == 3), 1] + [0] * 6}, np.eye(4), clipping)
    assert clipping.by_name == {"hour": 15, "embedding": 1}
    assert clipping.seen == 40 * (1 + 1 + 4)
    assert clipping.share == 16 / 240
    assert "clipped, mostly hour:" in clipping.warning()


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    ({"context": [HOUR, CLOCK, COUNTRY | {"buckets": 0}]}, "Expected featuriser.context[2].buckets=0 >= 1."),
    ({"context": [COUNTRY | {"buckets": 2.0}]}, "Expected featuriser.context[0].buckets=2.0 to be a whole number."),
    ({"context": [HOUR | {"low": 24}]}, "Expected featuriser.context[0].high=24 > 24."),
    ({"context": [HOUR | {"high": math.inf}]}, "Expected featuriser.context[0].high=inf to be finite."),
    ({"context": [HOUR | {"high": math.nan}]}, "Expected featuriser.context[0].high=nan > 0."),
    ({"context": [HOUR | {"low": "0"}]}, "Expected featuriser.context[0].low='0' to be a number."),
    (
        {"context": [HOUR | {"low": -1.7e308, "high": 1.7e308}]},
        "Expected featuriser.context[0].high=1.7e+308 to be a finite distance from low.",
    ),
    ({"context": [HOUR | {"missing": 25}]}, "Expected featuriser.context[0].missing=25 >= 0 and <= 24."),
    ({"context": [HOUR | {"bins": 3}]}, "Expected featuriser.context[0] key='bins' in {kind, name, low, high, missing}."),
    (
        {"context": [HOUR | {"values": ["a"]}]},
        "Expected featuriser.context[0] key='values' in {kind, name, low, high, missing}.",
    ),
    ({"context": [{"name": "hour", "kind": "number", "low": 0}]}, "Expected featuriser.context[0].high to be given."),
    ({"context": [{"kind": "number", "low": 0, "high": 1}]}, "Expected featuriser.context[0].name to be given."),
    ({"context": [{"name": "hour"}]}, "Expected featuriser.context[0].kind to be given."),
    (
        {"context": [HOUR | {"kind": "numbr"}]},
        "Expected featuriser.context[0].kind='numbr' in {number, category, hashed, vector, cyclic}. Did you mean number?",
    ),
    (
        {"context": [HOUR | {"kind": []}]},
        "Expected featuriser.context[0].kind=[] in {number, category, hashed, vector, cyclic}.",
    ),
    ({"context": [HOUR, HOUR]}, "Expected featuriser.context[1].name='hour' to differ from those before it."),
    (
        {"context": [HOUR | {"name": "a*b"}]},
        "Expected featuriser.context[0].name='a*b' to be a name of letters, digits, '_', '-' and '.'.",
    ),
    (
        {"context": [HOUR | {"name": ""}]},
        "Expected featuriser.context[0].name='' to be a name of letters, digits, '_', '-' and '.'.",
    ),
    ({"context": ["hour"]}, "Expected featuriser.context[0]='hour' to be a dict."),
    ({"context": "hour"}, "Expected featuriser.context='hour' to be a list of fields."),
    (
        {"context": {"hour": HOUR}},
        "Expected featuriser.context={'hour': {'name': 'hour', 'kind': 'number', 'low': 0, 'high': ",
    ),
    (
        {"context": [DEVICE | {"values": []}]},
        "Expected featuriser.context[0].values=[] to be a list of at least one value.",
    ),
    (
        {"context": [DEVICE | {"values": "phone"}]},
        "Expected featuriser.context[0].values='phone' to be a list of at least one value.",
    ),
    (
        {"context": [DEVICE | {"values": ["a", 1, "1"]}]},
        "Expected featuriser.context[0].values[2]='1' to differ from those before it.",
    ),
    (
        {"context": [DEVICE | {"values": ["a", 1.5]}]},
        "Expected featuriser.context[0].values[1]=1.5 to be a text, a whole number or a boolean.",
    ),
    ({"context": [DEVICE | {"other": 1}]}, "Expected featuriser.context[0].other=1 to be true or false."),
    (
        {"context": [DEVICE | {"other": False, "missing": "?"}]},
        "Expected featuriser.context[0].missing='?' in {phone, desktop}.",
    ),
    ({"context": [EMBEDDING | {"length": 0}]}, "Expected featuriser.context[0].length=0 >= 1."),
    ({"context": [EMBEDDING | {"norm": 0}]}, "Expected featuriser.context[0].norm=0 >= 1e-100 and <= 1e+100."),
    ({"context": [EMBEDDING | {"missing": [1.0]}]}, "Expected featuriser.context[0].missing.shape=(1,) == (8,)."),
    (
        {"context": [EMBEDDING | {"length": 2, "missing": [1.0, 1.0]}]},
        "Expected featuriser.context[0].missing=[1.0, 1.0] to have a norm <= 1.",
    ),
    ({"context": [CLOCK | {"period": 0}]}, "Expected featuriser.context[0].period=0 > 0."),
    ({"context": [CLOCK | {"missing": "noon"}]}, "Expected featuriser.context[0].missing='noon' to be a number."),
    (
        {"items": {"kind": "features", "length": 4, "norm": -1}},
        "Expected featuriser.items.norm=-1 >= 1e-100 and <= 1e+100.",
    ),
    ({"items": {"kind": "features"}}, "Expected featuriser.items.length to be given."),
    ({"items": {"kind": "one-hot", "most": 0}}, "Expected featuriser.items.most=0 >= 1."),
    ({"items": {"kind": "one-hot", "most": 3, "norm": 1.0}}, "Expected featuriser.items key='norm' in {kind, most, name}."),
    ({"items": {"kind": "many"}}, "Expected featuriser.items.kind='many' in {features, one-hot}."),
    ({"items": None}, "Expected featuriser.items=None to be a dict."),
    ({"interactions": "none"}, "Expected featuriser.interactions='none' to come without context fields."),
    ({"interactions": "blocks"}, "Expected featuriser.interactions='blocks' to come with one-hot items."),
    ({"interactions": "all"}, "Expected featuriser.interactions='all' in {none, products, blocks}."),
    ({"colour": 1}, "Expected featuriser key='colour' in {context, items, interactions}."),
    ({"context": [COUNTRY | {"buckets": 10**12}]}, "Expected featuriser.dimension=4000000000004 <= 10000."),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_refused_descriptions(change, sentence):
    with pytest.raises(InputError) as error:
        Featuriser.from_dict(DESCRIPTION | change)
    assert str(error.value) == sentence or (not sentence.endswith(".") and str(error.value).startswith(sentence))


def test_refused_without_items():
    with pytest.raises(InputError, match=r"^Expected featuriser\.items to be given\.$"):
        Featuriser.from_dict({"context": [HOUR]})
    with pytest.raises(InputError, match=r"^Expected featuriser=3 to be a dict\.$"):
        Featuriser.from_dict(3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hour": math.nan}, "Expected context.hour to be finite."),
        ({"hour": -math.inf}, "Expected context.hour to be finite."),
        ({"hour": 10**400}, "Expected context.hour to be finite."),
        ({"hour": "6"}, "Expected context.hour to be a number."),
        ({"hour": True}, "Expected context.hour to be a number."),
        ({"device": 1.5}, "Expected context.device to be a text, a whole number or a boolean."),
        ({"device": ["phone"]}, "Expected context.device to be a text, a whole number or a boolean."),
        ({"country": 0.5}, "Expected context.country to be a text, a whole number or a boolean."),
        ({"country": b"de"}, "Expected context.country to be a text, a whole number or a boolean."),
        ({"embedding": [0.1]}, "Expected context.embedding.shape=(1,) == (8,)."),
        ({"embedding": [0.1, math.nan, *[0] * 6]}, "Expected context.embedding[1]=nan to be finite."),
        ({"embedding": ["0.1"] * 8}, "Expected context.embedding to be an array of numbers."),
        ({"embedding": [[0.1], [0.1, 0.2]]}, "Expected context.embedding to be an array of numbers."),
        ({"embedding": None}, "Expected context.embedding to be given: its description has no 'missing'."),
        ({"clock": math.inf}, "Expected context.clock to be finite."),
        ({"huor": 3}, "Expected context field in {hour, device, country, embedding, clock}."),
        ({"huor": None}, "Expected context field in {hour, device, country, embedding, clock}."),
        ({3: 3}, "Expected context field in {hour, device, country, embedding, clock}."),
    ],
)
def test_refused_contexts(change, sentence):
    featuriser = Featuriser.from_dict(DESCRIPTION)
    with pytest.raises(InputError) as error:
        featuriser.build(CONTEXT | change, np.eye(4))
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith((".", " Did you mean hour?"))
    with pytest.raises(InputError) as error:
        featuriser.context_vectors([CONTEXT, CONTEXT | change])
    assert str(error.value).startswith(sentence.replace("context", "contexts[1]", 1))


def test_refused_shapes_and_kinds():
    featuriser = Featuriser.from_dict(DESCRIPTION)
    c = featuriser.context_vector(CONTEXT)[0]
    nan_item = np.zeros((3, 4))
    nan_item[2, 1] = math.nan
    for context, items, sentence in [
        ("hour", np.eye(4), r"context to be an array of numbers"),
        ([0.0], np.eye(4), r"context\.shape=\(1,\) == \(30,\)"),
        (np.zeros(31), np.eye(4), r"context\.shape=\(31,\) == \(30,\)"),
        (np.zeros((1, 30)), np.eye(4), r"context\.shape=\(1, 30\) == \(30,\)"),
        (np.where(np.arange(30) == 2, math.nan, c), np.eye(4), r"context\[2\]=nan to be finite"),
        (c, np.eye(5), r"items\.shape=\(5, 5\) == \(\*, 4\)"),
        (c, np.zeros(4), r"items\.shape=\(4,\) == \(\*, 4\)"),
        (c, np.zeros((0, 4)), r"items\.shape=\(0, 4\) to hold at least one item"),
        (c, nan_item, r"items\[2, 1\]=nan to be finite"),
        (c, [[0, 0, 0, math.inf]], r"items\[0, 3\]=inf to be finite"),
        (c, [["a"] * 4], r"items to be an array of numbers"),
    ]:
        with pytest.raises(InputError, match=rf"^Expected {sentence}\.$"):
            featuriser.build(context, items)
    with pytest.raises(InputError, match=r"^Expected len\(items\)=3 == 2, one for each context\.$"):
        featuriser.build_many([c, c], np.zeros((3, 2, 4)))
    with pytest.raises(InputError, match=r"^Expected contexts\.shape=\(30,\) == \(\*, 30\)\.$"):
        featuriser.build_many(c, np.zeros((1, 2, 4)))
    with pytest.raises(InputError, match=r"^Expected contexts\[1\] to be a dict\.$"):
        featuriser.context_vectors([CONTEXT, 3])
    with pytest.raises(InputError, match=r"^Expected context field to be absent: no field is described\.$"):
        made(items=FEATURES, interactions="none").build({"hour": 3}, np.eye(4))


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([0, 3], r"items\[1\]=3 <= 2"),
        ([-1], r"items\[0\]=-1 >= 0"),
        ([], r"items=\[\] to be whole numbers \(K\), or one-hot rows"),
        ([1.0], r"items=\[1\.0\] to be whole numbers \(K\), or one-hot rows"),
        ([True], r"items=\[True\] to be whole numbers \(K\), or one-hot rows"),
        ([[0, 1, 0], [1, 1, 0]], r"items\[1\]=\[1\.0, 1\.0, 0\.0\] to be one-hot: a single 1, else 0"),
        ([[0, 0.5, 0.5]], r"items\[0\]=\[0\.0, 0\.5, 0\.5\] to be one-hot: a single 1, else 0"),
        ([[0, 1]], r"items\.shape=\(1, 2\) == \(\*, 3\)"),
        ([[0], [1, 2]], r"items=\[\[0\], \[1, 2\]\] to be whole numbers \(K\), or one-hot rows"),
    ],
)
def test_refused_one_hot_items(items, sentence):
    featuriser = made(HOUR, items={"kind": "one-hot", "most": 3}, interactions="blocks")
    with pytest.raises(InputError, match=rf"^Expected {sentence}\.$"):
        featuriser.build({"hour": 3}, items)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_python():
    assert len(PYTHON) >= 2


@pytest.mark.parametrize("code", PYTHON)
def test_python_of_the_page(code, tmp_path):
    """It runs, and prints what its comments say: every print is followed by ``# what it prints``."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    wanted = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert wanted
    assert done.stdout.splitlines() == wanted
