"""Names of those who have decided: what is on record is an id, which nobody reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.services.work import Work
from payrec.storage.api_keys import ApiKeyStore
from payrec.storage.users import UserStore

_USER: Final = "user:"
_USER_ACTOR: Final = re.compile(r"user:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""An imported decision may name whom it likes."""
_KEY: Final = "api_key:"


class ActorNameService:
    """Looks up users of the caller's tenant and keys of its environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def names(self, caller: Caller, actors: Iterable[str | None]) -> dict[str, str]:
        """Return the names of actors; whoever is unknown here, or is payrec itself, has none."""
        wanted = {actor for actor in actors if actor is not None}
        users = [UUID(actor.removeprefix(_USER)) for actor in wanted if _USER_ACTOR.fullmatch(actor)]
        keys = [actor.removeprefix(_KEY) for actor in wanted if actor.startswith(_KEY)]
        if not users and not keys:
            return {}
        scope = caller.tenant
        async with self._work.database.control(readonly=True) as connection:
            named = await UserStore(connection).names(scope.tenant_id, users)
            store = ApiKeyStore(
                connection, tenant_id=scope.tenant_id, environment=scope.environment, now=self._work.clock.now()
            )
            keyed = await store.names(keys)
        found = {f"{_USER}{user_id}": name for user_id, name in named.items()}
        return found | {f"{_KEY}{public_id}": name for public_id, name in keyed.items()}
