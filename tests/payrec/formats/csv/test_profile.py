"""The profile of a table: what is wrong is told by JSON pointer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from payrec.constants import PROFILE_MATCHED_LENGTH_MAX, PROFILE_PATTERN_LENGTH_MAX
from payrec.errors import ValidationFailedError
from payrec.formats.csv.profile import compile_match, validate_profile

FULL: dict[str, Any] = {
    "format": "csv",
    "encoding": "windows-1250",
    "delimiter": ";",
    "decimal": ",",
    "headerRow": 3,
    "footerRows": 1,
    "sheet": "Umsätze",
    "dateOrder": "dmy",
    "dateFormat": "%d.%m.%Y",
    "currency": "EUR",
    "account": "DE89370400440532013000",
    "sign": "as_is",
    "impliedDecimals": 2,
    "direction": {"column": "S/H", "credit": ["H"], "debit": ["S"]},
    "skipWhen": [{"column": 3, "matches": "^Summe", "rule": "total_row"}],
    "pendingWhen": {"column": "Info", "matches": "vorgemerkt"},
    "columns": {"bookingDate": 0, "amount": "Betrag", "remittance": ["Zweck", 4], "counterpartyName": "Name"},
    "bai2": {"directions": {"920": "debit"}},
    "metadata": ["Kostenstelle", 7],
}


def test_every_key_is_known_and_every_key_may_be_absent() -> None:
    validate_profile({})
    validate_profile(FULL)
    for key in FULL:
        validate_profile({k: v for k, v in FULL.items() if k != key})
    validate_profile({"headerRow": None, "columns": {"remittance": "Text"}})


@pytest.mark.parametrize(
    ("profile", "pointer"),
    [
        ({"unknown": 1}, "/profile/unknown"),
        ({"a/b~c": 1}, "/profile/a~1b~0c"),
        ({"format": "xls"}, "/profile/format"),
        ({"encoding": "base64"}, "/profile/encoding"),
        ({"encoding": "no-such"}, "/profile/encoding"),
        ({"encoding": "a\0b"}, "/profile/encoding"),
        ({"delimiter": ";;"}, "/profile/delimiter"),
        ({"delimiter": '"'}, "/profile/delimiter"),
        ({"delimiter": "\n"}, "/profile/delimiter"),
        ({"decimal": "'"}, "/profile/decimal"),
        ({"headerRow": 0}, "/profile/headerRow"),
        ({"headerRow": True}, "/profile/headerRow"),
        ({"footerRows": -1}, "/profile/footerRows"),
        ({"footerRows": 10**9}, "/profile/footerRows"),
        ({"dateOrder": "ydm"}, "/profile/dateOrder"),
        ({"dateFormat": "%d"}, "/profile/dateFormat"),
        ({"currency": "XXZ"}, "/profile/currency"),
        ({"account": ""}, "/profile/account"),
        ({"account": 5}, "/profile/account"),
        ({"sign": "inverse"}, "/profile/sign"),
        ({"impliedDecimals": "2"}, "/profile/impliedDecimals"),
        ({"direction": []}, "/profile/direction"),
        ({"direction": {"credit": ["C"]}}, "/profile/direction/column"),
        ({"direction": {"column": 1, "credit": "C"}}, "/profile/direction/credit"),
        ({"direction": {"column": 1, "credit": [1]}}, "/profile/direction/credit/0"),
        ({"direction": {"column": 1, "mark": []}}, "/profile/direction/mark"),
        ({"skipWhen": {}}, "/profile/skipWhen"),
        ({"skipWhen": [{"column": 1, "matches": "x"}]}, "/profile/skipWhen/0/rule"),
        ({"skipWhen": [{"column": 1, "matches": "(", "rule": "a"}]}, "/profile/skipWhen/0/matches"),
        ({"skipWhen": [{"column": 1, "matches": "x", "rule": "A b"}]}, "/profile/skipWhen/0/rule"),
        ({"skipWhen": ["x"]}, "/profile/skipWhen/0"),
        ({"pendingWhen": {"column": -1, "matches": "x"}}, "/profile/pendingWhen/column"),
        ({"columns": []}, "/profile/columns"),
        ({"columns": {"betrag": 1}}, "/profile/columns/betrag"),
        ({"columns": {"amount": 512}}, "/profile/columns/amount"),
        ({"columns": {"amount": True}}, "/profile/columns/amount"),
        ({"columns": {"amount": None}}, "/profile/columns/amount"),
        ({"columns": {"amount": ["a"]}}, "/profile/columns/amount"),
        ({"columns": {"remittance": ["a", {}]}}, "/profile/columns/remittance/1"),
        ({"bai2": {"directions": {"920": "in"}}}, "/profile/bai2/directions/920"),
        ({"bai2": {"directions": {"x": "debit"}}}, "/profile/bai2/directions/x"),
        ({"bai2": {"directions": 5}}, "/profile/bai2/directions"),
        ({"metadata": "a"}, "/profile/metadata"),
        ({"metadata": ["a"] * 51}, "/profile/metadata"),
    ],
)
def test_a_wrong_key_is_named_by_its_pointer(profile: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        validate_profile(profile)
    assert pointer in [error.pointer for error in refused.value.errors]


def test_all_wrong_keys_are_told_at_once() -> None:
    with pytest.raises(ValidationFailedError) as refused:
        validate_profile({"sign": 1, "decimal": 2, "other": 3})
    assert len(refused.value.errors) == 3


@pytest.mark.parametrize("key", sorted(FULL))
@pytest.mark.parametrize("value", [None, 1.5, [], {}, "", "\0", [[]], {"x": {}}, -1, True, [None], float("nan")])
def test_no_value_of_any_key_breaks_the_check(key: str, value: object) -> None:
    try:
        validate_profile({key: value})
    except ValidationFailedError as error:
        assert all(e.pointer.startswith(f"/profile/{key}") for e in error.errors)  # noqa: PT017  # either outcome is fine


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*$", r"(a)\1", "(?=a)", "a*b*c*d", "a" * (PROFILE_PATTERN_LENGTH_MAX + 1), "(a*){2}", "[", "a**"],
)
def test_a_pattern_whose_time_has_no_bound_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"may not|must|is not"):
        compile_match(pattern)


def test_the_worst_pattern_that_is_allowed_is_quick() -> None:
    began = time.process_time()
    assert compile_match("a*a*b").search("a" * PROFILE_MATCHED_LENGTH_MAX) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "cell"),
    [("Pending", "PENDING"), ("^Total", "Total: 5"), ("a.*b", "xaYbx"), (r"[*+{]", "+"), (r"\+{1}", "+")],
)
def test_a_pattern_is_looked_for_anywhere_in_any_case(pattern: str, cell: str) -> None:
    assert compile_match(pattern).search(cell)
