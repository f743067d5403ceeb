"""Data sources on the wire: where files come from, and what is known of them before they come."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from payrec.constants.sources import (
    SOURCE_HOST_KEY_LENGTH_MAX,
    SOURCE_PATH_LENGTH_MAX,
    SOURCE_PATTERN_LENGTH_MAX,
    SOURCE_SCHEDULE_LENGTH_MAX,
    SOURCE_SECRET_VALUE_LENGTH_MAX,
    SOURCE_URLS_MAX,
)
from payrec.models.common import ListQuery, OwnAccount, Public, Request, Resource, Text
from payrec.models.imports import UploadFormat

_HOST_KEY: Final = r"^(ssh|ecdsa|sk)-[0-9a-z@.-]+ [0-9A-Za-z+/=]+( [ -~]*)?$"


def _below(value: str) -> str:
    if any(part in {".", ".."} for part in value.split("/")):
        raise PydanticCustomError("path_relative", "must not go up")
    return value


DataSourceFormat = Literal[UploadFormat, "ecb_fx_rates"]
"""What its files are: statements, or the exchange rates of the European Central Bank."""
DataSourceKind = Literal["upload", "s3", "gcs", "azure", "http", "sftp"]
DataSourceStatus = Literal["ok", "failing", "disabled"]
Profile = Annotated[
    dict[str, Any],
    Field(description="What its tables look like, where detection shall not decide; the same as of an upload."),
]


SourceConfig = Annotated[dict[str, Any], Field(description="Where its files are; what is in it depends on the kind.")]
Schedule = Annotated[
    str,
    StringConstraints(min_length=1, max_length=SOURCE_SCHEDULE_LENGTH_MAX),
    Field(description="When it is pulled: cron, five fields, in the tenant's time zone."),
]
SourceSecret = Annotated[
    dict[str, Annotated[str, StringConstraints(min_length=1, max_length=SOURCE_SECRET_VALUE_LENGTH_MAX)]],
    Field(description="Credentials, by kind. Stored encrypted, never told."),
]
SecretRef = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253),
    Field(description="Name of a mounted secret with a file for each member, instead of `secret`."),
]


Url = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
Directory = Annotated[
    str, StringConstraints(max_length=SOURCE_PATH_LENGTH_MAX, pattern=r"^([^/\x00-\x1f]+/)+$"), AfterValidator(_below)
]
"""Ends with a slash, and does not begin with one."""
BucketName = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,221}$")]


class DataSourceCreate(Request):
    """A new data source."""

    name: Text
    kind: DataSourceKind
    format: DataSourceFormat = "auto"
    profile: Profile = Field(default_factory=dict)
    account: OwnAccount | None = None
    enabled: bool = True
    schedule: Schedule | None = None
    config: SourceConfig = Field(default_factory=dict)
    secret: SourceSecret | None = None
    secret_ref: SecretRef | None = None


class DataSourceUpdate(Request):
    """A merge patch (RFC 7396): null goes back to the default, and a profile is merged member by member."""

    name: Text | None = None
    format: DataSourceFormat | None = None
    profile: Profile | None = None
    account: OwnAccount | None = None
    enabled: bool | None = None
    schedule: Schedule | None = None
    config: SourceConfig | None = None
    secret: SourceSecret | None = None
    """Replaced as a whole."""
    secret_ref: SecretRef | None = None


class DataSourcePublic(Resource):
    """A data source."""

    collection: ClassVar[str] = "/data-sources"

    name: str
    kind: DataSourceKind
    format: DataSourceFormat
    profile: dict[str, Any]
    account: str | None
    schedule: str | None
    config: dict[str, Any]
    secret_ref: str | None
    enabled: bool
    status: DataSourceStatus
    """``failing`` from a file that cannot be read to the next one that can."""
    last_sync_at: datetime | None
    """When it was pulled, or a file of it read, last, well or not."""
    next_sync_at: datetime | None
    """When it is pulled again."""
    last_error: dict[str, Any] | None


class DataSourceQuery(ListQuery):
    """Filters of the data sources."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: DataSourceStatus | None = None
    kind: DataSourceKind | None = None


class PulledConfig(Request):
    """What every kind that is pulled has."""

    pattern: Annotated[str, StringConstraints(min_length=1, max_length=SOURCE_PATTERN_LENGTH_MAX)] = "*"
    """Which names are read: ``?`` and ``*`` stop at slashes, ``**`` does not."""


class KeptConfig(PulledConfig):
    """What every kind has whose objects may be changed."""

    after_read: Literal["leave", "delete", "move"] = "leave"
    """What is done with an object when its import is completed."""
    move_to: Directory | None = None


class BucketConfig(KeptConfig):
    """What object stores have in common."""

    prefix: Directory | None = None
    anonymous: bool = False
    """Nothing is signed; there is no secret."""


class S3Config(BucketConfig):
    """A bucket of Amazon S3, or at ``endpoint`` of what speaks like it."""

    bucket: BucketName
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,50}$")] | None = None
    endpoint: Url | None = None


class GcsConfig(BucketConfig):
    """A bucket of Google Cloud Storage."""

    bucket: BucketName


class AzureConfig(BucketConfig):
    """A container of Azure Blob Storage."""

    account_name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{3,24}$")]
    container: BucketName
    endpoint: Url | None = None


class SftpConfig(KeptConfig):
    """A directory of an SFTP server."""

    host: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z:][0-9A-Za-z.:_-]{0,252}$")]
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    username: Text
    host_key: Annotated[str, StringConstraints(max_length=SOURCE_HOST_KEY_LENGTH_MAX, pattern=_HOST_KEY)]
    """The server's public key, as in a ``known_hosts`` file behind the name: ``ssh-ed25519 AAAA…``."""
    directory: Annotated[str, StringConstraints(max_length=SOURCE_PATH_LENGTH_MAX, pattern=r"^[^\x00-\x1f]+$")] = "."


class HttpConfig(PulledConfig):
    """Files at fixed addresses."""

    urls: Annotated[list[Url], Field(min_length=1, max_length=SOURCE_URLS_MAX)]
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=SOURCE_PATTERN_LENGTH_MAX)] = "**"


CONFIGS: Final[dict[str, type[PulledConfig]]] = {
    "s3": S3Config,
    "gcs": GcsConfig,
    "azure": AzureConfig,
    "http": HttpConfig,
    "sftp": SftpConfig,
}
"""What ``config`` is, by kind."""

SECRETS: Final[dict[str, tuple[frozenset[str], ...]]] = {
    "s3": (
        frozenset({"accessKeyId", "secretAccessKey"}),
        frozenset({"accessKeyId", "secretAccessKey", "sessionToken"}),
    ),
    "gcs": (frozenset({"serviceAccountKey"}),),
    "azure": (frozenset({"accountKey"}), frozenset({"sasToken"})),
    "http": (frozenset({"username", "password"}), frozenset({"bearerToken"})),
    "sftp": (frozenset({"password"}), frozenset({"privateKey"}), frozenset({"privateKey", "passphrase"})),
}
"""The members that a secret of a kind may have together."""

PLACES: Final[dict[str, tuple[str, ...]]] = {
    "s3": ("endpoint",),
    "gcs": (),
    "azure": ("account_name", "endpoint"),
    "http": ("urls",),
    "sftp": ("host", "port", "host_key"),
}
"""Members of ``config`` that say whom a secret is shown to."""


class SyncParams(Request):
    """The ``params`` of a job of kind ``sync``."""

    data_source_id: Annotated[UUID, Field(strict=False)]


class SyncFailure(Public):
    """An object that could not be read."""

    name: str
    code: str
    detail: str


class SyncResult(Public):
    """The ``result`` of a job of kind ``sync``."""

    data_source_id: UUID
    listed: int
    """Objects that fit the pattern."""
    imported: int
    """Objects that were read and became an import, which may be one that there was already."""
    waiting: int
    """Objects that are still being written, or were replaced while they were read, or are beyond what one sync does."""
    failed: int
    """Objects that could not be read, also those that are not tried any more."""
    errors: list[SyncFailure]
    """The first of them."""
