"""What a run got right, on cases small enough to count by hand, and that no order of rows matters."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA, TRUTH_SCHEMA, DataSet, Rates
from payrec.bench.measure import Point, check, measure
from support.tenant_data import frame_of

RATES = Rates(per_eur={"EUR": 1.0, "USD": 2.0, "JPY": 100.0}, exponent={"EUR": 2, "USD": 2, "JPY": 0})
LINK_SCHEMA = {
    "match_id": pl.Int64,
    "expected_id": pl.Int64,
    "incoming_id": pl.Int64,
    "auto": pl.Boolean,
    "score": pl.Float64,
    "amount_minor": pl.Int64,
    "settled_minor": pl.Int64,
}

Pair = tuple[int | None, int | None, str, int | None]


def item(number: int, **said: Any) -> dict[str, Any]:
    return {"id": number, "amount_minor": 10_000, "currency": "EUR", **said}


def links_of(*rows: tuple[int, int, bool, float]) -> pl.DataFrame:
    """Return links of 100.00 each: expected, incoming, auto, score."""
    made = [(n, e, i, auto, score, 10_000, 10_000) for n, (e, i, auto, score) in enumerate(rows, start=1)]
    return pl.DataFrame(made, schema=LINK_SCHEMA, orient="row")


def data_of(
    truth: list[Pair] | None,
    *,
    expected: list[dict[str, Any]] | None = None,
    incoming: list[dict[str, Any]] | None = None,
) -> DataSet:
    """Return a data set; sides that are not given have the rows 1 to 9."""
    both = [item(n, counterparty_name=f"Party {n}") for n in range(1, 10)]
    return DataSet(
        expected=frame_of(expected or both, EXPECTED_SCHEMA),
        incoming=frame_of(incoming or both, INCOMING_SCHEMA)
        if incoming
        else frame_of([{k: v for k, v in row.items() if k in INCOMING_SCHEMA} for row in both], INCOMING_SCHEMA),
        rates=RATES,
        truth=None if truth is None else pl.DataFrame(truth, schema=dict(TRUTH_SCHEMA), orient="row"),
    )


TRUTH: list[Pair] = [
    (1, 1, "exact", 1),
    (2, 2, "exact", 2),
    (3, 3, "batch_id", 3),
    (4, 3, "batch_id", 3),
    (5, 5, "amount_only", 5),
    (None, 6, "noise", 6),
    (7, None, "unpaid", 7),
]


def test_precision_recall_and_coverage_by_class_and_in_all() -> None:
    links = links_of(
        (1, 1, True, 9.0),  # right
        (2, 5, False, 1.0),  # wrong, of the line's class: amount_only
        (3, 3, True, 8.0),  # right, one of two
        (5, 5, True, 2.0),  # right, but accepted for its amount
        (7, 6, True, 7.0),  # the line is noise
        (8, 8, False, 3.0),  # nothing is known of either
    )
    found = measure(links, data_of(TRUTH))

    exact, batch = found.by_class["exact"], found.by_class["batch_id"]
    assert (exact.true, exact.proposed, exact.found, exact.matchable, exact.auto_covered) == (2, 1, 1, 2, 1)
    assert (exact.precision, exact.recall, exact.f1, exact.auto_coverage) == (1.0, 0.5, pytest.approx(2 / 3), 0.5)
    assert (batch.precision, batch.recall, batch.matchable, batch.auto_coverage) == (1.0, 0.5, 1, 1.0)
    assert found.by_class["amount_only"].precision == 0.5
    assert found.amount_only_auto == 1
    assert (found.by_class["noise"].recall, found.by_class["noise"].precision) == (None, 0.0)
    assert (found.by_class["unpaid"].precision, found.by_class["unpaid"].f1) == (None, None)
    assert found.by_class["unknown"].proposed == 1
    assert (found.total.true, found.total.proposed, found.total.found) == (5, 6, 3)
    assert (found.total.auto, found.total.auto_found, found.total.auto_covered, found.total.matchable) == (4, 3, 3, 4)
    assert (found.without_batches.true, found.without_batches.proposed, found.without_batches.found) == (3, 5, 2)
    assert found.total.auto_eur == 400.0


def test_a_wrong_link_is_of_its_line_s_class_or_else_of_its_item_s() -> None:
    found = measure(links_of((1, 2, False, 1.0), (7, 9, False, 1.0)), data_of(TRUTH))

    assert {name: score.proposed for name, score in found.by_class.items() if score.proposed} == {
        "exact": 1,
        "unpaid": 1,
    }


def test_the_curve_takes_the_best_links_first_and_tears_no_equal_scores_apart() -> None:
    links = links_of((1, 1, True, 9.0), (2, 2, True, 5.0), (5, 3, False, 5.0), (9, 9, False, 1.0))
    found = measure(links, data_of(TRUTH))

    assert found.curve == [
        Point(score=9.0, coverage=1 / 4, risk=0.0),
        Point(score=5.0, coverage=3 / 4, risk=pytest.approx(1 / 3)),
        Point(score=1.0, coverage=3 / 4, risk=0.5),
    ]
    assert found.curves["exact"][-1] == Point(score=5.0, coverage=1.0, risk=0.0)
    assert found.curves["noise"] == []


def test_a_wrong_payer_is_another_number_than_the_truth_s_counted_with_its_money() -> None:
    expected = [item(1), item(2, currency="USD"), item(3), item(4, currency="JPY")]
    truth: list[Pair] = [(1, 1, "a", 10), (2, 2, "a", 20), (3, 3, "b", 10), (4, None, "unpaid", 40), (None, 5, "b", 40)]
    links = links_of(
        (3, 1, True, 1.0),  # another item of the same payer
        (1, 2, True, 1.0),  # another payer's, 100.00 EUR
        (2, 3, True, 1.0),  # another payer's, 100.00 USD
        (2, 2, True, 1.0),  # right
        (4, 5, True, 1.0),  # the true item is not there, but the payer is
        (4, 1, False, 1.0),  # another payer's, but nobody has accepted it
        (4, 2, True, 1.0),  # another payer's, 10,000 JPY
    )
    found = measure(links, data_of(truth, expected=expected)).total

    assert (found.wrong_payers, found.wrong_payer_eur) == (3, 100.0 + 50.0 + 100.0)
    assert found.auto == 6


def test_without_numbers_account_or_name_tell_the_payer() -> None:
    same, other = "DE89370400440532013000", "FR1420041010050500013M02606"
    expected = [
        item(1, counterparty_iban=same, counterparty_name="Anna Berg"),
        item(2, counterparty_iban=same.lower(), counterparty_name="A. Berg"),
        item(3, counterparty_iban=other, counterparty_name="Anna Berg"),
        item(4, counterparty_name="Bau Müller GmbH"),
        item(5),
    ]
    incoming = [
        item(1),
        item(2, counterparty_name="MUELLER BAU"),
        item(3, counterparty_iban=other),
        item(4),
    ]
    truth: list[Pair] = [(1, 1, "a", None)]

    def wrong(*pair: int) -> int:
        links = links_of((pair[0], pair[1], True, 1.0))
        return measure(links, data_of(truth, expected=expected, incoming=incoming)).total.wrong_payers

    assert wrong(2, 1) == 0  # the account of the line's true item
    assert wrong(3, 1) == 1  # the name is the same, the account is not
    assert wrong(4, 2) == 0  # the line has no true item, and says the item's name
    assert wrong(3, 3) == 0  # or its account
    assert wrong(4, 4) == 1  # or neither
    assert wrong(5, 4) == 1  # nothing on both sides is no agreement


def test_what_must_not_be_is_counted() -> None:
    incoming = [
        {**item(1), "tx_code": "PMNT-RCDT-RRTN"},
        {**item(2), "tx_code": "166", "amount_minor": -15_000},
        {**item(3), "tx_code": None},
    ]
    links = links_of((1, 1, False, 1.0), (2, 2, True, 1.0), (3, 2, True, 1.0), (3, 3, True, 1.0), (1, 3, False, 1.0))
    found = check(links, data_of(None, incoming=incoming))

    # Line 2 of 150.00 and item 3 of 100.00 are accepted for 200.00; what is only proposed allocates nothing.
    assert (found.reversals_proposed, found.double_allocations) == (1, 2)


def test_parts_within_the_amount_are_no_double_allocation() -> None:
    links = links_of((1, 1, True, 1.0), (1, 2, True, 1.0)).with_columns(amount_minor=5_000, settled_minor=5_000)

    assert check(links, data_of(None)).double_allocations == 0


def test_a_pair_that_the_truth_names_twice_counts_once() -> None:
    found = measure(links_of((1, 1, True, 1.0)), data_of([(1, 1, "a", 1), (1, 1, "a", 1), (1, 1, "b", 1)]))

    assert (found.total.true, found.total.proposed, found.total.found) == (1, 1, 1)
    assert found.by_class["a"].true == 1


def test_nothing_proposed_is_measured_too() -> None:
    found = measure(links_of(), data_of(TRUTH))

    assert (found.total.precision, found.total.recall, found.total.f1) == (None, 0.0, 0.0)
    assert found.curve == []
    assert check(links_of(), data_of(TRUTH)).reversals_proposed == 0


NUMBERS = st.integers(1, 9)
PAIRS = st.lists(
    st.tuples(NUMBERS | st.none(), NUMBERS | st.none(), st.sampled_from(["a", "b", "batch_id"]), NUMBERS | st.none()),
    max_size=15,
)
LINKS = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.booleans(), st.sampled_from([1.0, 2.0, 3.0])),
    max_size=15,
    unique_by=lambda row: row[:2],
)


@given(truth=PAIRS, links=LINKS, order=st.randoms(use_true_random=False))
def test_no_order_of_rows_changes_anything(truth: list[Pair], links: list[Any], order: Any) -> None:
    data = data_of(truth)
    found = measure(links_of(*links), data)
    order.shuffle(truth)
    order.shuffle(links)

    assert measure(links_of(*links), data_of(truth)) == found
    assert check(links_of(*links), data) == check(links_of(*reversed(links)), data)


@given(truth=PAIRS, links=LINKS)
def test_classes_add_up_and_every_share_is_one(truth: list[Pair], links: list[Any]) -> None:
    found = measure(links_of(*links), data_of(truth))
    for name in ("true", "proposed", "found", "auto", "auto_found", "wrong_payers"):
        assert sum(getattr(score, name) for score in found.by_class.values()) == getattr(found.total, name)
    for score in (found.total, found.without_batches, *found.by_class.values()):
        for share in (score.precision, score.recall, score.f1, score.auto_precision, score.auto_coverage):
            assert share is None or 0 <= share <= 1
    for point in found.curve:
        assert 0 <= point.coverage <= 1
        assert 0 <= point.risk <= 1
