"""Cursors: what is in one, what is taken for one, and which page they lead to."""

from __future__ import annotations

import base64
import time
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
from starlette.requests import Request

from payrec.constants import CURSOR_LENGTH_MAX, TEXT_LENGTH_MAX
from payrec.domain.scope import TenantScope
from payrec.errors import InvalidCursorError, ValidationFailedError
from payrec.handlers.context import query_of
from payrec.models.common import ListQuery, Public
from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.services.paging import Listing, Pager, link_header
from payrec.storage.listing import SortKey

ITEMS, LINES = "/expected-transactions", "/incoming-transactions"
ID = UUID(int=7)
PAGER = Pager(key=b"a key of thirty-two bytes for it")
OTHER_KEY = Pager(key=b"another key of thirty-two bytes!")
BY_VALUE = SortKey(expression="value", descending=False, name="value")
SORTS = {
    "value": BY_VALUE,
    "createdAt": SortKey(expression="id", descending=False),
    "-createdAt": SortKey(expression="id", descending=True),
}


def scope_of(tenant: int, environment: str = "production") -> TenantScope:
    return TenantScope(
        tenant_id=UUID(int=tenant),
        environment_id=UUID(int=2),
        environment=environment,
        slug="",
        schema_name="",
        role_name="",
    )


ACME, GLOBEX = scope_of(1), scope_of(3)


class Row(Public):
    id: UUID


def listing(query: ListQuery, scope: TenantScope | None = ACME, collection: str = ITEMS) -> Listing:
    return PAGER.listing(collection, query, SORTS, scope)


def cursor_of(value: Any = None, scope: TenantScope | None = ACME, **given: Any) -> str:
    rows = [{"id": UUID(int=n), "value": "not the last"} for n in (5, 6)] + [{"id": ID, "value": value}]
    cursor = listing(ListQuery(**given), scope).page(Row, rows, more=True).next_cursor
    assert cursor is not None
    return cursor


def refused(cursor: str, scope: TenantScope | None = ACME, collection: str = ITEMS, **given: Any) -> None:
    query = ListQuery(cursor=cursor, **given)
    with pytest.raises(InvalidCursorError):
        listing(query, scope, collection)
    with pytest.raises(InvalidCursorError):
        PAGER.check(collection, query, scope)


def test_a_page_says_what_follows_it() -> None:
    rows = [{"id": UUID(int=n), "value": n} for n in (1, 2)]
    last = listing(ListQuery()).page(Row, rows, more=False)
    assert ([row.id for row in last.data], last.has_more, last.next_cursor) == ([UUID(int=1), UUID(int=2)], False, None)
    made = [Row(id=ID)]
    page = listing(ListQuery()).page(Row, rows, more=True, data=made)
    assert (page.data, page.has_more, type(page.next_cursor)) == (made, True, str)
    assert listing(ListQuery()).page(Row, rows, more=False, data=()).data == []


def test_without_a_cursor_a_list_begins_with_the_newest() -> None:
    request = listing(ListQuery(limit=3)).request
    assert (request.limit, request.sort, request.after) == (3, SORTS["-createdAt"], None)
    assert listing(ListQuery(sort="value")).request.sort is BY_VALUE
    PAGER.check(ITEMS, ListQuery(), ACME)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (-5, -5),
        ('Ärzte "&" Söhne\t😀', 'Ärzte "&" Söhne\t😀'),
        (date(2026, 3, 1), "2026-03-01"),
        (datetime(2026, 3, 1, 1, tzinfo=UTC), "2026-03-01T01:00:00+00:00"),
        (None, None),
    ],
)
def test_a_cursor_leads_behind_the_last_row_of_its_page(value: Any, read: Any) -> None:
    cursor = cursor_of(value, sort="value")
    query = ListQuery(sort="value", cursor=cursor, limit=9)
    PAGER.check(ITEMS, query, ACME)
    request = listing(query).request
    assert (request.limit, request.sort, request.after) == (9, BY_VALUE, {"id": str(ID), "value": read})
    # By the order of creation there is nothing but the id to go on from.
    by_id = ListQuery(cursor=cursor_of("said by nobody"))
    assert listing(by_id).request.after == {"id": str(ID), "value": None}


def test_a_cursor_of_the_release_before_is_good() -> None:
    """Who pages through a list while the service is upgraded need not begin anew."""
    cursor = "F8tf8STnJsOPAT0KJw551VsiMDAwMDAwMDAtMDAwMC0wMDAwLTAwMDAtMDAwMDAwMDAwMDA3Iiwiw4QiXQ"
    assert cursor_of("Ä", sort="value") == cursor
    assert cursor_of(scope=None) == "DzUDDc6n5NjjLjsYOJyg8VsiMDAwMDAwMDAtMDAwMC0wMDAwLTAwMDAtMDAwMDAwMDAwMDA3IixudWxsXQ"
    assert listing(ListQuery(sort="value", cursor=cursor)).request.after == {"id": str(ID), "value": "Ä"}


def test_a_cursor_is_good_where_a_release_declares_its_filters_in_another_order() -> None:
    class Before(ListQuery):
        currency: str = "EUR"
        direction: str = "credit"

    class After(ListQuery):
        direction: str = "credit"
        currency: str = "EUR"

    page = listing(Before()).page(Row, [{"id": ID}], more=True)
    assert listing(After(cursor=page.next_cursor)).request.after == {"id": str(ID), "value": None}


def test_the_longest_name_makes_no_more_than_a_cursor_may_be() -> None:
    assert len(cursor_of("😀" * TEXT_LENGTH_MAX, sort="value")) <= CURSOR_LENGTH_MAX
    assert len(cursor_of("ß" * TEXT_LENGTH_MAX, sort="value")) < len(cursor_of("😀" * TEXT_LENGTH_MAX, sort="value"))


def test_a_cursor_is_good_for_its_list_alone() -> None:
    cursor = cursor_of("x", sort="value")
    refused(cursor, sort="value", scope=GLOBEX)
    refused(cursor, sort="value", scope=scope_of(1, "test"))
    refused(cursor, sort="value", scope=None)
    refused(cursor, sort="value", collection=LINES)
    refused(cursor, sort="-createdAt")
    refused(cursor, sort="value", createdFrom="2026-03-01T00:00:00Z")
    with pytest.raises(InvalidCursorError):
        OTHER_KEY.check(ITEMS, ListQuery(cursor=cursor, sort="value"), ACME)
    control = cursor_of(scope=None)
    PAGER.check(ITEMS, ListQuery(cursor=control), None)
    refused(control)


@pytest.mark.parametrize("length", range(6))
def test_what_nobody_has_signed_is_refused(length: int) -> None:
    """Of each length that base64 may have, with letters that it does not have, and with less than a signature."""
    cursor = cursor_of("x" * length, sort="value")
    PAGER.check(ITEMS, ListQuery(cursor=cursor, sort="value"), ACME)
    middle = len(cursor) // 2
    for other in (
        "",
        cursor[:-1],
        cursor[:20],
        cursor + "A",
        cursor + "=A",
        cursor[:middle] + "!" + cursor[middle:],
        cursor[:middle] + "\n" + cursor[middle:],
        cursor + " ",
        " " + cursor,
        "é" + cursor,
        "A" * length,
    ):
        refused(other, sort="value")
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for at in range(len(raw)):
        touched = bytes([*raw[:at], raw[at] ^ 1, *raw[at + 1 :]])
        refused(base64.urlsafe_b64encode(touched).rstrip(b"=").decode(), sort="value")


def test_the_link_is_of_the_next_page_of_the_same_list() -> None:
    query = ExpectedTransactionQuery(
        limit=2, cursor="before", overdue=True, counterparty="A & Ö", createdFrom="2026-03-01T00:00:00Z"
    )
    link = link_header(ITEMS, query, "be-hind_")
    assert link.startswith(f"<{ITEMS}?")
    assert link.endswith('>; rel="next"')
    # What nobody has asked for is not in it, and the cursor is the next one.
    assert dict(parse_qsl(link.removeprefix(f"<{ITEMS}?").partition(">")[0])) == {
        "limit": "2", "cursor": "be-hind_", "overdue": "True", "counterparty": "A & Ö",
        "createdFrom": "2026-03-01T00:00:00Z",
    }  # fmt: skip


async def read(query: str, scope: TenantScope = ACME) -> ExpectedTransactionQuery:
    state = {"factory": SimpleNamespace(pager=PAGER), "caller": SimpleNamespace(scope=scope)}
    asked = {"type": "http", "path": ITEMS, "headers": [], "query_string": query.encode(), "state": state}
    return await query_of(ExpectedTransactionQuery)(Request(asked))


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", ["limit=0", "nope=1", "a/b=1", "a~b=1", "n" * 101, "limit=1&limit=1"])
async def test_a_cursor_of_another_list_is_told_before_what_else_is_wrong(wrong: str) -> None:
    cursor = cursor_of(sort="-createdAt")
    with pytest.raises(ValidationFailedError) as its_own:
        await read(f"{wrong}&cursor={cursor}")
    [field] = its_own.value.errors
    assert not field.pointer.startswith("/"), "a parameter has a name, and no place in a body"
    with pytest.raises(ValidationFailedError):
        await read(wrong)
    for query, scope in (
        (f"{wrong}&cursor={cursor}", GLOBEX),
        (f"{wrong}&cursor=x", ACME),
        (f"{wrong}&cursor={cursor}&direction=credit", ACME),
    ):
        with pytest.raises(InvalidCursorError):
            await read(query, scope)


@pytest.mark.anyio
async def test_a_cursor_that_is_too_long_is_none_whatever_else_is_wrong() -> None:
    too_long = f"cursor={'x' * (CURSOR_LENGTH_MAX + 1)}"
    for wrong in (too_long, f"limit=0&{too_long}"):
        with pytest.raises(InvalidCursorError):
            await read(wrong)
    # But for what keeps all others from being looked at.
    with pytest.raises(ValidationFailedError) as twice:
        await read(f"limit=1&limit=1&sort=nope&{too_long}")
    assert [(field.pointer, field.code) for field in twice.value.errors] == [("limit", "given_twice")]


@pytest.mark.anyio
async def test_a_parameter_that_is_given_very_often_is_refused_in_no_time() -> None:
    """All requests of a process wait while one is read."""
    began = time.process_time()
    with pytest.raises(ValidationFailedError) as refusal:
        await read("limit=1&" + "b&a&" * 16_000)
    assert time.process_time() - began < 1
    [field] = refusal.value.errors
    assert (field.pointer, field.code, field.detail) == ("a", "given_twice", "is given twice")
    assert refusal.value.detail == "1 field is invalid"
    with pytest.raises(ValidationFailedError) as refusal:
        await read(f"{'a' * 101}&{'a' * 101}")
    assert [field.pointer for field in refusal.value.errors] == ["a" * 100], "no more of a name is told"
