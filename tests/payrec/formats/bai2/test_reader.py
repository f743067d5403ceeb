from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from payrec.constants import AMOUNT_MINOR_MAX, TEXT_LENGTH_MAX
from payrec.errors import UnreadableFileError
from payrec.formats.bai2.reader import READER
from payrec.formats.base import Detected, ReadOptions
from support.bai2_files import DETECTED, codes, entry_of, file_of, head_of, read, rejection_of
from support.samples import parse_sample, requires_samples, truth_of

TRUTH = truth_of("bai2/")
READABLE = [known for known in TRUTH if known["outcome"] == "read"]


@requires_samples
@pytest.mark.parametrize("known", READABLE, ids=lambda known: known["file"])
def test_trailers_of_the_samples_agree(known: dict[str, Any]) -> None:
    found = parse_sample(known)
    assert {p.code for p in found.problems} <= {"bai2_layout", "statement_gap"}
    assert {s.control_totals_check for s in found.statements} <= {"ok", "not_available"}


def test_head_of_a_statement() -> None:
    found = read(file_of(account="03,DE89 3704 0044 0532 0130 00,EUR,010,-5,,,015,-5,,/"))
    (head,) = found.statements
    assert (head.account, head.account_scheme, head.currency) == ("DE89370400440532013000", "iban", "EUR")
    assert (head.kind, head.created_at) == ("statement", "2026-01-03T07:54:00")
    assert head.from_on == head.to_on == date(2026, 1, 2)
    assert [(b.direction, b.amount_minor, b.on) for b in head.balances] == [("debit", 5, date(2026, 1, 2))] * 2
    assert head.balance_check == "ok"
    assert found.version == "2"


@pytest.mark.parametrize(
    ("group", "account", "option", "currency"),
    [
        ("CAD", "EUR", "CHF", "EUR"),
        ("CAD", "", "CHF", "CAD"),
        ("", "", "CHF", "CHF"),
        ("", "", None, "USD"),
    ],
)
def test_currency_of_account_group_caller_and_standard(
    group: str, account: str, option: str | None, currency: str
) -> None:
    text = file_of("16,142,5,,,,A/", group=f"02,A,B,1,260102,,{group},/", account=f"03,1,{account},010,5,,/")
    found = read(text, currency=option)
    assert found.statements[0].currency == currency
    assert found.statements[0].balances[0].currency == currency
    assert found.entries[0][0].currency == currency


def test_unknown_currency_rejects_and_the_account_of_the_caller_stands_in() -> None:
    found = read(file_of("16,142,5,,,,A/", account="03,,XXQ,010,5,,/"), account="77")
    assert [(p.code, p.rejects) for p in found.problems] == [("invalid_balance", False), ("unknown_currency", True)]
    assert (found.statements[0].account, found.statements[0].currency) == ("77", None)


@pytest.mark.parametrize(
    ("code", "direction"),
    [("101", "credit"), ("399", "credit"), ("401", "debit"), ("699", "debit"), ("142", "credit"), ("475", "debit")],
)
def test_direction_of_a_type_code(code: str, direction: str) -> None:
    entry = entry_of(f"16,{code},5,,,,A/")
    assert (entry.direction, entry.bank_transaction_code) == (direction, code)
    # What has a side by itself keeps it.
    other = {"credit": "debit", "debit": "credit"}[direction]
    assert entry_of(f"16,{code},5,,,,A/", profile={"bai2": {"directions": {code: other}}}).direction == direction


@pytest.mark.parametrize("code", ["700", "720", "799", "900", "920", "999", "100", "400", "015"])
def test_type_codes_without_a_side_are_the_profiles(code: str) -> None:
    assert rejection_of(f"16,{code},5,,,,A/") == "unknown_direction"
    assert rejection_of(f"16,{code},5,,,,A/", profile={"bai2": {"directions": {"921": "debit"}}}) == "unknown_direction"
    for side in ("credit", "debit"):
        assert entry_of(f"16,{code},5,,,,A/", profile={"bai2": {"directions": {code: side}}}).direction == side


def test_non_monetary_information_is_skipped_by_name() -> None:
    found = read(file_of("16,890,7,,,,NOTE/", "88,MORE", "16,142,5,,,,A/", trailers=("49,12,5/", "98,,,/", "99,,,/")))
    assert [(s.rule, s.statement, s.line) for s in found.skipped] == [("bai2_non_monetary", 0, 4)]
    assert [e.remittance for e in found.entries[0]] == ["A"]
    assert codes(found) == []


@pytest.mark.parametrize(
    ("funds", "value_on"),
    [
        ("", None),
        ("Z", None),
        ("0", None),
        ("1", None),
        ("2", None),
        ("S,1,2,3", None),
        ("S,,,", None),
        ("V,260105,1200", date(2026, 1, 5)),
        ("V,20260105,", date(2026, 1, 5)),
        ("V,,", None),
        ("D,0", None),
        ("D,2,0,3,1,2", None),
    ],
)
def test_fields_after_the_type_of_funds(funds: str, value_on: date | None) -> None:
    entry = entry_of(f"16,142,5,{funds},B,C,TEXT, 1/2")
    assert (entry.bank_reference, entry.instruction_id, entry.remittance) == ("B", "C", "TEXT, 1/2")
    assert (entry.value_on, entry.booking_on) == (value_on, date(2026, 1, 2))


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ("16,142,,,,,A/", "invalid_amount"),
        ("16,142,1.50,,,,A/", "invalid_amount"),
        ("16,142,1 0,,,,A/", "invalid_amount"),
        ("16,142,--5,,,,A/", "invalid_amount"),
        ("16,142,²,,,,A/", "invalid_amount"),
        (f"16,142,{AMOUNT_MINOR_MAX + 1},,,,A/", "invalid_amount"),
        (f"16,142,{'9' * 5000},,,,A/", "invalid_amount"),
        ("16,,5,,,,A/", "invalid_entry"),
        ("16,14,5,,,,A/", "invalid_entry"),
        ("16/", "invalid_entry"),
        ("16,142,5,Q,,,A/", "invalid_entry"),
        ("16,142,5,D,x,,A/", "invalid_entry"),
        ("16,142,5,D,999,,A/", "invalid_entry"),
        ("16,142,5,V,261301,,,,A/", "invalid_date"),
        ("16,142,5,V,2601,,,,A/", "invalid_date"),
    ],
)
def test_wrong_record_costs_itself_alone(record: str, code: str) -> None:
    assert rejection_of(record) == code


def test_amounts_are_whole_minor_units() -> None:
    assert entry_of("16,142,000000000002500,,,,A/").amount_minor == 2500
    assert entry_of(f"16,142,+{AMOUNT_MINOR_MAX},,,,A/").amount_minor == AMOUNT_MINOR_MAX
    found = read(file_of("16,142,7,,,,A/", account="03,1,JPY,010,0,,,015,7,,/"))
    assert found.statements[0].balance_check == "ok"


def test_negative_amount_is_the_other_side_and_told() -> None:
    found = read(
        file_of("16,142,-5,,,,A/", "16,475,-7,,,,B/", account="03,1,,010,0,,,015,2,,/", trailers=("49,-10,4/",))
    )
    assert [(e.direction, e.amount_minor) for e in found.entries[0]] == [("debit", 5), ("credit", 7)]
    assert codes(found)[:2] == ["negative_amount", "negative_amount"]
    assert (found.statements[0].balance_check, found.statements[0].control_totals_check) == ("ok", "ok")


def test_days_of_30_360_are_clamped() -> None:
    found = read(file_of("16,142,5,V,260230,,,,A/", group="02,A,B,1,260230,,,/"))
    entry = found.entries[0][0]
    assert entry.value_on == entry.booking_on == date(2026, 2, 28)
    assert codes(found) == ["date_clamped", "date_clamped"]


def test_group_without_a_date_takes_the_next_best_and_tells() -> None:
    found = read(file_of("16,142,5,V,260105,,,,A/", "16,142,6,,,,B/", group="02,A,B,1,999999,,,/"))
    assert [e.booking_on for e in found.entries[0]] == [date(2026, 1, 5), date(2026, 1, 3)]
    assert codes(found) == ["invalid_date", "date_assumed"]


def test_totals_of_the_head_are_compared() -> None:
    records = ("16,142,5,,,,A/", "16,142,6,,,,A/", "16,475,7,,,,A/")
    for totals, check in (
        ("100,11,2,,400,7,1,", "ok"),
        ("100,11,2,,400,-7,1,", "ok"),
        ("100,11,,,400,,1,", "ok"),
        ("100,12,2,,400,7,1,", "mismatch"),
        ("100,11,3,,400,7,1,", "mismatch"),
        ("400,8,,", "mismatch"),
        ("100,,,", "not_available"),
    ):
        found = read(file_of(*records, account=f"03,1,,{totals}/"))
        assert found.statements[0].control_totals_check == check, totals
        assert codes(found) == (["control_total_mismatch"] if check == "mismatch" else [])


@pytest.mark.parametrize(
    ("trailers", "mismatches", "check"),
    [
        (("49,35,5/", "98,35,1,7/", "99,35,1,9/"), 0, "ok"),
        (("49,+0035,5/", "98,,,/", "99,35,1,9"), 0, "ok"),
        (("49,36,5/", "98,35,1,7/", "99,35,1,9/"), 1, "mismatch"),
        (("49,35,4/", "98,35,1,7/", "99,35,1,9/"), 1, "mismatch"),
        (("49,x,5/", "98,35,1,7/", "99,35,1,9/"), 1, "mismatch"),
        (("49,35,5/", "98,34,1,7/", "99,35,1,9/"), 1, "ok"),
        (("49,35,5/", "98,35,2,7/", "99,35,1,9/"), 1, "ok"),
        (("49,35,5/", "98,35,1,8/", "99,35,1,9/"), 1, "ok"),
        (("49,35,5/", "98,35,1,7/", "99,3,1,9/"), 1, "ok"),
        (("49,35,5/", "98,35,1,7/", "99,35,2,9/"), 1, "ok"),
        (("49,,/", "98,,,/", "99,,,/"), 0, "not_available"),
    ],
)
def test_trailers_are_compared(trailers: tuple[str, ...], mismatches: int, check: str) -> None:
    found = read(file_of("16,142,20,,,,A/", "88,B", "16,475,10,,,,A/", account="03,1,,010,5,,/", trailers=trailers))
    assert codes(found) == ["control_total_mismatch"] * mismatches
    assert found.statements[0].control_totals_check == check


def test_rejected_record_counts_for_the_trailers_all_the_same() -> None:
    found = read(file_of("16,999,20,,,,A/", "16,142,10,Q/", trailers=("49,30,4/", "98,30,1,6/", "99,30,1,8/")))
    assert codes(found) == ["unknown_direction", "invalid_entry"]


@pytest.mark.parametrize(("status", "rule"), [("2", "bai2_deletion"), ("4", "bai2_test")])
def test_groups_that_report_nothing_are_skipped_by_name(status: str, rule: str) -> None:
    text = file_of(
        "16,142,5,,,,A/", "16,142,x,,,,A/", group=f"02,A,B,{status},260102,,,/", trailers=("49,5,4/", "98,5,1,6/")
    )
    text += "02,A,B,1,260102,,,/\n03,9,,010,0,,/\n16,142,7,,,,B/\n49,7,3/\n98,7,1,5/\n99,12,2,13/\n"
    found = read(text)
    assert [(s.rule, s.statement, s.line) for s in found.skipped] == [(rule, None, 4), (rule, None, 5)]
    assert [(p.code, p.severity, p.line) for p in found.problems] == [(rule, "info", 2)]
    assert [s.account for s in found.statements] == ["9"]
    assert [e.amount_minor for e in found.entries[0]] == [7]


def test_correction_and_interim_data_are_told() -> None:
    found = read(file_of("16,142,5,,,,A/", group="02,A,B,3,260102,,,/"))
    assert codes(found) == ["bai2_correction"]
    for modifier, kind in (
        ("1", "interim"),
        ("2", "statement"),
        ("3", "interim"),
        ("4", "statement"),
        ("", "statement"),
    ):
        assert read(file_of(group=f"02,A,B,1,260102,,,{modifier}/")).statements[0].kind == kind


def test_transaction_outside_an_account_is_rejected() -> None:
    found = read(file_of("16,142,5,,,,A/", "49,5,3/", "16,142,6,,,,B/", "88,C", trailers=("98,5,1,5/", "99,5,1,7/")))
    assert [(p.code, p.rejects, p.line) for p in found.problems] == [("entry_outside_statement", True, 6)]
    assert [e.amount_minor for e in found.entries[0]] == [5]


def test_trailers_of_nothing_and_missing_ones() -> None:
    found = read(file_of(trailers=("49,,/", "49,,/", "98,,,/", "98,,,/", "99,,,/", "99,,,/")))
    assert codes(found) == ["control_total_mismatch"] * 3
    found = read(file_of("03,2,/", "02,A,B,1,260103,,,/", "03,3,/", trailers=()))
    assert codes(found) == ["incomplete_file"] * 6
    assert [s.account for s in found.statements] == ["123", "2", "3"]


def test_two_files_in_one() -> None:
    first = file_of("16,142,5,,,,A/", trailers=("49,5,3/", "98,5,1,5/", "99,5,1,7/"))
    found = read(first + first)
    assert codes(found) == []
    assert [len(found.entries[i]) for i in range(2)] == [1, 1]


def test_bank_reference_repeats_and_is_no_identity() -> None:
    found = read(file_of("16,142,5,,SAME,,A/", "16,142,5,,SAME,,A/", "16,142,6,,SAME,NONREF,A/"))
    assert codes(found) == []
    assert [(e.identity_kind, e.occurrence) for e in found.entries[0]] == [
        ("fingerprint", 0),
        ("fingerprint", 1),
        ("fingerprint", 0),
    ]
    assert found.entries[0][2].instruction_id is None


def test_wrong_balance_is_told_and_never_fatal() -> None:
    for groups, count in (("010,x,,,015,5,,", 1), ("010,5,,,01,5,,", 0), ("010,5,,Q,015,5,,", 0)):
        found = read(file_of("16,142,5,,,,A/", account=f"03,1,,{groups}/"))
        assert codes(found) == ["invalid_balance"], groups
        assert sum(b.type == "closing" for b in found.statements[0].balances) == count
        assert len(found.entries[0]) == 1
    found = read(file_of(account=f"03,{'1' * (TEXT_LENGTH_MAX + 1)},/"))
    assert (codes(found), found.statements[0].account) == (["invalid_balance"], None)


def test_detection_needs_a_file_header_and_a_group_header() -> None:
    def detect(text: str) -> Detected | None:
        return READER.detect(head_of(text.encode()), ReadOptions())

    assert detect(file_of()) == DETECTED
    assert detect("\r\n " + file_of().replace("\n", " ")) == DETECTED
    assert detect("01,A,B,060321,0829,1,80,1,1/\n02,") == Detected("bai2", "1")
    assert detect("01,A,B/\n88,060321,0829,1,80,1,2/\n" + "88,/\n" * 8 + "02,A/") == Detected("bai2")
    assert detect("01,A,B/\n" + "88,/\n" * 10 + "02,A/") is None
    assert detect("01,1111,x,210101,0101\n02,A") == Detected("bai2")
    for other in ("00,1,2/\n02,", "01,a,b\n02,c,d\n", "id,amount\n01,5\n02,6\n", "01,A/\n16,02,", "", "01"):
        assert detect(other) is None, other


def test_version_that_is_not_known_is_told() -> None:
    found = read(file_of("16,142,5,,,,A/").replace(",2/\n02", ",3/\n02", 1))
    assert [(p.code, p.severity) for p in found.problems] == [("unknown_version", "info")]


def test_file_without_an_account_is_refused() -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read("01,B,A,260103,0754,1,,,2/\n02,A,B,1,260102,,,/\n98,0,0,2/\n99,0,1,4/\n")
    assert caught.value.reason == "no_statement"
