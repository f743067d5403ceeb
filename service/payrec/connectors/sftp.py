"""SFTP servers, each known by its key."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import stat
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any, ClassVar, Final, Self, TypeVar

import asyncssh

from payrec.connectors.base import (
    ConnectionBrokenError,
    ObjectChangedError,
    ObjectTooLargeError,
    Place,
    RemoteObject,
    SourceError,
    other_name,
)
from payrec.connectors.egress import connect
from payrec.constants.sources import (
    DIRECTORY_DEPTH_MAX,
    OBJECTS_LISTED_MAX,
    SOURCE_CHUNK_BYTES,
    SOURCE_CONNECT_SECONDS,
    SOURCE_SILENCE_SECONDS,
)
from payrec.domain.disk import disk_room
from payrec.domain.object_names import fixed_beginning, is_usable, matches, printable

_T = TypeVar("_T")
_Entries = list[asyncssh.SFTPName]

PORT: Final = 22

_PROBLEMS: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (asyncssh.HostKeyNotVerifiable, "host_key_refused", "the server has another key than the data source says"),
    (asyncssh.PermissionDenied, "not_authenticated", "the server does not accept the credentials"),
    (asyncssh.SFTPNoSuchFile, "not_found", "the directory or the file is not there"),
    (asyncssh.SFTPNoSuchPath, "not_found", "the directory or the file is not there"),
    (asyncssh.SFTPPermissionDenied, "permission_denied", "the server does not permit this"),
    (asyncssh.KeyImportError, "configuration_refused", "the key cannot be used"),
    (asyncssh.KeyEncryptionError, "configuration_refused", "the key cannot be opened"),
)

_GONE: Final = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)
_LOST: Final = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.SFTPBadMessage)
"""Errors behind which nothing else can be asked; every other one is an answer."""

_NAME_REFUSED: Final = "has a control character in its name, or a name that is too long"


class SftpConnector:
    """One directory of an SFTP server."""

    writes_whole: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self._config = place.config
        self._secret = place.secret
        self._destinations = place.destinations
        self._directory: str = place.config.get("directory") or "."
        self._moved: str | None = place.config.get("moveTo")
        self._connection: asyncssh.SSHClientConnection | None = None
        self._client: asyncssh.SFTPClient | None = None

    async def __aenter__(self) -> Self:
        config = self._config
        asyncssh.set_log_level(logging.WARNING)  # it tells of every step, with names
        made = await connect(config["host"], config.get("port") or PORT, self._destinations, is_encrypted=True)
        try:
            with _told():
                key = asyncssh.import_public_key(config["hostKey"])
                async with asyncio.timeout(SOURCE_CONNECT_SECONDS):
                    self._connection = await asyncssh.connect(
                        config["host"],
                        sock=made,
                        username=config["username"],
                        known_hosts=([key], [], []),
                        keepalive_interval=SOURCE_SILENCE_SECONDS / 3,
                        # Nothing of this machine's own: no configuration, no agent, no keys, no tickets.
                        config=[],
                        agent_path=None,
                        gss_host=None,
                        x509_trusted_certs=[],
                        **self._credentials(),
                    )
                    # Not as a context, which waits for the server to close its side: it goes with the connection.
                    # One name that is no UTF-8 would be the end of a whole listing.
                    self._client = await self._connection.start_sftp_client(path_errors="surrogateescape")
        except BaseException:
            await self._leave()
            made.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            await self._leave()

    async def list(self, pattern: str) -> AsyncIterator[RemoteObject]:
        """Yield the files of the directory; deeper ones where the pattern has slashes or ``**``.

        A directory within that cannot be read is one of which that is told, and so is what has no usable name.
        """
        depth = DIRECTORY_DEPTH_MAX if "**" in pattern else pattern.count("/")
        first = fixed_beginning(pattern)
        waiting = [(first, first.count("/"))]
        room = OBJECTS_LISTED_MAX
        with _told():
            while waiting:
                below, level = waiting.pop()
                try:
                    entries = await self._entries(below, room)
                except _GONE:
                    if below == first:
                        raise
                    continue  # it was there a moment ago
                except asyncssh.SFTPError as error:
                    if below == first or isinstance(error, _LOST):
                        raise
                    yield _unread(_shown(below), _problem_of(error))
                    continue
                room -= len(entries)
                for entry in entries:
                    filename, mode = str(entry.filename), entry.attrs.permissions or 0
                    if filename in {"", ".", ".."} or "/" in filename:
                        continue
                    name = _shown(below + filename)
                    # What was moved away may be any number of files.
                    is_moved = self._moved is not None and f"{name}/".startswith(self._moved)
                    is_deeper = stat.S_ISDIR(mode) and level < depth and not is_moved
                    if not is_deeper and not (stat.S_ISREG(mode) and matches(pattern, name)):
                        continue
                    if not is_usable(name):
                        yield _unread(name, SourceError("name_refused", _NAME_REFUSED))
                    elif is_deeper:
                        waiting.append((f"{below}{filename}/", level + 1))
                    else:
                        yield _object(name, entry.attrs, spelled=below + filename)

    async def _entries(self, below: str, room: int) -> _Entries:
        """Return what is in a directory, if that is not more than there is ``room`` for."""
        found: _Entries = []
        entries = self._opened.scandir(self._path(below.rstrip("/")))
        while (entry := await self._answer(anext(entries, None))) is not None:
            if len(found) == room:
                raise SourceError("too_many_objects", f"has more than {OBJECTS_LISTED_MAX} files")
            found.append(entry)
        return found

    async def fetch(self, found: RemoteObject, into: IO[bytes], *, bytes_max: int) -> None:
        """Read a file, and look at its end whether it is still the one that was listed."""
        if found.size is not None and found.size > bytes_max:
            raise ObjectTooLargeError(bytes_max)
        size = 0
        with _told():
            try:
                file = await self._answer(self._opened.open(self._path(_spelled(found)), "rb"))
                try:
                    while data := await self._answer(file.read(SOURCE_CHUNK_BYTES)):
                        size += len(data)
                        if size > bytes_max:
                            raise ObjectTooLargeError(bytes_max)
                        with disk_room():
                            into.write(bytes(data))  # type: ignore[arg-type] # not text: opened as bytes
                finally:
                    with contextlib.suppress(asyncssh.Error):
                        await self._answer(file.close())
                after = await self._state(_spelled(found))
            except _GONE:
                raise ObjectChangedError from None
        if after is None or after.version != found.version or size != found.size:
            raise ObjectChangedError

    async def delete(self, found: RemoteObject) -> None:
        """Delete a file that is still the one that was listed."""
        with _told():
            if await self._is_there(found):
                await self._answer(self._opened.remove(self._path(_spelled(found))))

    async def move(self, found: RemoteObject, target: str) -> None:
        """Rename a file; directories on the way are made."""
        with _told():
            if not await self._is_there(found):
                return
            place = await self._free(target, found)
            if "/" in place:
                await self._answer(self._opened.makedirs(self._path(place.rpartition("/")[0]), exist_ok=True))
            await self._answer(self._opened.rename(self._path(_spelled(found)), self._path(place)))

    async def _free(self, target: str, found: RemoteObject) -> str:
        """Return a name that nothing has yet: who delivers the same file again and again moves it as often."""
        for name in (target, other_name(target, found)):
            if await self._state(name) is None:
                return name
        return f"{other_name(target, found)}.{secrets.token_hex(4)}"

    async def _is_there(self, found: RemoteObject) -> bool:
        now = await self._state(_spelled(found))
        if now is not None and now.version != found.version:
            raise ObjectChangedError
        return now is not None

    async def _state(self, name: str) -> RemoteObject | None:
        try:
            return _object(name, await self._answer(self._opened.lstat(self._path(name))))
        except _GONE:
            return None

    async def _leave(self) -> None:
        """End the connection, if there is one; the server has a second to agree."""
        if self._connection is None:
            return
        self._connection.close()
        with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._connection.wait_closed()
        self._connection.abort()

    async def _answer(self, asked: Awaitable[_T]) -> _T:
        """Wait for what a server is asked, but not for long: then the connection is of no use.

        The library, when interrupted, tells the server so and waits for its answer, and leaves reads behind that nobody
        waits for; without its connection it gives up whatever it waits for.
        """
        task = asyncio.ensure_future(asked)
        try:
            async with asyncio.timeout(SOURCE_SILENCE_SECONDS):
                return await asyncio.shield(task)
        except BaseException:
            if not task.done():
                if self._connection is not None:
                    self._connection.abort()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()
            raise

    def _path(self, name: str) -> str:
        return f"{self._directory.rstrip('/')}/{name}" if name else self._directory

    def _credentials(self) -> dict[str, Any]:
        if "privateKey" in self._secret:
            key = asyncssh.import_private_key(self._secret["privateKey"], self._secret.get("passphrase"))
            return {"client_keys": [key], "password": None, "preferred_auth": "publickey"}
        return {"client_keys": [], "password": self._secret["password"], "preferred_auth": "password"}

    @property
    def _opened(self) -> asyncssh.SFTPClient:
        if self._client is None:
            raise AssertionError("not open")
        return self._client


def _shown(spelled: str) -> str:
    """Return a name as it can be stored: servers give bytes, and what is no UTF-8 is Latin-1 to most who write it."""
    data = spelled.encode(errors="surrogateescape")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _spelled(found: RemoteObject) -> str:
    return found.spelled or found.name


def _object(name: str, attributes: Any, *, spelled: str | None = None) -> RemoteObject:
    modified_at = None
    # The protocol lets a server tell no time; some tell 0 instead, for all files.
    if attributes.mtime:
        with contextlib.suppress(ValueError, OverflowError, OSError):
            modified_at = datetime.fromtimestamp(attributes.mtime, UTC)
    nanoseconds = attributes.mtime_ns or 0
    return RemoteObject(
        name=name,
        size=attributes.size,
        version=f"{attributes.size}:{attributes.mtime}.{nanoseconds}",
        modified_at=modified_at,
        is_certain=bool(attributes.mtime),
        spelled=spelled if spelled != name else None,
    )


def _unread(name: str, problem: SourceError) -> RemoteObject:
    return RemoteObject(name=printable(name), size=None, version="", modified_at=None, problem=problem)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the library raises into what a source may fail with; its texts may quote the server."""
    try:
        yield
    except SourceError:
        raise
    except (asyncssh.Error, OSError, TimeoutError, ValueError) as error:
        raise _problem_of(error) from None


def _problem_of(error: Exception) -> SourceError:
    for kind, code, detail in _PROBLEMS:
        if isinstance(error, kind):
            return SourceError(code, detail)
    if isinstance(error, asyncssh.SFTPError) and not isinstance(error, _LOST):
        return SourceError("answer_refused", "the server says that it cannot do this")
    return ConnectionBrokenError("the connection broke, or the server did not answer as it should")
