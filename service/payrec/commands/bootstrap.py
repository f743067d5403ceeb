"""``payrec bootstrap``: the roles and the database of a new server; running it again changes nothing but passwords."""

from __future__ import annotations

import argparse
import time
from typing import Final

from pydantic import SecretStr

from payrec.commands.terminal import say
from payrec.config import SECRET_BYTES_MIN, Config, load_config
from payrec.errors import ConfigurationError, UnavailableError
from payrec.storage.bootstrap import bootstrap

PAUSE_SECONDS: Final = 1.0
"""Between two tries while the server does not answer."""


def run(arguments: argparse.Namespace) -> int:
    """Make what is missing, and say what that was."""
    made = _bootstrapped(_config(), until=time.monotonic() + arguments.wait)
    say(f"made {', '.join(made)}" if made else "everything is there")
    return 0


def _config() -> Config:
    # No other setting is needed before there is a database, so none has to be there.
    nothing = SecretStr("-" * SECRET_BYTES_MIN)
    return load_config(
        api_key_pepper=nothing, encryption_key=nothing, idp_issuer_url="https://-", idp_client_secret=nothing
    )


def _bootstrapped(config: Config, *, until: float) -> tuple[str, ...]:
    if config.bootstrap_database_url is None or config.admin_database_url is None:
        raise ConfigurationError("BOOTSTRAP_DATABASE_URL and ADMIN_DATABASE_URL must be set")
    while True:
        try:
            return bootstrap(
                url=config.bootstrap_database_url, admin_url=config.admin_database_url, login_url=config.database_url
            )
        except UnavailableError:
            if time.monotonic() >= until:
                raise
        time.sleep(PAUSE_SECONDS)
