"""What payrec depends on, and cannot do without: 503, and 507."""

from __future__ import annotations

from payrec.errors.base import PayrecError


class UnavailableError(PayrecError):
    """Something that we depend on does not answer; trying again later helps."""

    status = 503
    code = "service_unavailable"
    title = "The service is temporarily unavailable"
    remedy = "Wait for as many seconds as ``Retry-After`` says, then repeat it, with the same ``Idempotency-Key``."

    def __init__(self, detail: str | None = None, *, retry_after_seconds: int = 5) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)})


class IdentityProviderUnavailableError(UnavailableError):
    """The identity provider does not answer and no usable keys are cached."""

    code = "identity_provider_unavailable"
    title = "The identity provider is unavailable"
    remedy = "Try again after ``Retry-After``; API keys work meanwhile."


class StorageFullError(UnavailableError):
    """There is no room left for a file that has to be kept for a while, or in the database."""

    status = 507
    code = "insufficient_storage"
    title = "There is no room left"
    remedy = "Try again later, and tell whoever runs the installation that a disk is full."

    def __init__(self, detail: str = "the disk is full", *, retry_after_seconds: int = 60) -> None:
        super().__init__(detail, retry_after_seconds=retry_after_seconds)


class TenantProvisioningError(UnavailableError):
    """The tenant environment is still being made."""

    code = "tenant_provisioning"
    title = "The environment is still being provisioned"
    remedy = "Try again after ``Retry-After``: making an environment takes seconds."


class ProvisioningDeniedError(PayrecError):
    """The administrating role may not do what provisioning needs; trying again does not help."""

    status = 503
    code = "service_unavailable"
    title = "The service is temporarily unavailable"

    def __init__(self, refusal: str | None = None) -> None:
        said = f" ({refusal})" if refusal else ""
        super().__init__(
            f"the role of ADMIN_DATABASE_URL lacks a right{said}: it needs CREATEROLE, CREATE on the database, and the"
            " ADMIN option on the roles of tenants that another role has made"
        )


class MigrationFailedError(PayrecError):
    """The tables of an environment could not be brought to the head; they are as they were."""

    status = 503
    code = "service_unavailable"
    title = "The service is temporarily unavailable"

    def __init__(self, cause: str) -> None:
        super().__init__(f"the migration failed ({cause}); its log says more, and payrec migrate tries again")
        self.cause = cause
