"""Makes what workers do by the clock, for the composition root (``payrec.factory``)."""

from __future__ import annotations

import secrets

from payrec.metrics import Metrics
from payrec.services.api_key_expiry import ApiKeyExpiryService
from payrec.services.audit_sealing import AuditSealer
from payrec.services.audit_verification import AuditVerificationService
from payrec.services.blob_collection import BlobCollector
from payrec.services.blobs import ObjectStore
from payrec.services.posting_sealing import PostingSealer
from payrec.services.retention import RetentionService
from payrec.services.sealing import Sealer
from payrec.services.waiting import WaitingService
from payrec.services.work import Work


class UpkeepFactory:
    """What keeps an installation up, asked by nobody."""

    def __init__(self, *, work: Work, metrics: Metrics, store: ObjectStore | None) -> None:
        self._work = work
        self._metrics = metrics
        self._store = store

    def create_api_key_expiry_service(self) -> ApiKeyExpiryService:
        """Make what announces the expiry of keys."""
        return ApiKeyExpiryService(work=self._work)

    def create_blob_collector(self) -> BlobCollector:
        """Make what deletes objects that nobody needs any more."""
        return BlobCollector(work=self._work, store=self._store, metrics=self._metrics)

    def create_retention_service(self) -> RetentionService:
        """Make what deletes what is kept no longer."""
        return RetentionService(work=self._work, metrics=self._metrics)

    def create_sealer(self) -> Sealer:
        """Make what gives events their places in the feed."""
        work = self._work
        return Sealer(database=work.database, clock=work.clock, ids=work.ids, metrics=self._metrics)

    def create_posting_sealer(self) -> PostingSealer:
        """Make what numbers postings."""
        return PostingSealer(database=self._work.database)

    def create_audit_sealer(self) -> AuditSealer:
        """Make what seals audit logs."""
        return AuditSealer(work=self._work, metrics=self._metrics, token_bytes=secrets.token_bytes)

    def create_audit_verification_service(self) -> AuditVerificationService:
        """Make what looks at sealed audit logs again."""
        return AuditVerificationService(database=self._work.database)

    def create_waiting_service(self) -> WaitingService:
        """Make what tells workers again of what waits for them."""
        return WaitingService(work=self._work)
