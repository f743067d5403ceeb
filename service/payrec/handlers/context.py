"""What every handler gets: who asks, and the factory. And how it answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from fastapi import Body, Depends, Header, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from payrec.domain.caller import Caller
from payrec.errors import FieldError, InvalidCursorError, PayloadTooLargeError, PayrecError, ValidationFailedError
from payrec.factory import Factory
from payrec.models.common import ListQuery, NothingGiven, Page
from payrec.models.imports import ImportPublic
from payrec.models.snapshots import SnapshotPublic
from payrec.services.paging import link_header
from payrec.services.validation import validated

A = TypeVar("A")
Q = TypeVar("Q", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request, as the gate admitted it."""

    factory: Factory
    request: Request

    @property
    def caller(self) -> Caller:
        """Who asks; once a file has been received, a repetition is known by that file as well."""
        caller: Caller = self.request.scope["state"]["caller"]
        return caller


async def request_context(request: Request) -> RequestContext:
    """Return what the gate left in the request's state."""
    return RequestContext(factory=request.scope["state"]["factory"], request=request)


async def if_match(
    request: Request, given: Annotated[str | None, Header(alias="If-Match", max_length=1000)] = None
) -> str | None:
    """Return the header's versions, of all its lines (RFC 9110, 5.3)."""
    return given and ", ".join(request.headers.getlist("if-match"))


Context = Annotated[RequestContext, Depends(request_context)]
ResourceId = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
"""An id in a path; one that cannot be an id is an unknown one (404), which the service says."""
IfMatch = Annotated[str | None, Depends(if_match)]


async def _nothing_given(_given: Annotated[NothingGiven | None, Body()] = None) -> None:
    """Refuse a body with fields."""


NOTHING_GIVEN = Depends(_nothing_given)
"""For a POST whose address says everything: without a body, or with an empty object."""


async def while_asked(context: RequestContext, answer: Coroutine[Any, Any, A]) -> A:
    """Return what is read for the client, or give it up when the client goes away: the database does so too.

    For what may look at all that is open, and of which nothing is stored.

    Raises
    ------
    ClientDisconnect
    """
    reading, leaving = asyncio.create_task(answer), asyncio.create_task(_left(context.request))
    try:
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise ClientDisconnect
        return reading.result()
    finally:
        reading.cancel()
        leaving.cancel()
        await asyncio.wait((reading, leaving))


async def _left(request: Request) -> None:
    """Return when the client has gone away; a body, which nobody asked for, is passed over."""
    while True:
        with contextlib.suppress(PayloadTooLargeError):
            if (await request.receive())["type"] == "http.disconnect":
                return


def query_of(model: type[Q]) -> Callable[[Request], Awaitable[Q]]:
    """Return the dependency that reads the query parameters of a list or a report.

    The same rules as FastAPI's own query models, at a fifth of their time; ``query_parameters`` documents them.
    """

    async def read(request: Request) -> Q:
        try:
            return _read(model, request.query_params.multi_items())
        except ValidationFailedError as error:
            wrong = [replace(field, pointer=field.pointer.removeprefix("/")) for field in error.errors]
            if issubclass(model, ListQuery):
                _check_cursor(request, model, frozenset(field.pointer for field in wrong))
            raise ValidationFailedError(error.detail, errors=wrong) from None

    return read


def once(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return parameters by name.

    Raises
    ------
    ValidationFailedError
        One of them is given twice.
    """
    given = dict(pairs)
    if len(given) != len(pairs):
        twice = min(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        detail = "is given twice"
        raise ValidationFailedError.of(FieldError(pointer=twice[:100], code="given_twice", detail=detail))
    return given


def _read(model: type[Q], pairs: Sequence[tuple[str, str]]) -> Q:
    return validated(model, once(pairs))


def _check_cursor(request: Request, model: type[ListQuery], wrong: frozenset[str]) -> None:
    """Tell that a cursor is not ours before what is wrong with the other parameters, which are left out for this."""
    known = {field.alias for field in model.model_fields.values()} - wrong
    given = {name: value for name, value in request.query_params.items() if name in known}
    if "cursor" in wrong:
        raise InvalidCursorError
    if "cursor" in given:
        state = request.scope["state"]
        # A parameter that is given twice has kept the others from being looked at: what is wrong with them has time.
        with contextlib.suppress(ValidationFailedError):
            state["factory"].pager.check(request.url.path, validated(model, given), state["caller"].scope)


def query_parameters(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI parameters of a query."""
    schema = model.model_json_schema(by_alias=True)
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": _plain(field)}
            for name, field in schema["properties"].items()
        ]
    }


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without null, which a query cannot say."""
    choices = [c for c in field.get("anyOf", ()) if c.get("type") != "null"]
    kept = {k: v for k, v in field.items() if k not in {"anyOf", "title"} and v is not None}
    return {**(choices[0] if len(choices) == 1 else {}), **kept}


def respond(body: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a resource."""
    return Response(
        body.model_dump_json(by_alias=True),
        status_code=status,
        headers=dict(headers or {}),
        media_type="application/json",
    )


def respond_page(
    context: RequestContext, page: Page[Any], query: ListQuery, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a page, and the Link to the next one."""
    headers = dict(headers or {})
    if page.next_cursor is not None:
        headers["Link"] = link_header(context.request.url.path, query, page.next_cursor)
    return respond(page, headers=headers)


def respond_import(created: ImportPublic | SnapshotPublic, status: int) -> Response:
    """Answer an upload: with its import or snapshot, or with the job that a worker does for it (202)."""
    location = f"/jobs/{created.job_id}" if status == 202 else created.location
    return respond(created, status, {**created.headers, "Location": location})


def problems(*errors: type[PayrecError]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for errors of the service's own; the gate's are added to every operation."""
    found: dict[int | str, dict[str, Any]] = {}
    for status, kinds in _by_status(errors).items():
        codes = ", ".join(sorted({kind.code for kind in kinds}))
        found[status] = {
            "description": codes,
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return found


def _by_status(errors: Sequence[type[PayrecError]]) -> dict[int, list[type[PayrecError]]]:
    found: dict[int, list[type[PayrecError]]] = {}
    for error in errors:
        found.setdefault(error.status, []).append(error)
    return found
