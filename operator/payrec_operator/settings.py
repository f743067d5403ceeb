"""The operator's own settings, beside those of the service that it shares (``payrec.config``)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from payrec.errors import ConfigurationError
from payrec_operator.durations import parse_duration

RESYNC_SECONDS_MIN: Final = 1
"""Shortest time between two looks at a Tenant of which nothing is heard."""

RESYNC_SECONDS_MAX: Final = 86_400
"""Longest time between them: what is dropped by hand has to be back some day."""


def _seconds(value: object) -> object:
    return int(parse_duration(value).total_seconds()) if isinstance(value, str) else value


class OperatorSettings(BaseSettings):
    """Every setting of the operator, named as its environment variable after ``OPERATOR_``."""

    model_config = SettingsConfigDict(
        env_prefix="OPERATOR_", extra="ignore", hide_input_in_errors=True, frozen=True, env_ignore_empty=True
    )

    resync_interval: Annotated[int, BeforeValidator(_seconds), Field(ge=RESYNC_SECONDS_MIN, le=RESYNC_SECONDS_MAX)] = (
        300
    )
    """Seconds between two looks at a Tenant of which nothing is heard; written as a duration, such as 5m."""


def load_operator_settings() -> OperatorSettings:
    """Load the settings from the environment.

    Raises
    ------
    ConfigurationError
        With one line that names the variable that is wrong.
    """
    try:
        return OperatorSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        message = str(first["msg"]).replace("Value error, ", "")
        raise ConfigurationError(f"OPERATOR_{str(first['loc'][0]).upper()} {message}") from None
