"""How people come in and go out: the sign-in page, the way to the identity provider and back, and files for pages."""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from payrec.console.rendering import Pages, local, page_url, redirect, sign_in_url, takes_gzip
from payrec.errors import CrossSiteRequestError, IdentityProviderUnavailableError, NotFoundError, PayrecError
from payrec.gate.console import CONSOLE, LINK_OF, Cookies, check_same_site, check_same_user
from payrec.handlers.bodies import form_or_json
from payrec.handlers.context import Context, RequestContext
from payrec.models.tokens import TokenRequest
from payrec.services.console_sessions import ConsoleSession
from payrec.services.identity_provider import TokenGrant
from payrec.services.validation import validated

router = APIRouter(include_in_schema=False)


@router.get(CONSOLE)
async def home(context: Context) -> Response:
    """Go to the overview of the most serious environment that is open to who is signed in."""
    session = _session(context)
    if session is None or not session.environments:
        return redirect(sign_in_url(CONSOLE))
    return redirect(page_url(session.environments[0], "overview"))


@router.get(CONSOLE + "/sign-in")
async def sign_in(context: Context) -> Response:
    """Show how to sign in.

    Who follows a link from another site comes without the session, because its cookie is strict: a page of ours that
    goes on by itself to where the link leads brings it along.
    """
    next_path = local(context.request.query_params.get("next", CONSOLE))
    if context.request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return _pages(context).bare(context.request, "hop.html", next=next_path)
    return await _sign_in_page(context, next_path)


@router.post(CONSOLE + "/sign-in")
async def with_password(context: Context) -> Response:
    """Sign in by a username and a password, in development alone; as often as ``/auth/token`` lets it be tried."""
    _check_origin(context)
    if not context.factory.context.config.is_development:
        raise NotFoundError
    form = dict(await form_or_json(context.request))
    next_path = local(form.pop("next", CONSOLE))
    client = context.request.client
    try:
        given = validated(TokenRequest, form)
        granted = await context.factory.create_token_service().grant(given, address=client.host if client else "")
        return await _signed_in(context, granted, redirect(next_path))
    except PayrecError as error:
        return await _sign_in_page(context, next_path, error=error, username=str(form.get("username", ""))[:200])


@router.post(CONSOLE + "/authorise")
async def authorise(context: Context) -> Response:
    """Go to the identity provider, with a challenge that only this browser's cookie can answer (RFC 7636)."""
    _check_origin(context)
    form = await form_or_json(context.request)
    provider, config = context.factory.identity_provider, context.factory.context.config
    endpoint = await provider.authorization_endpoint() if config.public_base_url else None
    if endpoint is None:
        raise NotFoundError
    sessions = context.factory.console_sessions
    begun = sessions.begin_sign_in(next_path=local(form.get("next", CONSOLE)))
    asked = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": _redirect_uri(context),
        "scope": "openid",
        "state": begun.state,
        "code_challenge": begun.challenge,
        "code_challenge_method": "S256",
    }
    # A page of ours goes on to the provider: a form may end at this site alone, and so may what it is redirected to.
    answer = _pages(context).bare(context.request, "hop.html", next=_asking(endpoint, asked))
    cookies, sealed = Cookies(config), sessions.seal_sign_in(begun)
    gone = sessions.crowded_out(cookies.sign_ins_of(context.request.scope), by=sealed)
    return _with(answer, cookies.sign_in(begun.state, sealed, crowded_out=gone))


@router.get(CONSOLE + "/callback")
async def callback(context: Context) -> Response:
    """Come back from the identity provider."""
    query, config = context.request.query_params, context.factory.context.config
    cookies, state = Cookies(config), query.get("state", "")
    begun = context.factory.console_sessions.open_sign_in(cookies.sign_in_of(context.request.scope, state))
    if begun is None or not hmac.compare_digest(begun.state.encode(), state.encode()):
        # Most of these are slow, or have gone back: the next one begins where they are told so.
        error = CrossSiteRequestError("the sign-in was not begun here, or took too long")
        return await _sign_in_page(context, CONSOLE, error=error)
    if not await context.factory.identity_provider.has_answered(query.get("iss")):
        raise CrossSiteRequestError("the answer is not that of the identity provider")
    if "code" not in query:
        return _with(redirect(sign_in_url(begun.next)), cookies.sign_in(begun.state, ""))
    # The browser has come from another site: only a page of ours goes on with the strict cookie that it gets here.
    hop = _pages(context).bare(context.request, "hop.html", next=begun.next)
    try:
        granted = await context.factory.identity_provider.code_grant(
            query["code"], verifier=begun.verifier, redirect_uri=_redirect_uri(context)
        )
        answer = await _signed_in(context, granted, hop)
    except PayrecError as refused:
        answer = await _sign_in_page(context, begun.next, error=refused)
    return _with(answer, cookies.sign_in(begun.state, ""))


@router.post(CONSOLE + "/sign-out")
async def sign_out(context: Context) -> Response:
    """End the session in this browser, and the one at the identity provider where it has begun there.

    Otherwise the next one at this screen would press the button of the sign-in, and be in without a password. What a
    page of somebody else asks for ends nobody's.
    """
    _check_origin(context)
    session, sessions = _session(context, also_over=True), context.factory.console_sessions
    # The form of a refused page says nobody, and sends nothing, as that of a release before this one.
    form = await form_or_json(context.request) if await context.request.body() else {}
    if session is not None:
        check_same_user(form.get(LINK_OF), session)
    location = await _end_session_url(context, session)
    # A page of ours goes on to the provider, as at the sign-in.
    answer = (
        redirect(f"{CONSOLE}/sign-in")
        if location is None
        else _pages(context).bare(context.request, "hop.html", next=location)
    )
    mark = "" if session is None else sessions.mark(session, itself=True)
    cookies = Cookies(context.factory.context.config)
    return _with(answer, cookies.session([]) + cookies.ended(mark))


@router.get(CONSOLE + "/signed-in")
async def signed_in(context: Context) -> Response:
    """Tell other tabs that somebody has signed in, so that they go on with what waits there."""
    session = _session(context)
    if session is None:
        return redirect(sign_in_url(f"{CONSOLE}/signed-in"))
    return _pages(context).bare(context.request, "signed_in.html", user_id=str(session.user_id))


@router.get(CONSOLE + "/static/{version}/{file}")
async def static(request: Request, version: str, file: str) -> Response:
    """Return a style or a script."""
    pages: Pages = request.app.state.pages
    return pages.static.answer(version, file, takes_gzip=takes_gzip(request))


async def _sign_in_page(context: RequestContext, next_path: str, **values: Any) -> Response:
    config = context.factory.context.config
    error: PayrecError | None = values.get("error")
    offers_provider = False
    try:
        if config.public_base_url:
            offers_provider = await context.factory.identity_provider.authorization_endpoint() is not None
    except PayrecError as unreachable:
        error = error or unreachable
    shown = {"username": "", **values, "error": error, "next": next_path, "offers_provider": offers_provider}
    status = error.status if error is not None else 200
    answer = _pages(context).bare(
        context.request, "sign_in.html", status, offers_password=config.is_development, **shown
    )
    answer.headers.update({} if error is None else {k: v for k, v in error.headers.items() if k == "Retry-After"})
    return answer


async def _signed_in(context: RequestContext, granted: TokenGrant, answer: Response) -> Response:
    sessions = context.factory.console_sessions
    session = await sessions.begin(granted, request_id=context.caller.request_id)
    cookies = Cookies(context.factory.context.config)
    # Whoever was signed in before in this browser is not any more.
    return _with(answer, cookies.session(sessions.seal(session)) + cookies.ended(sessions.mark(session, itself=False)))


def _session(context: RequestContext, *, also_over: bool = False) -> ConsoleSession | None:
    cookies, scope = Cookies(context.factory.context.config), context.request.scope
    return context.factory.console_sessions.open(
        cookies.session_of(scope), ended=cookies.ended_of(scope), also_over=also_over
    )


def _check_origin(context: RequestContext) -> None:
    config = context.factory.context.config
    check_same_site(context.request.method, context.request.headers, config, by_script=False)


def _redirect_uri(context: RequestContext) -> str:
    return f"{context.factory.context.config.base_url}{CONSOLE}/callback"


async def _end_session_url(context: RequestContext, session: ConsoleSession | None) -> str | None:
    """Return where what a session has begun at the provider ends (OpenID Connect RP-Initiated Logout 1.0, section 2).

    None where there is none, or the provider cannot be asked: the session here ends all the same.
    """
    config, provider = context.factory.context.config, context.factory.identity_provider
    if session is None or session.id_token is None or not config.public_base_url:
        return None
    try:
        endpoint = await provider.end_session_endpoint()
    except IdentityProviderUnavailableError:
        endpoint = None
    if endpoint is None:
        return None
    asked = {"client_id": provider.client_id, "post_logout_redirect_uri": f"{config.base_url}{CONSOLE}/sign-in"}
    return _asking(endpoint, asked | ({"id_token_hint": session.id_token} if session.id_token else {}))


def _asking(endpoint: str, asked: dict[str, str]) -> str:
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"


def _pages(context: RequestContext) -> Pages:
    pages: Pages = context.request.app.state.pages
    return pages


def _with(answer: Response, cookies: list[tuple[bytes, bytes]]) -> Response:
    answer.raw_headers.extend(cookies)
    return answer
