"""What payrec depends on: 503."""

from __future__ import annotations

from payrec.errors.base import PayrecError


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
