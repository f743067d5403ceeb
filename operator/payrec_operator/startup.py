"""What the operator has while it runs, and how that begins and ends. Nothing happens at import."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import kopf

from payrec.commands.serving import check_start, internal_port, listen, make_context, opened
from payrec.config import Config, load_config
from payrec.errors import ConfigurationError, PayrecError
from payrec.factory import BaseFactory
from payrec.logs import configure_logging
from payrec.services.migrations import check_ready
from payrec_operator.api_server import REQUEST_SECONDS_MAX, ApiServer, api_server
from payrec_operator.constants import FINALIZER, STORAGE_PREFIX
from payrec_operator.errors import OperatorError
from payrec_operator.essence import DigestStorage
from payrec_operator.metrics import OperatorMetrics
from payrec_operator.ports import World
from payrec_operator.runner import Runner
from payrec_operator.secrets import SELECTOR, SURE_SECONDS_MAX, KubernetesSecrets, SecretCache
from payrec_operator.settings import OperatorSettings, load_operator_settings
from payrec_operator.statuses import StatusWriter

GROUP: Final = "payrec.dev"
VERSION: Final = "v1"
PLURAL: Final = "tenants"

PROBE_SECONDS_MAX: Final = 3.0
"""How long the database may take to answer a probe."""

TOMBSTONE_SECONDS: Final = 60.0
"""Time between two looks at what is left of dropped environments."""


def configure(settings: kopf.OperatorSettings) -> None:
    """Set how kopf watches, stores and posts. Each value has been measured; operator/README.md says why."""
    settings.persistence.finalizer = FINALIZER
    # v1 would write every annotation a second time, under a shortened name.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=STORAGE_PREFIX, v1=False)
    settings.persistence.diffbase_storage = DigestStorage()
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.label_selectors["v1", "secrets"] = SELECTOR
    settings.networking.request_timeout = REQUEST_SECONDS_MAX
    # No limit of workers: one stays with a Tenant until what has failed is tried again, and some seconds after what
    # went well, so that twenty Tenants in trouble would keep all others waiting. Passes are bounded (``runner``).
    settings.queueing.worker_limit = None
    settings.posting.loggers = False
    settings.posting.reporting_component = "payrec-operator"
    settings.posting.reporting_instance = os.environ.get("HOSTNAME", "payrec-operator")
    settings.posting.event_name_prefix = "payrec-"
    # The definition is looked for once, below; watching all definitions would take rights on the whole cluster.
    settings.scanning.disabled = True
    settings.peering.standalone = True


@dataclass(slots=True, kw_only=True)
class Operator:
    """What the process has. ``close`` ends it."""

    config: Config
    settings: OperatorSettings
    factory: BaseFactory
    runner: Runner
    cache: SecretCache
    statuses: StatusWriter
    stack: AsyncExitStack

    async def close(self) -> None:
        """Close what was opened, the last first."""
        await self.stack.aclose()

    async def database_state(self) -> str:
        """Say whether the database can be used, for the probe; it is no reason to begin anew."""
        try:
            # Sooner than the probe gives up: a database that does not answer must not look like a process that hangs.
            async with asyncio.timeout(PROBE_SECONDS_MAX):
                await check_ready(self.factory.context.database)
        except PayrecError as error:
            return error.detail
        except TimeoutError:
            return "the database does not answer in time"
        return "ok"


async def start() -> Operator:
    """Open what the operator needs.

    Raises
    ------
    ConfigurationError, PayrecError
        With one line that says what is missing.
    """
    config = load_config()
    settings = load_operator_settings()
    configure_logging(level=config.log_level, form=config.log_format)
    # kopf tells of every pass that nothing came of, and of whole resources at its lowest level.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # A line for each probe.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if config.admin_database_url is None:
        raise ConfigurationError("ADMIN_DATABASE_URL is not set: the operator makes schemas")
    if not config.public_base_url:
        raise ConfigurationError("PUBLIC_BASE_URL is not set: it is written into the Secrets of keys")
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(api_server())
        await _check_definition(api)
        internal = stack.enter_context(listen(config.host, config.internal_port, name="INTERNAL_PORT"))
        factory = BaseFactory(make_context(config))
        await stack.enter_async_context(opened(factory))
        await check_start(factory)
        clock = factory.context.clock
        cache = SecretCache()
        metrics = OperatorMetrics(factory.context.metrics.registry, resync_seconds=settings.resync_interval)
        world = World(
            registry=factory.create_tenant_resource_service(),
            secrets=KubernetesSecrets(
                api,
                cache,
                monotonic=clock.monotonic,
                sure_seconds=min(SURE_SECONDS_MAX, settings.resync_interval / 2),
            ),
            base_url=config.base_url,
        )
        runner = Runner(
            world=world,
            metrics=metrics,
            clock=clock,
            chance=random.SystemRandom().random,
            fresh=settings.resync_interval / 2,
        )
        await stack.enter_async_context(internal_port(factory, internal))
        return Operator(
            config=config,
            settings=settings,
            factory=factory,
            runner=runner,
            cache=cache,
            statuses=StatusWriter(api),
            stack=stack.pop_all(),
        )


async def start_or_exit() -> Operator:
    """Start, or end the process with one line that says why it cannot."""
    try:
        return await start()
    except PayrecError as error:
        refusal = error.detail
    print(f"payrec-operator: {refusal}", file=sys.stderr, flush=True)  # noqa: T201 - whoever starts it has to see it
    # kopf would tell the same with three tracebacks; nothing has been begun that would have to be ended.
    os._exit(1)


async def drop_tombstones(operator: Operator) -> None:
    """Drop what is left of dropped environments, now and then, until cancelled."""
    tombstones = operator.factory.tenants.create_tombstone_service()
    logger = logging.getLogger("payrec_operator")
    while True:
        try:
            dropped = await tombstones.drop_due()
            if dropped:
                logger.info("dropped what was left of %d environments", dropped)
        except PayrecError as error:
            logger.warning("what is left of dropped environments has to wait: %s", error.detail)
        await asyncio.sleep(TOMBSTONE_SECONDS)


async def _check_definition(api: ApiServer) -> None:
    """Look whether the Tenant resource is defined.

    Raises
    ------
    ConfigurationError
    """
    try:
        found = await api.find("look for the Tenant resource", f"/apis/{GROUP}/{VERSION}")
    except OperatorError as error:
        raise ConfigurationError(str(error)) from None
    if found is None or not any(resource.get("name") == PLURAL for resource in found.get("resources", ())):
        raise ConfigurationError("the Tenant resource is not defined here; the chart's crds.enabled brings it")
