"""Where a table does not say enough, the refusal asks a question, and any of its alternatives is an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from payrec.constants import QUESTION_ALTERNATIVES_MAX, QUESTION_LABEL_LENGTH_MAX
from payrec.domain.settings import merged
from support.service import Service, Tenant
from support.wire import count, problem
from support.xlsx_files import table, workbook

pytestmark = pytest.mark.anyio

UPLOAD = "/incoming-transactions/upload"
RAW = {"Content-Type": "application/octet-stream"}
QUESTIONS_MAX = 4
"""Questions that one file may ask before it is read."""

Row = tuple[str, int, str]
"""Booking date, signed minor units, currency."""

FINNISH = ("Aika", "Selite", "Summa")
HEADER_BELOW = (
    "preamble;\n" * 45 + "Date;Text;Amount;Currency\n2026-03-02;rent;-1.50;EUR\n2026-03-03;invoice;2.50;EUR\n"
)


@pytest.fixture(scope="module")
async def tenant(service: Service) -> Tenant:
    return await service.tenant("questions", environments=["production"])


async def upload(tenant: Tenant, content: bytes, options: dict[str, Any], path: str = UPLOAD) -> Any:
    said = {k: v if isinstance(v, str) else json.dumps(v) for k, v in options.items()}
    return await tenant.post(path, headers=RAW, content=content, params=said)


async def asked(tenant: Tenant, content: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the question of a refused upload, and its reason."""
    answer = await upload(tenant, content, options)
    assert answer.status_code == 422, answer.text
    body = problem(answer)
    assert body["code"] == "unreadable_file"
    question: dict[str, Any] = body["question"]
    assert set(question) <= {"option", "text", "alternatives", "others"}
    assert 1 <= len(question["alternatives"]) <= QUESTION_ALTERNATIVES_MAX
    examples = [alternative["example"] for alternative in question["alternatives"]]
    assert len(set(examples)) == len(examples)
    assert all(set(alternative) == {"value", "example"} for alternative in question["alternatives"])
    return question, body["reason"]


def answered(options: dict[str, Any], question: dict[str, Any], value: Any) -> dict[str, Any]:
    """Set what the question asks for, and nothing else."""
    return merged(options, {question["option"]: value})


async def stored(tenant: Tenant, content: bytes, options: dict[str, Any]) -> list[Row]:
    """Upload a file and return what was stored of it, as an account of its own."""
    answer = await upload(tenant, content, {**options, "account": f"A{uuid4().hex}"})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body["counts"]["rejected"] == 0, body["errors"]
    listed = (await tenant.get("/incoming-transactions", params={"importId": body["id"]})).json()["data"]
    signs = {"credit": 1, "debit": -1}
    return sorted((r["bookingDate"], r["amountMinor"] * signs[r["direction"]], r["currency"]) for r in listed)


CASES: list[tuple[str, bytes, dict[str, Any], list[tuple[Any, list[Row]]]]] = [
    (
        "csv_ambiguous_dates",
        b"Date;Text;Amount;Currency\n03/04/2026;rent;-1.50;EUR\n05/06/2026;invoice;2.50;EUR\n",
        {"option": "dateOrder", "text": "Which part of a date comes first, the day or the month?"},
        [
            ("dmy", [("2026-04-03", -150, "EUR"), ("2026-06-05", 250, "EUR")]),
            ("mdy", [("2026-03-04", -150, "EUR"), ("2026-05-06", 250, "EUR")]),
        ],
    ),
    (
        "csv_ambiguous_decimals",
        b"Date;Text;Amount;Currency\n2026-03-02;rent;-1.230;EUR\n2026-03-03;invoice;2.500;EUR\n",
        {"option": "profile"},
        [
            ({"decimal": "."}, [("2026-03-02", -123, "EUR"), ("2026-03-03", 250, "EUR")]),
            ({"decimal": ","}, [("2026-03-02", -123_000, "EUR"), ("2026-03-03", 250_000, "EUR")]),
        ],
    ),
    (
        "csv_sign_contradicts_balance",
        (
            b"Date;Text;Amount;Currency;Balance\n2026-03-02;a;10.00;EUR;90.00\n2026-03-03;b;-5.00;EUR;95.00\n"
            b"2026-03-04;c;20.00;EUR;75.00\n"
        ),
        {"option": "profile"},
        [
            (
                {"sign": "inverted"},
                [("2026-03-02", -1000, "EUR"), ("2026-03-03", 500, "EUR"), ("2026-03-04", -2000, "EUR")],
            ),
            (
                {"sign": "as_is"},
                [("2026-03-02", 1000, "EUR"), ("2026-03-03", -500, "EUR"), ("2026-03-04", 2000, "EUR")],
            ),
        ],
    ),
    (
        "csv_ambiguous_delimiter",
        b"Date^Text^Amount^Currency\n2026-03-02^rent^-1.50^EUR\n2026-03-03^invoice^2.50^EUR\n",
        {"option": "profile"},
        [({"delimiter": "^"}, [("2026-03-02", -150, "EUR"), ("2026-03-03", 250, "EUR")])],
    ),
    (
        "csv_no_header",
        HEADER_BELOW.encode(),
        {"option": "profile", "text": "Which row names the columns?"},
        [({"delimiter": ";", "headerRow": 46}, [("2026-03-02", -150, "EUR"), ("2026-03-03", 250, "EUR")])],
    ),
    (
        "csv_no_header",
        b"2026-03-02;rent;-1.50;9.50;EUR\n2026-03-03;invoice;2.50;12.00;EUR\n",
        {"option": "profile", "others": "any column, by its number from 0 or its heading"},
        [
            (
                {
                    "delimiter": ";",
                    "headerRow": None,
                    "columns": {"bookingDate": 0, "amount": 2, "remittance": [1], "currency": 4},
                },
                [("2026-03-02", -150, "EUR"), ("2026-03-03", 250, "EUR")],
            ),
            (
                {
                    "delimiter": ";",
                    "headerRow": None,
                    "columns": {"bookingDate": 0, "amount": 3, "remittance": [1], "currency": 4},
                },
                [("2026-03-02", 950, "EUR"), ("2026-03-03", 1200, "EUR")],
            ),
        ],
    ),
    (
        "csv_no_header",
        b"2026-03-02;rent;1.50;;EUR\n2026-03-03;invoice;;2.50;EUR\n",
        {"option": "profile"},
        [
            (
                {
                    "delimiter": ";",
                    "headerRow": None,
                    "columns": {"bookingDate": 0, "debit": 2, "credit": 3, "remittance": [1], "currency": 4},
                },
                [("2026-03-02", -150, "EUR"), ("2026-03-03", 250, "EUR")],
            ),
            (
                {
                    "delimiter": ";",
                    "headerRow": None,
                    "columns": {"bookingDate": 0, "debit": 3, "credit": 2, "remittance": [1], "currency": 4},
                },
                [("2026-03-02", 150, "EUR"), ("2026-03-03", -250, "EUR")],
            ),
        ],
    ),
    (
        # Headings in a language that nobody knows here: what is known of them is kept, the rest is asked for.
        "csv_no_header",
        "Päivä;Selite;Määrä;Kulut;Currency\n2026-03-02;vuokra;-1,50;-0,10;EUR\n2026-03-03;lasku;2,50;-0,20;EUR\n".encode(),
        {"option": "profile"},
        [
            (
                {
                    "delimiter": ";",
                    "headerRow": 1,
                    "columns": {"bookingDate": 0, "amount": 2, "remittance": [1]},
                },
                [("2026-03-02", -150, "EUR"), ("2026-03-03", 250, "EUR")],
            ),
            (
                {
                    "delimiter": ";",
                    "headerRow": 1,
                    "columns": {"bookingDate": 0, "amount": 3, "remittance": [1]},
                },
                [("2026-03-02", -10, "EUR"), ("2026-03-03", -20, "EUR")],
            ),
        ],
    ),
    (
        "csv_no_currency",
        b"Date;Text;Amount\n2026-03-02;rent;-$1.50\n2026-03-03;invoice;$2.50\n",
        {"option": "currency", "others": "any ISO 4217 code"},
        [
            ("USD", [("2026-03-02", -150, "USD"), ("2026-03-03", 250, "USD")]),
            ("CAD", [("2026-03-02", -150, "CAD"), ("2026-03-03", 250, "CAD")]),
        ],
    ),
    (
        "csv_ambiguous_dates",
        workbook(table(("03/04/2026", "rent", -1.5, "EUR"), ("05/06/2026", "invoice", 2.5, "EUR"))),
        {"option": "dateOrder"},
        [
            ("dmy", [("2026-04-03", -150, "EUR"), ("2026-06-05", 250, "EUR")]),
            ("mdy", [("2026-03-04", -150, "EUR"), ("2026-05-06", 250, "EUR")]),
        ],
    ),
    (
        "csv_no_header",
        workbook(table(("2026-03-02", "vuokra", -1.5), ("2026-03-03", "lasku", 2.5), headings=FINNISH)),
        {"option": "profile"},
        [
            (
                {"headerRow": 1, "columns": {"bookingDate": 0, "amount": 2, "remittance": [1]}},
                [("2026-03-02", -150, "SEK"), ("2026-03-03", 250, "SEK")],
            )
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "content", "told", "answers"), CASES, ids=lambda v: v if isinstance(v, str) else "")
async def test_an_alternative_of_the_question_is_all_that_is_missing(
    tenant: Tenant, reason: str, content: bytes, told: dict[str, Any], answers: list[tuple[Any, list[Row]]]
) -> None:
    question, why = await asked(tenant, content, {})
    assert why == reason
    assert {name: question[name] for name in told} == told
    values = [alternative["value"] for alternative in question["alternatives"]]
    for value, expected in answers:
        assert value in values
        options = answered({}, question, value)
        # A workbook without a currency asks for it next.
        if expected[0][2] == "SEK":
            question_of_currency, _ = await asked(tenant, content, options)
            options = answered(options, question_of_currency, "SEK")
        assert await stored(tenant, content, options) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"03/04/2026;a;1.230\n05/06/2026;b;2.500\n",
        b"Aika;Selite;Summa\n03/04/2026;a;1.230\n05/06/2026;b;2.500\n",
        b"Date^Text^Amount\n03/04/2026^a^1.230\n05/06/2026^b^2.500\n",
    ],
)
@pytest.mark.parametrize("pick", [lambda found: found[0], lambda found: found[-1]], ids=["first", "last"])
async def test_question_after_question_a_file_is_read(
    tenant: Tenant, content: bytes, pick: Callable[[list[Any]], Any]
) -> None:
    options: dict[str, Any] = {}
    reasons: list[str] = []
    while (await upload(tenant, content, options)).status_code != 201:
        question, reason = await asked(tenant, content, options)
        options = answered(options, question, pick(question["alternatives"])["value"])
        reasons.append(reason)
        assert len(reasons) <= QUESTIONS_MAX, reasons
    assert len(set(reasons)) == len(reasons)
    assert {"csv_no_currency", "csv_ambiguous_dates"} <= set(reasons)


async def test_the_answer_fits_the_profile_of_a_data_source_and_the_preview_asks_too(tenant: Tenant) -> None:
    content = b"Date;Text;Amount\n2026-03-02;rent;-1.230\n2026-03-03;invoice;2.500\n"
    made = await tenant.post("/data-sources", {"name": "asks", "kind": "upload", "profile": {"currency": "EUR"}})
    source = made.json()
    options = {"dataSourceId": source["id"]}
    preview = await upload(tenant, content, options, f"{UPLOAD}/preview")
    question, _ = await asked(tenant, content, options)
    assert problem(preview)["question"] == question
    answer = {question["option"]: question["alternatives"][1]["value"]}
    patched = await tenant.request("PATCH", f"/data-sources/{source['id']}", json=answer)
    assert patched.json()["profile"] == {"currency": "EUR", "decimal": ","}
    assert [row[1] for row in await stored(tenant, content, options)] == [-123_000, 250_000]


async def test_the_question_stays_with_the_failed_import(tenant: Tenant) -> None:
    content = CASES[0][1] + b"07/08/2026;kept;1.00;EUR\n"
    question, _ = await asked(tenant, content, {})
    [failed, *_] = (await tenant.get("/imports", params={"status": "failed"})).json()["data"]
    assert failed["error"]["question"] == question


async def test_a_question_echoes_headings_alone_short_and_clean(tenant: Tenant) -> None:
    """A record with digits may be content, so nothing of it is told, whatever stands there."""
    secret = "Sekretny"
    long = "Otsikko " * 20
    content = f"{secret} 42;{secret};{long}\n2026-03-02;{secret};-1.50\n2026-03-03;{secret};2.50\n".encode()
    question, _ = await asked(tenant, content, {"currency": "EUR"})
    assert secret not in json.dumps(question)
    # Nor of a record that somebody takes for the header.
    question, _ = await asked(tenant, content, {"currency": "EUR", "profile": {"headerRow": 1}})
    assert secret not in json.dumps(question)
    content = f"Aika;Sel\x07ite;{long}\n2026-03-02;{secret};-1.50\n2026-03-03;{secret};2.50\n".encode()
    question, _ = await asked(tenant, content, {"currency": "EUR"})
    [example] = [alternative["example"] for alternative in question["alternatives"]]
    assert secret not in json.dumps(question)
    assert f'"{long[:QUESTION_LABEL_LENGTH_MAX]}"' in example
    assert long[: QUESTION_LABEL_LENGTH_MAX + 1] not in example


async def test_a_file_with_many_columns_asks_no_endless_question(tenant: Tenant) -> None:
    cells = ";".join(f"{number}.50" for number in range(100))
    content = f"2026-03-02;2026-03-02;{cells}\n2026-03-03;2026-03-03;{cells}\n".encode()
    question, _ = await asked(tenant, content, {})
    assert len(question["alternatives"]) == QUESTION_ALTERNATIVES_MAX


async def test_one_tenant_s_answer_is_not_another_s(acme: Tenant, globex: Tenant) -> None:
    content = b"Date;Text;Amount;Currency\n03/04/2026;rent;-1.50;EUR\n"
    question, _ = await asked(acme, content, {})
    assert (await upload(acme, content, answered({}, question, "dmy"))).status_code == 201
    assert (await asked(globex, content, {}))[0] == question


async def test_a_doubt_that_the_last_row_brings_has_stored_nothing(service: Service, tenant: Tenant) -> None:
    other = await service.tenant("questions2", environments=["production"])
    sale = "2026-03-02,SALE,1.00,EUR,INV-1\n"
    content = f"Date,Type,Amount,Currency,Reference\n{sale * 6_000}{sale.replace('SALE', 'REFUND')}".encode()
    before = await count(service, tenant, "incoming_transaction")
    question, reason = await asked(tenant, content, {})
    assert (reason, await count(service, tenant, "incoming_transaction")) == ("csv_ambiguous_sign", before)
    source = await other.post("/data-sources", {"name": "p", "kind": "upload", "profile": {"sign": "as_is"}})
    for asker, options, out in (
        (tenant, answered({}, question, question["alternatives"][0]["value"]), 1),
        (other, {"dataSourceId": source.json()["id"]}, 0),
    ):
        body = (await upload(asker, content, options)).json()
        assert body["counts"]["accepted"] == 6_001
        listed = await asker.get("/incoming-transactions", params={"importId": body["id"], "direction": "debit"})
        assert len(listed.json()["data"]) == out
