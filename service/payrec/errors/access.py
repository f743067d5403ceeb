"""Who asks, and whether they may: 401, 403 and 429."""

from __future__ import annotations

from payrec.errors.base import PayrecError


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


class SecondApproverRequiredError(ForbiddenError):
    """Whoever made a decision approves it, or a key does: another user has to."""

    code = "second_approver_required"
    title = "Another person has to approve it"


class RateLimitedError(PayrecError):
    """More requests than the principal, its tenant environment, or a login may make; ``Retry-After`` is in seconds."""

    status = 429
    code = "rate_limited"
    title = "Too many requests"

    def __init__(self, detail: str | None = None, *, retry_after_seconds: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)})
