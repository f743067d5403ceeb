"""Every error that payrec raises on purpose, as one tree.

::

    PayrecError
     +-- BadRequestError              400 malformed_body
     |    +-- MissingHeaderError      400 missing_tenant_header, missing_environment_header
     |    +-- InvalidHeaderError      400 invalid_tenant_header, invalid_environment_header
     |    +-- InvalidCursorError      400 invalid_cursor
     |    +-- InvalidIdempotencyKeyError 400 invalid_idempotency_key
     +-- UnauthenticatedError         401 (WWW-Authenticate)
     |    +-- MissingCredentialsError, InvalidCredentialsError, ExpiredCredentialsError,
     |        RevokedCredentialsError, UnknownUserError
     +-- ForbiddenError               403 insufficient_permission
     |    +-- UserDisabledError, TenantSuspendedError, TenantMismatchError,
     |        EnvironmentMismatchError, EnvironmentSuspendedError, JwtRequiredError
     +-- NotFoundError                404 not_found
     +-- MethodNotAllowedError        405 method_not_allowed (Allow)
     +-- ConflictError                409 invalid_state
     |    +-- IdempotencyInProgressError, AlreadyMatchedError, StaleProposalError,
     |        DuplicateExternalIdError, SlugTakenError, UsernameTakenError, MatchRunInProgressError
     +-- VersionMismatchError         412 version_mismatch
     +-- PayloadTooLargeError         413 payload_too_large
     +-- UnsupportedMediaTypeError    415 unsupported_media_type
     +-- UnprocessableError           422 validation_failed
     |    +-- ValidationFailedError, AmountOutOfRangeError, AmountExceedsOpenError,
     |        IdempotencyKeyReusedError, UnreadableFileError
     +-- HeaderTooLargeError          431 header_too_large
     +-- UnavailableError             503 service_unavailable (Retry-After)
          +-- IdentityProviderUnavailableError, TenantProvisioningError

The codes and the statuses are the interface's: nothing here may be renamed. An error is rendered in one place,
``payrec.problems`` (RFC 9457). No message may contain the offending input or a credential.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One field that is wrong, by JSON pointer (RFC 6901) into the body, or the name of a parameter."""

    pointer: str
    code: str
    detail: str


class PayrecError(Exception):
    """The root: a stable code, an HTTP status, a title for people, and extra members of the problem."""

    status: ClassVar[int] = 500
    code: str = "internal_error"
    title: str = "Internal error"

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members


class ConfigurationError(PayrecError):
    """A setting is missing or contradicts another; ends the start with one readable line."""

    code = "configuration"
    title = "Configuration error"


class BadRequestError(PayrecError):
    """The request cannot be read at all."""

    status = 400
    code = "malformed_body"
    title = "The body is not valid"


class MissingHeaderError(BadRequestError):
    """A tenant header that every endpoint of a tenant needs is absent."""

    title = "A required header is missing"

    def __init__(self, header: str, code: str) -> None:
        super().__init__(f"the header {header} is required")
        self.code = code


class InvalidHeaderError(BadRequestError):
    """A tenant header is there but cannot be what it must be."""

    title = "A header is malformed"

    def __init__(self, header: str, code: str, detail: str) -> None:
        super().__init__(f"the header {header} {detail}")
        self.code = code


class InvalidCursorError(BadRequestError):
    """A cursor that this service did not issue for this very list."""

    code = "invalid_cursor"
    title = "The cursor is not valid for this list"


class InvalidIdempotencyKeyError(BadRequestError):
    """An Idempotency-Key outside 1..255 visible ASCII characters."""

    code = "invalid_idempotency_key"
    title = "The Idempotency-Key is malformed"


class UnauthenticatedError(PayrecError):
    """Nobody we know; carries the challenge of RFC 6750."""

    status = 401
    code = "invalid_credentials"
    title = "The credentials are not valid"

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="payrec"'})


class MissingCredentialsError(UnauthenticatedError):
    """Neither X-Api-Key nor Authorization."""

    code = "missing_credentials"
    title = "Credentials are required"


class InvalidCredentialsError(UnauthenticatedError):
    """Malformed, unknown or badly signed; which of them is not told."""


class ExpiredCredentialsError(UnauthenticatedError):
    """A token or key whose time is over."""

    code = "expired_credentials"
    title = "The credentials have expired"


class RevokedCredentialsError(UnauthenticatedError):
    """An API key that was revoked."""

    code = "revoked_credentials"
    title = "The credentials have been revoked"


class UnknownUserError(UnauthenticatedError):
    """A valid token for a user or a tenant that is not stored here, or of another tenant."""

    code = "unknown_user"
    title = "The user is not known"


class ForbiddenError(PayrecError):
    """Known, but not allowed."""

    status = 403
    code = "insufficient_permission"
    title = "The permission is missing"


class UserDisabledError(ForbiddenError):
    """The user was disabled."""

    code = "user_disabled"
    title = "The user is disabled"


class TenantSuspendedError(ForbiddenError):
    """The tenant is suspended or being deleted."""

    code = "tenant_suspended"
    title = "The tenant is suspended"


class TenantMismatchError(ForbiddenError):
    """X-Tenant-Id is not the principal's tenant."""

    code = "tenant_mismatch"
    title = "The tenant is not the principal's"


class EnvironmentMismatchError(ForbiddenError):
    """X-Environment is not one that the principal or the tenant has."""

    code = "environment_mismatch"
    title = "The environment is not open to the principal"


class EnvironmentSuspendedError(ForbiddenError):
    """This environment of the tenant is suspended."""

    code = "environment_suspended"
    title = "The environment is suspended"


class JwtRequiredError(ForbiddenError):
    """An API key on an endpoint that only people may use."""

    code = "jwt_required"
    title = "An API key cannot be used here"


class NotFoundError(PayrecError):
    """Unknown, malformed, or somebody else's: the answer is the same."""

    status = 404
    code = "not_found"
    title = "Not found"


class MethodNotAllowedError(PayrecError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"
    title = "The method is not allowed"

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(headers={"Allow": ", ".join(sorted(allowed))})


class ConflictError(PayrecError):
    """The state of the resource does not allow it."""

    status = 409
    code = "invalid_state"
    title = "The state does not allow this"


class IdempotencyInProgressError(ConflictError):
    """The first request with this key has not finished."""

    code = "idempotency_in_progress"
    title = "A request with this Idempotency-Key is still running"


class AlreadyMatchedError(ConflictError):
    """A transaction of this match has been allocated elsewhere meanwhile."""

    code = "already_matched"
    title = "The amounts have been matched elsewhere"


class StaleProposalError(ConflictError):
    """A transaction of the proposal changed after the proposal was made; ``changed`` names what."""

    code = "stale_proposal"
    title = "The proposal is out of date"


class DuplicateExternalIdError(ConflictError):
    """The externalId exists in this tenant environment; ``existingId`` names it."""

    code = "duplicate_external_id"
    title = "The externalId exists already"


class SlugTakenError(ConflictError):
    """Another tenant has this slug."""

    code = "slug_taken"
    title = "The slug is taken"


class UsernameTakenError(ConflictError):
    """Another user of this identity provider has this name."""

    code = "username_taken"
    title = "The username is taken"


class MatchRunInProgressError(ConflictError):
    """Only one run at a time for a tenant environment; ``jobId`` names the one that runs."""

    code = "match_run_in_progress"
    title = "A matching run is in progress"


class VersionMismatchError(PayrecError):
    """If-Match names another version than the stored one."""

    status = 412
    code = "version_mismatch"
    title = "The resource has another version"


class PayloadTooLargeError(PayrecError):
    """The body, declared or streamed, is beyond its limit."""

    status = 413
    code = "payload_too_large"
    title = "The body is too large"


class UnsupportedMediaTypeError(PayrecError):
    """The Content-Type is not one that the endpoint declares."""

    status = 415
    code = "unsupported_media_type"
    title = "The media type is not supported"


class UnprocessableError(PayrecError):
    """Readable, but not right."""

    status = 422
    code = "validation_failed"
    title = "Request validation failed"


class ValidationFailedError(UnprocessableError):
    """Fields or parameters are wrong; ``errors`` says which and why."""

    @classmethod
    def of(cls, *errors: FieldError) -> ValidationFailedError:
        """Make the error whose detail counts its fields."""
        count = len(errors)
        return cls(f"{count} field{'s are' if count != 1 else ' is'} invalid", errors=errors)


class AmountOutOfRangeError(UnprocessableError):
    """An amount outside what payrec stores."""

    code = "amount_out_of_range"
    title = "The amount is out of range"


class AmountExceedsOpenError(UnprocessableError):
    """More would be allocated than is open."""

    code = "amount_exceeds_open"
    title = "The amount exceeds what is open"


class IdempotencyKeyReusedError(UnprocessableError):
    """The Idempotency-Key came before with another body."""

    code = "idempotency_key_reused"
    title = "The Idempotency-Key was used with another body"


class UnreadableFileError(UnprocessableError):
    """No reader knows the file, or the one that does refuses it: ``reason`` is its code (``unknown_format``, …).

    ``tried`` lists ``{"format", "reason"}`` of the readers that looked at it.
    """

    code = "unreadable_file"
    title = "The file cannot be read"

    def __init__(self, reason: str, detail: str | None = None, *, tried: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail or f"the file cannot be read: {reason}", reason=reason, tried=[dict(t) for t in tried])
        self.reason = reason
        self.tried = tuple(tried)


class HeaderTooLargeError(PayrecError):
    """The header block is beyond its limit."""

    status = 431
    code = "header_too_large"
    title = "The header block is too large"


class UnavailableError(PayrecError):
    """Something that we depend on does not answer; trying again later helps."""

    status = 503
    code = "service_unavailable"
    title = "The service is temporarily unavailable"

    def __init__(self, detail: str | None = None, *, retry_after_seconds: int = 5) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)})


class IdentityProviderUnavailableError(UnavailableError):
    """The identity provider does not answer and no usable keys are cached."""

    code = "identity_provider_unavailable"
    title = "The identity provider is unavailable"


class TenantProvisioningError(UnavailableError):
    """The tenant environment is still being made."""

    code = "tenant_provisioning"
    title = "The environment is still being provisioned"
