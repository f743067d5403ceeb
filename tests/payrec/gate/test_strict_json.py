"""JSON as the interface takes it: what other parsers let through is refused before anybody looks at it."""

from __future__ import annotations

import contextlib
import json
import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import JSON_BODY_BYTES_MAX, JSON_DEPTH_MAX
from payrec.errors import BadRequestError
from payrec.gate.strict_json import parse_json, parsed_bytes
from support.service import Tenant
from support.wire import code, fields, problem

JSON = {"Content-Type": "application/json"}

NOT_JSON = r"the body is not JSON: line 1, column [0-9]+"
CONSTANT = "NaN and Infinity are not JSON"
TWICE = "an object names a member twice"
NOT_UTF_8 = "the body is not UTF-8"
DEEP = f"the body is nested more than {JSON_DEPTH_MAX} deep"

MALFORMED: dict[str, tuple[bytes, str]] = {
    "nothing but blanks": (b" ", NOT_JSON),
    "cut off": (b'{"direction": "credit"', NOT_JSON),
    "two documents": (b"{} {}", NOT_JSON),
    "NaN": (b'{"amountMinor": NaN}', CONSTANT),
    "Infinity": (b'{"amountMinor": Infinity}', CONSTANT),
    "negative Infinity": (b'{"amountMinor": -Infinity}', CONSTANT),
    "a number beyond the largest": (b'{"amountMinor": 1e999}', "a number is too large"),
    "a name twice": (b'{"currency": "EUR", "currency": "USD"}', TWICE),
    "a name twice, deep": (b'{"metadata": {"a": "1", "a": "2"}}', TWICE),
    "a name twice, once escaped": (b'{"currency": "EUR", "\\u0063urrency": "USD"}', TWICE),
    "invalid UTF-8": (b'{"reference": "\xff\xfe"}', NOT_UTF_8),
    "a surrogate in UTF-8": (b'{"reference": "\xed\xa0\x80"}', NOT_UTF_8),
    "UTF-16": ('{"reference": "x"}'.encode("utf-16"), NOT_UTF_8),
    "a byte order mark": (b"\xef\xbb\xbf{}", NOT_JSON),
    "single quotes": (b"{'direction': 'credit'}", NOT_JSON),
    "a comment": (b'{"direction": "credit" /* here */}', NOT_JSON),
    "a comma at the end": (b'{"direction": "credit",}', NOT_JSON),
    "a control character in a text": (b'{"reference": "a\x00b"}', NOT_JSON),
    "an endless number": (b'{"amountMinor": ' + b"1" * 100_000 + b"}", "a number has too many digits"),
    "deep arrays": (b"[" * 100_000, DEEP),
    "deep objects": (b'{"a":' * 100_000, DEEP),
    "deep and closed": (b"[" * 100_000 + b"]" * 100_000, DEEP),
    "one too deep": (b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1), DEEP),
    "deep behind an escape": (b'["\\"", ' + b"[" * 100_000, DEEP),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.anyio
async def test_what_is_no_json_is_400_and_is_not_echoed(acme: Tenant, name: str) -> None:
    body, said = MALFORMED[name]
    answer = await acme.post("/expected-transactions", headers=JSON, content=body)
    found = problem(answer)
    assert (answer.status_code, found["code"]) == (400, "malformed_body")
    assert re.fullmatch(said, found["detail"])


@pytest.mark.anyio
@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"null", b"true"])
async def test_a_document_that_is_no_object_is_invalid(acme: Tenant, body: bytes) -> None:
    for path in ("/expected-transactions", "/incoming-transactions", "/tenants", "/auth/api-keys"):
        answer = await acme.post(path, headers=JSON, content=body)
        assert (answer.status_code, code(answer)) == (422, "validation_failed"), path
    settings_ = await acme.request("PATCH", f"/tenants/{acme.id}/settings", headers=JSON, content=body)
    assert code(settings_) == "validation_failed"


@pytest.mark.anyio
async def test_a_body_that_is_missing_is_invalid(acme: Tenant) -> None:
    for headers in ({}, JSON):
        answer = await acme.post("/expected-transactions", headers=headers)
        assert (answer.status_code, code(answer)) == (422, "validation_failed")


GOOD: dict[str, Any] = {"direction": "credit", "currency": "EUR", "amountMinor": 100}
NO_AMOUNT: dict[str, Any] = {"direction": "credit", "currency": "EUR"}
INVALID: dict[str, tuple[dict[str, Any], str, str]] = {
    "a float": ({**GOOD, "amountMinor": 100.5}, "/amountMinor", "int_type"),
    "a whole float": ({**GOOD, "amountMinor": 100.0}, "/amountMinor", "int_type"),
    "a string for an integer": ({**GOOD, "amountMinor": "100"}, "/amountMinor", "int_type"),
    "true for an integer": ({**GOOD, "amountMinor": True}, "/amountMinor", "int_type"),
    "a negative integer": ({**GOOD, "amountMinor": -1}, "/amountMinor", "greater_than_equal"),
    "amount as an integer": ({**NO_AMOUNT, "amount": 1}, "/amount", "string_type"),
    "amount as a float": ({**NO_AMOUNT, "amount": 1.5}, "/amount", "string_type"),
    "an exponent": ({**NO_AMOUNT, "amount": "1e2"}, "/amount", "decimal_malformed"),
    "a sign": ({**NO_AMOUNT, "amount": "-1.00"}, "/amount", "decimal_malformed"),
    "a plus": ({**NO_AMOUNT, "amount": "+1.00"}, "/amount", "decimal_malformed"),
    "a comma": ({**NO_AMOUNT, "amount": "1,00"}, "/amount", "decimal_malformed"),
    "blanks": ({**NO_AMOUNT, "amount": " 1.00"}, "/amount", "decimal_malformed"),
    "no digit before the point": ({**NO_AMOUNT, "amount": ".50"}, "/amount", "decimal_malformed"),
    "no digit after it": ({**NO_AMOUNT, "amount": "1."}, "/amount", "decimal_malformed"),
    "other digits": ({**NO_AMOUNT, "amount": "١.٠٠"}, "/amount", "decimal_malformed"),
    "an empty amount": ({**NO_AMOUNT, "amount": ""}, "/amount", "decimal_malformed"),
    "three places of EUR": ({**NO_AMOUNT, "amount": "1.234"}, "/amount", "decimal_max_places"),
    "zeros are places too": ({**NO_AMOUNT, "amount": "1.000"}, "/amount", "decimal_max_places"),
    "places of JPY": ({**NO_AMOUNT, "amount": "1.00", "currency": "JPY"}, "/amount", "decimal_max_places"),
    "four places of KWD": ({**NO_AMOUNT, "amount": "1.0000", "currency": "KWD"}, "/amount", "decimal_max_places"),
    "both amounts": ({**GOOD, "amount": "1.00"}, "/amount", "amount_once"),
    "neither amount": (NO_AMOUNT, "/amountMinor", "amount_once"),
    "a currency that does not exist": ({**GOOD, "currency": "EUX"}, "/currency", "unknown_currency"),
    "an unknown field": ({**GOOD, "amuont": "1.00"}, "/amuont", "extra_forbidden"),
    "snake case": ({**GOOD, "external_id": "x"}, "/external_id", "extra_forbidden"),
    "NUL in a text": ({**GOOD, "reference": "a\0b"}, "/reference", "text_control_characters"),
    "DEL in a text": ({**GOOD, "reference": "a\x7fb"}, "/reference", "text_control_characters"),
    "NUL in metadata": ({**GOOD, "metadata": {"k": "\0"}}, "/metadata/k", "text_control_characters"),
    "a number in metadata": ({**GOOD, "metadata": {"k": 1}}, "/metadata/k", "string_type"),
    "an empty text": ({**GOOD, "reference": ""}, "/reference", "string_too_short"),
    "a long text": ({**GOOD, "reference": "x" * 501}, "/reference", "string_too_long"),
    "a date that does not exist": ({**GOOD, "dueDate": "2025-02-29"}, "/dueDate", "date_malformed"),
    "a date in another form": ({**GOOD, "dueDate": "20250228"}, "/dueDate", "date_malformed"),
    "a date as a number": ({**GOOD, "dueDate": 20250228}, "/dueDate", "date_malformed"),
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.anyio
async def test_a_field_that_is_wrong_is_named_with_its_reason(acme: Tenant, name: str) -> None:
    body, pointer, reason = INVALID[name]
    answer = await acme.post("/expected-transactions", body)
    assert answer.status_code == 422
    assert fields(answer) == {(pointer, reason)}


@pytest.mark.parametrize("escaped", ['"\\ud800"', '"a\\udfffb"', '"\\udc00\\ud800"'])
@pytest.mark.anyio
async def test_a_lone_surrogate_is_refused_wherever_it_is(acme: Tenant, escaped: str) -> None:
    wrong = [
        ("/expected-transactions", f'{{"direction":"credit","amountMinor":1,"currency":"EUR","reference":{escaped}}}'),
        ("/expected-transactions", f'{{"direction":"credit","amountMinor":1,"currency":"EUR",{escaped}:1}}'),
        (
            "/expected-transactions",
            f'{{"direction":"credit","amountMinor":1,"currency":"EUR","metadata":{{{escaped}:"x"}}}}',
        ),
        ("/tenants", f'{{"name":{escaped}}}'),
        ("/auth/token", f'{{"username":{escaped},"password":"x"}}'),
        ("/auth/token", f'{{"username":"x","password":{escaped}}}'),
        ("/auth/api-keys", f'{{"read":true,"name":{escaped}}}'),
        ("/matches/match", f'{{"expectedFilter":{{"reference":{escaped}}}}}'),
    ]
    for path, body in wrong:
        answer = await acme.post(path, headers=JSON, content=body)
        assert (answer.status_code, code(answer)) == (422, "validation_failed"), body
    answer = await acme.request(
        "PATCH", f"/tenants/{acme.id}/settings", headers=JSON, content=f'{{"timezone":{escaped}}}'
    )
    assert code(answer) == "validation_failed"


@pytest.mark.parametrize(
    ("path", "amount"),
    [
        ("/expected-transactions", {"amountMinor": 0}),
        ("/expected-transactions", {"amount": "0.00"}),
        ("/expected-transactions", {"amountMinor": 10**15}),
        ("/expected-transactions", {"amountMinor": 10**30}),
        ("/expected-transactions", {"amount": "10000000000000.00"}),
        ("/incoming-transactions", {"amountMinor": 10**15}),
        ("/incoming-transactions", {"amount": "9999999999999999"}),
    ],
)
@pytest.mark.anyio
async def test_an_amount_out_of_range_has_a_code_of_its_own(acme: Tenant, path: str, amount: dict[str, Any]) -> None:
    body = {**NO_AMOUNT, **amount}
    if path == "/incoming-transactions":
        body["bookingDate"] = "2025-01-02"
    answer = await acme.post(path, body)
    assert (answer.status_code, code(answer)) == (422, "amount_out_of_range")


@pytest.mark.anyio
async def test_the_ends_of_the_range_are_in_it(acme: Tenant) -> None:
    for amount, shown in ((1, "0.01"), (10**15 - 1, "9999999999999.99")):
        made = await acme.post("/expected-transactions", {**NO_AMOUNT, "amountMinor": amount})
        assert (made.status_code, made.json()["amount"], made.json()["amountMinor"]) == (201, shown, amount)
    zero = {**NO_AMOUNT, "amountMinor": 0, "bookingDate": "2025-01-02"}
    made = await acme.post("/incoming-transactions", zero)
    assert (made.json()["status"], made.json()["reasonCode"]) == ("ignored", "zero_amount")


@pytest.mark.parametrize(("currency", "given", "minor"), [("JPY", "5", 5), ("KWD", "1.5", 1500), ("EUR", "1.5", 150)])
@pytest.mark.anyio
async def test_an_amount_may_have_fewer_places_than_the_currency(
    acme: Tenant, currency: str, given: str, minor: int
) -> None:
    made = await acme.post("/expected-transactions", {"direction": "debit", "amount": given, "currency": currency})
    assert (made.status_code, made.json()["amountMinor"]) == (201, minor)


@pytest.mark.parametrize("name", ["minAmountMinor", "maxAmountMinor"])
@pytest.mark.anyio
async def test_every_integer_has_a_bound(acme: Tenant, name: str) -> None:
    answer = await acme.post("/expected-transactions", {**GOOD, name: 10**20})
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    charge = {"amountMinor": 10**20, "currency": "EUR", "direction": "debit"}
    answer = await acme.post("/incoming-transactions", {**GOOD, "bookingDate": "2025-01-02", "charges": [charge]})
    assert fields(answer) == {("/charges/0/amountMinor", "less_than_equal")}


@pytest.mark.anyio
async def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(acme: Tenant) -> None:
    body = json.dumps(GOOD).encode()
    full = body.rjust(JSON_BODY_BYTES_MAX)
    assert (await acme.post("/expected-transactions", headers=JSON, content=full)).status_code == 201
    answer = await acme.post("/expected-transactions", headers=JSON, content=b" " + full)
    assert (answer.status_code, code(answer)) == (413, "payload_too_large")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**38), 10**38) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@settings(max_examples=100, deadline=None)
def test_what_is_json_comes_back_as_it_was(value: Any) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=64) | st.text(alphabet='{}[]",:\\ 1eE.-nulNaIfity\u0000', max_size=64).map(str.encode))
@settings(max_examples=100, deadline=None)
def test_whatever_comes_is_a_value_or_a_typed_error(body: bytes) -> None:
    with contextlib.suppress(BadRequestError):
        parse_json(body)


@pytest.mark.parametrize("beside", ["1", "[]", "{}", '{"a":[[]]}', '"["', '"\\\\[\\"]"'])
def test_of_many_brackets_those_that_are_open_at_once_are_the_nesting(beside: str) -> None:
    """As many as there may be, and not one more, however many were closed before and at whatever depth."""
    for outer in range(1, JSON_DEPTH_MAX - 2):
        begun = "[" * outer + f"{beside}," * JSON_DEPTH_MAX
        inner = JSON_DEPTH_MAX - outer
        fits = begun + "[" * inner + "]" * JSON_DEPTH_MAX
        assert parse_json(fits.encode()) == json.loads(fits)
        with pytest.raises(BadRequestError) as refused:
            parse_json(f"{begun}{'[' * (inner + 1)}{']' * (JSON_DEPTH_MAX + 1)}".encode())
        assert refused.value.detail == DEEP


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_has_forty_characters_at_most(sign: str) -> None:
    longest = sign.ljust(40, "9")
    assert parse_json(longest.encode()) == int(longest)
    with pytest.raises(BadRequestError, match="too many digits"):
        parse_json(f"{longest}9".encode())


@given(st.integers(0, JSON_DEPTH_MAX), st.text(alphabet='[{\\"', max_size=100))
@settings(max_examples=50, deadline=None)
def test_brackets_in_a_text_are_no_nesting(depth: int, text: str) -> None:
    document = "[" * depth + json.dumps(text) + "]" * depth
    parsed = parse_json(document.encode())
    for _ in range(depth):
        [parsed] = parsed
    assert parsed == text


MEMBERS = ("{}", "[]", '{"a":1}', "[1]", "1.1", '"ab"', '"äb"', '{"a":"bc"}', "1234567", f'"Ж{"a" * 50}"')
WIDE = (f'"😀{"a" * 50}"', rf'"\ud83d\ude00{"a" * 50}"', rf'"\u0416{"a" * 50}"')


@pytest.mark.parametrize("member", [*MEMBERS, *WIDE])
def test_no_body_takes_more_memory_than_is_told_of_it(member: str) -> None:
    body = f"[{','.join([member] * 20_000)}]".encode()
    tracemalloc.start()
    try:
        found = parse_json(body)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 20_000
    assert taken <= len(body) + parsed_bytes(body)
