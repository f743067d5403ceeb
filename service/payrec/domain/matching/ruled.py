"""The bounds of each line, as columns: those of the settings where there are no rules, at no cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import polars as pl

from payrec.domain.matching.columns import Sides
from payrec.domain.matching.keys import ACCOUNTS_OF_NOBODY, NAMES_OF_NOBODY
from payrec.domain.matching.line_rules import (
    BASIS_POINTS,
    FLAT_SHARE_MAX,
    ROUNDING_MINOR_MAX,
    Bounds,
    LineRule,
    Required,
    Scope,
)
from payrec.domain.matching.rules import (
    Confidence,
    EndToEndLevel,
    GroupLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
)

RULE: Final = "rule"
"""Column of a line, and of a pair, with the number of its rule (Int8): from 1 on by priority, 0 is the settings. It is
there only if there are rules."""

NOBODY: Final = max(Confidence) + 1
"""A least confidence that no proposal has."""

PARTIES: Final = Required.COUNTERPARTY_NAME | Required.COUNTERPARTY_ACCOUNT
"""What is required of the counterparty."""


def with_rules(sides: Sides, rules: MatchingRules) -> Sides:
    """Return the sides with the ``rule`` of each line: the first one whose scope it is in.

    A rule may be of those who are not named. To everybody else what says so says nothing, on either side.
    Items get ``of_several``: open ones of another name have their counterparty's account as well.
    """
    if rules.line_rules:
        sides = replace(sides, incoming=sides.incoming.with_columns(_number(rules.line_rules).alias(RULE)))
    named_beside = pl.col("meant") == NameLevel.ULTIMATE.value
    return replace(
        sides,
        expected=sides.expected.with_columns(**_of_somebody("name_key", "account_key")).with_columns(
            of_several=_of_several()
        ),
        incoming=sides.incoming.with_columns(
            **_of_somebody("name_key", "account_key", "ultimate_name_key"),
            similar_key=pl.when(~_is_nobody("name_key") | named_beside).then("similar_key"),
            is_known=pl.col("is_known") & ~_is_nobody("account_key"),
        ),
    )


def _of_several() -> pl.Expr:
    name, account = pl.col("name_key"), pl.col("account_key")
    several = name.min().over(account) < name.max().over(account)
    return (account.is_not_null() & several).fill_null(value=False)


def _of_somebody(*names: str) -> dict[str, pl.Expr]:
    return {name: pl.when(~_is_nobody(name)).then(name) for name in names}


def _is_nobody(name: str) -> pl.Expr:
    keys = ACCOUNTS_OF_NOBODY if name == "account_key" else NAMES_OF_NOBODY
    return pl.col(name).is_in(sorted(keys)).fill_null(value=False)


def columns(rules: MatchingRules) -> tuple[str, ...]:
    """Return the columns by which ``bound`` finds the bounds of a line."""
    return (RULE,) if rules.line_rules else ()


def bound(rules: MatchingRules, of: Callable[[Bounds], int | bool], column: str = RULE) -> pl.Expr:
    """Return what ``of`` says of the bounds of each line, or of each pair's line; ``column`` has the rule's number."""
    values = [of(rules), *(of(rule.bounds) for rule in rules.line_rules)]
    dtype = pl.Boolean() if isinstance(values[0], bool) else pl.Int64()
    if len(set(values)) == 1:
        return _constant(values[0], dtype)
    return pl.lit(pl.Series(values, dtype=dtype)).gather(pl.col(column))


@lru_cache(maxsize=256, typed=True)
def _constant(value: int | bool, dtype: pl.DataType) -> pl.Expr:  # noqa: FBT001 - a bound may be either
    return pl.lit(value, dtype=dtype)


def tolerance(open_minor: pl.Expr, *, points: pl.Expr | int, minor: pl.Expr | int) -> pl.Expr:
    """Return by how many minor units an amount may be off, by the tolerances in basis points and in minor units.

    The share is taken in two steps, so that no product leaves 64 bits.
    """
    share = (open_minor // BASIS_POINTS) * points + (open_minor % BASIS_POINTS) * points // BASIS_POINTS
    # Beyond a great part of the item, what is so little elsewhere is another payment, or its rest is still to come.
    most = pl.max_horizontal(open_minor // FLAT_SHARE_MAX, ROUNDING_MINOR_MAX)
    return pl.max_horizontal(share, pl.min_horizontal(minor, most))


def least(bounds: Bounds) -> int:
    """Return the least confidence that is accepted without a person, or ``NOBODY``."""
    return Confidence[bounds.auto_accept_min_confidence.upper()].value if bounds.auto_accept else NOBODY


def required(rules: MatchingRules, what: Required) -> pl.Expr:
    """Tell of each line, or of each pair's line, whether any of this is required of it."""
    return bound(rules, lambda bounds: bool(bounds.required & what))


def strict_lines(sides: Sides, rules: MatchingRules) -> pl.Series:
    """Return the rows (UInt32) of the lines of which anything is required."""
    return sides.incoming.filter(required(rules, ~Required.NOTHING))["row"]


def lacking(rules: MatchingRules) -> pl.Expr:
    """Tell of level columns what required evidence is not there: a ``Reason``, or 0 (Int8)."""
    if not any(bounds.required for bounds in (rules, *(rule.bounds for rule in rules.line_rules))):
        return _constant(0, pl.Int8())
    said = {
        Required.REFERENCE: _quoted(),
        Required.END_TO_END_ID: pl.col("end_to_end_level") >= EndToEndLevel.EQUAL.value,
        Required.GROUP_KEY: pl.col("group_level") == GroupLevel.BY_KEY.value,
        Required.COUNTERPARTY_NAME: pl.col("name_level") >= NameLevel.EQUAL.value,
        Required.COUNTERPARTY_ACCOUNT: pl.col("account_level") == PartyLevel.EQUAL.value,
    }
    found = pl.lit(0, dtype=pl.Int8)
    for what, there in reversed(said.items()):
        reason = Reason.COUNTERPARTY_MISMATCH if what in PARTIES else Reason.MISSING_REFERENCE
        lacks = required(rules, what) & ~there
        found = pl.when(lacks).then(pl.lit(reason.value, dtype=pl.Int8)).otherwise(found)
    return found


def named(legs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return ``proposal`` and ``rules``: the names, as JSON text, of the rules of a proposal's lines, by priority.

    ``legs`` have the caller's ordinals. A proposal of lines without a rule is left out.
    """
    if not rules.line_rules:
        return pl.DataFrame(schema={"proposal": pl.UInt32, "rules": pl.String})
    lines = sides.incoming.filter(pl.col(RULE) > 0).select("ordinal", RULE)
    names = pl.Series([json.dumps(rule.name) for rule in rules.line_rules])
    ends = [
        legs.select("proposal", ordinal=end).drop_nulls("ordinal").join(lines, on="ordinal")
        for end in ("incoming", "contra_incoming")
    ]
    return (
        pl.concat(ends)
        .select("proposal", RULE)
        .unique()
        .sort("proposal", RULE)
        .with_columns(name=pl.lit(names).gather(pl.col(RULE) - 1))
        .group_by("proposal", maintain_order=True)
        .agg("name")
        .select("proposal", rules=pl.concat_str([pl.lit("["), pl.col("name").list.join(","), pl.lit("]")]))
    )


def _quoted() -> pl.Expr:
    return pl.col("reference_level").is_between(ReferenceLevel.COMMON.value, ReferenceLevel.FULL.value) | (
        pl.col("end_to_end_level") >= EndToEndLevel.EQUAL.value
    )


def _number(line_rules: Sequence[LineRule]) -> pl.Expr:
    found = pl.lit(0, dtype=pl.Int8)
    for number, rule in reversed(list(enumerate(line_rules, start=1))):
        inside = pl.all_horizontal(pl.lit(value=True), *conditions(rule.scope))
        found = pl.when(inside).then(pl.lit(number, dtype=pl.Int8)).otherwise(found)
    return found


def conditions(scope: Scope) -> list[pl.Expr]:
    """Return what a line in the scope says, of the columns of ``INCOMING_SCHEMA``."""
    equal = ("own_account_key", "direction", "currency", "account_key", "name_key")
    wanted = [(name, getattr(scope, name)) for name in equal]
    conditions = [pl.col(name) == value for name, value in wanted if value is not None]
    if scope.minor_min is not None:
        conditions.append(pl.col("total_minor") >= scope.minor_min)
    if scope.minor_max is not None:
        conditions.append(pl.col("total_minor") <= scope.minor_max)
    return conditions
