"""Files at fixed addresses of HTTP servers (RFC 9110): an entity tag says what they are, a range where to go on."""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import IO, ClassVar, Final, Self
from urllib.parse import urlsplit

import aiohttp

from payrec import __version__
from payrec.connectors.base import (
    ConnectionBrokenError,
    ObjectChangedError,
    ObjectTooLargeError,
    Place,
    RemoteObject,
    SourceError,
    short_version,
)
from payrec.connectors.egress import AddressRefusedError, checked_socket
from payrec.constants.sources import (
    OBJECT_READS_MAX,
    SOURCE_CHUNK_BYTES,
    SOURCE_CONNECT_SECONDS,
    SOURCE_SILENCE_SECONDS,
)
from payrec.domain.addresses import UrlRefusedError
from payrec.domain.disk import disk_room
from payrec.domain.object_names import matches

_NO_HEAD: Final = frozenset({400, 403, 404, 405, 501})
"""How servers answer a HEAD that know GET alone; gateways say that nothing is there, or that nobody may."""

_PROBLEMS: Final = {
    401: ("not_authenticated", "the server does not accept the credentials"),
    403: ("permission_denied", "the server does not permit this"),
    404: ("not_found", "there is nothing at the address"),
    410: ("not_found", "there is nothing at the address any more"),
}


class HttpConnector:
    """Files at fixed addresses; each address is the name of one."""

    writes_whole: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self._urls: list[str] = place.config["urls"]
        self._secret = place.secret
        self._destinations = place.destinations
        self._stack = contextlib.AsyncExitStack()
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        for scheme in ("https", "http"):
            self._sessions[scheme] = await self._stack.enter_async_context(self._session(scheme))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def list(self, pattern: str) -> AsyncIterator[RemoteObject]:
        """Yield what is at the addresses whose last segment fits, and at last those at which nothing can be read.

        They may be of servers that have nothing to do with each other. Nothing at any of them is a ``SourceError``.
        """
        urls = [url for url in self._urls if matches(pattern, file_name(url))]
        refused: dict[str, SourceError] = {}
        for url in urls:
            try:
                found = await self._looked(url)
            except SourceError as error:
                refused[url] = error
            else:
                yield found
        if refused and len(refused) == len(urls):
            raise refused[urls[0]]
        for url, problem in refused.items():
            yield RemoteObject(name=url, size=None, version="", modified_at=None, problem=problem)

    async def fetch(self, found: RemoteObject, into: IO[bytes], *, bytes_max: int) -> None:
        """Read a file; when the connection breaks, go on where it broke if it is still the same file."""
        if found.size is not None and found.size > bytes_max:
            raise ObjectTooLargeError(bytes_max)
        with _told():
            for attempt in range(OBJECT_READS_MAX):
                try:
                    await self._read(found, into, bytes_max)
                except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, OSError):
                    if attempt + 1 == OBJECT_READS_MAX:
                        raise
                else:
                    return

    async def delete(self, found: RemoteObject) -> None:  # noqa: ARG002 - as every connector's
        """Refuse: HTTP sources are only read."""
        raise SourceError("not_supported", "an HTTP source is only read")

    async def move(self, found: RemoteObject, target: str) -> None:  # noqa: ARG002 - as every connector's
        """Refuse: HTTP sources are only read."""
        raise SourceError("not_supported", "an HTTP source is only read")

    async def _looked(self, url: str) -> RemoteObject:
        """Return what is at an address, by a HEAD, or by the GET where that may not say what a GET does.

        A server may leave out of a HEAD what it finds out while it makes the content (RFC 9110, section 9.3.2): what
        such a one tells of a file would never be what is read.
        """
        with _told():
            async with self._asked("HEAD", url) as answer:
                is_whole = answer.status != 200 or bool(answer.content_length)
                if is_whole and answer.status not in _NO_HEAD:
                    return _object(url, answer)
            async with self._asked("GET", url) as answer:
                found = _object(url, answer)
                answer.close()
                return found

    async def _read(self, found: RemoteObject, into: IO[bytes], bytes_max: int) -> None:
        headers = {}
        begun = into.tell()
        if found.tag is not None:
            headers = {"If-Match": found.tag}
            if begun:
                headers |= {"Range": f"bytes={begun}-", "If-Range": found.tag}
        async with self._asked("GET", found.name, headers) as answer:
            if answer.status == 412:
                raise ObjectChangedError
            now = _object(found.name, answer)
            if answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {begun}-"):
                if now.tag != found.tag:
                    raise ObjectChangedError
            elif answer.status == 200:
                if now.version != found.version:
                    raise ObjectChangedError
                into.seek(0)
                into.truncate()
            else:
                raise SourceError("answer_refused", f"the server answered with the status {answer.status}")
            async for data in answer.content.iter_chunked(SOURCE_CHUNK_BYTES):
                if into.tell() + len(data) > bytes_max:
                    raise ObjectTooLargeError(bytes_max)
                with disk_room():
                    into.write(data)
        if found.size is not None and into.tell() != found.size:
            raise ObjectChangedError

    def _asked(
        self, method: str, url: str, headers: dict[str, str] | None = None
    ) -> aiohttp.client._RequestContextManager:
        self._destinations.check_url(url)
        session = self._sessions[url.partition(":")[0].lower()]
        return session.request(method, url, headers=headers, allow_redirects=False)

    def _session(self, scheme: str) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=ssl.create_default_context(),
            socket_factory=lambda info: checked_socket(info, self._destinations, is_encrypted=scheme == "https"),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"payrec/{__version__}", "Accept-Encoding": "identity", **self._credentials()},
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=SOURCE_CONNECT_SECONDS, sock_read=SOURCE_SILENCE_SECONDS
            ),
        )

    def _credentials(self) -> dict[str, str]:
        if "bearerToken" in self._secret:
            return {"Authorization": f"Bearer {self._secret['bearerToken']}"}
        if "username" in self._secret:
            user = f"{self._secret['username']}:{self._secret['password']}"
            return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
        return {}


def file_name(url: str) -> str:
    """Return the last segment of an address' path."""
    return urlsplit(url).path.rpartition("/")[2] or "index"


def _object(url: str, answer: aiohttp.ClientResponse) -> RemoteObject:
    if 300 <= answer.status < 400:
        raise SourceError("redirect_refused", "the server answers with a redirect, which is not followed")
    if answer.status >= 400 and answer.status != 412:
        raise SourceError(*_PROBLEMS.get(answer.status, ("answer_refused", f"the server answered {answer.status}")))
    entity_tag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
    modified_at = None
    with contextlib.suppress(ValueError, TypeError):
        modified_at = parsedate_to_datetime(modified).astimezone(UTC) if modified else None
    size = answer.content_length if answer.status == 200 else None
    version = short_version(entity_tag) if entity_tag else short_version(modified, size) if modified else ""
    # A weak tag (RFC 9110, section 8.8.1) says what changed, but not that all bytes are the same.
    is_strong = entity_tag is not None and entity_tag.startswith('"')
    return RemoteObject(
        name=url,
        size=size,
        version=version,
        modified_at=modified_at,
        tag=entity_tag if is_strong else None,
        is_certain=version != "",
    )


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the library raises into what a source may fail with."""
    try:
        yield
    except SourceError:
        raise
    except UrlRefusedError as error:
        raise SourceError(error.code, error.detail) from None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        causes = (error, error.__cause__, getattr(error, "os_error", None))
        if any(isinstance(cause, AddressRefusedError) for cause in causes):
            raise SourceError("address_refused", "is at an address that nothing is read from") from None
        if any(isinstance(cause, ssl.SSLError | ssl.CertificateError) for cause in causes):
            raise SourceError("tls_failed", "the server's certificate is not accepted") from None
        raise ConnectionBrokenError from None
