"""What functions give of no rows is worked out once for each kind of columns."""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.emptiness import of_none, of_none_by

ONE = pl.DataFrame({"e": [1]}, schema={"e": pl.UInt32})
OTHER = pl.DataFrame({"e": [1], "rule": [0]}, schema={"e": pl.UInt32, "rule": pl.Int64})


def test_rows_are_worked_on_each_time_and_none_once_for_each_kind_of_columns() -> None:
    seen: list[tuple[int, list[str]]] = []

    @of_none
    def doubled(rows: pl.DataFrame, factor: int) -> pl.DataFrame:
        seen.append((rows.height, rows.columns))
        return rows.with_columns(twice=pl.col("e").cast(pl.Int64) * factor)

    for _ in range(2):
        assert doubled(ONE, 2).rows() == [(1, 2)]
        for rows in (ONE, OTHER):
            found = doubled(rows.clear(), 2)
            assert found.is_empty()
            assert found.schema == {**rows.schema, "twice": pl.Int64}
    assert seen == [(1, ["e"]), (0, ["e"]), (0, ["e", "rule"]), (1, ["e"])]


def test_another_type_is_another_kind() -> None:
    same = of_none(lambda rows: rows)
    assert same(ONE.clear()).schema == {"e": pl.UInt32}
    assert same(ONE.clear().cast(pl.Int64)).schema == {"e": pl.Int64}


def test_what_else_is_said_makes_another_kind() -> None:
    @of_none_by(lambda name: name)
    def named(rows: pl.DataFrame, name: str) -> pl.DataFrame:
        return rows.with_columns(pl.lit(0).alias(name))

    for name in ("one", "other", "one"):
        assert named(ONE.clear(), name).columns == ["e", name]
        assert named(ONE, name).rows() == [(1, 0)]
