"""The columns that the engine takes, and the order in which it looks at them.

Rows are sorted by what they say, never by where they stood: two runs over the same data in another order see the very
same frames. Rows that are equal in every column that says something are marked as twins, because whatever the engine
decides between them is decided by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

import polars as pl

from payrec.constants import MATCHING_ROWS_MAX
from payrec.domain.matching.apart import REACHED_ITEMS_FEW, leaves_out, shared
from payrec.domain.matching.meant import meant
from payrec.domain.matching.names import NAMES_SCHEMA, in_order, normalised, resolved

EXPECTED_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "ordinal": pl.Int32(),  # the caller's row number, handed back in the result
        "currency": pl.String(),
        "direction": pl.Int8(),  # 1 credit, -1 debit
        "amount_minor": pl.Int64(),  # what is open, at least 1
        "total_minor": pl.Int64(),
        "min_minor": pl.Int64(),  # the band in which one payment settles the item whole
        "max_minor": pl.Int64(),
        "due_day": pl.Int32(),  # days since 1970-01-01
        "from_day": pl.Int32(),
        "to_day": pl.Int32(),
        "reference_key": pl.Int64(),
        "end_to_end_key": pl.Int64(),
        "name_key": pl.Int64(),
        "account_key": pl.Int64(),  # the counterparty's account
        "own_account_key": pl.Int64(),
        "group_key": pl.Int64(),
        "reference_digits": pl.Int64(),  # as ``payrec.domain.matching.digits`` has them
        "tie_key": pl.Int64(),
        "version": pl.Int32(),
        "terms": pl.List(pl.Int64()),  # of each term the amount, and then the last day on which it is enough
    }
)
"""The open expected transactions. Only ordinal, currency, direction, the two amounts and tie_key are never null."""

PARTY_KEYS: Final = ("account_key", "name_key")
"""What items of one counterparty have in common."""

INCOMING_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "ordinal": pl.Int32(),
        "currency": pl.String(),
        "direction": pl.Int8(),
        "amount_minor": pl.Int64(),
        "total_minor": pl.Int64(),
        "booking_day": pl.Int32(),
        "value_day": pl.Int32(),
        "pending": pl.Boolean(),
        "reversal": pl.Boolean(),
        "duplicate": pl.Boolean(),
        "reference_keys": pl.List(pl.Int64()),
        "end_to_end_key": pl.Int64(),
        "name_key": pl.Int64(),
        "account_key": pl.Int64(),
        "own_account_key": pl.Int64(),
        "group_key": pl.Int64(),
        "quoted_digits": pl.List(pl.Int64()),
        "ultimate_name_key": pl.Int64(),  # on whose behalf the counterparty pays
        "text_name_keys": pl.List(pl.Int64()),  # of a line without a name, as ``payrec.domain.matching.keys`` has them
        "series_digits": pl.List(pl.Int64()),
        "tie_key": pl.Int64(),
        "version": pl.Int32(),
    }
)
"""The open incoming transactions, called lines; the flags are never null either."""

PAYS: Final = ~(pl.col("reversal") | pl.col("duplicate"))
"""Tells the lines that pay something: neither reversals nor repetitions."""

CLOSED_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    dict.fromkeys(("reference_key", *PARTY_KEYS), pl.Int64())
)
"""Items of which nothing is open any more, and whose reference a line quotes in full."""

REJECTED_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    dict.fromkeys(("expected", "contra_expected", "incoming", "contra_incoming"), pl.Int32())
)
"""Pairs of ordinals that a person has rejected; the other two are null."""

ADJUSTMENTS_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "proposal": pl.UInt32(),
        "type": pl.Int8(),  # AdjustmentType
        "expected": pl.Int32(),  # the ordinal of the item, or null
        "incoming": pl.Int32(),  # the ordinal of the line, or null; one of the two
        "amount_minor": pl.Int64(),  # signed: + counts as settled on it, in its currency
        "rate": pl.String(),  # of a foreign exchange, as a decimal; otherwise null
    }
)
"""What a match settles without money."""

_NEVER_NULL: Final = frozenset(
    {
        "ordinal", "currency", "direction", "amount_minor", "total_minor", "pending", "reversal", "duplicate",
        "tie_key",
    }
)  # fmt: skip
_NO_CONTENT: Final = frozenset(
    {
        "ordinal", "version", "currency", "direction", "reference_keys", "quoted_digits", "text_name_keys",
        "series_digits", "terms",
    }
)  # fmt: skip
"""Terms are part of the tie key of who has no other one."""
_OF_TERM: Final = ("amount_minor", "last_day")
_NO_TERMS: Final = pl.DataFrame(schema={"row": pl.UInt32, **dict.fromkeys(_OF_TERM, pl.Int64)})
"""What a term says, in this order."""
_PART: Final = ["currency", "direction"]
_SALT_MASK: Final = 2**63 - 2
_DAY_MIN: Final = -(2**31)
_DAY_FACTOR: Final = 2**33
"""More than days there are and none."""
_AMOUNT_FACTOR: Final = 2**63
"""More than any amount."""
_TIE_MIN: Final = -(2**63)
_TIE_FACTOR: Final = 2**64
"""More than tie keys there are."""


class ColumnsError(ValueError):
    """A frame is not what the engine takes; ``column`` names the first column at fault."""

    def __init__(self, column: str, detail: str) -> None:
        super().__init__(f"column {column}: {detail}")
        self.column = column
        self.detail = detail


def _no_names() -> pl.DataFrame:
    return normalised(pl.DataFrame(schema=dict(NAMES_SCHEMA)))


def _none_closed() -> pl.DataFrame:
    return pl.DataFrame(schema=dict(CLOSED_SCHEMA))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beforehand of all that is open, or was."""

    names: pl.DataFrame = field(default_factory=_no_names)
    """What name keys stand for, as ``payrec.domain.matching.names.normalised`` has it."""
    similar: pl.DataFrame | None = None
    """Of what a run reads only the items that its lines may reach: which names the lines' names mean, among those of
    all open items, as ``payrec.domain.matching.names.resolved`` has it."""
    own_accounts: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    """And those of the accounts that its lines name for which an item is expected."""
    closed: pl.DataFrame = field(default_factory=_none_closed)
    """As CLOSED_SCHEMA."""

    @property
    def is_of_part(self) -> bool:
        """Tell whether only what the lines may reach is there."""
        return self.similar is not None


@dataclass(frozen=True, slots=True)
class Sides:
    """Both frames in content order.

    To the caller's columns come ``row`` (UInt32, the place in content order), ``part`` (Int32, the currency and
    direction), ``salt`` (Int64, even; mixed into keys so that one join column holds key and part) and ``twin``; to the
    items also ``is_shared`` (others have their reference as well); to the lines ``day`` (Int32, the booking day, else
    the value day), ``is_known`` (items are of their counterparty's account), and ``similar_key`` and ``meant``, as
    ``payrec.domain.matching.meant`` adds them.
    """

    expected: pl.DataFrame
    incoming: pl.DataFrame
    names: pl.DataFrame = field(default_factory=_no_names)
    """What the name keys stand for, as ``payrec.domain.matching.names.normalised`` has it."""
    own_accounts: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    """Keys of the accounts on which there is a line, or for which an item is expected, each once."""
    apart: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int32))
    """Ordinals of the items that were left out, because they share nothing with any line."""
    closed: pl.DataFrame = field(default_factory=_none_closed)
    """As CLOSED_SCHEMA."""

    def terms(self) -> pl.DataFrame:
        """Return a row for each term of an item: its ``row``, ``amount_minor`` and the ``last_day`` of it."""
        stated = self.expected.select("row", "terms").drop_nulls("terms")
        if stated.is_empty():
            return _NO_TERMS.clone()
        halves = [pl.col("terms").list.gather_every(2, offset).alias(name) for offset, name in enumerate(_OF_TERM)]
        return stated.select("row", *halves).explode(_OF_TERM).drop_nulls()

    def payments(self) -> pl.DataFrame:
        """Return the lines that pay something: neither reversals nor repetitions."""
        marked = self.incoming["reversal"] | self.incoming["duplicate"]
        return self.incoming.filter(PAYS) if marked.any() else self.incoming

    def lines(self) -> pl.DataFrame:
        """Return the lines that are no reversals."""
        return self.incoming.filter(~pl.col("reversal")) if self.incoming["reversal"].any() else self.incoming


def checked(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the frame's columns of the schema, a categorical currency as text.

    Raises
    ------
    ColumnsError
        A column is missing, has another type, or a null, an amount or a direction that it cannot have; an ordinal
        comes twice; or there are more than ``MATCHING_ROWS_MAX`` rows.

    """
    if frame.height > MATCHING_ROWS_MAX:
        raise ColumnsError("ordinal", f"at most {MATCHING_ROWS_MAX} rows")
    there = frame.schema
    for name, dtype in schema.items():
        found = there.get(name)
        if found is None:
            raise ColumnsError(name, "is missing")
        if found != dtype and not (name == "currency" and found in (pl.Categorical, pl.Enum)):
            raise ColumnsError(name, f"must be {dtype}")
        if name in _NEVER_NULL and frame[name].null_count():
            raise ColumnsError(name, "cannot be null")
    result = shaped(frame, schema)
    if "ordinal" in schema:
        if result["ordinal"].n_unique() != result.height:
            raise ColumnsError("ordinal", "must be unique")
        for name in ("amount_minor", "total_minor"):
            if result.height and int(result[name].min()) < 1:  # type: ignore[arg-type]
                raise ColumnsError(name, "must be at least 1")
        if not ((result["direction"] == 1) | (result["direction"] == -1)).all():
            raise ColumnsError("direction", "must be 1 or -1")
    return result


def shaped(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the frame's columns of the schema, in its order and of its types."""
    if frame.columns == list(schema) and frame.dtypes == list(schema.values()):
        return frame
    return frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _parts(expected: pl.DataFrame, incoming: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each currency and direction: its number in their order, and its salt."""
    both = pl.concat([expected[_PART], incoming[_PART]])
    parts = both.unique().sort("currency", "direction")
    salts = [
        int.from_bytes(blake2b(f"{currency}:{direction}".encode(), digest_size=8).digest(), "big") & _SALT_MASK
        for currency, direction in parts.iter_rows()
    ]
    return parts.with_columns(
        part=pl.int_range(pl.len(), dtype=pl.Int32), salt=pl.Series(salts, dtype=pl.Int64)
    )  # fmt: skip


def _in_content_order(frame: pl.DataFrame, parts: pl.DataFrame, day: str) -> pl.DataFrame:
    """Sort by content, number the rows, and mark those that have an equal."""
    frame = frame.join(parts, on=["currency", "direction"], how="left")
    if frame.height == 1:
        return frame.with_columns(twin=pl.lit(value=False)).with_row_index("row")
    # One number sorts ten times as fast as the columns that it is made of.
    days = (pl.col(day).cast(pl.Int128) - _DAY_MIN).fill_null(_DAY_FACTOR - 1)
    keys = frame.select(
        "tie_key",
        first=(pl.col("part").cast(pl.Int128) * _AMOUNT_FACTOR + pl.col("amount_minor")) * _DAY_FACTOR + days,
        at=pl.int_range(pl.len(), dtype=pl.UInt32),
    )
    keys = keys[keys["first"].arg_sort()]
    keys, equal = _among_equals(
        keys, keys["first"], pl.col("group") * _TIE_FACTOR + pl.col("tie_key").cast(pl.Int128) - _TIE_MIN
    )
    frame = frame[keys["at"]]
    if equal.any():
        frame, equal = _by_all_content(frame, equal, ["part", "amount_minor", day, "tie_key"])
    return frame.with_columns(twin=equal).with_row_index("row")


def _among_equals(keys: pl.DataFrame, sorted_by: pl.Series, then: pl.Expr) -> tuple[pl.DataFrame, pl.Series]:
    """Sort those that are equal in what the frame is ``sorted_by`` by another number as well; tell who still is equal.

    In ``then``, ``group`` is the number of those that are equal.
    """
    tied = _beside_equal(sorted_by == sorted_by.shift(-1))
    if not tied.any():
        return keys, tied
    group = sorted_by.filter(tied).rle_id().cast(pl.Int128)
    rows = keys.filter(tied).with_columns(group=group).with_columns(both=then)
    rows = rows[rows["both"].arg_sort()]
    places = tied.arg_true()
    at = keys["at"].scatter(places, rows["at"])
    still = _beside_equal(rows["both"] == rows["both"].shift(-1))
    equal = pl.repeat(value=False, n=keys.height, dtype=pl.Boolean, eager=True).scatter(places.filter(still), True)  # noqa: FBT003 - the value that is written
    return keys.with_columns(at=at), equal


def _by_all_content(frame: pl.DataFrame, equal: pl.Series, main: list[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Sort the rows that are ``equal`` in the main columns by all that they say, and tell who is equal in that too."""
    places = equal.arg_true()
    rows = frame[places].with_columns(at=places)
    content = main + [name for name in frame.columns if name not in (_NO_CONTENT | {*main, "salt", "part"})]
    if "reference_keys" in frame.columns:
        # A line's references count as a set: its size, least, greatest and (wrapping) sum stand for it.
        keys = pl.col("reference_keys").list
        rows = rows.with_columns(
            _size=keys.len(), _least=keys.min(), _greatest=keys.max(), _sum=keys.eval(pl.element() // 64).list.sum()
        )
        content += ["_size", "_least", "_greatest", "_sum"]
    rows = rows.sort(content, nulls_last=True)
    order = pl.int_range(frame.height, dtype=pl.UInt32, eager=True).scatter(places, rows["at"])
    same = [pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in content]
    last = pl.int_range(pl.len()) == pl.len() - 1
    twin = _beside_equal(rows.select((pl.all_horizontal(same) & ~last).alias("same"))["same"])
    none = pl.repeat(value=False, n=frame.height, dtype=pl.Boolean, eager=True)
    return frame[order], none.scatter(places.filter(twin), True)  # noqa: FBT003 - the value that is written


def _beside_equal(same: pl.Series) -> pl.Series:
    """Return who equals the next, as ``same`` tells, or the one before."""
    same = same.fill_null(value=False)
    return same | same.shift(1, fill_value=False)


def _named(
    expected: pl.Series, incoming: pl.Series, texts: pl.DataFrame, aliases: Mapping[int, int], known: Known
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what ``normalised`` and ``resolved`` return."""
    others = normalised(texts.join(known.names, on="key", how="anti"))
    names = in_order(pl.concat([known.names, others]))
    return names, resolved(expected, incoming, names, aliases)


def prepare(
    expected: pl.DataFrame,
    incoming: pl.DataFrame,
    names: pl.DataFrame | None = None,
    aliases: Mapping[int, int] | None = None,
    known: Known | None = None,
    listed: pl.Series | None = None,
) -> Sides:
    """Check the frames, resolve the names of lines that no item has, and put both sides into content order.

    Of many items, those that share nothing with any line are left out, except those whose reference is ``listed``.

    ``aliases`` are keys of names on statements, and of the counterparties' names that they were found to mean. Of
    ``names``, those that are ``known`` are not looked at.

    Raises
    ------
    ColumnsError
        A frame is not what the engine takes.

    """
    expected = checked(expected, EXPECTED_SCHEMA)
    incoming = checked(incoming, INCOMING_SCHEMA)
    texts = checked(names if names is not None else pl.DataFrame(schema=dict(NAMES_SCHEMA)), NAMES_SCHEMA)
    known = known or Known()
    own = pl.concat([expected["own_account_key"], incoming["own_account_key"], known.own_accounts])
    keys = expected["name_key"], incoming["name_key"]
    with ThreadPoolExecutor(max_workers=1) as aside:
        naming: Future[tuple[pl.DataFrame, pl.DataFrame]] = Future()
        if known.similar is not None:
            naming.set_result((known.names, known.similar))
        else:
            # Names are mostly work for Python, and sorting for polars: either leaves the other a processor.
            naming = aside.submit(_named, *keys, texts, aliases or {}, known)
        # Of what few lines reach, next to nothing is apart.
        few = known.is_of_part and expected.height <= REACHED_ITEMS_FEW
        leaves = not few and leaves_out(expected, incoming)
        near = shared(expected, incoming, naming.result()[1], listed) if leaves else expected
        parts = _parts(near, incoming)
        items = _in_content_order(near, parts, "due_day")
        lines = _in_content_order(incoming, parts, "booking_day")
        named, similar = naming.result()
    ordinals = expected["ordinal"]
    apart = ordinals.filter(~ordinals.is_in(near["ordinal"].implode())) if near.height < expected.height else None
    accounts = items["account_key"].drop_nulls().unique()
    reference = pl.col("reference_key")
    return Sides(
        expected=items.with_columns(is_shared=reference.is_not_null() & reference.is_duplicated()),
        incoming=meant(lines, similar, keys[0]).with_columns(
            day=pl.coalesce("booking_day", "value_day"),
            is_known=pl.col("account_key").is_in(accounts.implode()).fill_null(value=False),
        ),
        names=named,
        own_accounts=own.drop_nulls().unique(),
        apart=apart if apart is not None else ordinals.clear(),
        closed=checked(known.closed, CLOSED_SCHEMA),
    )
