"""The routers and routes of all handlers: the gate has read and parsed the body, and FastAPI takes it from there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from enum import Enum
from functools import cached_property
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from payrec.errors import FieldError, ValidationFailedError


class GatedRouter(APIRouter):
    """Routes of one noun; its requests are told by the first segment of their paths.

    FastAPI asks each route of each router in turn, which took a tenth of a request's processor time.
    """

    def __init__(self, *, tags: list[str | Enum]) -> None:
        super().__init__(tags=tags, route_class=GatedRoute)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a route takes the request."""
        if _first_segment(scope["path"]) not in self._first_segments:
            return Match.NONE, {}
        return super().matches(scope)

    @cached_property
    def _first_segments(self) -> frozenset[str]:
        return frozenset(_first_segment(route.path) for route in self.routes if isinstance(route, APIRoute))


def _first_segment(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


class GatedRoute(APIRoute):
    """Hands the gate's parsed body to FastAPI instead of parsing it again."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler that takes the parsed body from the request's state."""
        handler = super().get_route_handler()
        parameters = self._parameters()

        async def gated(request: Request) -> Response:
            _check_parameters(request, parameters)
            state = request.scope.get("state", {})
            if "json" in state:
                # Starlette keeps what it has parsed in this attribute.
                request._json = state["json"]  # noqa: SLF001
            return await handler(request)

        return gated

    def _parameters(self) -> frozenset[str] | None:
        """Return the query parameters that the route takes; None for a list, whose model checks them."""
        declared = frozenset(parameter["name"] for parameter in (self.openapi_extra or {}).get("parameters", ()))
        return None if "cursor" in declared else declared


def _check_parameters(request: Request, known: frozenset[str] | None) -> None:
    """Refuse parameters that the route does not have, as the models of lists do."""
    unknown = () if known is None else sorted(request.query_params.keys() - known)
    if unknown:
        detail = "there is no such parameter"
        raise ValidationFailedError.of(
            *(FieldError(pointer=name[:100], code="extra_forbidden", detail=detail) for name in unknown)
        )
