"""The console's way to the gate: a session cookie becomes the headers that every other client sends itself.

``/console/{environment}/rest/...`` goes on as the request to the REST interface that it is. A browser sends the cookie
with whatever it is made to send, so such a request has to prove that a page of the console has sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.types import Scope

from payrec.config import Config
from payrec.constants.console import COOKIES_MAX, SIGN_IN_NAME_LENGTH
from payrec.domain.principal import ENVIRONMENTS
from payrec.errors import AnotherUserError, CrossSiteRequestError, NotFoundError
from payrec.factory import Factory
from payrec.gate.routes import Access, Route
from payrec.gate.streams import Watch
from payrec.services.console_sessions import ConsoleSession

CONSOLE: Final = "/console"
"""Where the console is; nothing else may begin so."""

PROOF: Final = "x-payrec-console"
"""Header of what a script of the console sends: no other site can make a browser send it without being asked first."""

PAGE_OF: Final = "x-payrec-user"
"""Header with the user whose page a script is of: somebody else may have signed in since, in another tab."""

LINK_OF: Final = "pageOf"
"""The same of a link that takes something away, as a parameter, and of a form, as a field: neither sends a header."""

_SESSION: Final = "payrec_session"
_SIGN_IN: Final = "payrec_sign_in"
_ENDED: Final = "payrec_ended"
_SAFE: Final = frozenset({"GET", "HEAD"})
_REPLACED: Final = frozenset({b"authorization", b"x-api-key", b"x-tenant-id", b"x-environment", b"cookie"})

Header = tuple[bytes, bytes]


class Cookies:
    """The console's cookies. Outside development they are bound to this host and to TLS (``__Host-``)."""

    def __init__(self, config: Config) -> None:
        self._prefix = "" if config.is_development else "__Host-"
        self._attributes = "; Path=/; HttpOnly" + ("" if config.is_development else "; Secure")

    def session_of(self, scope: Scope) -> list[str]:
        """Return the pieces of the session that the browser sent."""
        sent = _sent(scope)
        names = [self._session_name(number) for number in range(COOKIES_MAX)]
        found = [sent.get(name, "") for name in names]
        return found[: found.index("")] if "" in found else found

    def ended_of(self, scope: Scope) -> str:
        """Return the mark of the sessions that are over in this browser, empty where none is known."""
        return _sent(scope).get(self._prefix + _ENDED, "")

    def sign_in_of(self, scope: Scope, state: str) -> str:
        """Return the sign-in of a state that is under way, empty where there is none."""
        sent = _sent(scope)
        # A release before this one had one name for all.
        return sent.get(self._sign_in_name(state)) or sent.get(self._prefix + _SIGN_IN, "")

    def sign_ins_of(self, scope: Scope) -> dict[str, str]:
        """Return all sign-ins that are under way, by the names of their cookies: each tab may have one."""
        return {name: text for name, text in _sent(scope).items() if name.startswith(f"{self._prefix}{_SIGN_IN}_")}

    def session(self, pieces: list[str]) -> list[Header]:
        """Return the headers that make the browser carry a session, and nothing of an earlier one."""
        kept = [self._set(self._session_name(i), piece, "Strict") for i, piece in enumerate(pieces)]
        return kept + [self._drop(self._session_name(i), "Strict") for i in range(len(pieces), COOKIES_MAX)]

    def ended(self, mark: str) -> list[Header]:
        """Return the headers by which the browser knows the sessions that are over, whatever comes of them later.

        An answer that is under way when somebody signs out or in may prolong the session of before, and come later.
        The browser forgets this cookie when it forgets that of the session.
        """
        return [self._set(self._prefix + _ENDED, mark, "Strict")] if mark else []

    def sign_in(self, state: str, sealed: str, *, crowded_out: Iterable[str] = ()) -> list[Header]:
        """Return the headers that make the browser carry a sign-in, whose state is one of ours, and others no more.

        It comes back from the provider's site, and a strict cookie would not come with it.
        """
        name = self._sign_in_name(state)
        own = self._set(name, sealed, "Lax") if sealed else self._drop(name, "Lax")
        return [own, *(self._drop(other, "Lax") for other in crowded_out)]

    def _sign_in_name(self, state: str) -> str:
        return f"{self._prefix}{_SIGN_IN}_{state[:SIGN_IN_NAME_LENGTH]}"

    def _session_name(self, number: int) -> str:
        return self._prefix + _SESSION + (f"_{number}" if number else "")

    def _set(self, name: str, value: str, same_site: str) -> Header:
        return b"set-cookie", f"{name}={value}{self._attributes}; SameSite={same_site}".encode()

    def _drop(self, name: str, same_site: str) -> Header:
        return b"set-cookie", f"{name}=; Max-Age=0{self._attributes}; SameSite={same_site}".encode()


class ConsoleDoor:
    """Lets requests to the console in."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._config = factory.context.config
        self._cookies = Cookies(self._config)

    async def entered(self, scope: Scope, headers: Mapping[str, str], watch: Watch) -> Scope:
        """Return the request as the gate goes on with it; one that is not for the console as it was.

        Raises
        ------
        NotFoundError
            The console is not served, or there is no such environment.
        CrossSiteRequestError
        """
        path = scope["path"]
        if path != CONSOLE and not path.startswith(CONSOLE + "/"):
            return scope
        state = scope["state"]
        if not self._config.console_enabled:
            raise NotFoundError("there is nothing at this path")
        state["is_page"] = PROOF not in headers
        environment, _, rest = path.removeprefix(CONSOLE + "/").partition("/")
        if environment not in ENVIRONMENTS:
            return scope
        state["is_entered"] = True
        entered = await self._with_credentials(scope, environment, headers.get(PAGE_OF), watch)
        if not rest.startswith("rest/"):
            return entered
        state["is_page"], state["is_rest"] = False, True
        check_same_site(scope["method"], headers, self._config)
        target = "/" + rest.removeprefix("rest/")
        return {**entered, "path": target, "raw_path": target.encode()}

    async def _with_credentials(self, scope: Scope, environment: str, page_of: str | None, watch: Watch) -> Scope:
        """Return the request with the session's credentials instead of all that the client sent of the kind.

        What a page of one user sends is done by no other, and in no other tenant: there is no session for it. Who has
        pressed a link is told so.

        Raises
        ------
        AnotherUserError
        """
        kept: list[Header] = [(name, value) for name, value in scope["headers"] if name not in _REPLACED]
        sessions = self._factory.console_sessions
        session = sessions.open(self._cookies.session_of(scope), ended=self._cookies.ended_of(scope))
        if session is None or page_of not in {None, str(session.user_id)}:
            return {**scope, "headers": kept}
        link_of, query = _link_of(scope)
        check_same_user(link_of, session)
        # Who is refused here has to get on, or out.
        scope["state"]["elsewhere"] = tuple(name for name in session.environments if name != environment)
        prolonged = await sessions.prolonged(session)
        if prolonged is not None:
            session = prolonged
            watch.add(self._cookies.session(sessions.seal(session)))
        kept += [
            (b"authorization", f"Bearer {session.access_token}".encode()),
            (b"x-tenant-id", str(session.tenant_id).encode()),
            (b"x-environment", environment.encode()),
        ]
        return {**scope, "headers": kept, "query_string": query}


def check_passable(route: Route, state: Mapping[str, Any]) -> None:
    """Let only what the REST interface asks credentials for be asked for by way of the console.

    And let nobody come to a page with other credentials than the session's.

    Raises
    ------
    NotFoundError
    """
    is_elsewhere = state.get("is_rest", False) and (not route.in_schema or route.access is Access.PUBLIC)
    if is_elsewhere or (route.access is Access.SESSION and "is_entered" not in state):
        raise NotFoundError("there is nothing at this path")


def check_same_user(page_of: str | None, session: ConsoleSession) -> None:
    """Make sure that the page of a link or a form is one of whom the session is; None where it does not say whose.

    Raises
    ------
    AnotherUserError
    """
    if page_of is not None and page_of != str(session.user_id):
        raise AnotherUserError


def check_same_site(method: str, headers: Mapping[str, str], config: Config, *, by_script: bool = True) -> None:
    """Make sure that a page of the console has sent this request.

    The browser says so itself (Sec-Fetch-Site) where the connection is one that it trusts; otherwise the origin has to
    be ours. A script proves itself by a header besides, which is all that is asked of it for reading.

    Raises
    ------
    CrossSiteRequestError
    """
    if by_script and headers.get(PROOF) != "1":
        raise CrossSiteRequestError("the header X-Payrec-Console is missing")
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        if site != "same-origin":
            raise CrossSiteRequestError
    elif origin is not None:
        # An origin is `null`, or ends with its host (RFC 6454, 6.2); whatever else is sent is none of ours.
        ours = {headers.get("host", ""), urlsplit(config.base_url).netloc} - {""}
        if origin.partition("://")[2] not in ours:
            raise CrossSiteRequestError
    elif method not in _SAFE:
        raise CrossSiteRequestError("neither Sec-Fetch-Site nor Origin says where the request comes from")


def _link_of(scope: Scope) -> tuple[str | None, bytes]:
    """Return whose page a link is of, and the query without that, of which nothing behind the gate knows."""
    mark = f"{LINK_OF}=".encode()
    parts = scope["query_string"].split(b"&")
    found = [part.removeprefix(mark).decode("latin-1") for part in parts if part.startswith(mark)]
    return (found[0] if found else None), b"&".join(part for part in parts if not part.startswith(mark))


def _sent(scope: Scope) -> dict[str, str]:
    """Return the cookies of a request; a proxy may have split them over several headers (RFC 9113, 8.2.3).

    Those of other applications at this host come along with whatever browsers took for one (RFC 6265, 5.2 and 5.4):
    they are passed over, where the grammar of 4.1 would make ours unreadable with them. No blank but those of HTTP is
    taken off a name, or one before it would be a way around ``__Host-``.
    """
    lines = b";".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1")
    pairs = (pair.strip(" \t").partition("=") for pair in lines.split(";"))
    return {name: value for name, _, value in pairs}
