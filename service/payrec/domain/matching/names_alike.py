"""Names that may be one when something rare speaks for it: the amount is equal, and hardly anybody else has it.

Much less is asked of two names than where a name alone has to say who pays: nothing here says that no other name is as
near. What is found is proposed, and never accepted without a person.
"""

from __future__ import annotations

from typing import Final

import polars as pl
from rapidfuzz import fuzz, process

from payrec.domain.matching.block import amount_key, equal_pairs
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.names import WHOLE_WORD_MIN, WORDS_MAX, explained
from payrec.domain.matching.ruled import lacking
from payrec.domain.matching.rules import KEY_ITEMS_MAX, MatchingRules, NameLevel, Reason
from payrec.domain.matching.weights import WEIGHTS

_LETTERS_MIN: Final = 84.0
"""Percent of the letters, in their order and without blanks, that alike names have in common."""

_WORDS_MIN: Final = 95.0
"""Percent of the letters of the words in common, where one name has more words than the other."""

_EXPLAINED_MIN: Final = 50.0
"""Percent of it from which on the words are explained one by one."""

_HASH_SEED: Final = 1

_NO_WORDS: Final[frozenset[str]] = frozenset()


def words_of(names: pl.DataFrame) -> pl.DataFrame:
    """Return ``name_key`` and ``word``, hashed, of the words that tell names apart; ``normalised`` makes the names."""
    return (
        names.select(name_key="key", word=pl.col("normal").str.split(" ").list.head(WORDS_MAX))
        .explode("word")
        .filter(pl.col("word").str.len_chars() >= WHOLE_WORD_MIN)
        .select("name_key", word=pl.col("word").hash(seed=_HASH_SEED).reinterpret(signed=True))
        .unique()
    )


def by_word(items: pl.DataFrame, lines: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the pairs ``e, i`` of rows of equal amount whose names have a word in common.

    They are found where so many have the amount that by itself it finds nobody.
    """
    words = words_of(sides.names)
    keyed = [
        frame.select("row", "name_key", key=amount_key())
        .join(words, on="name_key")
        .select("row", key=pl.col("key") ^ pl.col("word"))
        for frame in (items, lines)
    ]
    return equal_pairs(keyed[0], keyed[1], items_max=KEY_ITEMS_MAX, lines_max=KEY_ITEMS_MAX).pairs.unique()


def _run_together(one: str, other: str) -> bool:
    """Tell whether one name is the words of the other without blanks; normalised names have their words in order."""
    single, words = (one, other.split(" ")) if " " not in one else (other, one.split(" "))
    return len(words) > 1 and len(single) == sum(map(len, words)) and all(word in single for word in words)


def _alike(pairs: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return those of the pairs of name keys, ``name_key`` and ``its_key``, that may be one name."""
    both = (
        pairs.unique()
        .join(names.select(name_key="key", one="normal"), on="name_key")
        .join(names.select(its_key="key", other="normal"), on="its_key")
        .sort("name_key", "its_key")
    )
    one, other = both["one"].to_list(), both["other"].to_list()
    joined = [[name.replace(" ", "") for name in side] for side in (one, other)]
    letters = process.cpdist(joined[0], joined[1], scorer=fuzz.ratio)
    words = process.cpdist(one, other, scorer=fuzz.token_set_ratio)
    found = [
        by_letters >= _LETTERS_MIN
        or by_words >= _WORDS_MIN
        or _run_together(mine, its)
        or (
            by_words >= _EXPLAINED_MIN
            and explained(mine.split(" ")[:WORDS_MAX], its.split(" ")[:WORDS_MAX], _NO_WORDS) is not None
        )
        for mine, its, by_letters, by_words in zip(one, other, letters, words, strict=True)
    ]
    return both.select("name_key", "its_key").filter(pl.Series(found, dtype=pl.Boolean))


def named_alike(pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return scored pairs of equal amount; those that only their names forbid, and whose names are alike, are free."""
    if pairs.is_empty():
        return pairs
    keys = pairs.select(
        "name_level",
        "fault",
        name_key=sides.expected["name_key"][pairs["e"]],
        its_key=sides.incoming["name_key"][pairs["i"]],
    )
    unlike = (pl.col("name_level") == NameLevel.DIFFERENT.value) & (
        pl.col("fault") == Reason.COUNTERPARTY_MISMATCH.value
    )
    found = _alike(keys.filter(unlike).select("name_key", "its_key"), sides.names)
    if found.is_empty():
        return pairs
    same = keys.join(found.with_columns(same=True), on=["name_key", "its_key"], how="left", maintain_order="left")
    gain = WEIGHTS["name"][NameLevel.SIMILAR] - WEIGHTS["name"][NameLevel.DIFFERENT]
    return (
        pairs.with_columns(same=same.select(pl.col("same").fill_null(value=False) & unlike).to_series())
        .with_columns(
            name_level=pl.when("same").then(NameLevel.SIMILAR.value).otherwise("name_level").cast(pl.Int8),
            score_milli=pl.when("same").then(pl.col("score_milli") + gain).otherwise("score_milli").cast(pl.Int32),
        )
        .with_columns(fault=pl.when("same").then(lacking(rules)).otherwise("fault"))
        .drop("same")
    )
