"""Ratings in every format are the same ratings, and a fault is named by file, line and column."""

import sys
import types
import zipfile

import numpy as np
import polars as pl
import pytest

from adaprivate import data
from adaprivate.check import InputError
from adaprivate.data.rating_sets import KNOWN, SetSize

RNG = np.random.default_rng(0)
PAIRS = [(u, i) for u in range(1, 21) for i in range(1, 41)]
ROWS = [(u, 2 * i, float(RNG.integers(1, 11)) / 2, 978300000 + 7 * u) for u, i in PAIRS]


def text(separator, header=""):
    return header + "".join(separator.join((str(u), str(i), f"{r:g}", str(t))) + "\n" for u, i, r, t in ROWS)


FORMATS = {
    "u.data": text("\t"),
    "ratings.dat": text("::"),
    "ratings.csv": text(",", "userId,movieId,rating,timestamp\n"),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAPRIVATE_CACHE", str(tmp_path / "cache"))


def expected():
    return sorted((u, i, np.float32(r)) for u, i, r, _ in ROWS)


def rows(found):
    return sorted(found.table.select("user", "item", "rating").rows())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("packed", [False, True])
def test_every_movielens_format_gives_the_same_ratings(tmp_path, name, packed):
    file = tmp_path / name
    if packed:
        file = tmp_path / "set.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("set/README.txt", "terms")
            archive.writestr(f"set/{name}", FORMATS[name])
    else:
        file.write_text(FORMATS[name])
    for path in (file, tmp_path):
        found = data.ratings(path)
        assert found.kind == "movielens"
        assert rows(found) == expected()
        assert found.counts == SetSize(800, 20, 40)
        assert found.known_as is None


def test_windows_line_ends_and_parquet(tmp_path):
    (tmp_path / "ratings.dat").write_bytes(FORMATS["ratings.dat"].replace("\n", "\r\n").encode())
    assert rows(data.ratings(tmp_path / "ratings.dat")) == expected()
    table = pl.DataFrame(ROWS, schema=["userId", "movieId", "rating", "timestamp"], orient="row")
    table.write_parquet(tmp_path / "films.parquet")
    assert rows(data.ratings(tmp_path / "films.parquet")) == expected()


def jester_rows(people=12, jokes=30):
    ratings = np.round(np.random.default_rng(1).uniform(-9.99, 10, (people, jokes)), 2)
    ratings[np.random.default_rng(2).random((people, jokes)) < 0.3] = 99
    ratings[0, :] = -5
    return ratings


def jester_text(ratings):
    return "".join(",".join([str((row != 99).sum()), *(f"{v:g}" for v in row)]) + "\n" for row in ratings)


def test_every_jester_format_gives_the_same_ratings(tmp_path, monkeypatch):
    ratings = jester_rows()
    (tmp_path / "jester-data-1.csv").write_text(jester_text(ratings))
    np.savez(tmp_path / "matrix.npz", R=np.round(ratings * 100).astype(np.int16))
    user, joke = np.nonzero(ratings != 99)
    long = pl.DataFrame({"user": user, "item": joke + 1, "rating": ratings[user, joke]})
    long.write_parquet(tmp_path / "long.parquet")
    (tmp_path / "jester.xls").write_bytes(b"a workbook")
    wanted = sorted((int(u), int(j) + 1, np.float32(ratings[u, j])) for u, j in zip(user, joke, strict=True))

    def workbook(file_contents):
        assert file_contents == b"a workbook"
        table = [[float((row != 99).sum()), *map(float, row)] for row in ratings]
        sheet = types.SimpleNamespace(nrows=len(table), row_values=lambda row: table[row])
        return types.SimpleNamespace(sheet_by_index=lambda _: sheet)

    monkeypatch.setitem(sys.modules, "xlrd", types.SimpleNamespace(open_workbook=workbook))
    for name in ("jester-data-1.csv", "matrix.npz", "long.parquet", "jester.xls"):
        found = data.ratings(tmp_path / name)
        assert found.kind == "jester"
        assert rows(found) == wanted, name


def test_a_workbook_without_its_reader_says_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "jester.xls").write_bytes(b"a workbook")
    monkeypatch.setitem(sys.modules, "xlrd", None)
    with pytest.raises(InputError, match=r"jester\.xls to be saved as \.csv, or the package xlrd to be installed\.$"):
        data.ratings(tmp_path / "jester.xls")


BROKEN = [
    ("u.data", "5\tx\t3\t1\n", "line 801, column item: 'x' to be a whole number"),
    ("u.data", "5\t6\t3.x\t1\n", "line 801, column rating: '3.x' to be a number"),
    ("u.data", "5\t6\t7\t1\n", "line 801, column rating: '7' between 0.5 and 5"),
    ("u.data", "5\t6\tnan\t1\n", "line 801, column rating: 'nan' between 0.5 and 5"),
    ("u.data", "5\t99999999999\t3\t1\n", "line 801, column item: '99999999999' between 0 and"),
    ("u.data", "-5\t6\t3\t1\n", "line 801, column user: '-5' between 0 and"),
    ("u.data", "5\t6\t3\n", "line 801, column timestamp: '5\\t6\\t3' to hold 4 values, not 3"),
    ("u.data", "5\t6\t3\t1\t9\n", "line 801, column 5: '9' not to follow 4 values"),
    ("u.data", "\n5\t6\t3\t1\n", "line 801, column user: '' to be a whole number"),
    ("u.data", "1\t2\t3\t1\n", "line 801, column item: (1, 2) to be the only rating of this user and item"),
    ("ratings.dat", "5::6::3", "line 801, column timestamp: '5::6::3' to hold 4 values, not 3"),
    ("ratings.dat", "5:6:3:1:2:3:4\n", "line 801, column user: '5:6:3:1:2:3:4' to be a whole number"),
    ("ratings.csv", "5,6,three,1\n", "line 802, column rating: 'three' to be a number"),
    ("ratings.csv", "1,2,3,1\n", "line 802, column item: (1, 2) to be the only rating"),
    ("ratings.csv", "5,6,\ufffd,1\n", "line 802, column rating: '\ufffd' to be a number"),
]


@pytest.mark.parametrize(("name", "addition", "message"), BROKEN, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(BROKEN)])
def test_a_fault_is_one_line_naming_file_line_and_column(tmp_path, name, addition, message):
    assert len(ROWS) == 800
    (tmp_path / name).write_text(FORMATS[name] + addition, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        data.ratings(tmp_path / name)
    assert str(caught.value).startswith(f"Expected {tmp_path / name}, {message}")
    assert "\n" not in str(caught.value)


def test_faults_of_jester_files(tmp_path):
    ratings = jester_rows()
    for (row, joke), value, message in [
        ((3, 4), 12.5, "line 4, column 5: 12.5 between -10 and 10, or 99"),
        ((5, 0), 120, "line 6, column 1: '120' between -10 and 99"),
    ]:
        broken = ratings.copy()
        broken[row, joke] = value
        (tmp_path / "jester.csv").write_text(jester_text(broken))
        with pytest.raises(InputError, match="^Expected .*" + message.replace("(", r"\(")):
            data.ratings(tmp_path / "jester.csv")
    lines = jester_text(ratings).splitlines()
    lines[7] = "3" + lines[7][lines[7].index(",") :]
    (tmp_path / "jester.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"line 8, column count: 3 to be \d+, the ratings in it"):
        data.ratings(tmp_path / "jester.csv")
    (tmp_path / "jester.csv").write_text(jester_text(ratings)[:-40])
    with pytest.raises(InputError, match=r"line 12, column \d+: "):
        data.ratings(tmp_path / "jester.csv")


def test_faults_of_binary_files_and_archives(tmp_path):
    table = pl.DataFrame({"user": [1, 2], "item": [1, 1], "rating": [3.0, None], "timestamp": [1, 1]})
    table.write_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(InputError, match=r"ratings\.parquet, row 2, column rating: None between 0\.5 and 5"):
        data.ratings(tmp_path)
    table.with_columns(pl.lit("a").alias("rating")).write_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(InputError, match=r"row 1, column rating: 'a' to be a number"):
        data.ratings(tmp_path)
    table.with_columns(rating=3.0, user=1.5).write_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(InputError, match=r"row 1, column user: 1\.5 to be a whole number"):
        data.ratings(tmp_path)
    whole = (tmp_path / "ratings.parquet").read_bytes()
    (tmp_path / "ratings.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"ratings\.parquet to be a whole parquet file"):
        data.ratings(tmp_path)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("set/u.data", FORMATS["u.data"])
    packed = (tmp_path / "set.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"cut\.zip to be a whole zip archive"):
        data.ratings(tmp_path / "cut.zip")
    flipped = bytearray(packed)
    flipped[200] ^= 1
    (tmp_path / "flipped.zip").write_bytes(flipped)
    with pytest.raises(InputError, match=r"flipped\.zip/set/u\.data to unpack"):
        data.ratings(tmp_path / "flipped.zip")
    (tmp_path / "matrix.npz").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match=r"matrix\.npz to be a whole \.npz"):
        data.ratings(tmp_path / "matrix.npz")


def test_a_set_cut_short_at_a_line_end_is_known_by_its_count(tmp_path):
    folder = tmp_path / "ml-100k"
    folder.mkdir()
    (folder / "u.data").write_text(FORMATS["u.data"])
    with pytest.raises(InputError, match=r"u\.data, line 800: 800 not to be the last: ml-100k holds 100000 ratings\.$"):
        data.ratings(folder)
    assert KNOWN["ml-1m"] == (1_000_209, 6_040, 3_706)


def test_what_is_not_there_or_not_ratings(tmp_path):
    with pytest.raises(InputError, match=r"nowhere to exist"):
        data.ratings(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"to hold one of ratings\.dat"):
        data.ratings(tmp_path)
    (tmp_path / "ratings.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"line 1: 'a,b' to be ratings"):
        data.ratings(tmp_path / "ratings.csv")
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n")
    with pytest.raises(InputError, match=r"line 2, column user: '' to be there"):
        data.ratings(tmp_path / "ratings.csv")


def test_the_cache_is_used_and_forgets_changed_files(tmp_path, monkeypatch):
    from adaprivate.data import rating_sets as module

    file = tmp_path / "u.data"
    file.write_text(FORMATS["u.data"])
    first = rows(data.ratings(file))
    kept = list((tmp_path / "cache" / "adaprivate" / "data").glob("*.parquet"))
    assert len(kept) == 1
    with monkeypatch.context() as patch:
        patch.setattr(module, "read_text", lambda *a, **k: pytest.fail("read again"))
        assert rows(data.ratings(file)) == first
    kept[0].write_bytes(b"broken")
    assert rows(data.ratings(file)) == first
    file.write_text(FORMATS["u.data"] + "77\t78\t3\t1\n")
    assert len(rows(data.ratings(file))) == len(first) + 1
    monkeypatch.setenv("ADAPRIVATE_CACHE", "/proc/nowhere")
    assert len(rows(data.ratings(file))) == len(first) + 1
