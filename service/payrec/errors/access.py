"""Who asks, and whether they may: 401, 403 and 429."""

from __future__ import annotations

from payrec.errors.base import PayrecError


class UnauthenticatedError(PayrecError):
    """Nobody we know; carries the challenge of RFC 6750."""

    status = 401
    code = "invalid_credentials"
    title = "The credentials are not valid"
    remedy = "Check that the whole token or key is sent, and that it is of this installation. Then get a new one."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="payrec"'})


class MissingCredentialsError(UnauthenticatedError):
    """Neither X-Api-Key nor Authorization."""

    code = "missing_credentials"
    title = "Credentials are required"
    remedy = "Send ``Authorization: Bearer`` with a token or an API key, or ``X-Api-Key`` with a key."


class InvalidCredentialsError(UnauthenticatedError):
    """Malformed, unknown or badly signed; which of them is not told."""


class ExpiredCredentialsError(UnauthenticatedError):
    """A token or key whose time is over."""

    code = "expired_credentials"
    title = "The credentials have expired"
    remedy = "Get a new token at ``POST /auth/token``, or use another key, and send the request again."


class RevokedCredentialsError(UnauthenticatedError):
    """An API key that was revoked."""

    code = "revoked_credentials"
    title = "The credentials have been revoked"
    remedy = "Use another key; a revoked one never comes back."


class UnknownUserError(UnauthenticatedError):
    """A valid token for a user or a tenant that is not stored here, or of another tenant."""

    code = "unknown_user"
    title = "The user is not known"
    remedy = "Have the user made in this tenant (``payrec users``), or ask for a token of the right tenant."


class ForbiddenError(PayrecError):
    """Known, but not allowed."""

    status = 403
    code = "insufficient_permission"
    title = "The permission is missing"
    remedy = "Ask an administrator of the tenant for the permission that the operation names, or use a key that has it."


class CrossSiteRequestError(ForbiddenError):
    """A request with the console's session that did not come from one of its pages."""

    code = "cross_site_request"
    title = "The request does not come from a page of the console"
    remedy = "Open the page again and repeat there; a program uses the REST interface with its own token or key."


class AnotherUserError(ForbiddenError):
    """A link or a form of a page of the console whose user is not the one who is signed in."""

    code = "another_user"
    title = "The page is of another user"
    remedy = "Load the page again to go on as who is signed in, or sign in again as whom it was made for."


class UserDisabledError(ForbiddenError):
    """The user was disabled."""

    code = "user_disabled"
    title = "The user is disabled"
    remedy = "Ask an administrator of the tenant to enable the user."


class TenantSuspendedError(ForbiddenError):
    """The tenant is suspended or being deleted."""

    code = "tenant_suspended"
    title = "The tenant is suspended"
    remedy = "Ask whoever runs the installation; the data are kept."


class TenantMismatchError(ForbiddenError):
    """X-Tenant-Id is not the principal's tenant."""

    code = "tenant_mismatch"
    title = "The tenant is not the principal's"
    remedy = "Send the id of the credential's own tenant in ``X-Tenant-Id``."


class EnvironmentMismatchError(ForbiddenError):
    """X-Environment is not one that the principal or the tenant has."""

    code = "environment_mismatch"
    title = "The environment is not open to the principal"
    remedy = "Name an environment that the tenant has and the credential is for. A key is for one."


class EnvironmentSuspendedError(ForbiddenError):
    """This environment of the tenant is suspended."""

    code = "environment_suspended"
    title = "The environment is suspended"
    remedy = "Ask whoever runs the installation, or work in another environment."


class JwtRequiredError(ForbiddenError):
    """An API key on an endpoint that only people may use."""

    code = "jwt_required"
    title = "An API key cannot be used here"
    remedy = "Use a person's token instead of the key."


class SecondApproverRequiredError(ForbiddenError):
    """Whoever made a decision approves it, or a key does: another user has to."""

    code = "second_approver_required"
    title = "Another person has to approve it"
    remedy = "Let another user of the tenant approve it, with a token of their own."


class RateLimitedError(PayrecError):
    """More requests than a principal, tenant or login may make, or have under way; ``Retry-After`` is in seconds."""

    status = 429
    code = "rate_limited"
    title = "Too many requests"
    remedy = "Wait for as many seconds as ``Retry-After`` says, then send the request again."

    def __init__(self, detail: str | None = None, *, retry_after_seconds: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)})
