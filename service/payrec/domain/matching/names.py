"""Who a line means by a name that no open item has: resolved once for each distinct name, never for each pair.

Banks and payers shorten, cut and mistype names. A line's name stands for an item's when the words of both explain each
other: equal, abbreviated or mistyped once, with nothing left over but short words of one, and when no other name is
explained as well. A common word ("Trading") resolves nothing: one rare word at least has to be there whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import polars as pl
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from payrec.domain.matching.keys import normalise_name
from payrec.domain.matching.rules import NameLevel

RESOLVED_SCHEMA: Final = {"key": pl.Int64(), "similar_key": pl.Int64(), "name_level": pl.Int8()}
"""What ``resolved`` returns."""

NAMES_SCHEMA: Final = {"key": pl.Int64(), "text": pl.String()}
"""The texts of names: ``key`` is the name's key, ``text`` any text that has it."""

NAMES_RESOLVED_MAX: Final = 200_000
"""Distinct names of lines that are resolved in one run; of more, the first in alphabetical order."""

_NAMES_AT_ONCE: Final = 10_000
"""Distinct names whose candidates are in memory together."""

WORDS_MAX: Final = 8
"""Words of a name that are looked at."""

_PAIRED_WORDS_MAX: Final = 5
"""Of these, words that are looked up two at a time."""

_LETTERS_MAX: Final = 140
"""Letters of a name that are compared: a name has at most as many on the wire (ISO 20022 ``Max140Text``)."""

_BLOCK_NAMES_MAX: Final = 100
"""Names of items that may share what is looked up; what more of them share tells nobody apart."""

_NAME_CANDIDATES_MAX: Final = 64
"""Names of items that are compared with one name, those that share the rarest first."""

_ALIGNED_MAX: Final = 5
"""Of these, the most alike whose words are compared."""

_RATIO_MIN: Final = 50.0
"""Percent of the letters that names have in common before their words are compared."""

_COMMON_NAMES_MIN: Final = 8
_COMMON_SHARE: Final = 200
"""A word of more than 8 names, and of more than one in 200, is common."""

_COMMON_WORD_LIST: Final = (
    "AUTO BANK BAU COMPANY CONSULTING DESIGN DEUTSCHLAND DIENSTLEISTUNG DIENSTLEISTUNGEN ENERGIE ENERGY EUROPE FOODS "
    "FRANCE GERMANY GLOBAL GROUP GRUPPE HANDEL HOLDING IMMOBILIEN INTERNATIONAL LOGISTICS LOGISTIK MANAGEMENT MEDIA "
    "MEDICAL PARTNER PARTNERS SERVICE SERVICES SERVICIOS SOFTWARE SOLUTIONS SYSTEME SYSTEMS TECHNIK TECHNOLOGIES "
    "TECHNOLOGY TRADING TRANSPORT TRANSPORTS VERWALTUNG"
)
_COMMON_WORDS: Final = frozenset(_COMMON_WORD_LIST.split())
"""What many companies do or are, however few of them are here."""

WHOLE_WORD_MIN: Final = 4
"""Letters of a word that tells names apart."""

_SHORT_WORD_MAX: Final = 3
"""Letters of a word that may be missing (``CO``, ``OO``, an initial)."""

_TAIL_MIN: Final = 6
_LONG_WORD_MIN: Final = 8
"""Letters of a word in which two letters may be wrong, and which tells names apart though mistyped."""
_ABBREVIATION_MAX: Final = 5
"""Letters of an abbreviation that leaves some out within the word (``TRDG``)."""


_NO_ALIASES: Final[Mapping[int, int]] = MappingProxyType({})


def normalised(texts: pl.DataFrame) -> pl.DataFrame:
    """Return ``key`` and ``normal``, the words of a name, of texts with the columns of ``NAMES_SCHEMA``.

    In alphabetical order, each key once.
    """
    found = texts.unique("key")
    words = [normalise_name(text)[:_LETTERS_MAX].rstrip() for text in found["text"]]
    return in_order(found.with_columns(normal=pl.Series(words, dtype=pl.String)))


def in_order(names: pl.DataFrame) -> pl.DataFrame:
    """Return ``key`` and ``normal`` of names as ``normalised`` does."""
    return names.select("key", "normal").sort("normal", "key")


def _words(names: pl.DataFrame) -> pl.DataFrame:
    """Return ``n``, ``word``, the first words of each name, and ``place``, from 0."""
    words = pl.col("normal").str.split(" ").list.head(WORDS_MAX)
    return names.select("n", word=words, place=pl.int_ranges(words.list.len())).explode("word", "place")


def _blocks(words: pl.DataFrame) -> pl.DataFrame:
    """Return ``n`` and ``block``: whole words, the ends of long ones, words with the beginning of another."""
    length = pl.col("word").str.len_chars()
    whole = words.filter(length >= WHOLE_WORD_MIN)
    paired = pl.col("place") < _PAIRED_WORDS_MAX
    both = (
        words.filter(paired).join(whole.filter(paired), on="n", suffix="_2").filter(pl.col("word") != pl.col("word_2"))
    )
    first, second = pl.col("word"), pl.col("word_2")
    return pl.concat(
        [
            whole.select("n", block=pl.lit("=") + pl.col("word")),
            whole.filter(length >= _TAIL_MIN).select("n", block=pl.lit("-") + pl.col("word").str.tail(4)),
            both.select("n", block=first.str.head(1) + "+" + second),
            both.filter(first < second).select("n", block=first.str.head(4) + "*" + second.str.head(4)),
        ]
    ).unique()


def _like(words: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """Return the words of the names that may share a block with one of the ``wanted``: it begins or ends as theirs."""
    head, tail = pl.col("word").str.head(4), pl.col("word").str.tail(4)
    heads, tails = (wanted.select(end).to_series().unique().implode() for end in (head, tail))
    return words.join(words.filter(head.is_in(heads) | tail.is_in(tails)).select("n").unique(), on="n", how="semi")


def _candidates(wanted: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return ``n`` and ``k``: the names of items that share something rare with each name."""
    counts = (
        blocks.join(wanted.select("block").unique(), on="block", how="semi")
        .group_by("block")
        .agg(names=pl.len())
        .filter(pl.col("names") <= _BLOCK_NAMES_MAX)
    )
    kept = (
        wanted.join(counts, on="block")
        .sort("n", "names", "block")
        .filter(pl.col("names").cum_sum().over("n") <= _NAME_CANDIDATES_MAX)
    )
    return kept.join(blocks, on="block", suffix="_k").select("n", k="n_k").unique()


def _most_alike(pairs: pl.DataFrame, unknown: pl.Series, known: pl.Series) -> pl.DataFrame:
    """Keep the few pairs of each name that have the most letters in common."""
    left, right = unknown.gather(pairs["n"]).to_list(), known.gather(pairs["k"]).to_list()
    ratios = process.cpdist(left, right, scorer=fuzz.ratio)
    return (
        pairs.with_columns(ratio=pl.Series(ratios, dtype=pl.Float32))
        .filter(pl.col("ratio") >= _RATIO_MIN)
        .sort(["n", "ratio", "k"], descending=[False, True, False])
        .group_by("n", maintain_order=True)
        .head(_ALIGNED_MAX)
    )


def _abbreviates(short: str, long: str) -> bool:
    """Tell whether one word is short for the other: its beginning, or a few of its letters in order."""
    if len(short) >= len(long) or short[0] != long[0]:
        return False
    if long.startswith(short):
        return True
    if not 2 <= len(short) <= _ABBREVIATION_MAX <= len(long):
        return False
    rest = iter(long)
    return all(letter in rest for letter in short)


def _mistypes(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    if shorter < WHOLE_WORD_MIN:
        return False
    allowed = 2 if shorter >= _LONG_WORD_MIN else 1
    return OSA.distance(one, other, score_cutoff=allowed) <= allowed


def _either_abbreviates(one: str, other: str) -> bool:
    return _abbreviates(one, other) or _abbreviates(other, one)


def _paired(rest: list[str], others: list[str], alike: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """Take the words of both names that are alike out of them, those with the most letters first.

    Whichever name is which, the same words go together: a longer abbreviation says more than an initial.
    """
    pairs = [(word, its) for word in rest for its in others if alike(word, its)]
    pairs.sort(key=lambda pair: (-min(map(len, pair)), -max(map(len, pair)), min(pair), max(pair)))
    found = []
    for word, its in pairs:
        if word in rest and its in others:
            rest.remove(word)
            others.remove(its)
            found.append((word, its))
    return found


def explained(one: list[str], other: list[str], common: frozenset[str]) -> int | None:
    """Return how much has to be believed for both names to be one, or None when they are not.

    ``common`` are the words that many names have. Nothing has to be believed of equal words. It does not matter which
    of the names comes first.
    """
    rest, others = [word for word in one if word not in other], [word for word in other if word not in one]
    equal = [word for word in one if word in other]
    short = _paired(rest, others, _either_abbreviates)
    mistyped = _paired(rest, others, _mistypes)
    # A mistyped word tells by itself only where it is long.
    certain = 0 if equal or short else _LONG_WORD_MIN
    strong = any(len(word) >= WHOLE_WORD_MIN and word not in common for word in equal) or any(
        common.isdisjoint(pair) and min(map(len, pair)) >= certain for pair in mistyped
    )
    if not strong or len(mistyped) > 1:
        return None
    left = rest + others
    if (rest and others) or any(len(word) > _SHORT_WORD_MAX or word in _COMMON_WORDS for word in left):
        return None
    return 2 * len(short) + 3 * len(mistyped) + len(left)


def _chosen(pairs: pl.DataFrame, unknown: pl.Series, known: pl.Series, common: frozenset[str]) -> list[tuple[int, int]]:
    """Return the name of an item for each name that has exactly one that is explained best."""
    best: dict[int, tuple[int, int, bool]] = {}
    names = zip(unknown.gather(pairs["n"]), known.gather(pairs["k"]), strict=True)
    for (n, k), (one, other) in zip(pairs.select("n", "k").iter_rows(), names, strict=True):
        cost = explained(one.split(" ")[:WORDS_MAX], other.split(" ")[:WORDS_MAX], common)
        if cost is None:
            continue
        before = best.get(n)
        if before is None or cost < before[0]:
            best[n] = (cost, k, True)
        elif cost == before[0]:
            best[n] = (cost, before[1], False)
    return [(n, k) for n, (_, k, alone) in best.items() if alone]


def resolved(
    expected: pl.Series, incoming: pl.Series, names: pl.DataFrame, aliases: Mapping[int, int] = _NO_ALIASES
) -> pl.DataFrame:
    """Return ``key``, of a name that lines have and no item, and ``similar_key``, of the item's name that it means.

    ``name_level`` says whether it is like that, or was taught without being like it. ``expected`` and ``incoming`` are
    the name keys of both sides, ``names`` what ``normalised`` returns; a name without a text is resolved to nothing,
    unless it is one of the ``aliases``. Sorted by ``key``, each once.
    """
    known_aliases = pl.DataFrame(
        {"key": list(aliases), "similar_key": list(aliases.values()), "name_level": NameLevel.ALIAS.value},
        schema=RESOLVED_SCHEMA,
    )
    ours, theirs = expected.drop_nulls().unique(), incoming.drop_nulls().unique()
    theirs = theirs.filter(~theirs.is_in(ours.implode()))
    told = known_aliases.filter(pl.col("key").is_in(theirs.implode()) & pl.col("similar_key").is_in(ours.implode()))
    unknown = names.filter(pl.col("key").is_in(theirs.implode())).head(NAMES_RESOLVED_MAX)
    if unknown.is_empty():
        return told.sort("key")
    known = names.filter(pl.col("key").is_in(ours.implode())).with_row_index("n")
    words = _words(known)
    counts = words.group_by("word").agg(names=pl.len())
    many = max(_COMMON_NAMES_MIN, known.height // _COMMON_SHARE)
    common = frozenset(counts.filter(pl.col("names") > many)["word"]) | _COMMON_WORDS
    blocks = _blocks(_like(words, _words(unknown.with_row_index("n"))))
    found = [told.clear()]
    for rows in unknown.iter_slices(_NAMES_AT_ONCE):
        part = rows.with_row_index("n")
        pairs = _most_alike(_candidates(_blocks(_words(part)), blocks), part["normal"], known["normal"])
        chosen = pl.DataFrame(_chosen(pairs, part["normal"], known["normal"], common), schema=["n", "k"], orient="row")
        if not chosen.is_empty():
            keys = {"key": part["key"].gather(chosen["n"]), "similar_key": known["key"].gather(chosen["k"])}
            found.append(pl.DataFrame(keys | {"name_level": NameLevel.SIMILAR.value}, schema=RESOLVED_SCHEMA))
    alike = pl.concat(found)
    # What is like the item's name means it by itself; any other name means whom it was taught to mean.
    told = told.join(alike, on=["key", "similar_key"], how="anti")
    return pl.concat([told, alike.join(told, on="key", how="anti")]).sort("key")
