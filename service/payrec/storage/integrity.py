"""Constraint names to typed errors: what the database refuses becomes what the interface says."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

from payrec.errors import (
    AccountTakenError,
    AlreadyMatchedError,
    DataSourceNameTakenError,
    DuplicateExternalIdError,
    MatchRunInProgressError,
    PayrecError,
    ReferenceTakenError,
    SlugTakenError,
    StorageFullError,
    UnavailableError,
    UsernameTakenError,
)

ERRORS_BY_CONSTRAINT: Final[dict[str, type[PayrecError]]] = {
    "account_unique": AccountTakenError,
    "allocation_pkey": AlreadyMatchedError,
    "allocation_within_amount": AlreadyMatchedError,
    "data_source_name_unique": DataSourceNameTakenError,
    "expected_transaction_external_id_unique": DuplicateExternalIdError,
    "expected_transaction_issued_reference_unique": ReferenceTakenError,
    "incoming_transaction_external_id_unique": DuplicateExternalIdError,
    "incoming_transaction_identity_unique": DuplicateExternalIdError,
    "job_match_run_unique": MatchRunInProgressError,
    "tenant_slug_unique": SlugTakenError,
    "tenant_environment_schema_unique": SlugTakenError,
    "tenant_resource_uid_unique": SlugTakenError,
    "tenant_resource_unique": SlugTakenError,
    "app_user_username_unique": UsernameTakenError,
    "app_user_subject_unique": UsernameTakenError,
    "idp_user_pkey": UsernameTakenError,
}
"""A violation of a constraint that is not listed is a defect of ours: 500."""


_NAMED: Final = re.compile(r'constraint "([^"]+)"')
_OF_SHARD: Final = re.compile(r"_[0-9]{6,}$")
"""What Citus adds to names of indexes on its workers, and so to those of constraints that have one."""


_LOST: Final = (
    "server closed the connection unexpectedly",
    "could not receive data from server",
    "could not send data to server",
    "no connection to the server",
    "SSL SYSCALL error",
    "SSL connection has been closed unexpectedly",
    "failure on connection marked as essential",
    "failed to prepare transaction",
    "could not commit transaction for shard",
)
"""What the coordinator of Citus says of a worker that it has lost, mostly at COMMIT; most of it are libpq's words."""

_WORDS: Final[dict[str, type[psycopg.Error]]] = {
    "violates unique constraint": errors.UniqueViolation,
    "violates foreign key constraint": errors.ForeignKeyViolation,
    "violates check constraint": errors.CheckViolation,
    "deadlock detected": errors.DeadlockDetected,
    "due to lock timeout": errors.LockNotAvailable,
    "could not acquire the lock required to": errors.LockNotAvailable,
    "due to statement timeout": errors.QueryCanceled,
    "No space left on device": errors.DiskFull,
    **dict.fromkeys(_LOST, errors.ConnectionFailure),
}
"""What PostgreSQL's messages say, and the kind of error whose messages say it."""

_PLANNED_BEFORE: Final = "RevalidateCachedQuery"
"""Where PostgreSQL refuses a statement whose columns are others than when it was prepared: a migration has added one.
"""


_TIMES_OUT: Final = errors.IdleInTransactionSessionTimeout | errors.TransactionTimeout
"""What ends a connection, as the other bounds of the server do, and counts as a state of its transaction."""


def meant_by_worker(error: errors.InternalError_) -> psycopg.Error:
    """Return what a worker of Citus means that refuses to COPY, or that is lost, or has a schema that is on the move.

    It comes in words alone, as an error without a kind.
    """
    said = str(error)
    return next((kind(said) for words, kind in _WORDS.items() if words in said), error)


def translate(error: psycopg.IntegrityError) -> PayrecError | None:
    """Return the typed error for the violated constraint, or None."""
    name = error.diag.constraint_name
    if name is None:
        # Citus hands on what a worker says, and not which constraint it says it of.
        said = _NAMED.search(str(error))
        name = _OF_SHARD.sub("", said[1]) if said else ""
    kind = ERRORS_BY_CONSTRAINT.get(name)
    return kind() if kind is not None else None


def unavailable(error: psycopg.Error) -> UnavailableError | None:
    """Return what the interface says where the database cannot do now what it could, or None."""
    meant = meant_by_worker(error) if isinstance(error, errors.InternalError_) else error
    if isinstance(meant, errors.DiskFull):
        return StorageFullError("the database's disk is full")
    if isinstance(meant, errors.DeadlockDetected | errors.LockNotAvailable):
        return UnavailableError("others were changing the same")
    if isinstance(meant, psycopg.OperationalError | _TIMES_OUT):
        return UnavailableError("the database did not answer")
    if is_planned_before(meant):
        return UnavailableError("the environment has just been migrated")
    return None


def is_spent(error: psycopg.Error) -> bool:
    """Tell whether a connection would fail at the same each time.

    Its server only reads, as a standby does, or it has prepared what has changed since. A new one finds who writes,
    when names have moved.
    """
    return isinstance(error, errors.ReadOnlySqlTransaction) or is_planned_before(error)


def is_planned_before(error: psycopg.Error) -> bool:
    """Tell whether a statement was prepared before its columns were others: with that connection it fails each time.

    psycopg keeps what was prepared, but for the first ROLLBACK of a connection.
    """
    return isinstance(error, errors.FeatureNotSupported) and error.diag.source_function == _PLANNED_BEFORE
