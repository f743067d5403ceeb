"""Pages: templates with what all of them know, files that a browser keeps, and the headers of every answer."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

from babel import Locale
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context as TemplateContext
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from payrec.config import Config
from payrec.console import formatting
from payrec.console.texts import Texts, load_catalogue
from payrec.constants.console import ALONE_HEADERS, FOREIGN_LENGTH, GZIP_BYTES_MIN, NEXT_LENGTH_MAX, STATIC_MAX_AGE
from payrec.domain.caller import Caller
from payrec.errors import NotFoundError, PayrecError, UnauthenticatedError
from payrec.gate.console import CONSOLE
from payrec.handlers.context import RequestContext
from payrec.handlers.downloads import respond_download
from payrec.problems import problem_response

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types payrec-fragments",
    )
)
"""Content-Security-Policy of every answer: what is not a file of ours is neither run nor asked for, and no text becomes
elements but by the one place of ``rest.js`` that a fragment of ours goes through (Trusted Types)."""

HEADERS: Final = {"Content-Security-Policy": POLICY, **ALONE_HEADERS}
"""Headers of every answer of the console, besides those that the gate gives to all."""

_PAGE: Final = HEADERS | {"Vary": "Cookie, Accept-Encoding"}
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HTML: Final = "text/html; charset=utf-8"
_PERSON_LENGTH: Final = 80

NAVIGATION: Final = ("overview", "review", "unmatched", "imports", "search", "month-end")
"""The pages that every page leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file of ours, as it is and as it is sent to whoever takes gzip."""

    content: bytes
    packed: bytes | None
    media_type: str


class StaticFiles:
    """Styles and scripts. The address has a hash of all of them, so that scripts find each other beside them."""

    def __init__(self) -> None:
        self._files = {
            f.name: _static(f.name, f.read_bytes())
            for f in files("payrec.console").joinpath("static").iterdir()
            if f.name[0] not in "._"
        }
        every = b"".join(name.encode() + self._files[name].content for name in sorted(self._files))
        self.version = hashlib.sha256(every).hexdigest()[:16]

    def url(self, name: str) -> str:
        """Return a file's address.

        Raises
        ------
        KeyError
            There is no such file: a template is wrong.
        """
        if name not in self._files:
            raise KeyError(name)
        return f"{CONSOLE}/static/{self.version}/{name}"

    def answer(self, version: str, name: str, *, takes_gzip: bool) -> Response:
        """Return a file. One that is asked for by another release of the service is not kept: it will change soon.

        Raises
        ------
        NotFoundError
        """
        file = self._files.get(name)
        if file is None:
            raise NotFoundError
        kept = f"public, max-age={int(STATIC_MAX_AGE.total_seconds())}, immutable"
        headers = HEADERS | {
            "Cache-Control": kept if version == self.version else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if takes_gzip and file.packed is not None:
            return Response(file.packed, media_type=file.media_type, headers=headers | {"Content-Encoding": "gzip"})
        return Response(file.content, media_type=file.media_type, headers=headers)


class Pages:
    """Renders pages; made once for an application."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.static = StaticFiles()
        self.texts = Texts(load_catalogue())
        self._templates = Environment(
            loader=PackageLoader("payrec.console", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.globals = {"static": self.static.url, "t": self.texts}
        self._templates.filters |= _filters()

    def page(self, context: RequestContext, template: str, status: int, values: Mapping[str, Any]) -> Response:
        """Return a page of a tenant's environment."""
        return self._answer(context.request, template, status, {**_values(context.caller), **values})

    def bare(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page that belongs to nobody's environment."""
        return self._answer(request, template, status, {**_values(None), **values})

    def refused(self, error: PayrecError, scope: Scope) -> Response:
        """Return the answer to a request that is refused: a page to who asked for one, a problem to everybody else."""
        state = scope["state"]
        if not state.get("is_page"):
            return problem_response(error, request_id=state["request_id"])
        request = Request(scope)
        if isinstance(error, NotFoundError) and scope["method"] in {"GET", "HEAD"} and scope["path"].endswith("/"):
            # Typed, or put together of an address and a name. Nothing of the console ends so, and what is there without
            # it says itself whether there is something.
            return redirect(_asked({**scope, "path": scope["path"].rstrip("/")}))
        if isinstance(error, UnauthenticatedError) and scope["path"].startswith(CONSOLE):
            return redirect(sign_in_url(_asked(scope)))
        caller: Caller | None = state.get("caller")
        values = {
            **_values(caller),
            "error": error,
            "request_id": state["request_id"],
            "elsewhere": state.get("elsewhere"),
        }
        answer = self._answer(request, "error.html", error.status, values)
        answer.headers.update({name: value for name, value in error.headers.items() if name.lower() != "content-type"})
        return answer

    def _answer(self, request: Request, template: str, status: int, values: dict[str, Any]) -> Response:
        place = _Place(locale=formatting.locale_of(values["tenant"].locale), timezone=values["tenant"].timezone)
        text = self._templates.get_template(template).render(
            **values, place=place, is_production=values["environment"] == "production", navigation=NAVIGATION
        )
        return _packed(request, text, status)


def page(context: RequestContext, template: str, status: int = 200, **values: Any) -> Response:
    """Return a page of the environment that a request is in; what a handler of the console ends with."""
    pages: Pages = context.request.app.state.pages
    return pages.page(context, template, status, values)


def download(
    pieces: AsyncIterator[bytes], *, name: str, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer a link with a file, which goes to the disk and is never shown: what is in it, strangers have written.

    A link cannot send X-Payrec-Console, and a download needs it no more than a page does. It changes nothing; what
    another site asks for comes without the strict cookie; and a neighbour within our site, whose requests have it,
    gets nothing to read or to show: the answer is an attachment of a type that is not guessed at, and for our own
    origin alone. So files have addresses among the pages, and everything below ``rest/`` goes on asking for the header.
    """
    return respond_download(pieces, name=name, media_type=media_type, headers={**HEADERS, **(headers or {})})


def redirect(location: str) -> Response:
    """Send a browser to another page."""
    return RedirectResponse(location, status_code=303, headers=_PAGE)


def page_url(environment: str, page: str, **query: Any) -> str:
    """Return the address of a page in an environment; a parameter that is None is left out."""
    wanted = {name: value for name, value in query.items() if value is not None}
    return f"{CONSOLE}/{environment}/{quote(page)}" + (f"?{urlencode(wanted)}" if wanted else "")


def sign_in_url(next_path: str) -> str:
    """Return the address of the sign-in that ends at a path of the console."""
    return f"{CONSOLE}/sign-in?{urlencode({'next': local(next_path)})}"


def local(path: str) -> str:
    """Return where to go after sign-in: the path if it is one of the console, and the console otherwise.

    An address that a browser takes for that of another site would make the sign-in somebody else's bait.
    """
    is_plain = len(path) <= NEXT_LENGTH_MAX and path.isascii() and path.isprintable() and "\\" not in path
    inside = path == CONSOLE or path.startswith((f"{CONSOLE}/", f"{CONSOLE}?"))
    return path if is_plain and inside and ".." not in path else CONSOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """How values look where the page is."""

    locale: Locale
    timezone: str

    @property
    def symbols(self) -> dict[str, str]:
        return formatting.symbols(self.locale)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenant:
    """What pages tell of the tenant."""

    name: str
    slug: str
    locale: str
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _User:
    """What pages tell of who looks at them."""

    id: str
    name: str
    permissions: frozenset[str]
    environments: tuple[str, ...]


_NOBODY: Final = _User(id="", name="", permissions=frozenset(), environments=())
_NOWHERE: Final = _Tenant(name="", slug="", locale="en", timezone="UTC")


def _values(caller: Caller | None) -> dict[str, Any]:
    """Return what all templates know; of a page that belongs to no environment, nothing."""
    if caller is None or caller.scope is None:
        tenant, user, environment = _NOWHERE, _NOBODY, ""
    else:
        scope, principal = caller.scope, caller.principal
        tenant = _Tenant(name=scope.name, slug=scope.slug, locale=scope.locale, timezone=scope.timezone)
        environment = scope.environment
        user = _User(
            id=str(principal.id),
            name=principal.name,
            permissions=frozenset(p.value for p in principal.permissions),
            environments=tuple(sorted(principal.environments or ())),
        )
    return {
        "tenant": tenant,
        "user": user,
        "environment": environment,
        "url": lambda page, **query: page_url(environment, page, **query),
        "can": lambda permission: permission in user.permissions,
    }


def _filters() -> dict[str, Any]:
    """Return the filters of templates; a macro that uses one is imported ``with context``."""

    @pass_context
    def money(context: TemplateContext, amount_minor: int, currency: str) -> str:
        return formatting.money(amount_minor, currency, context["place"].locale)

    @pass_context
    def amount(context: TemplateContext, amount_minor: int, currency: str) -> str:
        return formatting.amount(amount_minor, currency, context["place"].locale)

    @pass_context
    def number(context: TemplateContext, value: int) -> str:
        return formatting.number(value, context["place"].locale)

    @pass_context
    def percent(context: TemplateContext, share: float) -> str:
        return formatting.percent(share, context["place"].locale)

    @pass_context
    def day(context: TemplateContext, value: date) -> str:
        return formatting.day(value, context["place"].locale)

    @pass_context
    def instant(context: TemplateContext, value: datetime) -> str:
        return formatting.instant(value, context["place"].locale, context["place"].timezone)

    @pass_context
    def evidence(context: TemplateContext, text: str | None, feature: str, currency: str) -> str:
        return formatting.evidence(text or "", feature, currency, context["place"].locale)

    @pass_context
    def sentence(context: TemplateContext, text: str | None) -> str:
        return formatting.sentence(text, context["place"].locale)

    @pass_context
    def foreign(
        context: TemplateContext, text: str | None, *, length: int = FOREIGN_LENGTH, short: bool = False
    ) -> str:
        return formatting.foreign(text, all_of_it=context["t"]("common.all_of_it"), length=length, is_short=short)

    @pass_context
    def person(context: TemplateContext, actor: str | None) -> str:
        return foreign(context, context["names"].get(actor, actor), length=_PERSON_LENGTH, short=True)

    found: dict[str, Any] = {"plain": formatting.plain}
    for made in (money, amount, number, percent, day, instant, evidence, sentence, foreign, person):
        found[made.__name__] = made
    return found


def _asked(scope: Scope) -> str:
    """Return the path and query that a page was asked for at."""
    query = scope.get("query_string", b"").decode("latin-1")
    return quote(scope["path"]) + (f"?{query}" if query else "")


def takes_gzip(request: Request) -> bool:
    """Tell whether a client says that it reads gzip."""
    parts = (part.partition(";") for part in request.headers.get("accept-encoding", "").lower().split(","))
    return any(name.strip() == "gzip" and "q=0" not in rest.replace("q=0.", "") for name, _, rest in parts)


def _packed(request: Request, text: str, status: int) -> Response:
    content = text.encode("utf-8", "replace")
    if len(content) < GZIP_BYTES_MIN or not takes_gzip(request):
        return Response(content, status_code=status, media_type=_HTML, headers=_PAGE)
    packed = gzip.compress(content, compresslevel=5, mtime=0)
    return Response(packed, status_code=status, media_type=_HTML, headers=_PAGE | {"Content-Encoding": "gzip"})


def _static(name: str, content: bytes) -> StaticFile:
    packed = gzip.compress(content, mtime=0) if len(content) >= GZIP_BYTES_MIN else None
    return StaticFile(content=content, packed=packed, media_type=_TYPES[name.rpartition(".")[2]])
