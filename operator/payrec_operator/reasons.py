"""Every reason that a condition or an event of a Tenant can have.

operator/README.md lists each with what to do. A reason is part of the interface: health checks compare it, so none is
ever renamed.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason, in the spelling of the status."""

    RECONCILED = "Reconciled"
    """Ready: all that the resource asks for is there."""

    PENDING = "Pending"
    """Ready: the operator has not finished a first pass over the resource."""

    PROGRESSING = "Progressing"
    """Ready: the last pass was cut short, and the next goes on where it ended."""

    PAUSED = "Paused"
    """Ready: the annotation ``payrec.dev/paused`` is there, so nothing is done."""

    INVALID_SPEC = "InvalidSpec"
    """Ready: the resource asks for what cannot be; the message says where."""

    SLUG_CONFLICT = "SlugConflict"
    """Ready: the slug belongs to another tenant."""

    SCHEMAS_NOT_READY = "SchemasNotReady"
    """Ready: an environment has no schema as it should be; see SchemasReady."""

    MIGRATIONS_PENDING = "MigrationsPending"
    """Ready: the tables of an environment are behind this release; see MigrationsCurrent."""

    CREDENTIALS_NOT_READY = "CredentialsNotReady"
    """Ready: a key's Secret does not hold a working key; see CredentialsReady."""

    DATABASE_UNAVAILABLE = "DatabaseUnavailable"
    """Ready, SchemasReady: the database cannot be reached, is read-only, or has no connection left."""

    SUSPENDED = "Suspended"
    """Ready: the tenant, or each of its environments, is suspended as the resource asks."""

    DELETING = "Deleting"
    """Ready: the resource is being deleted."""

    INTERNAL_ERROR = "InternalError"
    """Any condition: an error that nobody foresaw; the operator's log has it."""

    SCHEMAS_APPLIED = "SchemasApplied"
    """SchemasReady: each environment has its role, schema and tables, and those that are to be absent are dropped."""

    SCHEMA_NOT_OWNED = "SchemaNotOwned"
    """SchemasReady: a schema of that name is there that payrec did not make."""

    SCHEMA_CONFLICT = "SchemaConflict"
    """SchemasReady: a schema of that name belongs to another role."""

    PERMISSION_DENIED = "PermissionDenied"
    """SchemasReady: the administrating role of the database lacks a right."""

    UP_TO_DATE = "UpToDate"
    """MigrationsCurrent: the tables of each environment are those of this release."""

    MIGRATION_PENDING = "MigrationPending"
    """MigrationsCurrent: the tables of an environment are not there yet, or are those of an older release."""

    MIGRATION_FAILED = "MigrationFailed"
    """MigrationsCurrent: a migration failed; the tables are as before it."""

    REVISION_AHEAD = "RevisionAhead"
    """MigrationsCurrent: the tables are of a newer release; they are never taken back."""

    SECRETS_SYNCED = "SecretsSynced"
    """CredentialsReady: each key's Secret holds a working key."""

    SECRET_CONFLICT = "SecretConflict"  # noqa: S105 - the name of a reason
    """CredentialsReady: a Secret of that name is there that the Tenant does not control."""

    SECRET_WRITE_FORBIDDEN = "SecretWriteForbidden"  # noqa: S105 - the name of a reason
    """CredentialsReady: the operator's account may not write Secrets in the namespace."""

    KEY_STORE_UNAVAILABLE = "KeyStoreUnavailable"
    """CredentialsReady: the keys' table or the API server's Secrets cannot be read or written."""

    USERS_SYNCED = "UsersSynced"
    """UsersReady: each listed user is there with its roles."""

    USERNAME_CONFLICT = "UsernameConflict"
    """UsersReady: a username or subject is somebody else's."""

    OVERLAP_ACTIVE = "OverlapActive"
    """Rotating: a key has been replaced, and the one before works until its overlap ends."""

    ROTATION_DEFERRED = "RotationDeferred"
    """Rotating: a rotation waits until the overlap of the one before has ended."""

    ROTATION_FAILED = "RotationFailed"
    """Rotating: a rotation failed; the Secret still holds the working key before, and it is tried again."""

    DROPPING_SCHEMAS = "DroppingSchemas"
    """Deleting: the keys are off, and the schemas are set aside to be dropped (policy Delete) or kept (Retain)."""

    DROP_FAILED = "DropFailed"
    """Deleting: a step failed and is tried again, a bounded number of times."""

    SECRET_ROTATED = "SecretRotated"  # noqa: S105 - the name of a reason
    """Event only: a Secret got a new key."""
