"""Products with a matrix in vector registers of eight numbers: what a round of a linear policy spends its time on.

Written as instructions. Of loops over arrays whose length it does not know, the compiler makes code for long rows, with
one number at a time for what is left over, which at 20 or 50 dimensions is half of the work; and it keeps no more than
one row in registers. Here four rows (or eight candidates) are worked on together, and what is left over in a 4, a 2, a 1.
Products with a matrix are compiled once and called by all: their code in every function around them took longer to compile
than everything else, and a call is little beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba.extending
from llvmlite import ir
from numba.core import cgutils, types

from adaprivate.check import Floats
from adaprivate.compiled import kernel, routine
from adaprivate.offered import Offered, how_many, row

LANES = 8
FEW = 6
"""Up to so many rows there is code of its own: five dimensions and an intercept."""
LARGEST = 512
"""The dimension up to which eight candidates are written side by side, on the stack."""
ROOM = LANES * LARGEST
DENSE = 2
"""So many numbers for each dimension must differ from 0 among eight candidates; else to skip zeros is faster."""
ROWS = 4
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
_FAST = ("contract", "reassoc", "nsz")
_NUMBERS = _VECTOR.as_pointer()
_POINTER = "p0" if str(_NUMBERS) == "ptr" else "p0v8f64"
"""Older compilers' names of instructions say what an address holds."""


def _plain(*kinds: Any) -> bool:
    """Whether arrays lie as these instructions read them: numbers one after another."""
    return all(kind.dtype == types.float64 and kind.is_c_contig for kind in kinds if isinstance(kind, types.Array))


class _Code:
    """Instructions on the arrays that an intrinsic was given."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        kinds = zip(signature.args, arguments, strict=True)
        self.arrays: list[Any] = [
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else None
            for kind, value in kinds
        ]
        self.b, self.nothing = builder, context.get_dummy_value()
        self.word = context.get_value_type(types.intp)
        self.sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(LANES)]

    def number(self, value: int) -> Any:
        return ir.Constant(self.word, value)

    def shape(self, array: int) -> list[Any]:
        found: list[Any] = cgutils.unpack_tuple(self.b, self.arrays[array].shape)
        return found

    def at(self, array: int, *place: Any) -> Any:
        """The address of an entry."""
        offset = place[0]
        if len(place) == 2:
            offset = self.b.add(self.b.mul(place[0], self.shape(array)[1]), place[1])
        return self.b.gep(self.arrays[array].data, [offset])

    def lanes(self, address: Any, width: int = LANES) -> Any:
        """So many numbers from there on, and zeros."""
        if width == 1:
            return self.b.insert_element(_ZERO, self.b.load(address), ir.Constant(ir.IntType(32), 0))
        part = ir.VectorType(ir.DoubleType(), width)
        loaded = self.b.load(self.b.bitcast(address, part.as_pointer()))
        loaded.align = 8
        if width == LANES:
            return loaded
        zeros = ir.Constant(part, [0.0] * width)
        return self.chosen(loaded, zeros, *range(width), *[width] * (LANES - width))

    def keep(self, value: Any, address: Any, width: int = LANES) -> None:
        """Store the first so many of these numbers."""
        if width == 1:
            self.b.store(self.b.extract_element(value, ir.Constant(ir.IntType(32), 0)), address)
        else:
            part = value if width == value.type.count else self.chosen(value, value, *range(width))
            self.b.store(part, self.b.bitcast(address, part.type.as_pointer())).align = 8

    def within(self, size: Any) -> Any:
        """Which of eight lanes are among the first so many."""
        lanes = ir.VectorType(self.word, LANES)
        none = ir.Constant(lanes, [0] * LANES)
        alone = self.b.insert_element(none, size, ir.Constant(ir.IntType(32), 0))
        size = self.b.shuffle_vector(alone, none, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
        return self.b.icmp_signed("<", ir.Constant(lanes, list(range(LANES))), size)

    def some(self, address: Any, mask: Any) -> Any:
        """The numbers of these lanes from there on, and zeros."""
        kind = ir.FunctionType(_VECTOR, [_NUMBERS, ir.IntType(32), mask.type, _VECTOR])
        load = cgutils.get_or_insert_function(self.b.module, kind, f"llvm.masked.load.v8f64.{_POINTER}")
        return self.b.call(load, [self.b.bitcast(address, _NUMBERS), ir.Constant(ir.IntType(32), 8), mask, _ZERO])

    def keep_some(self, value: Any, address: Any, mask: Any) -> None:
        """Store the numbers of these lanes."""
        kind = ir.FunctionType(ir.VoidType(), [_VECTOR, _NUMBERS, ir.IntType(32), mask.type])
        store = cgutils.get_or_insert_function(self.b.module, kind, f"llvm.masked.store.v8f64.{_POINTER}")
        self.b.call(store, [value, self.b.bitcast(address, _NUMBERS), ir.Constant(ir.IntType(32), 8), mask])

    def times(self, a: Any, b: Any) -> Any:
        return self.b.fmul(a, b, flags=_FAST)

    def lane(self, vector: Any, k: int) -> Any:
        """One lane, everywhere."""
        return self.chosen(vector, vector, *[k] * LANES)

    def everywhere(self, value: Any) -> Any:
        alone = self.b.insert_element(_ZERO, value, ir.Constant(ir.IntType(32), 0))
        return self.b.shuffle_vector(alone, _ZERO, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """total + a b"""
        return self.b.fadd(total, self.b.fmul(a, b, flags=_FAST), flags=_FAST)

    def add(self, cell: Any, a: Any, b: Any) -> None:
        self.b.store(self.plus(self.b.load(cell), a, b), cell)

    def clear(self, cells: Sequence[Any]) -> None:
        for cell in cells:
            self.b.store(_ZERO, cell)

    def chosen(self, a: Any, b: Any, *places: int) -> Any:
        """These lanes of two vectors one after the other."""
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places)))

    def totals(self, vectors: Sequence[Any]) -> Any:
        """The sum of the lanes of each of up to four vectors, as four lanes."""
        a, b, c, d = (
            self.b.fadd(self.chosen(v, v, 0, 1, 2, 3), self.chosen(v, v, 4, 5, 6, 7), flags=_FAST)
            for v in [*vectors, *[_ZERO] * (ROWS - len(vectors))]
        )
        first, second = (
            self.b.fadd(self.chosen(x, y, 0, 4, 2, 6), self.chosen(x, y, 1, 5, 3, 7), flags=_FAST)
            for x, y in ((a, b), (c, d))
        )
        halves = self.chosen(first, second, 0, 1, 4, 5), self.chosen(first, second, 2, 3, 6, 7)
        return self.b.fadd(*halves, flags=_FAST)

    def eights(self, size: Any, do: Callable[[Any, int], None]) -> None:
        """``do(first, 8)`` for every eight, and the same for the 4, 2 and 1 that are left over."""
        with cgutils.for_range(self.b, self.b.udiv(size, self.number(LANES))) as loop:
            do(self.b.mul(loop.index, self.number(LANES)), LANES)
        for width in (4, 2, 1):
            with self.b.if_then(self.b.icmp_unsigned("!=", self.b.and_(size, self.number(width)), self.number(0))):
                do(self.b.and_(size, self.number(-2 * width)), width)

    def fours(self, count: Any, do: Callable[[Any, int], None]) -> None:
        """``do(first, 4)`` for every four, and ``do(place, 1)`` for each that is left over."""
        four = self.number(ROWS)
        groups = self.b.udiv(count, four)
        with cgutils.for_range(self.b, groups) as loop:
            do(self.b.mul(loop.index, four), ROWS)
        whole = self.b.mul(groups, four)
        with cgutils.for_range(self.b, self.b.sub(count, whole)) as loop:
            do(self.b.add(whole, loop.index), 1)

    def sum(self, vectors: Sequence[Any]) -> Any:
        """The vectors added up, neighbours first."""
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=False)
            vectors = [self.b.fadd(a, b, flags=_FAST) for a, b in pairs] + list(vectors[len(vectors) & ~1 :])
        return vectors[0]

    def few(self, count: Any, do: Callable[[int], None]) -> None:
        """``do(6)`` where there are at most six rows, else ``do(8)``: rows that are not there take time, too."""
        with self.b.if_else(self.b.icmp_signed("<=", count, self.number(FEW))) as (fewer, more):
            with fewer:
                do(FEW)
            with more:
                do(LANES)

    def step(self, first: Any, k: int) -> Any:
        return self.b.add(first, self.number(k))


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _times(context: Any, root: Any, vector: Any, out: Any) -> Any:
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size = code.shape(1)[0]

        def rows(first: Any, count: int) -> None:
            code.clear(code.sums[:count])

            def columns(place: Any, width: int) -> None:
                v = code.lanes(code.at(1, place), width)
                for k in range(count):
                    code.add(code.sums[k], code.lanes(code.at(0, code.step(first, k), place), width), v)

            code.eights(size, columns)
            code.keep(code.totals([builder.load(cell) for cell in code.sums[:count]]), code.at(2, first), count)

        code.fours(code.shape(2)[0], rows)
        return code.nothing

    return (types.void(root, vector, out), generate) if _plain(root, vector, out) else None


@routine
def times(root: Floats, vector: Floats, out: Floats) -> None:
    """out = S vector, as many entries as out has."""
    _times(root, vector, out)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _times_turned(context: Any, root: Any, vector: Any, out: Any) -> Any:
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        count, size = code.shape(1)[0], code.shape(2)[0]

        def columns(place: Any, width: int) -> None:
            sums = code.sums[:ROWS]
            code.clear(sums)

            def rows(first: Any, count: int) -> None:
                values = [builder.load(code.at(1, code.step(first, k))) for k in range(count)]
                zero = ir.Constant(ir.DoubleType(), 0.0)
                there = builder.fcmp_unordered("!=", values[0], zero)
                for value in values[1:]:
                    there = builder.or_(there, builder.fcmp_unordered("!=", value, zero))
                with builder.if_then(there):
                    for k in range(count):
                        address = code.at(0, code.step(first, k), place)
                        code.add(sums[k], code.lanes(address, width), code.everywhere(values[k]))

            code.fours(count, rows)
            a, b, c, d = (builder.load(cell) for cell in sums)
            whole = builder.fadd(builder.fadd(a, b, flags=_FAST), builder.fadd(c, d, flags=_FAST), flags=_FAST)
            code.keep(whole, code.at(2, place), width)

        code.eights(size, columns)
        return code.nothing

    return (types.void(root, vector, out), generate) if _plain(root, vector, out) else None


@routine
def times_turned(root: Floats, vector: Floats, out: Floats) -> None:
    """out = S' vector, over as many rows as the vector has entries; four zeros in a row are skipped."""
    _times_turned(root, vector, out)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _drawn_in(context: Any, root: Any, phi: Any, gain: Any) -> Any:
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size, rate = code.shape(1)[0], builder.fneg(arguments[2])

        def rows(first: Any, count: int) -> None:
            code.clear(code.sums[:count])

            def measure(place: Any, width: int) -> None:
                v = code.lanes(code.at(1, place), width)
                for k in range(count):
                    code.add(code.sums[k], code.lanes(code.at(0, code.step(first, k), place), width), v)

            code.eights(size, measure)
            totals = code.totals([builder.load(cell) for cell in code.sums[:count]])
            pulls = [
                builder.fmul(code.chosen(totals, totals, *[k] * LANES), code.everywhere(rate), flags=_FAST)
                for k in range(count)
            ]

            def change(place: Any, width: int) -> None:
                v = code.lanes(code.at(1, place), width)
                for k in range(count):
                    address = code.at(0, code.step(first, k), place)
                    code.keep(code.plus(code.lanes(address, width), pulls[k], v), address, width)

            code.eights(size, change)

        code.fours(size, rows)
        return code.nothing

    return (types.void(root, phi, gain), generate) if _plain(root, phi, gain) else None


@routine
def drawn_in(root: Floats, phi: Floats, gain: float) -> None:
    """S <- S (I - gain phi phi')."""
    _drawn_in(root, phi, gain)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def four_scores(context: Any, a: Any, b: Any, c: Any, d: Any, theta: Any, out: Any) -> Any:
    """The inner products of four candidates' features with theta, which may go on beyond them."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size = code.shape(0)[0]
        code.clear(code.sums[:ROWS])

        def columns(place: Any, width: int) -> None:
            v = code.lanes(code.at(4, place), width)
            for k in range(ROWS):
                code.add(code.sums[k], code.lanes(code.at(k, place), width), v)

        with builder.if_else(builder.icmp_signed("<=", size, code.number(LANES))) as (small, large):
            with small:
                mask, start = code.within(size), code.number(0)
                v = code.some(code.at(4, start), mask)
                for k in range(ROWS):
                    builder.store(code.times(code.some(code.at(k, start), mask), v), code.sums[k])
            with large:
                code.eights(size, columns)
        code.keep(code.totals([builder.load(cell) for cell in code.sums[:ROWS]]), code.at(5, code.number(0)), ROWS)
        return code.nothing

    return (types.void(a, b, c, d, theta, out), generate) if _plain(a, b, c, d, theta, out) else None


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def small_row(context: Any, root: Any, w: Any, phi: Any, features: Any, strength: Any, mean_stays: Any) -> Any:
    """Add strength x x' to A = (S S')^-1 where S, the root, has at most eight rows: all in registers.

    Leaves S' x, before the change, in ``phi``; w is changed so that the statistic S^-1' w stays, or the mean S w does.
    Returns 1 / sqrt(1 + strength x' A^-1 x).
    """
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size, count, start = code.shape(1)[0], code.shape(3)[0], code.number(0)
        strength, mean_stays = arguments[4], arguments[5]
        found = cgutils.alloca_once(builder, ir.DoubleType())

        def enter(most: int) -> None:
            mask, given, none = code.within(size), code.within(count), code.within(start)
            masks = [builder.select(builder.icmp_signed("<", code.number(k), size), mask, none) for k in range(most)]
            places = [code.at(0, builder.mul(code.number(k), size)) for k in range(most)]
            rows = [code.some(place, one) for place, one in zip(places, masks, strict=True)]
            ones = ir.Constant(_VECTOR, [1.0] * LANES)
            x = builder.select(builder.xor(mask, builder.and_(mask, given)), ones, code.some(code.at(3, start), given))
            parts = [code.times(row, code.lane(x, k)) for k, row in enumerate(rows)]
            turned, known = code.sum(parts), code.some(code.at(1, start), mask)
            number, one = ir.DoubleType(), ir.Constant(ir.DoubleType(), 1.0)
            sums = code.totals([code.times(turned, turned), code.times(turned, known)])
            square, along = (builder.extract_element(sums, ir.Constant(ir.IntType(32), k)) for k in range(2))
            grown = builder.fadd(one, code.times(strength, square))
            root_of = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number]), "llvm.sqrt.f64")
            stretch = builder.call(root_of, [grown])
            gain = builder.fdiv(strength, builder.fadd(grown, stretch))
            less, more = builder.fneg(gain), builder.fdiv(gain, builder.fsub(one, code.times(gain, square)))
            scaled = code.times(turned, code.everywhere(less))
            for first in (0, ROWS):
                totals = code.totals([code.times(row, turned) for row in rows[first : first + ROWS]])
                for k in range(first, min(first + ROWS, most)):
                    pull = code.chosen(totals, totals, *[k - first] * LANES)
                    code.keep_some(code.plus(rows[k], pull, scaled), places[k], masks[k])
            step = code.everywhere(code.times(along, builder.select(mean_stays, more, less)))
            code.keep_some(code.plus(known, step, turned), code.at(1, start), mask)
            code.keep_some(turned, code.at(2, start), mask)
            builder.store(builder.fdiv(one, stretch), found)

        code.few(size, enter)
        return builder.load(found)

    fits = _plain(root, w, phi, features) and isinstance(mean_stays, types.Boolean | types.BooleanLiteral)
    return (types.float64(root, w, phi, features, types.float64, types.boolean), generate) if fits else None


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def small_sample(context: Any, root: Any, w: Any, width: Any, z: Any, out: Any) -> Any:
    """out = S (w + width z), as many entries as out has, where the root S has at most eight rows: all in registers."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size, count, start = code.shape(1)[0], code.shape(4)[0], code.number(0)

        def sample(most: int) -> None:
            mask, none = code.within(size), code.within(start)
            masks = [builder.select(builder.icmp_signed("<", code.number(k), count), mask, none) for k in range(most)]
            v = code.plus(
                code.some(code.at(1, start), mask), code.everywhere(arguments[2]), code.some(code.at(3, start), mask)
            )
            rows = [code.times(v, code.some(code.at(0, builder.mul(code.number(k), size)), masks[k])) for k in range(most)]
            low, high = code.totals(rows[:ROWS]), code.totals(rows[ROWS:])
            code.keep_some(code.chosen(low, high, *range(LANES)), code.at(4, start), code.within(count))

        code.few(size, sample)
        return code.nothing

    return (types.void(root, w, types.float64, z, out), generate) if _plain(root, w, z, out) else None


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def small_products(context: Any, design: Any, cross: Any, f: Any, e: Any) -> Any:
    """Add f f' to ``design``, its lower triangle row after row, and f e' to ``cross``: at most eight numbers each."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size, start = code.shape(2)[0], code.number(0)

        def enter(most: int) -> None:
            mask, none = code.within(size), code.within(start)
            left, right = (code.some(code.at(array, start), mask) for array in (2, 3))
            for k in range(most):
                there, entry = builder.icmp_signed("<", code.number(k), size), code.lane(left, k)
                triangle = code.within(code.number(k + 1)), code.at(0, code.number(k * (k + 1) // 2)), left
                for lanes, address, numbers in (triangle, (mask, code.at(1, builder.mul(code.number(k), size)), right)):
                    some = builder.select(there, lanes, none)
                    code.keep_some(code.plus(code.some(address, some), entry, numbers), address, some)

        code.few(size, enter)
        return code.nothing

    return (types.void(design, cross, f, e), generate) if _plain(design, cross, f, e) else None


class _Best:
    """Of each of four lanes the largest score so far, and where it was first: kept on the stack."""

    def __init__(self, code: _Code, scores: int) -> None:
        self.code = code
        self.word = ir.VectorType(code.word, ROWS)
        self.scores, self.places = code.at(scores, code.number(0)), code.at(scores, code.number(ROWS))

    def read(self) -> tuple[Any, Any]:
        b, four = self.code.b, ir.VectorType(ir.DoubleType(), ROWS)
        found = [b.load(b.bitcast(at, kind.as_pointer())) for at, kind in ((self.scores, four), (self.places, self.word))]
        return found[0], found[1]

    def write(self, scores: Any, places: Any) -> None:
        b = self.code.b
        for value, at in ((scores, self.scores), (places, self.places)):
            b.store(value, b.bitcast(at, value.type.as_pointer()))


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def no_best(context: Any, best: Any) -> Any:
    """Begin :func:`keep_best` in this room for twice as many numbers as there are lanes."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        kept = _Best(code, 0)
        lowest = ir.Constant(ir.VectorType(ir.DoubleType(), ROWS), [float("-inf")] * ROWS)
        kept.write(lowest, ir.Constant(kept.word, [0] * ROWS))
        return code.nothing

    return types.void(best), generate


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def keep_best(context: Any, scores: Any, first: Any, best: Any) -> Any:
    """Keep those of four scores that are the highest of their lane; ``first``: the place of the first score."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        kept = _Best(code, 2)
        new = builder.load(builder.bitcast(code.at(0, code.number(0)), ir.VectorType(ir.DoubleType(), ROWS).as_pointer()))
        old, where = kept.read()
        alone = builder.insert_element(ir.Constant(kept.word, [0] * ROWS), arguments[1], ir.Constant(ir.IntType(32), 0))
        spread = builder.shuffle_vector(alone, alone, ir.Constant(ir.VectorType(ir.IntType(32), ROWS), [0] * ROWS))
        here = builder.add(spread, ir.Constant(kept.word, list(range(ROWS))))
        higher = builder.fcmp_ordered(">", new, old)
        kept.write(builder.select(higher, new, old), builder.select(higher, here, where))
        return code.nothing

    return types.void(scores, types.intp, best), generate


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def the_best(context: Any, best: Any) -> Any:
    """Where the highest score of all was first."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        scores, places = _Best(code, 0).read()
        pairs = [
            [builder.extract_element(vector, ir.Constant(ir.IntType(32), k)) for vector in (scores, places)]
            for k in range(ROWS)
        ]
        while len(pairs) > 1:
            left = []
            for (x, i), (y, j) in zip(pairs[::2], pairs[1::2], strict=True):
                sooner = builder.and_(builder.fcmp_ordered("==", x, y), builder.icmp_signed("<", j, i))
                take = builder.or_(builder.fcmp_ordered(">", y, x), sooner)
                left.append([builder.select(take, y, x), builder.select(take, j, i)])
            pairs = left
        return pairs[0][1]

    return types.intp(best), generate


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _rotated(context: Any, root: Any, block: Any, w: Any, width: Any, along: Any, spread: Any) -> Any:
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        size = code.shape(0)[0]
        totals = [cgutils.alloca_once(builder, _VECTOR) for _ in range(2)]
        code.clear(totals)

        def columns(first: Any, count: int) -> None:
            code.clear(code.sums[:count])
            with cgutils.for_range(builder, size) as loop:
                x = code.lanes(code.at(1, builder.mul(loop.index, code.number(LANES))))
                for k in range(count):
                    entry = builder.load(code.at(0, loop.index, code.step(first, k)))
                    code.add(code.sums[k], code.everywhere(entry), x)
            for k in range(count):
                turned = builder.load(code.sums[k])
                code.add(totals[0], code.everywhere(builder.load(code.at(2, code.step(first, k)))), turned)
                code.add(totals[1], turned, turned)

        code.eights(size, columns)
        root_of = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), "llvm.sqrt.v8f64")
        code.keep(builder.load(totals[0]), code.at(4, code.number(0)))
        length = builder.call(root_of, [builder.load(totals[1])])
        code.keep(builder.fmul(length, code.everywhere(arguments[3]), flags=_FAST), code.at(5, code.number(0)))
        return code.nothing

    return (
        (types.void(root, block, w, width, along, spread), generate)
        if _plain(root, block, w, width, along, spread)
        else None
    )


@routine
def rotated(root: Floats, block: Floats, w: Floats, width: float, along: Floats, spread: Floats) -> None:
    """For each column x of ``block`` (size, 8): ``along`` = w' S'x and ``spread`` = width |S'x|; eight numbers each."""
    _rotated(root, block, w, width, along, spread)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _columns(context: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, block: Any) -> Any:
    """Write eight vectors as columns; how many of their numbers are not 0."""
    del context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        filled = cgutils.alloca_once(builder, code.word)
        builder.store(code.number(0), filled)
        with cgutils.for_range(builder, code.shape(0)[0]) as loop:
            numbers = _ZERO
            for lane in range(LANES):
                entry = builder.load(code.at(lane, loop.index))
                numbers = builder.insert_element(numbers, entry, ir.Constant(ir.IntType(32), lane))
            code.keep(numbers, code.at(LANES, builder.mul(loop.index, code.number(LANES))))
            there = builder.bitcast(builder.fcmp_unordered("!=", numbers, _ZERO), ir.IntType(LANES))
            more = builder.zext(builder.ctpop(there), code.word)
            builder.store(builder.add(builder.load(filled), more), filled)
        return builder.load(filled)

    return (types.intp(a, b, c, d, e, f, g, h, block), generate) if _plain(a, b, c, d, e, f, g, h, block) else None


@kernel
def side_by_side(candidates: Floats | Offered, first: int, size: int, block: Floats) -> bool:
    """Write eight candidates from ``first`` on as columns of ``block``, the last one again where there are fewer.

    Each is followed by 1 if there is room for an intercept. False where there are so few, or so many zeros, that they are
    looked at faster one by one.
    """
    last = how_many(candidates) - 1
    if size > LARGEST or last + 1 - first <= DENSE:
        return False
    filled = _columns(
        row(candidates, first),
        row(candidates, min(first + 1, last)),
        row(candidates, min(first + 2, last)),
        row(candidates, min(first + 3, last)),
        row(candidates, min(first + 4, last)),
        row(candidates, min(first + 5, last)),
        row(candidates, min(first + 6, last)),
        row(candidates, min(first + 7, last)),
        block,
    )
    if size > row(candidates, first).shape[0]:
        for lane in range(LANES):
            block[LANES * (size - 1) + lane] = 1.0
    return bool(filled > DENSE * size)
