"""The application: routers, the gate around them, the one way to render errors. Nothing happens at import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from payrec import __version__, openapi
from payrec.console import details, month_end, overview, review, sign_in, unmatched
from payrec.console import imports as imports_page
from payrec.console import matches as matches_page
from payrec.console import search as search_page
from payrec.console.rendering import Pages
from payrec.errors import (
    BadRequestError,
    ConflictError,
    FieldError,
    IdempotencyInProgressError,
    MatchRunInProgressError,
    MethodNotAllowedError,
    NotFoundError,
    PayrecError,
    ValidationFailedError,
)
from payrec.factory import Factory
from payrec.gate.gate import CLIENT_CLOSED_REQUEST, Gate
from payrec.handlers import (
    accounts,
    aliases,
    api_keys,
    audit_log,
    calibration,
    data_sources,
    docs,
    erasures,
    events,
    expected_transactions,
    exports,
    fx_rates,
    health,
    imports,
    incoming_transactions,
    jobs,
    match_alternatives,
    match_candidates,
    match_decisions,
    match_imports,
    match_records,
    match_rejections,
    matches,
    period_locks,
    postings,
    reconciliations,
    remittance_advices,
    reports,
    snapshots,
    tenants,
    tokens,
    upload_previews,
    webhooks,
)
from payrec.problems import MEDIA_TYPE, problem_response, request_id_of
from payrec.services.validation import field_errors
from payrec.services.work import ReplayedAnswer

ROUTERS = (
    health.router,
    tokens.router,
    api_keys.router,
    tenants.router,
    # Before the transactions, of which one could have the id "snapshots".
    snapshots.router,
    expected_transactions.router,
    incoming_transactions.router,
    upload_previews.router,
    data_sources.router,
    accounts.router,
    reconciliations.router,
    period_locks.router,
    postings.router,
    imports.router,
    match_candidates.router,
    matches.router,
    match_decisions.router,
    match_imports.router,
    match_alternatives.router,
    calibration.router,
    aliases.router,
    match_rejections.router,
    match_records.router,
    fx_rates.router,
    remittance_advices.router,
    reports.router,
    events.router,
    webhooks.router,
    jobs.router,
    exports.router,
    audit_log.router,
    erasures.router,
)

CONSOLE_ROUTERS = (
    sign_in.router,
    overview.router,
    review.router,
    matches_page.router,
    imports_page.router,
    month_end.router,
    unmatched.router,
    search_page.router,
    details.router,
)
"""The pages for people."""

TEMPORARY_CONFLICTS: Final = (IdempotencyInProgressError, MatchRunInProgressError)
"""Conflicts that trying again solves; every other one is the request's final answer."""


def create_app(factory: Factory) -> Gate:
    """Return the whole application for one process: the gate, and FastAPI behind it.

    Raises
    ------
    ConfigurationError
        A setting cannot work; it shall end the start, not the first request.
    """
    factory.verifier, factory.identity_provider  # noqa: B018 - made here, so that they are refused here
    api = create_api(factory)
    return Gate(api, factory=factory, metrics=factory.context.metrics, refused=api.state.pages.refused)


def create_api(factory: Factory) -> FastAPI:
    """Return what is behind the gate; by itself it only knows how to describe itself."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await factory.context.database.open()
        try:
            async with factory.key_usage.flushed():
                yield
        finally:
            await factory.verifier.aclose()
            await factory.identity_provider.aclose()
            await factory.context.aclose()

    app = FastAPI(
        title="payrec",
        version=__version__,
        description=openapi.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.pages = Pages(factory.context.config)
    routers: tuple[APIRouter, ...] = (*ROUTERS, docs.router, *CONSOLE_ROUTERS)
    for router in routers:
        app.include_router(router)
    if factory.context.config.embeds_identity_provider:
        app.include_router(_embedded_identity_provider(factory))
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    _handle_errors(app)
    return app


def _embedded_identity_provider(factory: Factory) -> Any:
    from payrec.embedded.identity import DatabaseIdentityStore, create_embedded_router  # noqa: PLC0415 - development only

    config = factory.context.config
    return create_embedded_router(
        issuer=factory.issuer,
        audience=config.idp_audience,
        client_id=config.idp_client_id,
        client_secret=factory.idp_client_secret,
        store=DatabaseIdentityStore(factory.context.database),
        encryption_key=config.encryption_key.get_secret_value().encode(),
        clock=factory.context.clock.now,
        passwords=factory.context.passwords,  # type: ignore[arg-type]
    )


def _handle_errors(app: FastAPI) -> None:
    logger = structlog.get_logger("payrec.errors")
    pages: Pages = app.state.pages

    @app.exception_handler(PayrecError)
    async def ours(request: Request, error: PayrecError) -> Response:
        response = pages.refused(error, request.scope)
        try:
            await _heed_idempotency(request, error, response)
        except ReplayedAnswer as answer:
            return _replayed(answer)
        except PayrecError as earlier:
            return problem_response(earlier, request_id=request_id_of(request))
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        if any(e["type"] == "json_invalid" for e in error.errors()):
            return problem_response(BadRequestError(), request_id=request_id_of(request))
        return await ours(request, ValidationFailedError.of(*_fields(error)))

    @app.exception_handler(ReplayedAnswer)
    async def replayed(_request: Request, answer: ReplayedAnswer) -> Response:
        return _replayed(answer)

    @app.exception_handler(ClientDisconnect)
    async def gone(_request: Request, _error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    @app.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        known: dict[int, PayrecError] = {404: NotFoundError(), 405: MethodNotAllowedError([])}
        return pages.refused(known.get(error.status_code, BadRequestError()), request.scope)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        logger.error("request.crashed", exc_info=error)
        return pages.refused(PayrecError("the request could not be completed"), request.scope)


async def _heed_idempotency(request: Request, error: PayrecError, response: Response) -> None:
    """Do what the Idempotency-Key of a refused request demands, or raise the answer that it demands instead."""
    state = request.scope["state"]
    caller = state["caller"]
    if caller.idempotency is None:
        return
    work = state["factory"].work
    in_control = request.url.path.startswith(("/tenants", "/auth"))
    if error.status == ValidationFailedError.status:
        # A key that came before with another body is told before what is wrong with this one.
        await work.check(caller, in_control=in_control)
    elif error.status == ConflictError.status and not isinstance(error, TEMPORARY_CONFLICTS):
        headers = {"Content-Type": MEDIA_TYPE}
        body = bytes(response.body).decode()
        await work.keep_refusal(caller, in_control=in_control, status=error.status, body=body, headers=headers)


def _fields(error: RequestValidationError) -> list[FieldError]:
    """Return pointers into the body, and names of parameters."""
    return [
        replace(field, pointer=field.pointer.removeprefix("/")) if raw["loc"][0] in {"query", "header"} else field
        for raw in error.errors()
        for field in field_errors([raw], skip=1)
    ]


def _replayed(answer: ReplayedAnswer) -> Response:
    stored = answer.answer
    return Response(
        stored.body or "{}",
        status_code=stored.status or 202,
        headers={**stored.headers, "Idempotency-Replayed": "true"},
        media_type="application/json",
    )
