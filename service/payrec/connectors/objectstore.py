"""Amazon S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage: one library for the three.

Whatever that library would find by itself is not for tenants: credentials of the machine, its variables, its metadata
service. So every store is made of what the data source says alone, and connects through ``EgressProxy``.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import IO, Any, ClassVar, Final, Self

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from payrec.connectors.base import (
    ConnectionBrokenError,
    ObjectChangedError,
    ObjectTooLargeError,
    Place,
    RemoteObject,
    SourceError,
    other_name,
    short_version,
)
from payrec.connectors.proxy import EgressProxy
from payrec.constants.sources import (
    SOURCE_CHUNK_BYTES,
    SOURCE_CONNECT_SECONDS,
    SOURCE_OBJECT_SECONDS,
    SOURCE_SILENCE_SECONDS,
)
from payrec.domain.disk import disk_room
from payrec.domain.object_names import fixed_beginning, is_usable, matches

_VARIABLES: Final = ("AWS_", "GOOGLE_", "AZURE_", "MSI_", "IDENTITY_")
"""How the variables begin that the library would take for a store's configuration."""

_RETRIES: Final = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}

GONE: Final = (exceptions.NotFoundError, FileNotFoundError)
"""What the library raises where the bucket or the object is not there."""

_PROBLEMS: Final[tuple[tuple[tuple[type[Exception], ...], str, str], ...]] = (
    (GONE, "not_found", "the bucket or the object is not there"),
    ((exceptions.PermissionDeniedError,), "permission_denied", "the store does not permit this"),
    ((exceptions.UnauthenticatedError,), "not_authenticated", "the store does not accept the credentials"),
    (
        (exceptions.InvalidPathError,),
        "name_refused",
        "has a name that cannot be read, with an empty part, `.`, `..` or a control character between slashes",
    ),
)


_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
"""Where the library says it in its text alone; the first one is its own, what the server sent comes behind."""

_BAD_CERTIFICATE: Final = "InvalidCertificate("
"""How the library tells in its text that a certificate is vouched for by nobody, over, or another name's."""

_STATUSES: Final = {
    "401": ("not_authenticated", "the store does not accept the credentials"),
    "403": ("permission_denied", "the store does not permit this"),
    "404": ("not_found", "the bucket or the object is not there"),
    "407": ("redirect_refused", "the store answers with a redirect, which is not followed"),  # the proxy's answer
}


class _Store:
    """What the three have in common."""

    writes_whole: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._config = place.config
        self._secret = place.secret
        self._prefix: str = place.config.get("prefix") or ""
        self._proxy = EgressProxy(destinations=place.destinations, password=secrets.token_urlsafe(24))
        self._store: ObjectStore | None = None

    async def __aenter__(self) -> Self:
        await self._proxy.__aenter__()
        try:
            with _without_variables():
                self._store = self._made()
        except (exceptions.BaseError, ValueError):
            await self._proxy.__aexit__(None, None, None)
            raise SourceError("configuration_refused", "the configuration or the secret cannot be used") from None
        except BaseException:
            await self._proxy.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._store = None
        await self._proxy.__aexit__(kind, error, traceback)

    def _made(self) -> ObjectStore:
        raise NotImplementedError

    @property
    def _client(self) -> dict[str, Any]:
        return {
            "allow_http": True,  # the proxy refuses it wherever it is not allowed
            "proxy_url": self._proxy.url,
            "connect_timeout": timedelta(seconds=SOURCE_CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=SOURCE_SILENCE_SECONDS),
            "timeout": timedelta(seconds=SOURCE_OBJECT_SECONDS),
        }

    @property
    def _opened(self) -> ObjectStore:
        if self._store is None:
            raise AssertionError("not open")
        return self._store

    async def list(self, pattern: str) -> AsyncIterator[RemoteObject]:
        """Yield the objects below the prefix whose rest of the name fits."""
        prefix = self._prefix + fixed_beginning(pattern)
        with self._told():
            async for page in obstore.list(self._opened, prefix.rstrip("/") or None, chunk_size=1_000):
                for meta in page:
                    path = meta["path"]
                    name = path.removeprefix(self._prefix)
                    if not path.startswith(self._prefix) or not is_usable(name) or not matches(pattern, name):
                        continue
                    # The library leaves out the slash at the end, by which stores' consoles mark a folder.
                    if meta["size"] or await self._is_known(path):
                        yield _object(name, meta)

    async def fetch(self, found: RemoteObject, into: IO[bytes], *, bytes_max: int) -> None:
        """Read an object as it was listed: a store gives one version of it, from the first byte to the last."""
        if found.size is not None and found.size > bytes_max:
            raise ObjectTooLargeError(bytes_max)
        path, size = self._prefix + found.name, 0
        with self._told():
            try:
                options = {"if_match": found.tag} if found.tag else {}
                answer = await obstore.get_async(self._opened, path, options=options)  # type: ignore[arg-type]
                if found.tag and answer.meta["e_tag"] != found.tag:
                    raise ObjectChangedError
                async for chunk in answer.stream(min_chunk_size=SOURCE_CHUNK_BYTES):
                    size += len(chunk)
                    if size > bytes_max:
                        raise ObjectTooLargeError(bytes_max)
                    with disk_room():
                        into.write(chunk)
            except (exceptions.PreconditionError, *GONE):
                raise ObjectChangedError from None
        if found.size is not None and size != found.size:
            raise ObjectChangedError

    async def delete(self, found: RemoteObject) -> None:
        """Delete an object that is still the one that was listed."""
        with self._told():
            if await self._is_there(found):
                await obstore.delete_async(self._opened, self._prefix + found.name)

    async def move(self, found: RemoteObject, target: str) -> None:
        """Copy an object within its bucket and delete it."""
        path = self._prefix + found.name
        with self._told():
            if not await self._is_there(found):
                return
            place = target
            with contextlib.suppress(*GONE):
                there = await obstore.head_async(self._opened, place)
                if there["e_tag"] != found.tag:
                    place = other_name(target, found)
            await obstore.copy_async(self._opened, path, place)
            await obstore.delete_async(self._opened, path)

    async def _is_known(self, path: str) -> bool:
        """Tell whether there is an object of just this name; what else is wrong with one is told when it is read."""
        try:
            await obstore.head_async(self._opened, path)
        except GONE:
            return False
        except exceptions.BaseError:
            pass
        return True

    async def _is_there(self, found: RemoteObject) -> bool:
        try:
            meta = await obstore.head_async(self._opened, self._prefix + found.name)
        except GONE:
            return False
        if _object(found.name, meta).version != found.version:
            raise ObjectChangedError
        return True

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what the library raises into what a source may fail with."""
        self._proxy.refused = None
        try:
            yield
        except SourceError:
            raise
        except (exceptions.BaseError, ValueError, OSError, TimeoutError) as error:
            if self._proxy.refused is not None:
                raise self._proxy.refused from None
            refusal = refusal_of(error)
            if refusal is not None:
                raise SourceError(*refusal) from None
            raise ConnectionBrokenError("the store did not answer as it should") from None


def refusal_of(error: Exception) -> tuple[str, str] | None:
    """Return the code and the text of what a store refuses; None where it is another failure."""
    for kinds, code, detail in _PROBLEMS:
        if isinstance(error, kinds):
            return code, detail
    text = str(error)
    if _BAD_CERTIFICATE in text:
        return "tls_failed", "the store's certificate is not accepted"
    status = _STATUS.search(text)
    return _STATUSES.get(status[1]) if status is not None else None


@contextmanager
def _without_variables() -> Iterator[None]:
    """Hide the machine's own credentials: the library fills in from there whatever a data source does not say."""
    hidden = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith(_VARIABLES)}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _object(name: str, meta: Any) -> RemoteObject:
    tag = meta["e_tag"]
    return RemoteObject(
        name=name,
        size=meta["size"],
        version=short_version(tag or meta["last_modified"].isoformat(), meta["size"]),
        modified_at=meta["last_modified"],
        tag=tag,
    )


class S3Connector(_Store):
    """Amazon S3, and what speaks like it."""

    def _made(self) -> ObjectStore:
        given: dict[str, Any] = {
            "region": self._config.get("region") or "us-east-1",
            "disable_bulk_delete": True,  # not everything that speaks like S3 knows it
        }
        if self._config.get("endpoint"):
            given |= {"endpoint": self._config["endpoint"], "virtual_hosted_style_request": False}
        if self._config.get("anonymous"):
            given["skip_signature"] = True
        else:
            given |= {
                "access_key_id": self._secret["accessKeyId"],
                "secret_access_key": self._secret["secretAccessKey"],
            }
            if "sessionToken" in self._secret:
                given["session_token"] = self._secret["sessionToken"]
        return S3Store(
            self._config["bucket"],
            client_options=self._client,  # type: ignore[arg-type]
            retry_config=_RETRIES,  # type: ignore[arg-type]
            **given,
        )


class GcsConnector(_Store):
    """Google Cloud Storage."""

    def _made(self) -> ObjectStore:
        given: dict[str, Any] = {"skip_signature": True}
        if not self._config.get("anonymous"):
            given = {"service_account_key": self._secret["serviceAccountKey"]}
        return GCSStore(
            self._config["bucket"],
            client_options=self._client,  # type: ignore[arg-type]
            retry_config=_RETRIES,  # type: ignore[arg-type]
            **given,
        )


class AzureConnector(_Store):
    """Azure Blob Storage."""

    def _made(self) -> ObjectStore:
        given: dict[str, Any] = {"account_name": self._config["accountName"]}
        if self._config.get("endpoint"):
            given["endpoint"] = self._config["endpoint"]
        if self._config.get("anonymous"):
            given["skip_signature"] = True
        elif "accountKey" in self._secret:
            given["account_key"] = self._secret["accountKey"]
        else:
            given["sas_key"] = self._secret["sasToken"]
        return AzureStore(
            self._config["container"],
            client_options=self._client,  # type: ignore[arg-type]
            retry_config=_RETRIES,  # type: ignore[arg-type]
            **given,
        )
