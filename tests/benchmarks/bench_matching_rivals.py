"""Compare the matching engine with what else could be used, on the very same generated rows.

Run as ``python tests/benchmarks/bench_matching_rivals.py [--rows N] [--seed S] [--preset base|hard] [--loop-rows N]``.
All of them get columns in memory with the keys and normalised names that the product makes when rows are stored, so the
seconds are those of deciding alone: no database reads or writes. The rivals are a loop over all pairs, as open-source
ledgers have it (timed on ``--loop-rows`` and extrapolated by the square), SQL over equal keys in DuckDB, and Splink,
which learns its weights from the data without truth. The last two need ``pip install -e '.[bench]'``.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import Any

import polars as pl

from payrec.bench.dataset import DataSet
from payrec.bench.generator import HARDNESS, generate
from payrec.bench.measure import BATCH_CLASS, measure
from payrec.bench.rates import rate_puts
from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.engine import propose
from payrec.domain.matching.exchange import RATES_SCHEMA
from payrec.domain.matching.keys import expected_keys, incoming_keys, name_key, normalise_name, tie_key
from payrec.domain.matching.names import NAMES_SCHEMA
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.returns import takes_back
from payrec.factory import TimeOrderedIds

_EPOCH = date(1970, 1, 1)
_BEFORE, _AFTER = 30, 60
"""The date window of the product's defaults, given to all."""

_LINKS = {"expected_id": pl.Int64, "incoming_id": pl.Int64, "score": pl.Float64}


@dataclass(frozen=True, slots=True)
class Columns:
    """A data set in the columns that a database has of it."""

    items: pl.DataFrame
    lines: pl.DataFrame
    names: pl.DataFrame
    ids: tuple[pl.Series, pl.Series]
    """The ids of the data set by ordinal."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one of them found."""

    seconds: float
    links: pl.DataFrame
    note: str = ""


def _day(value: date | None) -> int | None:
    return None if value is None else (value - _EPOCH).days


def _takes_back(code: str | None) -> bool:
    return takes_back(reversal=False, bank_transaction_code=code, return_reason=None)


def columns_of(data: DataSet) -> Columns:
    """Make the columns, with the keys that are made when rows are stored."""
    texts: dict[int, str] = {}
    items, lines = [], []
    for at, row in enumerate(data.expected.iter_rows(named=True)):
        made = expected_keys(
            reference=row["reference"],
            end_to_end_id=row["end_to_end_id"],
            counterparty_name=row["counterparty_name"],
            counterparty_account=row["counterparty_iban"],
            group=row["batch_id"],
        )
        minor, days = row["amount_minor"], (_day(row[f"{name}"]) for name in ("due_date", "window_from", "window_to"))
        head = (at, row["currency"], 1 if minor > 0 else -1, abs(minor), abs(minor), None, None)
        items.append((*head, *days, *made, tie_key(str(row["id"])), 1, None))
        texts.update({key: row["counterparty_name"] for key in [name_key(row["counterparty_name"])] if key is not None})
    paying = data.incoming.filter(pl.col("amount_minor") != 0)
    for at, row in enumerate(paying.iter_rows(named=True)):
        seen = incoming_keys(
            remittance=row["remittance"],
            end_to_end_id=row["end_to_end_id"],
            counterparty_name=row["counterparty_name"],
            counterparty_account=row["counterparty_iban"],
        )
        minor, booked = row["amount_minor"], _day(row["booking_date"] or row["value_date"])
        head = (at, row["currency"], 1 if minor > 0 else -1, abs(minor), abs(minor), booked, _day(row["value_date"]))
        flags = (False, _takes_back(row["tx_code"]), False)
        lines.append((*head, *flags, *seen, tie_key("line", str(row["id"])), 1))
        texts.update({key: row["counterparty_name"] for key in [name_key(row["counterparty_name"])] if key is not None})
    return Columns(
        items=pl.DataFrame(items, schema=dict(EXPECTED_SCHEMA), orient="row"),
        lines=pl.DataFrame(lines, schema=dict(INCOMING_SCHEMA), orient="row"),
        names=pl.DataFrame([*texts.items()], schema=dict(NAMES_SCHEMA), orient="row"),
        ids=(data.expected["id"], paying["id"]),
    )


def _named(pairs: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return pairs of ordinals ``e``, ``i`` with their score as links of the data set."""
    return pl.DataFrame(
        {
            "expected_id": columns.ids[0].gather(pairs["e"]),
            "incoming_id": columns.ids[1].gather(pairs["i"]),
            "score": pairs["score"],
        },
        schema=_LINKS,
    )


def _once_each(pairs: pl.DataFrame) -> pl.DataFrame:
    """Take the best pairs first, each row once."""
    items: set[int] = set()
    lines: set[int] = set()
    kept = []
    for e, i, score in (
        pairs.sort(["score", "e", "i"], descending=[True, False, False]).select("e", "i", "score").iter_rows()
    ):
        if e not in items and i not in lines:
            items.add(e)
            lines.add(i)
            kept.append((e, i, score))
    return pl.DataFrame(kept, schema={"e": pl.Int64, "i": pl.Int64, "score": pl.Float64}, orient="row")


def by_engine(data: DataSet) -> Result:
    """Run the engine."""
    columns = columns_of(data)
    rates = pl.DataFrame(
        [
            (_day(put.rated_on), put.base, put.quote, put.mantissa, put.places)
            for puts in rate_puts(data.rates, data.incoming["booking_date"], TimeOrderedIds())
            for put in puts
        ],
        schema=dict(RATES_SCHEMA),
        orient="row",
    )
    start = time.perf_counter()
    result = propose(columns.items, columns.lines, MatchingRules(auto_accept=True), None, columns.names, rates)
    seconds = time.perf_counter() - start
    scores = result.matches.with_row_index("proposal").select("proposal", score=pl.col("score_milli") / 1000)
    legs = result.legs.join(scores, on="proposal").drop_nulls(["expected", "incoming"])
    return Result(seconds, _named(legs.select("score", e="expected", i="incoming"), columns))


def by_loop(data: DataSet) -> Result:
    """Compare every line with every open item of its currency: the first that the first rule finds is taken."""
    items: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for row in data.expected.iter_rows(named=True):
        row["name"] = normalise_name(row["counterparty_name"] or "")
        row["quoted"] = (row["reference"] or "").upper()
        items.setdefault((row["currency"], row["amount_minor"] > 0), []).append(row)
    found = []
    start = time.perf_counter()
    for line in data.incoming.iter_rows(named=True):
        if _takes_back(line["tx_code"]):
            continue
        candidates = items.get((line["currency"], line["amount_minor"] > 0), [])
        text, booked = (line["remittance"] or "").upper(), line["booking_date"]
        name = normalise_name(line["counterparty_name"] or "")
        best: tuple[int, dict[str, Any]] | None = None
        for item in candidates:
            equal = item["amount_minor"] == line["amount_minor"]
            if item["quoted"] and item["quoted"] in text:
                rule = 3 if equal else 2
            elif equal and -_BEFORE <= (booked - item["due_date"]).days <= _AFTER:
                rule = 2 if name and name == item["name"] else 1
            else:
                continue
            if best is None or rule > best[0]:
                best = (rule, item)
        if best is not None:
            found.append((best[1]["id"], line["id"], float(best[0])))
            candidates.remove(best[1])
    return Result(time.perf_counter() - start, pl.DataFrame(found, schema=_LINKS, orient="row"))


_FLOOR = """
    WITH quoted AS (SELECT ordinal AS i, currency, direction, unnest(reference_keys) AS key FROM lines),
    pairs AS (
        SELECT e.ordinal AS e, q.i, 3 AS rank FROM quoted q
        JOIN items e ON e.reference_key = q.key AND e.currency = q.currency AND e.direction = q.direction
        UNION ALL
        SELECT e.ordinal, l.ordinal, 4 FROM lines l
        JOIN items e USING (end_to_end_key, currency, direction)
        UNION ALL
        SELECT e.ordinal, l.ordinal, 2 FROM lines l JOIN items e USING (account_key, currency, direction, amount_minor)
        UNION ALL
        SELECT e.ordinal, l.ordinal, 1 FROM lines l JOIN items e USING (name_key, currency, direction, amount_minor)
    ),
    ranked AS (
        SELECT p.e, p.i, max(p.rank) + count(*) / 10.0 + (l.amount_minor = e.amount_minor)::int * 5 AS score
        FROM pairs p JOIN lines l ON l.ordinal = p.i JOIN items e ON e.ordinal = p.e
        WHERE NOT l.reversal AND l.booking_day - e.due_day BETWEEN -{before} AND {after}
        GROUP BY p.e, p.i, l.amount_minor, e.amount_minor
    ),
    best AS (
        SELECT e, i, score FROM ranked
        QUALIFY row_number() OVER (PARTITION BY i ORDER BY score DESC, e) = 1
            AND row_number() OVER (PARTITION BY e ORDER BY score DESC, i) = 1
    ),
    batches AS (
        SELECT b.group_key, b.currency, b.direction, l.ordinal AS i FROM (
            SELECT group_key, currency, direction, sum(amount_minor) AS total FROM items
            WHERE group_key IS NOT NULL GROUP BY ALL
        ) b
        JOIN quoted q ON q.key = b.group_key AND q.currency = b.currency AND q.direction = b.direction
        JOIN lines l ON l.ordinal = q.i AND l.amount_minor = b.total
        QUALIFY row_number() OVER (PARTITION BY b.group_key, b.currency, b.direction ORDER BY l.ordinal) = 1
    ),
    whole AS (
        SELECT e.ordinal AS e, b.i, 20.0 AS score FROM batches b JOIN items e USING (group_key, currency, direction)
    )
    SELECT * FROM whole UNION ALL
    SELECT * FROM best WHERE i NOT IN (SELECT i FROM whole) AND e NOT IN (SELECT e FROM whole)
"""


def by_sql(data: DataSet) -> Result:
    """Join on equal keys in DuckDB, batches by their id and sum, then the best on both sides."""
    import duckdb  # noqa: PLC0415 - an optional dependency

    columns = columns_of(data)
    with duckdb.connect() as connection:
        connection.register("items", columns.items.to_arrow())
        connection.register("lines", columns.lines.to_arrow())
        start = time.perf_counter()
        pairs = connection.sql(_FLOOR.format(before=_BEFORE, after=_AFTER)).pl()
        return Result(time.perf_counter() - start, _named(pairs, columns))


def _for_splink(frame: pl.DataFrame, names: pl.DataFrame, *, quoted: pl.Expr, day: str) -> Any:
    known = pl.Series([normalise_name(text) for text in names["text"]], dtype=pl.String)
    texts = names.select(name_key="key", name=known)
    return frame.join(texts, on="name_key", how="left").select(
        pl.col(day).alias("day"),
        "name",
        "currency",
        unique_id="ordinal",
        quoted=quoted,
        account="account_key",
        amount="amount_minor",
        part=pl.col("currency") + pl.col("direction").cast(pl.String),
    )


def by_splink(data: DataSet) -> Result:
    """Link by Splink: weights by expectation maximisation, no groups, each row once."""
    from splink import Linker, SettingsCreator, block_on  # noqa: PLC0415 - an optional dependency
    from splink import comparison_library as cl  # noqa: PLC0415
    from splink.internals.duckdb.database_api import DuckDBAPI  # noqa: PLC0415

    columns = columns_of(data)
    items = _for_splink(
        columns.items,
        columns.names,
        quoted=pl.concat_list("reference_key", "end_to_end_key").list.drop_nulls(),
        day="due_day",
    )
    lines = _for_splink(
        columns.lines.filter(~pl.col("reversal")), columns.names, quoted=pl.col("reference_keys"), day="booking_day"
    )
    start = time.perf_counter()
    near = {"sql_condition": "abs(day_l - day_r) <= 14", "label_for_charts": "within 14 days"}
    days = {
        "output_column_name": "day",
        "comparison_levels": [
            {"sql_condition": "day_l IS NULL OR day_r IS NULL", "label_for_charts": "null", "is_null_level": True},
            {"sql_condition": "abs(day_l - day_r) <= 3", "label_for_charts": "within 3 days"},
            near,
            {"sql_condition": "ELSE", "label_for_charts": "else"},
        ],
    }
    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[
            cl.ArrayIntersectAtSizes("quoted", [1]),
            cl.ExactMatch("amount"),
            cl.ExactMatch("account"),
            cl.JaroWinklerAtThresholds("name", [0.92, 0.8]),
            days,
        ],
        blocking_rules_to_generate_predictions=[
            block_on("part", "quoted", arrays_to_explode=["quoted"]),
            block_on("part", "account", "amount"),
            block_on("part", "name", "amount"),
        ],
        retain_intermediate_calculation_columns=False,
    )
    api = DuckDBAPI()
    registered = [
        api.register(frame.to_arrow(), dataset_display_name=name)
        for frame, name in ((items, "items"), (lines, "lines"))
    ]
    linker = Linker(registered, settings, log_level=logging.ERROR)
    linker.training.estimate_probability_two_random_records_match(
        [block_on("part", "quoted", arrays_to_explode=["quoted"])], recall=0.5
    )
    linker.training.estimate_u_using_random_sampling(max_pairs=2e6, seed=1)
    for rule in (block_on("part", "account", "amount"), block_on("part", "name", "day")):
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    found = linker.inference.predict(threshold_match_probability=0.5).as_duckdbpyrelation().pl()
    on_left = (pl.col("source_dataset_l") == "items") if "source_dataset_l" in found.columns else pl.lit(value=True)
    pairs = found.select(
        e=pl.when(on_left).then("unique_id_l").otherwise("unique_id_r"),
        i=pl.when(on_left).then("unique_id_r").otherwise("unique_id_l"),
        score="match_weight",
    )
    pairs = _once_each(pairs)
    return Result(time.perf_counter() - start, _named(pairs, columns))


def _row(name: str, result: Result, data: DataSet) -> str:
    minor = data.expected.select(pl.col("amount_minor").abs().alias("settled_minor"), expected_id="id")
    links = result.links.join(minor, on="expected_id").with_columns(auto=pl.lit(value=False))
    found = measure(links, data)
    figures = [
        found.total.precision, found.total.recall, found.total.f1, found.without_batches.f1
    ]  # fmt: skip
    shares = " | ".join("-" if figure is None else f"{figure:.3f}" for figure in figures)
    return f"| {name} | {result.seconds:,.2f} s{result.note} | {shares} |"


def main() -> None:
    """Generate, run all, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--preset", choices=sorted(HARDNESS), default="base")
    parser.add_argument("--loop-rows", type=int, default=10_000)
    options = parser.parse_args()
    data = generate(rows=options.rows, seed=options.seed, preset=options.preset)
    size = f"{options.rows:,} x {options.rows:,}, {options.preset}"
    print(f"| {size} | time | precision | recall | F1 | F1 without {BATCH_CLASS} |")
    print("|---|---|---|---|---|---|")
    few = generate(rows=options.loop_rows, seed=options.seed, preset=options.preset)
    by_engine(few)  # What a worker has loaded long ago is not to be timed.
    print(_row("the engine", by_engine(data), data), flush=True)
    others: list[tuple[str, str, Callable[[DataSet], Result]]] = [
        ("SQL on equal keys (DuckDB)", "duckdb", by_sql),
        ("Splink on DuckDB, no groups", "splink", by_splink),
    ]
    for name, module, run in others:
        if find_spec(module) is None:
            print(f"| {name} | skipped: pip install -e '.[bench]' | | | | |")
        else:
            print(_row(name, run(data), data), flush=True)
    looped = by_loop(few)
    whole = looped.seconds * (options.rows / options.loop_rows) ** 2
    note = f", from {looped.seconds:,.2f} s for {options.loop_rows:,}"
    print(_row("loop over all pairs", Result(whole, looped.links, note), few))


if __name__ == "__main__":
    main()
