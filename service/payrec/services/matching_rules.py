"""The engine's rules, from a tenant's settings. The API reads them as well, so nothing heavy is imported here."""

from __future__ import annotations

from uuid import UUID

from payrec.domain.matching.rules import BASIS_POINTS, MatchingRules
from payrec.models.tenants import Settings
from payrec.services.tenant_settings import effective_settings
from payrec.storage.database import Database
from payrec.storage.tenants import TenantStore


async def tenant_rules(database: Database, tenant_id: UUID) -> MatchingRules:
    """Return the engine's rules for the settings that a tenant has now."""
    async with database.control(readonly=True) as connection:
        return rules_of(effective_settings(await TenantStore(connection).settings(tenant_id)))


def rules_of(tenant: Settings) -> MatchingRules:
    """Return the engine's rules for a tenant's settings."""
    settings = tenant.matching
    return MatchingRules(
        date_window_days_before=settings.date_window_days_before,
        date_window_days_after=settings.date_window_days_after,
        amount_tolerance_minor=settings.amount_tolerance_minor,
        amount_tolerance_basis_points=round(settings.amount_tolerance_percent * BASIS_POINTS / 100),
        fee_tolerance_minor=settings.fee_tolerance_minor,
        fx_tolerance_basis_points=round(settings.fx_tolerance_percent * BASIS_POINTS / 100),
        base_currency=tenant.base_currency,
        require_reference=settings.require_reference,
        auto_accept=settings.auto_accept,
        auto_accept_min_confidence=settings.auto_accept_min_confidence,
        group_size_max=settings.group_size_max,
    )
