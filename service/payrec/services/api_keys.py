"""API keys: shown once, stored as a digest, gone from the request after their revocation on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from payrec.constants import API_KEYS_ACTIVE_MAX
from payrec.domain import keys
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.errors import ConflictError, FieldError, NotFoundError, ValidationFailedError
from payrec.models.api_keys import ApiKeyCreate, ApiKeyCreated, ApiKeyPublic, ApiKeyQuery
from payrec.models.common import Page
from payrec.services.api_key_usage import ApiKeyUsage
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.api_keys import ApiKeyStore
from payrec.storage.database import Connection
from payrec.storage.listing import BY_CREATION

COLLECTION: Final = "/auth/api-keys"


class ApiKeyService:
    """Creates, lists and revokes the keys of the caller's tenant environment."""

    def __init__(
        self, *, work: Work, pager: Pager, usage: ApiKeyUsage, pepper: bytes, token_bytes: Callable[[int], bytes]
    ) -> None:
        self._work = work
        self._pager = pager
        self._usage = usage
        self._pepper = pepper
        self._token_bytes = token_bytes

    async def create(self, caller: Caller, given: ApiKeyCreate) -> ApiKeyCreated:
        """Make a key. Its secret is in this answer and nowhere else; a replayed answer is without it.

        Raises
        ------
        ValidationFailedError
            No flag is true, or the expiry is not in the future.
        ConflictError
            The environment has as many active keys as it may.
        """
        self._check(given)
        value = keys.generate(self._token_bytes)
        key_id = self._work.ids.new()
        async with self._work.control(caller) as unit:
            store = self._store(unit.connection, caller)
            if await store.count_active() >= API_KEYS_ACTIVE_MAX:
                raise ConflictError(f"an environment has at most {API_KEYS_ACTIVE_MAX} active keys; revoke one first")
            row: dict[str, Any] = {
                "id": key_id,
                "public_id": value.public_id,
                "name": given.name,
                "digest": keys.digest(value, self._pepper),
                "read": given.read,
                "write": given.write,
                "expires_at": given.expires_at,
                "created_by": caller.principal.actor,
                "created_at": unit.now,
            }
            await store.add(row)
            stored = await store.get(key_id)
            public = ApiKeyCreated.model_validate(stored)
            unit.record(
                Record(
                    action="api_key.created",
                    resource_id=key_id,
                    after={"publicId": value.public_id, "read": given.read, "write": given.write},
                )
            )
            unit.answer(201, public, public.headers)
        return public.model_copy(update={"api_key": value.text})

    async def page(self, caller: Caller, query: ApiKeyQuery) -> Page[ApiKeyPublic]:
        """Return a page of the environment's keys, without secrets, with their uses by this process up to now."""
        await self._usage.flush()
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.control(readonly=True) as connection:
            rows, more = await self._store(connection, caller).page(listing.request, query)
        return listing.page(
            ApiKeyPublic,
            rows,
            more=more,
        )

    async def get(self, caller: Caller, key_id: str) -> ApiKeyPublic:
        """Return one key's metadata; as ``page``.

        Raises
        ------
        NotFoundError
        """
        await self._usage.flush()
        async with self._work.database.control(readonly=True) as connection:
            row = await self._store(connection, caller).get(identifier(key_id))
        if row is None:
            raise NotFoundError
        return ApiKeyPublic.model_validate(row)

    async def revoke(self, caller: Caller, key_id: str) -> None:
        """Revoke a key; again is the same. It is refused from the next request on.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(key_id)
        async with self._work.control(caller) as unit:
            is_new = await self._store(unit.connection, caller).revoke(wanted)
            if is_new is None:
                raise NotFoundError
            if is_new:
                unit.record(Record(action="api_key.revoked", resource_id=wanted))

    def _store(self, connection: Connection, caller: Caller) -> ApiKeyStore:
        return ApiKeyStore(
            connection,
            tenant_id=caller.tenant.tenant_id,
            environment=caller.tenant.environment,
            now=self._work.clock.now(),
        )

    def _check(self, given: ApiKeyCreate) -> None:
        errors = []
        if not (given.read or given.write):
            errors.append(FieldError(pointer="/read", code="flag_required", detail="read or write must be true"))
        if given.expires_at is not None and given.expires_at <= self._work.clock.now():
            errors.append(FieldError(pointer="/expiresAt", code="not_in_future", detail="must be in the future"))
        if errors:
            raise ValidationFailedError.of(*errors)
