"""What a connector does, and what may go wrong with it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import IO, Any, ClassVar, Protocol, Self

from payrec.constants.sources import OBJECT_VERSION_LENGTH_MAX
from payrec.domain.addresses import Destinations


class SourceError(Exception):
    """A source cannot be read as it should be.

    ``code`` says why, and the text says it to people. Neither has what the other side sent: it may hold anything.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class ObjectChangedError(SourceError):
    """What was read is not what was listed: it was replaced, or it is gone."""

    def __init__(self) -> None:
        super().__init__("object_changed", "was replaced or removed while it was read")


class ConnectionBrokenError(SourceError):
    """The connection broke, or nothing came for too long."""

    def __init__(self, detail: str = "the connection broke") -> None:
        super().__init__("connection_broken", detail)


class TooSlowError(SourceError):
    """What was asked of a source was not done in time; its connection is of no use any more."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too_slow", f"took longer than {seconds:.0f} s")


class ObjectTooLargeError(SourceError):
    """An object is larger than a file may be."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__("object_too_large", f"has more than {bytes_max} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteObject:
    """What a source shows of one object."""

    name: str
    """Below the place that is listed; with slashes where there are directories."""
    size: int | None
    version: str
    """Differs where the content does, as far as the source tells; empty where it tells nothing that would."""
    modified_at: datetime | None
    tag: str | None = None
    """The entity tag by which the source itself compares, where it has one."""
    is_certain: bool = True
    """Whether the version differs wherever the content does; else only who reads it knows whether it is new."""
    spelled: str | None = None
    """The name by which the source knows it, where that is not ``name``."""
    problem: SourceError | None = None
    """Why there is nothing to be read of it, where the others may be read all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a connector is made of."""

    config: dict[str, Any]
    """As the data source has it, members in camelCase."""
    secret: dict[str, str]
    destinations: Destinations
    """What may be connected to."""


class Connector(Protocol):
    """One source, open as a context.

    A server that says nothing at all is given up by whoever connects; how long something may take in all is the
    caller's to say.
    """

    writes_whole: ClassVar[bool]
    """Objects appear whole or not at all; else they are read only when they have stopped changing."""

    async def __aenter__(self) -> Self:
        """Connect.

        Raises
        ------
        SourceError
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def list(self, pattern: str) -> AsyncIterator[RemoteObject]:
        """Yield the objects whose name fits a pattern, in any order, names checked.

        Raises
        ------
        SourceError
        """
        ...

    async def fetch(self, found: RemoteObject, into: IO[bytes], *, bytes_max: int) -> None:
        """Read one object, from the beginning, into an empty file.

        Raises
        ------
        ObjectChangedError
            It is not, or not any more, what was listed.
        ObjectTooLargeError, SourceError
        StorageFullError
            There is no room for it here.
        """
        ...

    async def delete(self, found: RemoteObject) -> None:
        """Delete an object unless it has been replaced. One that is gone already is done.

        Raises
        ------
        SourceError
        """
        ...

    async def move(self, found: RemoteObject, target: str) -> None:
        """Move an object, unless it has been replaced, never over another one. One that is gone already is done.

        Raises
        ------
        SourceError
        """
        ...


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Give up what a server does not do in time, however alive it keeps its connection.

    Raises
    ------
    TooSlowError
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TooSlowError(seconds) from None


def short_version(*parts: object) -> str:
    """Return a version of what a source says, which may be long."""
    text = ":".join(str(part) for part in parts)
    if len(text) <= OBJECT_VERSION_LENGTH_MAX and text.isprintable():
        return text
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def other_name(target: str, found: RemoteObject) -> str:
    """Return where an object is moved to when another one has its place: the same for the same content."""
    return f"{target}.{hashlib.sha256(found.version.encode()).hexdigest()[:8]}"
