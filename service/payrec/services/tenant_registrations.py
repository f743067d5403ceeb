"""A tenant's registration, given out as a document and taken in again: for the backup of one tenant.

A dump of an environment's schema has its data; what says whose they are, and who may see them, is in the control
schema. The two together make the tenant again, in this installation or in another one, with its ids and its keys.
"""

from __future__ import annotations

import asyncio
from typing import Any

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import ROLES
from payrec.domain.scope import TenantScope, role_name, schema_name
from payrec.domain.slugs import slug_problem
from payrec.errors import ConflictError, FieldError, NotFoundError, SlugTakenError, ValidationFailedError
from payrec.models.tenant_registrations import TenantRegistration
from payrec.services.tenant_settings import check_settings
from payrec.services.tenants import environments_of
from payrec.services.validation import validated
from payrec.services.work import Work
from payrec.storage.migrations import is_ahead, upgrade_control
from payrec.storage.provisioning import Provisioner
from payrec.storage.tenant_registrations import TenantRegistrationStore
from payrec.storage.tenants import TenantStore, standing
from payrec.storage.waiting import WaitingStore


class TenantRegistrationService:
    """Exports and restores registrations. ``provisioner`` None: this process has no administrator, and only exports.

    ``admin_url`` is the administrator's address, and ``login`` the role that the service's connections log in as.
    """

    def __init__(self, *, work: Work, provisioner: Provisioner | None, admin_url: str | None, login: str) -> None:
        self._work = work
        self._provisioner = provisioner
        self._admin_url = admin_url
        self._login = login

    async def export(self, slug: str) -> TenantRegistration:
        """Return what is registered of a tenant whose environments are all there.

        Raises
        ------
        NotFoundError
        ConflictError
            It is being made or deleted.
        ValidationFailedError
            More users or keys than a document may have.
        """
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantRegistrationStore(connection).read(slug)
        if row is None:
            raise NotFoundError(f"there is no tenant {slug}")
        status = row.pop("status")
        if status not in {"active", "suspended"} or any(e["revision"] is None for e in row["environments"]):
            raise ConflictError(f"the tenant {slug} is being made or deleted; a backup of it would not be whole")
        return validated(TenantRegistration, row)

    async def restore(self, caller: Caller, given: TenantRegistration) -> list[TenantScope]:
        """Register the tenant, suspended, and make its roles and schemas, empty; return its environments.

        The tables come from dumps of the schemas. A tenant that belonged to a resource waits for one of the same
        namespace and name. What stops after the registration is refused the next time; ``mend`` makes what is missing.

        Raises
        ------
        SlugTakenError
            The slug, or an id of the document, is registered already.
        UsernameTakenError, ValidationFailedError
        SchemaNotOwnedError
            A schema of that name is there already.
        """
        if self._provisioner is None:
            raise AssertionError("restoring needs a provisioner")
        _check(given)
        scopes = [
            TenantScope(
                tenant_id=given.id,
                environment_id=e.id,
                environment=e.environment,
                slug=given.slug,
                schema_name=schema_name(given.slug, e.environment),
                role_name=role_name(given.id, e.environment),
            )
            for e in given.environments
        ]
        async with self._work.control(caller) as unit:
            store = TenantRegistrationStore(unit.connection)
            ids = [given.id, *(e.id for e in given.environments), *(u.id for u in given.users)]
            ids += [key.id for key in given.api_keys]
            if await store.taken(ids, [key.public_id for key in given.api_keys]):
                raise SlugTakenError("the tenant, or something of it, is registered already")
            await self._provisioner.check_free([scope.schema_name for scope in scopes])
            stamp = {"updated_at": unit.now}
            of = {"tenant_id": given.id}
            is_resource = given.resource_name is not None
            await store.write(
                {
                    **given.model_dump(exclude={"format", "environments", "users", "api_keys"}),
                    **stamp,
                    "status": "suspended",
                    "orphaned_at": unit.now if is_resource else None,
                },
                environments=[
                    {**e.model_dump(), **of, **stamp, "schema_name": s.schema_name, "role_name": s.role_name}
                    for e, s in zip(given.environments, scopes, strict=True)
                ],
                users=[{**user.model_dump(), **of, **stamp} for user in given.users],
                keys=[{**key.model_dump(), **of, "digest": bytes.fromhex(key.digest)} for key in given.api_keys],
            )
            after: dict[str, Any] = {"slug": given.slug, "users": len(given.users), "keys": len(given.api_keys)}
            unit.record(Record(action="tenant.restored", resource_id=given.id, after=after))
        for scope in scopes:
            await self._provisioner.make_empty(scope)
        return scopes

    async def mend(self) -> list[TenantScope]:
        """Give each registered environment its role, rights and schema back, empty where there is none; return all.

        For a control schema that came back from a backup before those of the tenants, whose own roles and rights no
        dump has: they are made first, and it is brought to the head. And for another login role than before, which may
        enter every environment then.

        Raises
        ------
        SchemaConflictError
            A schema of that name belongs to somebody else.
        """
        if self._provisioner is None or self._admin_url is None:
            raise AssertionError("restoring needs a provisioner")
        await asyncio.to_thread(upgrade_control, self._admin_url, login=self._login)
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        scopes = standing(rows)
        for scope in scopes:
            await self._provisioner.make_empty(scope)
        return scopes

    async def wake(self, slug: str) -> int:
        """Tell the workers of what waits in a tenant's environments; return how many these are.

        Wake-ups are no part of an environment's backup. What is told without need is looked at and forgotten.

        Raises
        ------
        NotFoundError
        """
        scopes = standing(await environments_of(self._work, slug))
        for scope in scopes:
            async with self._work.database.tenant(scope) as connection:
                await WaitingStore(connection).tell(scope.environment_id)
        return len(scopes)


def _check(given: TenantRegistration) -> None:
    """Refuse what the fields of the document do not tell by themselves.

    Raises
    ------
    ValidationFailedError
    """
    wrong = slug_problem(given.slug)
    if wrong is not None:
        raise ValidationFailedError.of(FieldError(pointer="/slug", code="slug_malformed", detail=wrong))
    check_settings(given.settings, pointer="/settings")
    for place, user in enumerate(given.users):
        if not set(user.roles) <= ROLES.keys():
            pointer = f"/users/{place}/roles"
            detail = f"must be among {', '.join(ROLES)}"
            raise ValidationFailedError.of(FieldError(pointer=pointer, code="unknown_value", detail=detail))
    for place, environment in enumerate(given.environments):
        if is_ahead("tenant", environment.revision):
            pointer = f"/environments/{place}/revision"
            detail = "is of a newer release: restore it with that release's image"
            raise ValidationFailedError.of(FieldError(pointer=pointer, code="revision_ahead", detail=detail))
