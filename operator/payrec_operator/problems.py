"""What went wrong in a pass: an error as a reason, a sentence, and whether time may heal it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from payrec.errors import (
    ConflictError,
    MigrationFailedError,
    PayrecError,
    ProvisioningDeniedError,
    RevisionAheadError,
    SchemaConflictError,
    SchemaNotOwnedError,
    SlugTakenError,
    UnavailableError,
    ValidationFailedError,
)
from payrec_operator.errors import (
    OperatorError,
    SecretConflictError,
    SecretForbiddenError,
    SecretsUnavailableError,
)
from payrec_operator.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a part of the resource is not as it should be."""

    reason: Reason
    message: str
    transient: bool = False
    """Whether the pass is tried again soon; otherwise somebody has to change something, and the timer looks again."""


_REASONS: Final[tuple[tuple[type[Exception], Reason, bool], ...]] = (
    (SchemaNotOwnedError, Reason.SCHEMA_NOT_OWNED, False),
    (SchemaConflictError, Reason.SCHEMA_CONFLICT, False),
    (RevisionAheadError, Reason.REVISION_AHEAD, False),
    (MigrationFailedError, Reason.MIGRATION_FAILED, True),
    (ProvisioningDeniedError, Reason.PERMISSION_DENIED, True),
    (SlugTakenError, Reason.SLUG_CONFLICT, False),
    (ConflictError, Reason.KEY_STORE_UNAVAILABLE, True),  # a key was revoked meanwhile, or there are too many
    (ValidationFailedError, Reason.INVALID_SPEC, False),
    (UnavailableError, Reason.DATABASE_UNAVAILABLE, True),
    (SecretConflictError, Reason.SECRET_CONFLICT, False),
    (SecretForbiddenError, Reason.SECRET_WRITE_FORBIDDEN, True),
    (SecretsUnavailableError, Reason.KEY_STORE_UNAVAILABLE, True),
)
"""The first that fits counts, and whether time may heal it."""

ENVIRONMENT_REASONS: Final = (
    Reason.SCHEMA_NOT_OWNED,
    Reason.SCHEMA_CONFLICT,
    Reason.PERMISSION_DENIED,
    Reason.DATABASE_UNAVAILABLE,
    Reason.INTERNAL_ERROR,
)
"""Why an environment has no schema as it should be: what takes the longest to mend first."""

MIGRATION_REASONS: Final = (Reason.MIGRATION_FAILED, Reason.REVISION_AHEAD)
"""Why its tables are not this release's."""

CREDENTIALS_REASONS: Final = (Reason.SECRET_CONFLICT, Reason.SECRET_WRITE_FORBIDDEN, Reason.KEY_STORE_UNAVAILABLE)
"""Why a key is not in its Secret: what takes the longest to mend first."""


def problem_of(error: Exception) -> Problem:
    """Return what an error means; the text of one that nobody foresaw stays out, since it may hold anything."""
    for kind, reason, transient in _REASONS:
        if isinstance(error, kind):
            return Problem(reason=reason, message=_told(error), transient=transient)
    known = f": {error.detail}" if isinstance(error, PayrecError) else ""
    message = f"an error that nobody foresaw ({type(error).__name__}{known}); the operator's log has it"
    return Problem(reason=Reason.INTERNAL_ERROR, message=message, transient=True)


def of_environment(problem: Problem) -> Problem:
    """Return a problem with a reason that an environment's conditions have."""
    if problem.reason in (*ENVIRONMENT_REASONS, *MIGRATION_REASONS):
        return problem
    return replace(problem, reason=Reason.INTERNAL_ERROR)


def of_credentials(problem: Problem) -> Problem:
    """Return a problem with a reason that CredentialsReady has: to a key, its table is a part of the store."""
    if problem.reason in (*CREDENTIALS_REASONS, Reason.INTERNAL_ERROR):
        return problem
    return replace(problem, reason=Reason.KEY_STORE_UNAVAILABLE)


def _told(error: Exception) -> str:
    if isinstance(error, PayrecError):
        fields = "; ".join(f"spec{e.pointer.replace('/', '.')}: {e.detail}" for e in error.errors)
        return f"{error.detail}: {fields}" if fields else error.detail
    assert isinstance(error, OperatorError)
    return str(error) or type(error).__name__
