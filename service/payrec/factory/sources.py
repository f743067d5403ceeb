"""The part of the composition root that is about data sources."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cached_property

from payrec.config import Config
from payrec.connectors.registry import connector_of
from payrec.metrics import Metrics
from payrec.services.data_source_syncs import DataSourceSyncService
from payrec.services.data_sources import DataSourceService
from payrec.services.ecb_rates import EcbRateService
from payrec.services.imports import ImportService
from payrec.services.paging import Pager
from payrec.services.secret_box import SecretBox
from payrec.services.source_configs import SourceConfigs
from payrec.services.source_files import SourceFiles
from payrec.services.source_secrets import SourceSecrets
from payrec.services.source_sync import SourceSyncer
from payrec.services.work import Work


class SourceFactory:
    """Makes the services of data sources."""

    def __init__(
        self,
        *,
        config: Config,
        work: Work,
        pager: Pager,
        metrics: Metrics,
        imports: Callable[[], ImportService],
        rates: Callable[[], EcbRateService],
        key: bytes,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._work = work
        self._pager = pager
        self._imports = imports
        self._rates = rates
        self._key = key

    def create_data_source_service(self) -> DataSourceService:
        """Make the service of ``/data-sources``."""
        destinations = self._config.webhook_destinations
        return DataSourceService(
            work=self._work,
            pager=self._pager,
            configs=SourceConfigs(secrets=self._secrets, destinations=destinations),
            secrets=self._secrets,
        )

    def create_sync_service(self) -> DataSourceSyncService:
        """Make what starts syncs of data sources."""
        return DataSourceSyncService(work=self._work)

    def create_syncer(self) -> SourceSyncer:
        """Make what pulls data sources, for jobs."""
        return SourceSyncer(
            work=self._work,
            files=SourceFiles(imports=self._imports(), rates=self._rates()),
            secrets=self._secrets,
            destinations=self._config.webhook_destinations,
            connector_of=connector_of,
            metrics=self._metrics,
        )

    @cached_property
    def _secrets(self) -> SourceSecrets:
        box = SecretBox(key=self._key, token_bytes=secrets.token_bytes)
        return SourceSecrets(box=box, directory=self._config.source_secrets_dir)
