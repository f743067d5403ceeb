"""A tenant's settings: those that are stored, and those in force."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from payrec.domain.references import account_identifier
from payrec.domain.settings import merged
from payrec.errors import FieldError, ValidationFailedError
from payrec.models.tenants import PostingSettings, Settings
from payrec.services.business_calendars import is_known_country
from payrec.services.rule_checks import rule_faults
from payrec.services.validation import check_members, validated


def effective_settings(stored: dict[str, Any]) -> Settings:
    """Return the settings in force: the stored ones over the defaults."""
    return Settings.model_validate(stored)


def check_settings(stored: dict[str, Any], *, pointer: str = "", is_patch: bool = False) -> Settings:
    """Return the settings that these make; ``pointer`` is where they stand in a body.

    What a patch says of limits may be right by the currency that is stored: that is not looked at.

    Raises
    ------
    ValidationFailedError
    """
    settings = validated(Settings, merged({}, stored), pointer=pointer)
    check_members(Settings, stored, pointer=pointer)
    if settings.timezone not in available_timezones():
        raise ValidationFailedError.of(
            FieldError(pointer=f"{pointer}/timezone", code="unknown_timezone", detail="must be an IANA time zone")
        )
    if settings.business_calendar is not None and not is_known_country(settings.business_calendar):
        detail = "must be a country's two letters (ISO 3166-1)"
        raise ValidationFailedError.of(
            FieldError(pointer=f"{pointer}/businessCalendar", code="unknown_country", detail=detail)
        )
    faults = rule_faults(settings.matching.rules, pointer=f"{pointer}/matching/rules")
    faults += _limit_faults(
        settings, currency=None if is_patch else _currency(settings), pointer=f"{pointer}/approval/limits"
    )
    faults += _code_faults(settings.posting, pointer=f"{pointer}/posting")
    if faults:
        raise ValidationFailedError.of(*faults)
    return settings


def is_loosened(before: Settings, after: Settings) -> bool:
    """Tell whether what API keys may be kept from changing is not the same: who approves, and what needs nobody."""
    one, other = before.matching, after.matching
    if (before.approval, _currency(before)) != (after.approval, _currency(after)):
        return True
    return any(
        getattr(one, name) != getattr(other, name) for name in ("rules", "auto_accept", "auto_accept_min_confidence")
    )


def _currency(settings: Settings) -> str:
    """Return the currency of what is approved."""
    return settings.approval.currency or settings.base_currency


def _limit_faults(settings: Settings, *, currency: str | None, pointer: str) -> list[FieldError]:
    """Return what is wrong with limits: one of a role and type of adjustment, in the currency of approvals if known."""
    seen: set[tuple[str, str]] = set()
    faults = []
    for number, limit in enumerate(settings.approval.limits):
        key = (limit.role, limit.adjustment_type)
        if key in seen:
            detail = "another limit is of this role and type of adjustment"
            faults.append(FieldError(pointer=f"{pointer}/{number}", code="duplicate_limit", detail=detail))
        seen.add(key)
        if currency is not None and limit.currency != currency:
            # What is in other currencies is converted to this one.
            detail = f"approvals are in {currency}"
            faults.append(FieldError(pointer=f"{pointer}/{number}/currency", code="currency_mismatch", detail=detail))
    return faults


def _code_faults(posting: PostingSettings, *, pointer: str) -> list[FieldError]:
    """Return what is wrong with codes: each account, type of adjustment and category has one at most."""
    given: dict[str, list[str]] = {
        "accounts": [account_identifier(one.account) for one in posting.accounts],
        "adjustments": [one.type for one in posting.adjustments],
        "categories": [one.category for one in posting.categories],
    }
    faults = []
    for name, keys in given.items():
        first: dict[str, int] = {}
        for place, key in enumerate(keys):
            if first.setdefault(key, place) != place:
                detail = f"has the code of {first[key]} already"
                faults.append(FieldError(pointer=f"{pointer}/{name}/{place}", code="duplicate_code", detail=detail))
    return faults
