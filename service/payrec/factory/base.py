"""The part of the composition root that every process has, and all that the operator needs."""

from __future__ import annotations

from functools import cached_property

from payrec.factory.blobs import blobs_of, object_store
from payrec.factory.context import ProcessContext
from payrec.factory.tenants import TenantFactory
from payrec.services.derived_keys import derived_key
from payrec.services.measurement import Measurement
from payrec.services.paging import Pager
from payrec.services.tenant_registrations import TenantRegistrationService
from payrec.services.tenant_resources import TenantResourceService
from payrec.services.tenants import TenantService
from payrec.services.work import Work


class BaseFactory:
    """Makes services of tenants, and what measures. Cheap: a service is a few references."""

    def __init__(self, context: ProcessContext) -> None:
        self.context = context
        config = context.config
        self._store = object_store(config.blob_url)
        blobs = blobs_of(context.database, self._store)
        self._work = Work(database=context.database, clock=context.clock, ids=context.ids, blobs=blobs)
        self._pager = Pager(key=derived_key(config.encryption_key.get_secret_value(), "cursors"))
        secrets_in_use = (config.api_key_pepper, config.api_key_pepper_previous)
        self._peppers = tuple(s.get_secret_value().encode() for s in secrets_in_use if s is not None)

    @property
    def work(self) -> Work:
        """Units of work."""
        return self._work

    @property
    def fingerprint_keys(self) -> tuple[bytes, ...]:
        """The keys under which bodies of requests with an Idempotency-Key are fingerprinted, the present one first."""
        return self._peppers

    @property
    def peppers(self) -> tuple[bytes, ...]:
        """What API keys are hashed under, the present one first."""
        return self._peppers

    @property
    def pager(self) -> Pager:
        """Makes and reads the cursors of lists."""
        return self._pager

    @cached_property
    def tenants(self) -> TenantFactory:
        """Makes what has to do with tenants."""
        given = self.context
        return TenantFactory(
            config=given.config, work=self._work, pager=self._pager, passwords=given.passwords, peppers=self._peppers
        )

    def create_tenant_service(self) -> TenantService:
        """Make the service of ``/tenants``."""
        return self.tenants.create_tenant_service()

    def create_tenant_registration_service(self) -> TenantRegistrationService:
        """Make what gives out and takes in the registrations of tenants."""
        return self.tenants.create_tenant_registration_service()

    def create_tenant_resource_service(self) -> TenantResourceService:
        """Make what keeps tenants as their resources say."""
        return self.tenants.create_tenant_resource_service()

    @cached_property
    def measurement(self) -> Measurement:
        """Measures what all processes share; one for the process, because it remembers when it did."""
        return Measurement(work=self._work, metrics=self.context.metrics)
