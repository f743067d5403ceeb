"""The secrets that messages to an endpoint are signed with: made here, stored encrypted, shown once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from payrec.constants.events import WEBHOOK_SECRET_BYTES, WEBHOOK_SECRETS_BEFORE_MAX
from payrec.domain.webhooks import new_secret, secret_bytes
from payrec.errors import ConfigurationError
from payrec.services.secret_box import SecretBox


class WebhookSecrets:
    """Makes, encrypts and opens secrets of endpoints."""

    def __init__(self, *, box: SecretBox, token_bytes: Callable[[int], bytes]) -> None:
        self._box = box
        self._token_bytes = token_bytes

    def make(self, webhook_id: UUID) -> tuple[str, bytes]:
        """Return a new secret as its receiver is shown it, and as it is stored."""
        secret = new_secret(self._token_bytes(WEBHOOK_SECRET_BYTES))
        return secret, self._box.seal(secret_bytes(secret), owner=webhook_id.bytes)

    def before(self, row: dict[str, Any], *, now: datetime) -> bytes:
        """Return, as it is stored, what signs as well when an endpoint gets a new secret: whatever signs now.

        Who never saw the answer of a rotation begins another one, and the receiver has the secret of before both. Of
        more than ``WEBHOOK_SECRETS_BEFORE_MAX`` the oldest sign no more.
        """
        sealed: bytes = row["secret_sealed"]
        # One of before a change of ENCRYPTION_KEY stays as it is; it can sign no more.
        with contextlib.suppress(ConfigurationError):
            keys = self.keys_of(row, now=now)[:WEBHOOK_SECRETS_BEFORE_MAX]
            sealed = self._box.seal(b"".join(keys), owner=UUID(str(row["id"])).bytes)
        return sealed

    def keys_of(self, row: dict[str, Any], *, now: datetime) -> list[bytes]:
        """Return the keys that sign now: the present one, and for a while after a rotation those before it.

        Raises
        ------
        ConfigurationError
            ENCRYPTION_KEY is not the one that they were stored under.
        """
        owner = UUID(str(row["id"])).bytes
        keys = [self._box.open(row["secret_sealed"], owner=owner)]
        if row["previous_secret_sealed"] is not None and row["previous_secret_until"] > now:
            # One of before a change of ENCRYPTION_KEY can sign no more; the new one must not wait for its end.
            with contextlib.suppress(ConfigurationError):
                before = self._box.open(row["previous_secret_sealed"], owner=owner)
                keys += (before[n : n + WEBHOOK_SECRET_BYTES] for n in range(0, len(before), WEBHOOK_SECRET_BYTES))
        return keys
