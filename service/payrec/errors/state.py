"""What is stored: 404, 405, 409 and 412."""

from __future__ import annotations

from collections.abc import Sequence

from payrec.errors.base import PayrecError


class NotFoundError(PayrecError):
    """Unknown, malformed, or somebody else's: the answer is the same."""

    status = 404
    code = "not_found"
    title = "Not found"
    remedy = "Check path, id, tenant and environment. What belongs to others is answered like what is not there."


class MethodNotAllowedError(PayrecError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"
    title = "The method is not allowed"
    remedy = "Use one of the methods that ``Allow`` lists."

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(headers={"Allow": ", ".join(sorted(allowed))})


class ConflictError(PayrecError):
    """The state of the resource does not allow it."""

    status = 409
    code = "invalid_state"
    title = "The state does not allow this"
    remedy = "Read the resource again: ``detail`` says what its state does not allow."


class IdempotencyInProgressError(ConflictError):
    """The first request with this key has not finished."""

    code = "idempotency_in_progress"
    title = "A request with this Idempotency-Key is still running"
    remedy = "Wait a second, and repeat it with the same key: the answer will be that of the first."


class DataSourceNameTakenError(ConflictError):
    """Another data source of the environment has this name."""

    title = "The name is taken"


class AccountTakenError(ConflictError):
    """The environment has an account of this identifier and currency."""

    title = "The account exists already"


class PeriodLockedError(ConflictError):
    """The day is in a period that is locked; ``firstOpenOn`` is the first day that is not."""

    code = "period_locked"
    title = "The period is locked"
    remedy = "Use a day from ``firstOpenOn`` on, or have the period reopened by who may."


class PeriodIncompleteError(ConflictError):
    """The period is not ready to be locked; ``incomplete`` says what is missing."""

    code = "period_incomplete"
    title = "The period is incomplete"
    remedy = "Settle what ``incomplete`` lists, or lock it with ``override``."


class AlreadyMatchedError(ConflictError):
    """A transaction of this match has been allocated elsewhere meanwhile."""

    code = "already_matched"
    title = "The amounts have been matched elsewhere"
    remedy = "Read both transactions again; if something is open still, run matching or match what is left."


class StaleProposalError(ConflictError):
    """A transaction of the proposal changed after the proposal was made; ``changed`` names what."""

    code = "stale_proposal"
    title = "The proposal is out of date"
    remedy = "Read the transactions that ``changed`` names, and run matching again for a new proposal."


class DuplicateExternalIdError(ConflictError):
    """The externalId exists in this tenant environment; ``existingId`` names it."""

    code = "duplicate_external_id"
    title = "The externalId exists already"
    remedy = "Read the one that ``existingId`` names; change it, or send another ``externalId``."


class ReferenceTakenError(ConflictError):
    """A reference that was made here is there already: another one has to be made."""

    title = "The reference exists already"


class DuplicateContentError(ConflictError):
    """The same content is stored under another identity, and the tenant refuses that; ``existingId`` names it."""

    title = "The same content exists already"


class SlugTakenError(ConflictError):
    """Another tenant has this slug."""

    code = "slug_taken"
    title = "The slug is taken"
    remedy = "Choose another slug."


class SchemaNotOwnedError(ConflictError):
    """A schema of an environment's name is there, and no environment is registered for it. It is left as it is."""

    code = "slug_taken"
    title = "The slug is taken"

    def __init__(self) -> None:
        super().__init__(
            "a schema of this environment's name is there already and no tenant has it: rename or drop it, choose"
            ' another slug, or, for a Tenant resource, take it over with the annotation payrec.dev/adopt: "true"'
        )


class SchemaConflictError(ConflictError):
    """A schema of an environment's name belongs to a role that is not the environment's. It is never adopted."""

    code = "slug_taken"
    title = "The slug is taken"

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(
            detail
            or "the schema of this environment's name belongs to another role: rename it, choose another slug, or give"
            " it to the environment's role"
        )


class RevisionAheadError(ConflictError):
    """The tables are of a newer release than this one; they are never taken back."""

    def __init__(self) -> None:
        super().__init__("the tables are of a newer release: use that release's image; nothing has been changed")


class UsernameTakenError(ConflictError):
    """Another user of this identity provider has this name."""

    code = "username_taken"
    title = "The username is taken"
    remedy = "Choose another username, or name the user that is there."


class MatchRunInProgressError(ConflictError):
    """Only one run at a time for a tenant environment; ``jobId`` names the one that runs."""

    code = "match_run_in_progress"
    title = "A matching run is in progress"
    remedy = "Wait for the job that ``jobId`` names; what was added meanwhile is in the next run."


class JobCancelledError(ConflictError):
    """The job was cancelled, and what it would have done with it."""

    code = "cancelled"
    title = "The job was cancelled"
    remedy = "Start the job again if it is still wanted; nothing of it is kept."


class VersionMismatchError(PayrecError):
    """If-Match names another version than the stored one."""

    status = 412
    code = "version_mismatch"
    title = "The resource has another version"
    remedy = "Read the resource again, make the change to what it is now, and send its new ``ETag`` in ``If-Match``."
