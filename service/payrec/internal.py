"""The internal port of a process: whether it lives, whether it is ready, and its metrics. Never exposed outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from payrec.errors import PayrecError
from payrec.metrics import Metrics

READY_SECONDS_MAX: Final = 3.0
"""How long the check of readiness may take; a probe that waits longer learns nothing more."""


def create_internal_app(
    *, metrics: Metrics, check_ready: Callable[[], Awaitable[None]], measure: Callable[[], Awaitable[None]]
) -> Starlette:
    """Return the three routes. ``check_ready`` returns, or raises PayrecError with what is missing.

    A change of readiness is logged. ``measure`` is done before metrics are shown, and never fails. ``/livez`` asks
    nothing of anybody: a process whose database is away must not be restarted for it.
    """

    async def livez(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    told: str | None = None

    async def readyz(_request: Request) -> Response:
        nonlocal told
        missing: str | None = None
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                await check_ready()
        except PayrecError as error:
            missing = error.detail
        except TimeoutError:
            missing = "the database does not answer in time"
        if missing != told:
            told = missing
            _tell(missing)
        return PlainTextResponse("ok\n") if missing is None else PlainTextResponse(f"{missing}\n", status_code=503)

    async def exposition(_request: Request) -> Response:
        await measure()
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/livez", livez, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", exposition, methods=["GET"]),
        ]
    )


def _tell(missing: str | None) -> None:
    """Log that the process is not ready, or is again: once, however often it is asked."""
    logger = structlog.get_logger("payrec.readiness")
    if missing is None:
        logger.info("readiness.regained")
    else:
        logger.warning("readiness.lost", reason=missing)
