"""The part of the composition root that is about webhooks."""

from __future__ import annotations

import random
import secrets
from functools import cached_property
from typing import TYPE_CHECKING

from payrec.constants.events import WEBHOOK_TESTS_AT_ONCE_TENANT
from payrec.domain.addresses import Destinations
from payrec.metrics import Metrics
from payrec.services.paging import Pager
from payrec.services.secret_box import SecretBox
from payrec.services.webhook_redeliveries import WebhookRedeliveryService
from payrec.services.webhook_secrets import WebhookSecrets
from payrec.services.webhooks import WebhookService
from payrec.services.work import Work
from payrec.shares import TenantShares

if TYPE_CHECKING:
    from payrec.services.webhook_delivery import WebhookDeliverer
    from payrec.services.webhook_sender import WebhookSender


class WebhookFactory:
    """Makes the services of webhooks; ``key`` seals their secrets."""

    def __init__(self, *, work: Work, pager: Pager, metrics: Metrics, destinations: Destinations, key: bytes) -> None:
        self._work = work
        self._pager = pager
        self._metrics = metrics
        self._destinations = destinations
        self._key = key
        self._tests = TenantShares(WEBHOOK_TESTS_AT_ONCE_TENANT)

    def create_service(self) -> WebhookService:
        """Make the service of ``/webhooks``."""
        return WebhookService(
            work=self._work,
            pager=self._pager,
            secrets=self._secrets,
            destinations=self._destinations,
            sender=self.create_sender,
            tests=self._tests,
        )

    def create_redelivery_service(self) -> WebhookRedeliveryService:
        """Make what has many events delivered again, for ``/jobs``."""
        return WebhookRedeliveryService(work=self._work)

    def create_sender(self) -> WebhookSender:
        """Make what sends messages to receivers; open it as a context."""
        from payrec.services.webhook_sender import WebhookSender  # noqa: PLC0415 - an HTTP client of its own: 6 MiB

        return WebhookSender(destinations=self._destinations, clock=self._work.clock)

    def create_deliverer(self) -> WebhookDeliverer:
        """Make what delivers events to endpoints; open it as a context."""
        from payrec.services.webhook_delivery import WebhookDeliverer  # noqa: PLC0415 - the same

        return WebhookDeliverer(
            work=self._work,
            sender=self.create_sender(),
            secrets=self._secrets,
            metrics=self._metrics,
            chance=random.SystemRandom().random,
        )

    @cached_property
    def _secrets(self) -> WebhookSecrets:
        box = SecretBox(key=self._key, token_bytes=secrets.token_bytes)
        return WebhookSecrets(box=box, token_bytes=secrets.token_bytes)
