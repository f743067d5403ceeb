"""What a run got right: links against the truth, in all and by class. Pure; the order of rows changes nothing.

A link is a pair of an expected transaction and a line. A line is matchable when the truth has an item for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from payrec.bench.dataset import UNKNOWN_CLASS, DataSet, Rates
from payrec.domain.matching.keys import normalise_name, normalise_reference
from payrec.domain.returns import return_kind

CURVE_STEPS: Final = 20
"""Points of a risk-coverage curve."""

BATCH_CLASS: Final = "batch_id"
"""The class that makes data easy; the total is told without it as well."""

AMOUNT_CLASS: Final = "amount_only"
"""Lines of which nothing is known but amount and date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Counts of links; the shares are None where there is nothing to divide by."""

    true: int
    """Links of the truth."""
    proposed: int
    found: int
    """Proposed links that are true."""
    auto: int
    """Links that were accepted without a person."""
    auto_found: int
    matchable: int
    """Lines for which the truth has an item."""
    auto_covered: int
    """Of these, lines with an accepted link."""
    wrong_payers: int
    """Accepted links whose item is another counterparty's than the line's."""
    wrong_payer_eur: float
    auto_eur: float

    @property
    def precision(self) -> float | None:
        """Share of the proposed links that are true."""
        return _share(self.found, self.proposed)

    @property
    def recall(self) -> float | None:
        """Share of the true links that are proposed."""
        return _share(self.found, self.true)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        return _share(2 * self.found, self.proposed + self.true)

    @property
    def auto_precision(self) -> float | None:
        """Share of the accepted links that are true."""
        return _share(self.auto_found, self.auto)

    @property
    def auto_coverage(self) -> float | None:
        """Share of the matchable lines that are accepted."""
        return _share(self.auto_covered, self.matchable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a risk-coverage curve: the links of at least this score."""

    score: float
    coverage: float
    """Share of the matchable lines that have such a link."""
    risk: float
    """Share of these links that are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Everything that the truth tells about a run."""

    total: Score
    without_batches: Score
    by_class: dict[str, Score]
    curve: list[Point]
    curves: dict[str, list[Point]]
    """By class."""
    amount_only_auto: int
    """Accepted links of lines of which nothing is known but amount and date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What must be nothing, whatever the truth is."""

    reversals_proposed: int
    """Links of lines that take a payment back."""
    double_allocations: int
    """Transactions to which more is accepted than their amount."""


def measure(links: pl.DataFrame, data: DataSet) -> Measures:
    """Compare links with the truth of a data set, which has one."""
    assert data.truth is not None, "there is nothing to compare with"
    pairs = _pairs(data.truth)
    judged = _judged(links, data, pairs)
    classes = sorted({*pairs["class"], *judged["class"], *data.truth["class"]})
    return Measures(
        total=_score(judged, pairs),
        without_batches=_score(
            judged.filter(pl.col("class") != BATCH_CLASS), pairs.filter(pl.col("class") != BATCH_CLASS)
        ),
        by_class={
            name: _score(judged.filter(pl.col("class") == name), pairs.filter(pl.col("class") == name))
            for name in classes
        },
        curve=curve_of(judged, pairs),
        curves={
            name: curve_of(judged.filter(pl.col("class") == name), pairs.filter(pl.col("class") == name))
            for name in classes
        },
        amount_only_auto=judged.filter(pl.col("auto") & (pl.col("class") == AMOUNT_CLASS)).height,
    )


def check(links: pl.DataFrame, data: DataSet) -> Checks:
    """Count what must not be."""
    reversals = data.incoming.filter(pl.col("tx_code").map_elements(return_kind, return_dtype=pl.String).is_not_null())
    accepted = links.filter("auto")
    twice = 0
    for side, taken, frame in (
        ("expected_id", "settled_minor", data.expected),
        ("incoming_id", "amount_minor", data.incoming),
    ):
        amounts = frame.select(pl.col("id").alias(side), whole=pl.col("amount_minor").abs())
        sums = accepted.group_by(side).agg(taken=pl.col(taken).sum()).join(amounts, on=side)
        twice += sums.filter(pl.col("taken") > pl.col("whole")).height
    return Checks(
        reversals_proposed=links.filter(pl.col("incoming_id").is_in(reversals["id"].implode())).height,
        double_allocations=twice,
    )


def curve_of(judged: pl.DataFrame, pairs: pl.DataFrame) -> list[Point]:
    """Return the curve of links with ``score``, ``right`` and ``incoming_id``; equal scores are never torn apart."""
    matchable = pairs["incoming_id"].unique()
    if judged.is_empty() or matchable.is_empty():
        return []
    scores = judged["score"].sort(descending=True)
    thresholds = dict.fromkeys(
        scores[-(-judged.height * step // CURVE_STEPS) - 1] for step in range(1, CURVE_STEPS + 1)
    )
    points = []
    for threshold in thresholds:
        kept = judged.filter(pl.col("score") >= threshold)
        covered = kept.filter(pl.col("incoming_id").is_in(matchable.implode()))["incoming_id"].n_unique()
        points.append(
            Point(
                score=float(threshold),
                coverage=covered / len(matchable),
                risk=1 - int(kept["right"].sum()) / kept.height,
            )
        )
    return points


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _pairs(truth: pl.DataFrame) -> pl.DataFrame:
    """Return the true links, each once."""
    both = truth.filter(pl.col("expected_id").is_not_null() & pl.col("incoming_id").is_not_null())
    return both.group_by("expected_id", "incoming_id").agg(pl.col("class").min())


def _judged(links: pl.DataFrame, data: DataSet, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the links with ``class``, ``right``, ``wrong_payer`` and ``eur``.

    A wrong link is of its line's class, or else of its item's.
    """
    assert data.truth is not None, "the caller has looked"
    of_line = _class_by(data.truth, "incoming_id")
    of_item = _class_by(data.truth, "expected_id")
    judged = (
        links.join(pairs.rename({"class": "true_class"}), on=["expected_id", "incoming_id"], how="left")
        .join(of_line.rename({"class": "line_class"}), on="incoming_id", how="left")
        .join(of_item.rename({"class": "item_class"}), on="expected_id", how="left")
        .with_columns(
            pl.coalesce("true_class", "line_class", "item_class", pl.lit(UNKNOWN_CLASS)).alias("class"),
            right=pl.col("true_class").is_not_null(),
        )
    )
    wrong = judged.filter(~pl.col("right") & pl.col("auto")).select("expected_id", "incoming_id").unique()
    judged = judged.join(_wrong_payers(wrong, data, pairs), on=["expected_id", "incoming_id"], how="left")
    currencies = data.expected.select("currency", expected_id="id")
    return judged.join(currencies, on="expected_id", how="left").with_columns(
        pl.col("wrong_payer").fill_null(value=False), eur=pl.col("settled_minor") * _euro_per_minor(data.rates)
    )


def _class_by(truth: pl.DataFrame, side: str) -> pl.DataFrame:
    return truth.filter(pl.col(side).is_not_null()).group_by(side).agg(pl.col("class").min())


def _euro_per_minor(rates: Rates) -> pl.Expr:
    """Return what a minor unit of the row's ``currency`` is worth; a currency without a rate counts nothing."""
    worth = {c: 1 / (rate * 10.0 ** rates.exponent.get(c, 2)) for c, rate in rates.per_eur.items()}
    return pl.col("currency").replace_strict(worth, default=0.0, return_dtype=pl.Float64)


def _wrong_payers(wrong: pl.DataFrame, data: DataSet, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the wrong pairs with ``wrong_payer``: whether the item is another counterparty's than the line's.

    The line's counterparty is that of its true items or, where it has none, the one that the truth names, or else
    whoever its account or name says.
    """
    assert data.truth is not None, "the caller has looked"
    lines = wrong["incoming_id"].unique()
    owed = pairs.filter(pl.col("incoming_id").is_in(lines.implode())).select("expected_id", "incoming_id")
    items = pl.concat([wrong["expected_id"], owed["expected_id"]]).unique()
    said_of_item, said_by_line = _said(data.expected, items), _said(data.incoming, lines)
    party_of: dict[int, Any] = {item: account or name or None for item, (account, name) in said_of_item.items()}
    named = data.truth.filter(pl.col("payer").is_not_null())
    party_of |= dict(
        named.filter(pl.col("expected_id").is_in(items.implode())).select("expected_id", "payer").iter_rows()
    )
    parties: dict[int, set[Any]] = {}
    for item, line in owed.iter_rows():
        parties.setdefault(line, set()).add(party_of.get(item))
    for line, payer in (
        named.filter(pl.col("incoming_id").is_in(lines.implode())).select("incoming_id", "payer").iter_rows()
    ):
        parties.setdefault(line, set()).add(payer)
    verdicts = []
    for item, line in wrong.iter_rows():
        if line in parties:
            verdicts.append(party_of.get(item) not in parties[line])
        else:
            both = zip(said_of_item.get(item, ("", "")), said_by_line.get(line, ("", "")), strict=True)
            verdicts.append(not any(mine and mine == theirs for mine, theirs in both))
    return wrong.with_columns(wrong_payer=pl.Series(verdicts, dtype=pl.Boolean))


def _said(frame: pl.DataFrame, ids: pl.Series) -> dict[int, tuple[str, str]]:
    """Return account and name of the counterparty, normalised, by id."""
    rows = frame.filter(pl.col("id").is_in(ids.implode())).select("id", "counterparty_iban", "counterparty_name")
    return {
        number: (normalise_reference(iban or ""), normalise_name(name or "")) for number, iban, name in rows.iter_rows()
    }


def _score(judged: pl.DataFrame, pairs: pl.DataFrame) -> Score:
    accepted = judged.filter("auto")
    matchable = pairs["incoming_id"].unique()
    wrong = accepted.filter("wrong_payer")
    return Score(
        true=pairs.height,
        proposed=judged.height,
        found=int(judged["right"].sum()),
        auto=accepted.height,
        auto_found=int(accepted["right"].sum()),
        matchable=len(matchable),
        auto_covered=accepted.filter(pl.col("incoming_id").is_in(matchable.implode()))["incoming_id"].n_unique(),
        wrong_payers=wrong.height,
        wrong_payer_eur=round(float(wrong["eur"].sum()), 2),
        auto_eur=round(float(accepted["eur"].sum()), 2),
    )
