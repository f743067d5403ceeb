"""The part of the composition root that makes, keeps and drops tenants."""

from __future__ import annotations

import secrets
from functools import cached_property

from payrec.config import Config
from payrec.services.paging import Pager
from payrec.services.tenant_creation import Creation, PasswordHasher, TenantCreation
from payrec.services.tenant_registrations import TenantRegistrationService
from payrec.services.tenant_resource_units import ResourceTools
from payrec.services.tenant_resources import TenantResourceService
from payrec.services.tenants import TenantService
from payrec.services.tombstones import TombstoneService
from payrec.services.work import Work
from payrec.storage.provisioning import Provisioner, login_of


class TenantFactory:
    """Makes the services of tenants."""

    def __init__(
        self,
        *,
        config: Config,
        work: Work,
        pager: Pager,
        passwords: PasswordHasher | None,
        peppers: tuple[bytes, ...],
    ) -> None:
        self._config = config
        self._work = work
        self._pager = pager
        self._passwords = passwords
        self._peppers = peppers

    def create_tenant_service(self) -> TenantService:
        """Make the service of ``/tenants``."""
        return TenantService(
            work=self._work, pager=self._pager, provisioner=self._provisioner, creation=lambda: self.creation
        )

    def create_tenant_registration_service(self) -> TenantRegistrationService:
        """Make what gives out and takes in the registrations of tenants."""
        return TenantRegistrationService(
            work=self._work,
            provisioner=self._provisioner,
            admin_url=self._config.admin_database_url,
            login=login_of(self._config.database_url),
        )

    @cached_property
    def creation(self) -> Creation:
        """Makes tenants; TENANT_PROVISIONER says how.

        Raises
        ------
        ConfigurationError
            It says ``kubernetes``, and the process is not in a pod with a service account.
        """
        if self._config.tenant_provisioner == "kubernetes":
            # An HTTP client, which the operator does without.
            from payrec.services.kubernetes_api import kubernetes_api  # noqa: PLC0415
            from payrec.services.resource_creation import ResourceCreation  # noqa: PLC0415

            return ResourceCreation(work=self._work, api=kubernetes_api(self._config))
        return TenantCreation(work=self._work, provisioner=self._provisioner, passwords=self._passwords)

    def create_tenant_resource_service(self) -> TenantResourceService:
        """Make what keeps tenants as their resources say; only where ADMIN_DATABASE_URL is set."""
        if self._provisioner is None or self._config.admin_database_url is None:
            raise AssertionError("tenants of resources need a provisioner")
        tools = ResourceTools(
            work=self._work,
            provisioner=self._provisioner,
            admin_url=self._config.admin_database_url,
            peppers=self._peppers,
            token_bytes=secrets.token_bytes,
        )
        return TenantResourceService(tools)

    def create_tombstone_service(self) -> TombstoneService:
        """Make what drops the schemas of dropped environments; without ADMIN_DATABASE_URL it does nothing."""
        return TombstoneService(database=self._work.database, provisioner=self._provisioner, clock=self._work.clock)

    @property
    def _provisioner(self) -> Provisioner | None:
        if self._config.admin_database_url is None:
            return None
        return Provisioner(self._work.database, login=login_of(self._config.database_url))
