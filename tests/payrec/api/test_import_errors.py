"""All problems of a file as CSV, whole, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from payrec.storage.imports import ImportStore
from support.service import Service, Tenant
from support.wire import ask, code, fields, rows

pytestmark = pytest.mark.anyio

UPLOAD = "/incoming-transactions/upload"
CSV = {"Accept": "text/csv"}
HEAD = ["line", "statement", "code", "severity", "detail"]


def record(number: int, **more: Any) -> bytes:
    money = {"direction": "credit", "amount": "1.00", "currency": "EUR", "bookingDate": "2025-03-01"}
    return json.dumps({**money, "externalId": f"x{number}", **more}).encode()


async def imported(tenant: Tenant, *lines: bytes) -> dict[str, Any]:
    answer = await tenant.post(UPLOAD, headers={"Content-Type": "application/x-ndjson"}, content=b"\n".join(lines))
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


async def test_the_csv_has_all_problems_that_the_pages_have(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.csv_text.PROBLEMS_READ_AT_ONCE", 50)
    made = await imported(acme, *(record(n, amount="x") for n in range(230)), record(999))
    answer = await acme.get(made["errorsUrl"], headers=CSV)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["vary"] == "Accept"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert f"{made['id']}-errors.csv" in answer.headers["content-disposition"]
    assert answer.text.endswith("\r\n")
    head, *found = table(answer.text)
    paged, url = [], made["errorsUrl"] + "?limit=200"
    while url:
        page = await acme.get(url)
        assert page.headers["vary"] == "Accept"
        paged += page.json()["data"]
        url = page.links["next"]["url"] if "next" in page.links else ""
    assert head == HEAD
    assert found == [["" if p[name] is None else str(p[name]) for name in HEAD] for p in paged]
    assert len(found) == 230


async def test_a_file_without_a_problem_has_a_header_alone(acme: Tenant) -> None:
    made = await imported(acme, record(5_000))
    assert table((await acme.get(made["errorsUrl"], headers=CSV)).text) == [HEAD]


async def test_nothing_in_it_is_a_formula(service: Service, acme: Tenant) -> None:
    made = await imported(acme, record(6_000, amount="x"))
    query = f"UPDATE import_problem SET detail = '=1+1' WHERE import_id = '{made['id']}'"  # noqa: S608 - a test's own
    await rows(service, acme, query)
    text = (await acme.get(made["errorsUrl"], headers=CSV)).text
    assert table(text)[1][-1] == "'=1+1"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/json, text/csv", "application/json"),
        ("text/csv;q=0.4, application/json;q=0.5", "application/json"),
        ("text/csv;q=x", "application/json"),
        ("image/png", "application/json"),
        ("text/csv", "text/csv; charset=utf-8"),
        ("TEXT/CSV; q=0.9, application/json;q=0.8", "text/csv; charset=utf-8"),
        ("text/*, */*;q=0.1", "text/csv; charset=utf-8"),
        ("application/json;q=0, */*", "text/csv; charset=utf-8"),
    ],
)
async def test_the_client_chooses_by_accept(acme: Tenant, accept: str | None, media_type: str) -> None:
    made = await imported(acme, record(5_000))
    headers = {"Accept": accept} if accept is not None else {}
    answer = await ask(acme, "GET", made["errorsUrl"], acme.headers(**headers))
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)


async def test_a_csv_is_no_page(acme: Tenant) -> None:
    made = await imported(acme, record(5_000))
    answer = await acme.get(made["errorsUrl"], headers=CSV, params={"limit": 5, "sort": "line"})
    assert (answer.status_code, fields(answer)) == (422, {("limit", "extra_forbidden"), ("sort", "extra_forbidden")})


async def test_the_problems_of_others_are_unknown(acme: Tenant, globex: Tenant) -> None:
    made = await imported(acme, record(5_000))
    for tenant, environment in ((globex, "production"), (acme, "test")):
        answer = await tenant.get(made["errorsUrl"], environment, headers=CSV)
        assert (answer.status_code, code(answer)) == (404, "not_found")


async def test_a_refusal_is_a_problem_whatever_was_asked_for(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await imported(acme, record(5_000))

    async def broken(*_given: object) -> None:
        raise KeyError("as if a table were missing")

    monkeypatch.setattr(ImportStore, "get", broken)
    answer = await acme.get(made["errorsUrl"], headers=CSV)
    assert (answer.status_code, code(answer)) == (500, "internal_error")
