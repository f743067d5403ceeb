from __future__ import annotations

import polars as pl
import pytest

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA, ColumnsError
from payrec.domain.matching.engine import STAGES, propose
from payrec.domain.matching.rules import MatchingRules
from support.matching_frames import Item, Line, expected_frame, incoming_frame


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("amount_minor", pl.lit(0, dtype=pl.Int64)),
        ("direction", pl.lit(0, dtype=pl.Int8)),
        ("tie_key", pl.lit(None, dtype=pl.Int64)),
        ("ordinal", pl.lit(7, dtype=pl.Int32)),
        ("due_day", pl.lit(1.5)),
    ],
)
def test_wrong_columns_are_a_typed_error(column: str, change: pl.Expr) -> None:
    items = expected_frame([Item("a"), Item("b")])
    lines = incoming_frame([Line("x")])
    with pytest.raises(ColumnsError) as caught:
        propose(items.with_columns(change.alias(column)), lines, MatchingRules())
    assert caught.value.column == column
    with pytest.raises(ColumnsError):
        propose(items.drop(column), lines, MatchingRules())


def test_a_categorical_currency_is_as_good_as_text() -> None:
    items = expected_frame([Item("a", reference="INV-17017")]).with_columns(pl.col("currency").cast(pl.Categorical))
    assert propose(items, incoming_frame([Line("x", text="INV-17017")]), MatchingRules()).matches.height == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"date_window_days_before": -1},
        {"amount_tolerance_minor": -1},
        {"amount_tolerance_basis_points": 10_001},
        {"auto_accept_min_confidence": "low"},
    ],
)
def test_rules_refuse_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"cannot|lies|is exact"):
        MatchingRules(**wrong)  # type: ignore[arg-type]


def test_an_observer_is_told_of_every_stage() -> None:
    told: list[str] = []
    empty = pl.DataFrame(schema=dict(EXPECTED_SCHEMA)), pl.DataFrame(schema=dict(INCOMING_SCHEMA))
    propose(*empty, MatchingRules(), observe=told.append)
    assert tuple(told) == STAGES
