"""Business calendars, by the country that a tenant's settings name."""

from __future__ import annotations

from payrec.domain.business_days import IsBusinessDay, is_weekday


def is_known_country(country: str) -> bool:
    """Tell whether there is a business calendar for a country, by its two letters (ISO 3166-1)."""
    from holidays import list_supported_countries  # noqa: PLC0415 - takes longer than all of a start, and few need it

    return country in list_supported_countries(include_aliases=False)


def business_calendar(country: str | None) -> IsBusinessDay:
    """Return which days are business days: no public holiday, and no weekend there; else Monday to Friday."""
    if country is None or not is_known_country(country):
        return is_weekday
    from holidays import country_holidays  # noqa: PLC0415 - as above

    return country_holidays(country).is_working_day
