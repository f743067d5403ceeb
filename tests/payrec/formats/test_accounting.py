from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import pytest

from payrec.constants import AMOUNT_MINOR_MAX, SUM_MINOR_MAX
from payrec.domain.statements import Balance, Batch, Entry, Money, Parsed, Problem, Skipped, Statement, StatementEnd
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats import accounting as module
from payrec.formats.accounting import Accounting, TimeBudget
from support.samples import Collected, collect

DAY = date(2026, 1, 2)


def entry(minor: int = 100, **fields: object) -> Entry:
    made = Entry(amount_minor=minor, currency="EUR", booking_on=DAY)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def statement(*balances: tuple[str, int], index: int = 0, **fields: object) -> Statement:
    made = Statement(index, account="DE1", currency="EUR")
    made.balances = [
        Balance(kind, abs(minor), "EUR", "credit" if minor >= 0 else "debit", DAY)  # type: ignore[arg-type]
        for kind, minor in balances
    ]
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def run(*items: Parsed) -> Collected:
    accounting = Accounting(budget=TimeBudget(lambda: 0.0), bytes_read=lambda: 0)

    def stream() -> Iterable[Parsed]:
        yield from accounting.account(items)
        yield from accounting.finish()

    collected = collect(stream(), format="x")
    counts = accounting.counts
    assert counts.records == counts.accepted + counts.skipped + counts.rejected
    assert counts.accepted == sum(map(len, collected.entries.values()))
    assert counts.rejected == sum(p.rejects for p in collected.problems)
    assert counts.skipped == len(collected.skipped)
    return collected


def one(head: Statement, *entries: Parsed) -> tuple[Statement, Collected]:
    collected = run(head, *entries, StatementEnd(head))
    return collected.statements[0], collected


def test_totals_are_by_status_and_dates_span_the_entries() -> None:
    made, collected = one(
        statement(),
        entry(100),
        entry(30, direction="debit", booking_on=date(2026, 1, 5)),
        entry(7, status="pending"),
        entry(9, status="info", direction="debit"),
        Skipped("rule"),
        Problem("invalid_amount", rejects=True),
    )
    assert (made.booked.credit_count, made.booked.credit_minor) == (1, 100)
    assert (made.booked.debit_count, made.booked.debit_minor) == (1, 30)
    assert (made.pending.credit_minor, made.info.debit_minor) == (7, 9)
    assert (made.entry_count, made.transaction_count) == (4, 4)
    assert (made.first_booking_on, made.last_booking_on) == (DAY, date(2026, 1, 5))
    assert [e.index for e in collected.entries[0]] == [0, 1, 2, 3]
    assert made.balance_check == "not_available"


def test_details_of_one_batch_are_one_line() -> None:
    batch, other = Batch("k", 2, itemised=True), Batch("k2", 2, itemised=True)
    made, _ = one(
        statement(),
        entry(60, batch=batch),
        entry(10, batch=batch, direction="debit"),
        entry(10, batch=other),
        entry(40, batch=other, direction="debit"),
        entry(1),
    )
    assert (made.entry_count, made.transaction_count) == (3, 5)
    assert (made.booked.credit_count, made.booked.credit_minor) == (2, 51)
    assert (made.booked.debit_count, made.booked.debit_minor) == (1, 30)


@pytest.mark.parametrize(("closing", "check", "difference"), [(1070, "ok", 0), (1075, "mismatch", 5)])
def test_balance_check_counts_what_is_booked(closing: int, check: str, difference: int) -> None:
    made, collected = one(
        statement(("opening", 1000), ("closing", closing)),
        entry(100),
        entry(30, direction="debit"),
        entry(7, status="pending"),
    )
    assert (made.balance_check, made.balance_difference_minor) == (check, difference)
    assert ("balance_mismatch" in [p.code for p in collected.problems]) == (check == "mismatch")


def test_balance_check_with_an_overdraft_and_nothing_else() -> None:
    made, _ = one(statement(("opening", -50), ("closing", 50)), entry(100))
    assert made.balance_check == "ok"
    made, _ = one(statement(("opening", 50)), entry(100))
    assert made.balance_check == "not_available"


def test_foreign_entry_makes_the_check_impossible_and_is_told() -> None:
    made, collected = one(statement(("opening", 0), ("closing", 0)), entry(100, currency="USD"))
    assert made.balance_check == "not_available"
    assert [p.code for p in collected.problems] == ["currency_mismatch"]


def test_net_amount_moves_the_account() -> None:
    made, _ = one(statement(), entry(100, currency="USD", net=Money(80, "EUR", "debit")))
    assert (made.booked.credit_count, made.booked.debit_minor) == (0, 80)


def test_currency_of_the_first_entry_stands_in() -> None:
    made, _ = one(statement(currency=None), entry(100, currency="SEK"))
    assert made.currency == "SEK"


@pytest.mark.parametrize(
    ("fields", "head", "on", "code"),
    [
        ({"value_on": date(2026, 1, 9)}, statement(("closing", 1), created_at="2026-02-03T10:00:00"), 9, None),
        ({}, statement(("closing", 1), created_at="2026-02-03T10:00:00"), 2, "date_assumed"),
        ({}, statement(created_at="2026-01-03T10:00:00"), 3, "date_assumed"),
    ],
)
def test_no_booking_date(fields: dict[str, object], head: Statement, on: int, code: str | None) -> None:
    _, collected = one(head, entry(booking_on=None, **fields))
    assert collected.entries[0][0].booking_on == date(2026, 1, on)
    assert [p.code for p in collected.problems] == ([code] if code else [])


@pytest.mark.parametrize("created", [None, "soon"])
def test_no_date_at_all_is_rejected(created: str | None) -> None:
    made, collected = one(statement(created_at=created), entry(booking_on=None), entry())
    assert [(p.code, p.rejects) for p in collected.problems] == [("missing_date", True)]
    assert (made.transaction_count, collected.entries[0][0].index) == (1, 0)


def test_true_twins_are_counted_per_statement() -> None:
    first, second = statement(), statement(index=1)
    collected = run(
        first,
        entry(),
        entry(),
        entry(101),
        StatementEnd(first),
        second,
        entry(statement=1),
        StatementEnd(second),
    )
    assert [e.occurrence for e in collected.entries[0]] == [0, 1, 0]
    assert [e.occurrence for e in collected.entries[1]] == [0]
    assert collected.entries[1][0].identity_value == collected.entries[0][0].identity_value
    assert collected.entries[0][0].identity_value == collected.entries[0][0].fingerprint.hex()


def test_occurrences_of_statements_whose_rows_interleave() -> None:
    first, second = statement(), statement(index=1, account="DE2")
    collected = run(first, second, entry(), entry(statement=1), entry(), StatementEnd(second), StatementEnd(first))
    assert [e.occurrence for e in collected.entries[0]] == [0, 1]
    assert [e.occurrence for e in collected.entries[1]] == [0]


def test_declared_identity_is_the_banks() -> None:
    _, collected = one(statement(), entry(external_id="X1"), entry(external_id="X1"), entry(external_id="X2"))
    assert [(e.identity_kind, e.identity_value, e.occurrence) for e in collected.entries[0]] == [
        ("bank", "X1", 0),
        ("bank", "X1", 1),
        ("bank", "X2", 0),
    ]


def test_bank_reference_with_other_content_is_none() -> None:
    def banked(minor: int, **fields: object) -> Entry:
        return entry(minor, bank_reference="B", identity_kind="bank", identity_value="B", **fields)

    _, collected = one(statement(), banked(100), banked(100), banked(100, value_on=DAY), banked(5))
    kinds = [(e.identity_kind, e.occurrence) for e in collected.entries[0]]
    assert kinds == [("bank", 0), ("bank", 1), ("bank", 2), ("fingerprint", 0)]
    assert [(p.code, p.entry, p.rejects) for p in collected.problems] == [("identity_reused", 3, False)]


def continuity(*heads: Statement) -> list[tuple[str, int | None]]:
    collected = run(*(item for head in heads for item in (head, StatementEnd(head))))
    return [(p.code, p.statement) for p in collected.problems if p.code.startswith("statement_")]


def dated(index: int, opening: int, closing: int, day: int, **fields: object) -> Statement:
    made = statement(("opening", opening), ("closing", closing), index=index, **fields)
    made.balances[1].on = date(2026, 1, day)
    # Continuity is what these tests are about, so their entries are not there and the check would complain.
    return made


def test_continuity_is_by_date_and_not_by_place() -> None:
    assert continuity(dated(0, 5, 7, 3), dated(1, 1, 5, 2)) == []
    assert continuity(dated(0, 1, 5, 2), dated(1, 6, 7, 3)) == [("statement_gap", 1)]
    assert continuity(dated(0, 6, 7, 3), dated(1, 1, 5, 2)) == [("statement_gap", 0)]


def test_continuity_by_sequence_overlap_and_per_account() -> None:
    assert continuity(dated(0, 1, 5, 2, sequence_number="7"), dated(1, 6, 7, 3, sequence_number="8")) == []
    assert continuity(dated(0, 1, 5, 2), dated(1, 1, 5, 2)) == [("statement_overlap", 1)]
    spans = {"from_on": date(2026, 1, 1), "to_on": date(2026, 1, 9)}
    assert continuity(dated(0, 1, 5, 2, **spans), dated(1, 3, 9, 3, **spans)) == [("statement_overlap", 1)]
    assert continuity(dated(0, 1, 5, 2), dated(1, 6, 7, 3, account="DE2")) == []
    assert continuity(dated(0, 1, 5, 2, kind="interim"), dated(1, 6, 7, 3, kind="interim")) == []


def test_too_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_RECORDS_MAX", 2)
    one(statement(), entry(), Skipped("a"))
    with pytest.raises(PayloadTooLargeError):
        one(statement(), entry(), Skipped("a"), Problem("b", rejects=True))
    with pytest.raises(PayloadTooLargeError):
        run(*(statement(index=i) for i in range(3)))


def test_time_counts_only_while_reading() -> None:
    now = [0.0]
    budget = TimeBudget(lambda: now[0])
    budget.resume()
    now[0] = 9.0
    budget.pause()
    now[0] = 99.0
    budget.resume()
    budget.check(0)
    now[0] = 100.5
    budget.check(1024 * 1024)
    with pytest.raises(UnreadableFileError) as raised:
        budget.check(0)
    assert raised.value.reason == "time_limit"


def test_a_page_counts_its_own_lines_whatever_else_is_in_the_file() -> None:
    number: dict[str, object] = {"sequence_number": "7", "is_page": True}
    first = statement(("opening", 0), ("closing", 200), page_number=1, **number)
    second = statement(("opening", 200), ("closing", 300), index=1, page_number=2, **number)
    entries = [entry(), entry(), entry(statement=1)]
    run(first, *entries[:2], StatementEnd(first), second, entries[2], StatementEnd(second))
    assert [e.occurrence for e in entries] == [0, 1, 0]


def test_entries_that_come_to_more_than_can_be_stored_are_refused() -> None:
    most, rest = divmod(SUM_MINOR_MAX, AMOUNT_MINOR_MAX)
    entries = [entry(AMOUNT_MINOR_MAX, status="pending"), *(entry(AMOUNT_MINOR_MAX) for _ in range(most - 1))]
    made, _ = one(statement(), *entries, entry(rest), entry(rest, direction="debit"))
    assert made.booked.credit_minor + made.pending.credit_minor == SUM_MINOR_MAX
    with pytest.raises(UnreadableFileError) as refused:
        one(statement(), *entries, entry(rest + 1))
    assert refused.value.reason == "amount_out_of_range"
