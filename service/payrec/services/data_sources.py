"""Data sources: where files are, and what is known of them before they come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from payrec.constants import DATA_SOURCES_MAX, PROFILE_BYTES_MAX
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.settings import merged
from payrec.errors import ConflictError, FieldError, NotFoundError, ValidationFailedError
from payrec.formats.csv.profile import validate_profile
from payrec.models.common import Page
from payrec.models.data_sources import CONFIGS, DataSourceCreate, DataSourcePublic, DataSourceQuery, DataSourceUpdate
from payrec.models.imports import UploadOptions
from payrec.services.paging import Pager
from payrec.services.read_options import profile_of
from payrec.services.source_configs import RATES_FORMAT, SourceConfigs, first_sync, needs_secret_again
from payrec.services.source_secrets import SourceSecrets
from payrec.services.validation import check_members, check_version, identifier
from payrec.services.work import Work
from payrec.storage.data_sources import DataSourceStore
from payrec.storage.database import Connection
from payrec.storage.listing import BY_CREATION

COLLECTION: Final = "/data-sources"

_CHANGEABLE: Final = ("name", "format", "profile", "account", "enabled", "schedule", "config", "secret_ref")
"""What people may change, and what the audit keeps of it."""

_NOT_STORED: Final = re.compile(r"[\x00\ud800-\udfff]")
"""What PostgreSQL stores in no text."""


class DataSourceService:
    """Creates, lists, changes and deletes the data sources of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager, configs: SourceConfigs, secrets: SourceSecrets) -> None:
        self._work = work
        self._pager = pager
        self._configs = configs
        self._secrets = secrets

    async def create(self, caller: Caller, given: DataSourceCreate) -> DataSourcePublic:
        """Store a data source.

        Raises
        ------
        ValidationFailedError
            The profile, config, secret or schedule is wrong.
        UrlNotAllowedError
            It is where nothing is read from.
        ConflictError
            The name is taken, or the environment has as many as it may.
        """
        _check_profile(given.profile)
        source_id = self._work.ids.new()
        values = given.model_dump(exclude={"secret"})
        has_secret = given.secret is not None
        values["config"] = self._configs.checked(caller.tenant, values, secret=given.secret, has_secret=has_secret)
        next_sync_at = first_sync(given.schedule, caller.tenant, self._work.clock.now())
        sealed = self._secrets.seal(source_id, given.secret) if given.secret is not None else None
        async with self._work.tenant(caller) as unit:
            store = DataSourceStore(unit.connection)
            if await store.count() >= DATA_SOURCES_MAX:
                raise ConflictError(f"an environment has at most {DATA_SOURCES_MAX} data sources; delete one first")
            await store.add(
                {
                    "id": source_id,
                    "change_id": unit.change_id,
                    "created_at": unit.now,
                    "updated_at": unit.now,
                    "next_sync_at": next_sync_at,
                    "secret": sealed,
                    **values,
                }
            )
            public = DataSourcePublic.model_validate(await store.get(source_id))
            after = {**values, "hasSecret": has_secret}
            unit.record(Record(action="data_source.created", resource_id=source_id, after=after))
            unit.answer(201, public, public.headers)
        return public

    async def get(self, caller: Caller, source_id: str) -> DataSourcePublic:
        """Return one.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await DataSourceStore(connection).get(identifier(source_id))
        if row is None:
            raise NotFoundError
        return DataSourcePublic.model_validate(row)

    async def page(self, caller: Caller, query: DataSourceQuery) -> Page[DataSourcePublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await DataSourceStore(connection).page(listing.request, query)
        return listing.page(
            DataSourcePublic,
            rows,
            more=more,
        )

    async def update(
        self, caller: Caller, source_id: str, given: DataSourceUpdate, if_match: str | None
    ) -> DataSourcePublic:
        """Change what is given; files that came before stay what they are.

        Raises
        ------
        NotFoundError, VersionMismatchError, ValidationFailedError, UrlNotAllowedError
        ConflictError
            The name is taken.
        """
        wanted = identifier(source_id)
        if "name" in given.model_fields_set and given.name is None:
            raise ValidationFailedError.of(FieldError(pointer="/name", code="required", detail="cannot be removed"))
        async with self._work.tenant(caller) as unit:
            store = DataSourceStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            values = _changed(before, given)
            stored = await store.for_sync(wanted)
            hidden = self._pulled(caller, before, values, given, stored or {}, now=unit.now)
            await store.update(wanted, {**values, **hidden}, change_id=unit.change_id, at=unit.now)
            public = DataSourcePublic.model_validate(await store.get(wanted))
            unit.record(
                Record(
                    action="data_source.updated",
                    resource_id=wanted,
                    before={name: before[name] for name in values},
                    after={**values, "hasSecret": hidden["secret"] is not None} if "secret" in hidden else values,
                )
            )
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        return public

    def _pulled(
        self,
        caller: Caller,
        before: dict[str, Any],
        values: dict[str, Any],
        given: DataSourceUpdate,
        stored: dict[str, Any],
        *,
        now: datetime,
    ) -> dict[str, Any]:
        """Check what a patch makes of the source, complete ``values``, and return what of it is shown to nobody."""
        after = {**before, **values}
        sealed, is_given = stored["secret"], "secret" in given.model_fields_set
        if is_given:
            sealed = self._secrets.seal(before["id"], given.secret) if given.secret is not None else None
        config = self._configs.checked(caller.tenant, after, secret=given.secret, has_secret=sealed is not None)
        is_kept = sealed is not None and not is_given
        if is_kept and needs_secret_again(before["kind"], before["config"], config):
            # Else whoever may change a source could have its secret sent to a server of his own.
            detail = "must be given again when the server is another one"
            raise ValidationFailedError.of(FieldError(pointer="/secret", code="required", detail=detail))
        if "config" in values:
            values["config"] = config
        hidden: dict[str, Any] = {"secret": sealed} if is_given else {}
        if "schedule" in values:
            hidden["next_sync_at"] = first_sync(values["schedule"], caller.tenant, now)
        return hidden

    async def delete(self, caller: Caller, source_id: str, if_match: str | None) -> None:
        """Delete one; what it brought stays, with its id.

        Raises
        ------
        NotFoundError, VersionMismatchError
        """
        wanted = identifier(source_id)
        async with self._work.tenant(caller) as unit:
            store = DataSourceStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            await store.delete(wanted)
            unit.record(
                Record(
                    action="data_source.deleted",
                    resource_id=wanted,
                    before={name: before[name] for name in _CHANGEABLE},
                )
            )

    async def applied(self, caller: Caller, options: UploadOptions) -> UploadOptions:
        """Return the options with what their data source adds to them; raises as ``with_source``."""
        if options.data_source_id is None:
            return options
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            return await with_source(connection, options)


async def with_source(connection: Connection, options: UploadOptions) -> UploadOptions:
    """Return the options of an upload with what its data source adds: whatever the upload itself does not say.

    Profiles are merged (RFC 7396), so that an upload can change one member of its source's.

    Raises
    ------
    NotFoundError
        There is no such data source here.
    ConflictError
        It is disabled.
    ValidationFailedError
        As ``profile_of``.
    """
    if options.data_source_id is None:
        return options
    source = await DataSourceStore(connection).get(options.data_source_id)
    if source is None:
        raise NotFoundError("there is no such data source")
    if not source["enabled"]:
        raise ConflictError("the data source is disabled")
    if source["format"] == RATES_FORMAT:
        raise ConflictError("the data source brings exchange rates, not transactions")
    profile = _with_profile(source["profile"], profile_of(options))
    return options.model_copy(
        update={
            "format": options.format if "format" in options.model_fields_set else source["format"],
            "account": options.account or source["account"],
            "profile": json.dumps(profile, sort_keys=True) if profile else None,
        }
    )


def _changed(before: dict[str, Any], given: DataSourceUpdate) -> dict[str, Any]:
    """Return the values of the members that a patch has; raises ``ValidationFailedError``."""
    values: dict[str, Any] = {name: getattr(given, name) for name in given.model_fields_set - {"secret"}}
    for name, default in (("format", "auto"), ("enabled", True)):
        if name in values and values[name] is None:
            values[name] = default
    if "profile" in values:
        values["profile"] = _with_profile(before["profile"], given.profile) if given.profile is not None else {}
        _check_profile(values["profile"])
    if "config" in values:
        values["config"] = merged(before["config"], given.config) if given.config is not None else {}
        if given.config and before["kind"] in CONFIGS:
            check_members(CONFIGS[before["kind"]], given.config, pointer="/config")
    return values


def _with_profile(profile: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a profile with a patch merged into it; names that it cannot have are refused where they are null, too."""
    try:
        validate_profile(patch)
    except ValidationFailedError as error:
        unknown = [field for field in error.errors if field.code == "unknown_field"]
        if unknown:
            raise ValidationFailedError.of(*unknown) from None
    return merged(profile, patch)


def _check_profile(profile: dict[str, Any]) -> None:
    """Check a profile as an upload's is checked, and that it can be stored; raises ``ValidationFailedError``."""
    if len(json.dumps(profile)) > PROFILE_BYTES_MAX:
        detail = f"must have at most {PROFILE_BYTES_MAX} characters as JSON"
        raise ValidationFailedError.of(FieldError(pointer="/profile", code="too_long", detail=detail))
    validate_profile(profile)
    if any(_NOT_STORED.search(text) for text in _texts(profile)):
        detail = "must not have the character NUL or half of a surrogate pair"
        raise ValidationFailedError.of(FieldError(pointer="/profile", code="text_control_characters", detail=detail))


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON document, names of members included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _texts(member)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
