"""Generated data: the same seed gives the same bytes, every row is in the truth, and the cases are what they say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from payrec.bench.dataset import DataSet, write
from payrec.bench.generator import CLASSES, HARDNESS, SHARES, generate
from payrec.bench.maker import RATES
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.matching.keys import normalise_reference, reference_key, remittance_keys
from payrec.domain.references import is_creditor_reference, is_iban
from payrec.domain.returns import return_kind

ROWS = 2_000


@pytest.fixture(scope="module", params=list(HARDNESS))
def data(request: pytest.FixtureRequest) -> DataSet:
    """Return data of each preset."""
    return generate(rows=ROWS, seed=7, preset=request.param)


def truth_of(data: DataSet) -> pl.DataFrame:
    assert data.truth is not None
    return data.truth


def sides(data: DataSet, name: str) -> pl.DataFrame:
    """Return the pairs of a class with both sides; the line's columns end with ``_line``."""
    truth = truth_of(data).filter(pl.col("class") == name).drop_nulls(["expected_id", "incoming_id"])
    return truth.join(data.expected, left_on="expected_id", right_on="id").join(
        data.incoming, left_on="incoming_id", right_on="id", suffix="_line"
    )


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(generate(rows=300, seed=seed, preset="hard"), tmp_path / name)
    a, b, c = (digest(tmp_path / name) for name in "abc")

    assert a == b
    assert all(a[name] != c[name] for name in ("expected.parquet", "incoming.parquet", "truth.parquet"))


def test_there_are_as_many_rows_as_asked_and_all_of_them_are_in_the_truth(data: DataSet) -> None:
    truth = truth_of(data)

    assert (data.expected.height, data.incoming.height) == (ROWS, ROWS)
    for side, frame in (("expected_id", data.expected), ("incoming_id", data.incoming)):
        assert frame["id"].to_list() == list(range(1, ROWS + 1))
        assert set(truth[side].drop_nulls()) == set(frame["id"])
    assert set(truth["class"]) == set(CLASSES)
    assert truth.drop_nulls(["expected_id", "incoming_id"]).select("expected_id", "incoming_id").is_unique().all()


def test_what_belongs_to_nothing_is_named_alone(data: DataSet) -> None:
    truth = truth_of(data)
    paired = truth.drop_nulls(["expected_id", "incoming_id"])

    for side in ("expected_id", "incoming_id"):
        alone = truth.filter(pl.col("incoming_id" if side == "expected_id" else "expected_id").is_null())
        assert not set(alone[side].drop_nulls()) & set(paired[side])
    assert set(paired["class"]).isdisjoint({"unpaid", "noise", "missing_item", "missing_member"})


@pytest.mark.parametrize("preset", range(2))
def test_the_shares_leave_something_unpaid(preset: int) -> None:
    assert sum(shares[preset] for name, shares in SHARES.items() if name != "missing_item") < 1000
    assert len(HARDNESS) == 2


def test_amounts_are_of_their_currency_and_accounts_have_their_check_digits(data: DataSet) -> None:
    assert set(data.expected["currency"]) == set(RATES.per_eur) == set(data.incoming["currency"])
    assert len(RATES.per_eur) == 7
    assert {c: MINOR_UNITS[c] for c in RATES.exponent} == dict(RATES.exponent)
    assert (data.expected["amount_minor"] != 0).all()
    assert (data.incoming["amount_minor"] != 0).all()
    assert all(is_iban(iban) for iban in data.expected["counterparty_iban"].unique() if iban)
    printed = [r for r in data.expected["reference"] if r.startswith("RF")]
    assert printed
    assert all(map(is_creditor_reference, printed))


def test_own_references_are_nobody_else_s(data: DataSet) -> None:
    own = data.expected.filter(pl.col("reference").str.contains("[0-9]"))["reference"]

    assert own.is_unique().all()


@pytest.mark.parametrize("name", ["exact_reference", "reference_in_noise", "instalments_reference"])
def test_what_quotes_its_reference_can_be_read_by_the_service(data: DataSet, name: str) -> None:
    for row in sides(data, name).iter_rows(named=True):
        assert reference_key(row["reference"]) in remittance_keys(row["remittance"]), row["remittance"]


@pytest.mark.parametrize(
    "name", ["typo_reference", "partial_reference", "wrong_reference", "account_only", "name_only"]
)
def test_what_does_not_quote_it_cannot(data: DataSet, name: str) -> None:
    pairs = sides(data, name)
    quoting = [
        row["remittance"]
        for row in pairs.iter_rows(named=True)
        if reference_key(row["reference"]) in remittance_keys(row["remittance"])
    ]

    # A mistyped digit may fall on nothing that counts, as a leading zero does.
    assert len(quoting) <= pairs.height // 20


def test_end_to_end_ids_come_back(data: DataSet) -> None:
    pairs = sides(data, "end_to_end_id")

    assert (pairs["end_to_end_id"] == pairs["end_to_end_id_line"]).all()
    assert (pairs["end_to_end_id"] != "").all()


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("fee", lambda item, line: 0.8 * item <= line < item),
        ("underpaid", lambda item, line: 0.5 * item <= line < item),
        ("overpaid", lambda item, line: item < line <= 1.5 * item),
        ("rounding", lambda item, line: item != line),
        ("exact_reference", lambda item, line: item == line),
        ("amount_only", lambda item, line: item == line),
        ("common_amount", lambda item, line: item == line),
    ],
)
def test_a_line_s_amount_differs_as_its_class_says(data: DataSet, name: str, holds: Callable[[int, int], bool]) -> None:
    pairs = sides(data, name)
    amounts = [(abs(i), abs(p)) for i, p in pairs.select("amount_minor", "amount_minor_line").iter_rows()]
    # An amount of a few minor units has no room for a difference.
    kept = [pair for pair in amounts if pair[0] > 500]

    assert len(kept) > 3
    assert all(holds(item, line) for item, line in kept)
    assert (pairs["amount_minor"].sign() == pairs["amount_minor_line"].sign()).all()


@pytest.mark.parametrize(
    "name",
    [
        "batch_id",
        "batch_references",
        "batch_references_cut",
        "batch_references_short",
        "batch_contiguous",
        "batch_contiguous_minus",
        "batch_arbitrary",
    ],
)
def test_a_group_adds_up_to_its_line(data: DataSet, name: str) -> None:
    groups = (
        sides(data, name)
        .group_by("incoming_id")
        .agg(
            items=pl.len(),
            total=pl.col("amount_minor").sum(),
            line=pl.col("amount_minor_line").first(),
            batches=pl.col("batch_id").n_unique(),
        )
    )

    assert groups.height >= 2
    assert (groups["items"] >= 2).all()
    assert (groups["total"] == groups["line"]).all()
    assert (groups["batches"] == 1).all()


def test_what_is_paid_out_net_is_less_than_its_batch_by_a_fee(data: DataSet) -> None:
    batches = (
        sides(data, "batch_id_net")
        .group_by("batch_id")
        .agg(pl.col("amount_minor").sum(), pl.first("amount_minor_line"))
    )

    assert batches.height >= 2
    kept = batches.select(share=1 - pl.col("amount_minor_line") / pl.col("amount_minor"))["share"]
    assert kept.min() > 0  # type: ignore[operator]
    assert kept.max() < 0.05  # type: ignore[operator]


def test_the_last_of_several_is_not_quoted_where_the_text_was_cut(data: DataSet) -> None:
    for _, group in sides(data, "batch_references_cut").group_by("incoming_id"):
        said = [quoted in text for quoted, text in group.select("reference", "remittance").iter_rows()]
        assert said.count(False) == 1


def test_of_a_list_that_is_written_short_the_first_is_quoted_at_the_most(data: DataSet) -> None:
    for _, group in sides(data, "batch_references_short").group_by("incoming_id"):
        said = [quoted in text for quoted, text in group.select("reference", "remittance").iter_rows()]
        assert said.count(True) <= 1
        numbers = sorted(int(re.sub("[^0-9]", "", reference)) for reference in group["reference"])
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def test_a_contiguous_run_leaves_out_nothing_of_its_payer_and_the_other_one_does(data: DataSet) -> None:
    truth = truth_of(data)
    for name, gaps in (("batch_contiguous", False), ("batch_contiguous_minus", True)):
        for (line, payer), run in sides(data, name).group_by("incoming_id", "payer"):
            theirs = truth.filter(pl.col("payer") == payer).join(data.expected, left_on="expected_id", right_on="id")
            between = theirs.filter(
                (pl.col("due_date") > run["due_date"].min())
                & (pl.col("due_date") < run["due_date"].max())
                & (pl.col("incoming_id") != line).fill_null(value=True)
            )
            assert between.is_empty() is not gaps, name


@pytest.mark.parametrize("name", ["instalments", "instalments_reference"])
def test_instalments_add_up_to_their_item(data: DataSet, name: str) -> None:
    items = (
        sides(data, name)
        .group_by("expected_id")
        .agg(lines=pl.len(), total=pl.col("amount_minor_line").sum(), item=pl.col("amount_minor").first())
    )

    assert (items["lines"] >= 2).all()
    assert (items["total"] == items["item"]).all()


@pytest.mark.parametrize("name", ["batch_id", "batch_id_net"])
def test_a_batch_is_named_in_the_line_alone(data: DataSet, name: str) -> None:
    for row in sides(data, name).iter_rows(named=True):
        said = normalise_reference(row["remittance"]) + normalise_reference(row["end_to_end_id_line"])
        assert normalise_reference(row["batch_id"]) in said


def test_reversals_have_a_code_of_the_bank_and_nothing_else_has(data: DataSet) -> None:
    coded = data.incoming.filter(pl.col("tx_code").map_elements(return_kind, return_dtype=pl.String).is_not_null())
    truth = truth_of(data).filter((pl.col("class") == "reversal") & pl.col("expected_id").is_null())

    assert set(coded["id"]) == set(truth["incoming_id"])
    assert (coded["amount_minor"] < 0).all()


def test_hard_data_says_less_and_shares_more() -> None:
    base, hard = (generate(rows=ROWS, seed=1, preset=preset) for preset in ("base", "hard"))

    def silent(data: DataSet, column: str) -> int:
        return data.incoming.filter(pl.col(column) == "").height

    def shared(data: DataSet) -> int:
        return data.expected.filter(~pl.col("reference").str.contains("[0-9]") & (pl.col("reference") != "")).height

    assert silent(hard, "counterparty_iban") > 1.2 * silent(base, "counterparty_iban")
    assert silent(hard, "counterparty_name") > 1.3 * silent(base, "counterparty_name")
    assert shared(hard) > 5 * shared(base)
    assert hard.expected["amount_minor"].n_unique() < base.expected["amount_minor"].n_unique()
