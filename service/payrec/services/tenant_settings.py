"""A tenant's settings: those that are stored, and those in force."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from payrec.domain.settings import merged
from payrec.errors import FieldError, ValidationFailedError
from payrec.models.tenants import Settings
from payrec.services.rule_checks import rule_faults
from payrec.services.validation import validated


def effective_settings(stored: dict[str, Any]) -> Settings:
    """Return the settings in force: the stored ones over the defaults."""
    return Settings.model_validate(stored)


def check_settings(stored: dict[str, Any], *, pointer: str = "") -> Settings:
    """Return the settings that these make; ``pointer`` is where they stand in a body.

    Raises
    ------
    ValidationFailedError
    """
    settings = validated(Settings, merged({}, stored), pointer=pointer)
    if settings.timezone not in available_timezones():
        raise ValidationFailedError.of(
            FieldError(pointer=f"{pointer}/timezone", code="unknown_timezone", detail="must be an IANA time zone")
        )
    faults = rule_faults(settings.matching.rules, pointer=f"{pointer}/matching/rules")
    if faults:
        raise ValidationFailedError.of(*faults)
    return settings
