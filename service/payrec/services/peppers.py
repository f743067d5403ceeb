"""Whether a process has the pepper that the installation's API keys were made under.

With another one it would refuse every key, and make keys that no other process takes. So it does not start: the ones
that run go on, and whoever has changed the Secret reads why.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from payrec.errors import ConfigurationError
from payrec.services.derived_keys import derived_key
from payrec.storage.database import Database
from payrec.storage.peppers import PepperStore


async def check_pepper(database: Database, peppers: Sequence[bytes], *, at: datetime) -> None:
    """Look whether one of the peppers is known here, and remember the others with it.

    The first ones of an installation are taken as they are. A predecessor or successor is known by the one beside it.

    Raises
    ------
    ConfigurationError
        None of them is known.
    """
    fingerprints = [derived_key(pepper.decode(), "pepper fingerprint") for pepper in peppers]
    async with database.control(readonly=True) as connection:
        if (await PepperStore(connection).known()).issuperset(fingerprints):
            return
    async with database.control() as connection:
        store = PepperStore(connection)
        await store.hold()
        known = await store.known()
        if known and known.isdisjoint(fingerprints):
            raise ConfigurationError(
                "API_KEY_PEPPER is not the one that this installation's API keys were made with: put that one back, or"
                " set API_KEY_PEPPER_PREVIOUS to it"
            )
        await store.add((f for f in dict.fromkeys(fingerprints) if f not in known), at=at)
