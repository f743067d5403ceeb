"""What matches keep as JSON: how groups were found, the rivals, and what settles without money. Blocking."""

from __future__ import annotations

import json
from typing import Final

import polars as pl

from payrec.domain.matching.emptiness import of_none
from payrec.domain.matching.rules import (
    BLIND_ITEMS_MAX,
    BLIND_LINES_MAX,
    BLIND_PARTS_MAX,
    BLIND_SEARCH_ITEMS_MAX,
    GROUP_LEGS_MAX,
    SUBSET_MEMBERS_MAX,
    AdjustmentType,
    GroupLevel,
    MatchingRules,
)
from payrec.services.match_columns import Snapshot, ids_at, texts_of

_ADJUSTMENTS: Final = {a.value: a.name.lower() for a in AdjustmentType}


def proof(rules: MatchingRules) -> pl.Expr:
    """Return how a group was found, and which ``rules`` decided, as JSON text; null for a pair without any."""
    named = {"groupSizeMax": rules.group_size_max, "legsMax": GROUP_LEGS_MAX, "searchedMax": SUBSET_MEMBERS_MAX}
    blind = {
        "groupSizeMax": rules.group_size_max,
        "itemsMax": BLIND_ITEMS_MAX,
        "linesMax": BLIND_LINES_MAX,
        "partsMax": BLIND_PARTS_MAX,
        "searchedMax": BLIND_SEARCH_ITEMS_MAX,
    }
    found_blindly = pl.col("group_level").is_in([level.value for level in GroupLevel if level.blind])
    chance = pl.col("coincidences_ppm").cast(pl.String).fill_null("null")
    bounds = pl.when(found_blindly).then(pl.lit(json.dumps(blind))).otherwise(pl.lit(json.dumps(named)))
    said = {"sets": pl.col("tried"), "named": pl.col("named"), "coincidencesPpm": chance, "bounds": bounds}
    grouped, ruled = pl.col("group_level") != GroupLevel.UNKNOWN.value, pl.col("rules").is_not_null()
    return (
        pl.when(grouped & ruled)
        .then(_json_object({**said, "rules": pl.col("rules")}))
        .when(grouped)
        .then(_json_object(said))
        .when(ruled)
        .then(_json_object({"rules": pl.col("rules")}))
    )


@of_none
def alternatives_of(found: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
    """Return ``proposal`` and ``alternatives``, its rivals as JSON text, best first."""
    ids = {name: _text(texts_of(ids_at(snapshot, found[name], name))) for name in ("expected", "incoming")}
    return _json_arrays(found.with_columns(**ids), {**dict.fromkeys(ids), "score": "score_milli"}, "alternatives")


@of_none
def adjustments_of(found: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
    """Return ``proposal`` and ``adjustments``, what settles without money as JSON text."""
    of_line = found["expected"].is_null()
    sides = {}
    for name in ("expected", "incoming"):
        currencies = getattr(snapshot, name)["currency"]
        currency = currencies.gather(found[name]) if found.height else currencies.clear()
        sides[name] = (texts_of(ids_at(snapshot, found[name], name)), currency)
    return _json_arrays(
        found.with_columns(
            type=_text(found["type"].replace_strict(_ADJUSTMENTS, return_dtype=pl.String)),
            side=pl.when(of_line).then(pl.lit('"incoming"')).otherwise(pl.lit('"expected"')),
            id=_text(sides["incoming"][0].zip_with(of_line, sides["expected"][0])),
            currency=_text(sides["incoming"][1].zip_with(of_line, sides["expected"][1])),
            rate=_text(found["rate"]),
        ),
        {"type": None, "side": None, "id": None, "minor": "amount_minor", "currency": None, "rate": None},
        "adjustments",
    )


def _text(values: pl.Series) -> pl.Series:
    """Return texts, none of which needs escaping, as those of JSON."""
    found = values.to_frame("value").select(pl.concat_str([pl.lit('"'), "value", pl.lit('"')]).fill_null("null"))
    return found.to_series()


def _json_object(said: dict[str, pl.Expr]) -> pl.Expr:
    parts: list[pl.Expr] = []
    for name, value in said.items():
        parts += [pl.lit(f'{"," if parts else "{"}"{name}":'), value]
    return pl.concat_str([*parts, pl.lit("}")])


def _json_arrays(frame: pl.DataFrame, said: dict[str, str | None], name: str) -> pl.DataFrame:
    """Return ``proposal`` and the objects of its rows as JSON text; ``said`` has names of keys and of their columns."""
    found = frame.with_columns(text=_json_object({key: pl.col(column or key) for key, column in said.items()}))
    return (
        found.group_by("proposal", maintain_order=True)
        .agg("text")
        .select("proposal", pl.concat_str([pl.lit("["), pl.col("text").list.join(","), pl.lit("]")]).alias(name))
    )
