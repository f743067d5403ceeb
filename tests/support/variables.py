"""The settings of a service as the environment of another process has them."""

from __future__ import annotations

import os

from pydantic import SecretStr

from payrec.config import Config


def variables(config: Config) -> dict[str, str]:
    """Return the settings that were given, and where programs and modules are found."""
    given = {name.upper(): getattr(config, name) for name in config.model_fields_set}
    return {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        **{
            name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in given.items()
            if value is not None
        },
    }
