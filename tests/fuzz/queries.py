"""The parameters of every list and report, as a request brings them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from starlette.requests import Request

import payrec.main  # noqa: F401 - loads the models of all routes
from fuzz.cases import UNSTORABLE, finished, words
from payrec.errors import InvalidCursorError, ValidationFailedError
from payrec.handlers.context import query_of
from payrec.models.common import AsOfQuery, ListQuery
from payrec.models.forms import FormQuery
from payrec.models.reports import ReportQuery
from payrec.services.paging import link_header
from payrec.services.validation import check_amount_filters


def read_query(model: type[BaseModel], text: bytes) -> BaseModel:
    """Return the parameters as a handler gets them."""
    state = {"factory": None, "caller": None}
    scope = {"type": "http", "query_string": text, "path": "/x", "headers": [], "state": state}
    return finished(query_of(model)(Request(scope)))


def _kinds(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for kind in model.__subclasses__():
        yield from _kinds(kind)


QUERIES: Final = {
    kind.__name__: kind for base in (ListQuery, AsOfQuery, FormQuery, ReportQuery) for kind in _kinds(base)
}
"""By name, every model of parameters."""


def check_query(data: bytes) -> None:
    """Read the parameters of a list; the case is the name of its model and a query string."""
    name, text = words(data)
    model = QUERIES.get(name)
    if model is None:
        return
    try:
        query = read_query(model, text.encode("utf-8", "surrogateescape"))
        if hasattr(query, "amount_min"):
            check_amount_filters(query)
    except (ValidationFailedError, InvalidCursorError) as error:
        error_fields = error.errors
    else:
        _check_taken(model, query)
        return
    assert all(len(field.pointer) <= 200 for field in error_fields)


def _check_taken(model: type[BaseModel], query: BaseModel) -> None:
    # An order and a cursor are compared with what there is, not looked for.
    for value in _texts(query.model_dump(exclude={"sort", "cursor"})):
        assert not UNSTORABLE.search(value), "a text that cannot be looked for"
    if isinstance(query, ListQuery):
        json.dumps(query.filters())
        link = link_header("/x", query, "next")
        assert link.isascii()
        following = read_query(model, link.removeprefix("</x?").partition(">")[0].encode())
        assert isinstance(following, ListQuery)
        assert following.filters() == query.filters(), "the next page is one of another list"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _texts(inner)
