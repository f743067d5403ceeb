"""Which open items a few lines may reach, asked for by their keys, so that nobody reads all that is open.

What is not reached shares nothing with any line, so nothing is said of it: a run over what is reached decides as one
over everything would. An item is reached when a line names it, when it is of the counterparty of one that is named or
of a line's own, however far their accounts and names lead, or when it asks for a line's amount. Beside these are the
items that may be their credit notes, and what competes with those. It is asked for more than once, because what is
found leads on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from payrec.domain.matching.columns import PARTY_KEYS
from payrec.domain.matching.meant import called
from payrec.domain.matching.names_alike import words_of
from payrec.domain.matching.near import halves_asked, halves_quoted
from payrec.domain.matching.rules import KEY_ITEMS_MAX

LOOK_UPS_MAX: Final = 32
"""Questions before it is given up: whose keys lead on for so long reaches most of what is open."""

NAMES: Final = ("reference_key", "end_to_end_key", "group_key")
"""What a line may name an item by."""

PRICED_COLUMNS: Final = (
    "transaction_id", "currency", "direction", "amount_minor", "name_key", "account_key", "reference_digits",
)  # fmt: skip
"""What is told of items that are found by their amount, until it is known which of them count."""

_ID: Final = "transaction_id"
_PRICE: Final = ["currency", "direction", "amount_minor"]


class TooFarError(Exception):
    """What is reached leads on and on: reading everything costs less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Keys of open items: those with any of them are wanted."""

    names: frozenset[int] = frozenset()
    """By which a line may name an item: its reference, its end-to-end id or its group id."""
    accounts: frozenset[int] = frozenset()
    payers: frozenset[int] = frozenset()
    """Keys of the counterparties' names."""
    amounts: frozenset[int] = frozenset()
    """Minor units that are open, whatever the currency. Of these items are told PRICED_COLUMNS alone."""
    ids: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Binary))
    """Of the items themselves."""
    credits: frozenset[int] = frozenset()
    """Names, as above, of items that bring money in."""
    debits: frozenset[int] = frozenset()

    def keys(self) -> dict[str, frozenset[int]]:
        """Return the keys by what they are, without those of which there are none."""
        named = {name: getattr(self, name) for name in ("names", "accounts", "payers", "credits", "debits")}
        return {name: keys for name, keys in named.items() if keys}


def _distinct(*keys: Iterable[int | None]) -> frozenset[int]:
    # Plain numbers: of a line or two, a column takes longer to be made than to be looked at.
    return frozenset(key for found in keys for key in found if key is not None)


class _Asked:
    """Keys that were asked for, so that none is asked for twice."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[int]] = {}

    def new(self, name: str, *keys: Iterable[int | None]) -> frozenset[int]:
        """Return those of the keys that were not asked for by this name, and count them as asked for."""
        before = self._keys.get(name, frozenset())
        found = _distinct(*keys) - before
        self._keys[name] = before | found
        return found


def reached(
    lines: pl.DataFrame,
    similar: pl.DataFrame,
    undecided: pl.DataFrame | None = None,
    names: pl.DataFrame | None = None,
    listed: pl.Series | None = None,
) -> Generator[Wanted, pl.DataFrame, pl.DataFrame]:
    """Ask for items, and return all that are reached, each once.

    ``lines`` have the columns of ``INCOMING_SCHEMA``, ``similar`` is what ``payrec.domain.matching.names.resolved``
    returns, ``undecided`` are items of which something is to be said though no line may reach them. What is sent are
    the items that were asked for, with the columns of ``EXPECTED_SCHEMA`` and ``transaction_id``. Where the ``names``
    of everybody are known (``payrec.domain.matching.names.normalised``), of an amount that so many items have that it
    says nothing by itself come only those whose name may say something beside it. ``listed`` are references that
    somebody names for one of the lines.

    Raises
    ------
    TooFarError
    """
    asked, left = _Asked(), LOOK_UPS_MAX
    quoted = [lines["reference_keys"].explode(), lines["end_to_end_key"], lines["group_key"]]
    quoted += [listed] if listed is not None else []
    found = yield Wanted(
        names=_distinct(*quoted),
        accounts=asked.new("account_key", lines["account_key"]),
        payers=asked.new("name_key", *called(lines), similar["similar_key"]),
    )
    frames = [found]
    while True:
        accounts, payers = (asked.new(name, found[name]) for name in PARTY_KEYS)
        if not (accounts or payers):
            break
        left = _less(left)
        found = yield Wanted(accounts=accounts, payers=payers)
        frames.append(found)
    amounts = _distinct(lines["amount_minor"])
    if amounts:
        priced = (yield Wanted(amounts=amounts)).join(_each_once(frames), on=_ID, how="anti")
        wanted = _counting(priced, lines, names)[_ID] if priced.height else priced[_ID]
        if wanted.len():
            frames.append((yield Wanted(ids=wanted)))
    if undecided is not None:
        frames.append(undecided)
    items = fresh = _each_once(frames)
    while True:
        # The other direction's items of the same name, and then what else has a name of those.
        credits_, debits = (asked.new(f"of {direction}", _proving(fresh, -direction)) for direction in (1, -1))
        if not (credits_ or debits):
            return items
        left = _less(left)
        found = yield Wanted(credits=credits_, debits=debits)
        fresh = found.join(items, on=_ID, how="anti")
        items = _each_once([items, fresh])


def _counting(priced: pl.DataFrame, lines: pl.DataFrame, names: pl.DataFrame | None) -> pl.DataFrame:
    """Return the items of a line's amount that count, among those that nothing but their amount has reached.

    Nobody has them before all that is left is compared by amount, but those that a line nearly quotes. More than
    ``KEY_ITEMS_MAX`` of one amount find nobody then, whichever they are, but for those whose names have a word in
    common with the line's; what such a one may be mistaken for belongs to it.
    """
    priced = priced.join(lines.select(_PRICE).unique(), on=_PRICE, how="semi")
    if names is None:
        return priced
    # Those that are nearly quoted are not among the many any more when what is left is compared.
    quoted = halves_quoted(lines.select(*_PRICE, "quoted_digits"))
    near = halves_asked(priced).join(quoted, on=[*_PRICE, "half"], how="semi").select(priced.columns).unique(_ID)
    others = priced.join(near, on=_ID, how="anti")
    place = pl.int_range(pl.len()).over(_PRICE)
    many = others.filter(place > KEY_ITEMS_MAX)
    if many.is_empty():
        return priced
    words = words_of(names)
    of_lines = lines.select(*_PRICE, "name_key").unique().join(words, on="name_key")
    crowd = others.join(many.select(_PRICE).unique(), on=_PRICE, how="semi")
    by_word = crowd.join(words, on="name_key").join(of_lines, on=[*_PRICE, "word"], how="semi")
    named = pl.concat([by_word.select(priced.columns), near])
    beside = [
        many.join(named.select(*_PRICE, key).drop_nulls().unique(), on=[*_PRICE, key], how="semi")
        for key in ("name_key", "account_key")
    ]
    return pl.concat([others.filter(place <= KEY_ITEMS_MAX), near, *beside]).unique(_ID)


def _less(left: int) -> int:
    if not left:
        raise TooFarError
    return left - 1


def _each_once(frames: list[pl.DataFrame]) -> pl.DataFrame:
    filled = [frame for frame in frames if frame.height]
    return pl.concat(filled).unique(_ID, keep="first", maintain_order=True) if filled else frames[0]


def _proving(items: pl.DataFrame, direction: int) -> frozenset[int]:
    """Return what names items of a direction and could prove something."""
    columns = (items[name] for name in NAMES)
    return frozenset(
        key
        for found in columns
        for key, its in zip(found, items["direction"], strict=True)
        if key is not None and key & 1 and its == direction
    )
