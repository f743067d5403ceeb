"""The composition root of the API, the workers and the commands: how services are made of what a process has."""

from __future__ import annotations

import hashlib
import secrets
from functools import cached_property

from payrec.factory.base import BaseFactory
from payrec.factory.sources import SourceFactory
from payrec.factory.upkeep import UpkeepFactory
from payrec.factory.webhooks import WebhookFactory
from payrec.services.accounts import AccountService
from payrec.services.actor_names import ActorNameService
from payrec.services.aliases import AliasService
from payrec.services.api_key_usage import ApiKeyUsage
from payrec.services.api_keys import ApiKeyService
from payrec.services.audit_log import AuditLogService
from payrec.services.authentication import Authenticator
from payrec.services.backtests import BacktestService
from payrec.services.bulk_matches import BulkMatchService
from payrec.services.calibration import CalibrationService
from payrec.services.console_sessions import ConsoleSessions
from payrec.services.derived_keys import derived_key
from payrec.services.ecb_rates import EcbRateService
from payrec.services.erasures import ErasureService
from payrec.services.events import EventService
from payrec.services.expected_bulk import ExpectedBulkService
from payrec.services.expected_changes import ExpectedChangeService
from payrec.services.expected_transactions import ExpectedTransactionService
from payrec.services.exports import ExportService
from payrec.services.fx_rates import FxRateService
from payrec.services.identity_provider import IdentityProviderClient
from payrec.services.import_processing import ImportProcessor
from payrec.services.imports import ImportService
from payrec.services.incoming_bulk import IncomingBulkService
from payrec.services.incoming_states import IncomingStateService
from payrec.services.incoming_transactions import IncomingTransactionService
from payrec.services.jobs import JobService
from payrec.services.limits import RequestLimits
from payrec.services.manual_matches import ManualMatchService
from payrec.services.match_alternatives import MatchAlternativeService
from payrec.services.match_candidates import MatchCandidateService
from payrec.services.match_decisions import MatchDecisionService
from payrec.services.match_rates import MatchRateService
from payrec.services.match_records import MatchRecordService
from payrec.services.match_rejections import MatchRejectionService
from payrec.services.match_runs import MatchRunService
from payrec.services.match_verification import MatchVerificationService
from payrec.services.matches import MatchService
from payrec.services.period_locks import PeriodLockService
from payrec.services.postings import PostingService
from payrec.services.provider_discovery import ProviderDiscovery
from payrec.services.reconciliations import ReconciliationService
from payrec.services.remittance_advices import RemittanceAdviceService
from payrec.services.reports import ReportService
from payrec.services.returns import ReturnService
from payrec.services.review import ReviewService
from payrec.services.search import SearchService
from payrec.services.secret_box import SecretBox
from payrec.services.snapshots import SnapshotService
from payrec.services.statement_timelines import StatementTimelineService
from payrec.services.tokens import AttemptCounter, TokenService
from payrec.services.upload_previews import UploadPreviewService
from payrec.services.users import UserService
from payrec.services.verification import JwksVerifier, SymmetricVerifier, TokenVerifier


class Factory(BaseFactory):
    """Makes all services, so it loads everything that the API and the workers are made of."""

    @cached_property
    def issuer(self) -> str:
        """The issuer of tokens: the configured one, or the embedded one at this service's address."""
        return self.context.config.idp_issuer_url or f"{self.context.config.base_url}/idp"

    @cached_property
    def idp_client_secret(self) -> str:
        """The secret of our client at the identity provider; the embedded one's is derived."""
        config = self.context.config
        if config.idp_client_secret is not None:
            return config.idp_client_secret.get_secret_value()
        key = derived_key(config.encryption_key.get_secret_value(), "embedded identity provider client")
        return hashlib.sha256(key).hexdigest()

    @cached_property
    def verifier(self) -> TokenVerifier:
        """Verifies tokens; one for the process, because it keeps the provider's keys."""
        config = self.context.config
        symmetric = None
        if config.auth_mode == "both" and config.jwt_secret is not None:
            symmetric = SymmetricVerifier(
                secret=config.jwt_secret.get_secret_value(),
                issuer=config.jwt_issuer,
                audience=config.jwt_audience,
                clock=self.context.clock.now,
            )
        jwks_url = config.idp_jwks_url
        if config.embeds_identity_provider:
            jwks_url = f"{config.loopback_url}/idp/jwks"
        provider = JwksVerifier(
            issuer=self.issuer,
            audience=config.idp_audience,
            http=self.context.http,
            clock=self.context.clock.now,
            jwks_url=jwks_url,
            discovery=self._discovery,
        )
        return TokenVerifier(provider, symmetric)

    @cached_property
    def key_usage(self) -> ApiKeyUsage:
        """Remembers when keys were used; one for the process."""
        return ApiKeyUsage(database=self.context.database)

    @cached_property
    def identity_provider(self) -> IdentityProviderClient:
        """Exchanges passwords for tokens; one for the process."""
        config = self.context.config
        token_url = config.idp_token_url
        if config.embeds_identity_provider:
            token_url = f"{config.loopback_url}/idp/token"
        return IdentityProviderClient(
            client_id=config.idp_client_id,
            client_secret=self.idp_client_secret,
            token_url=token_url,
            discovery=self._discovery,
        )

    @cached_property
    def authenticator(self) -> Authenticator:
        """Admits requests."""
        return Authenticator(
            database=self.context.database,
            verifier=self.verifier,
            users=self.create_user_service(),
            key_usage=self.key_usage,
            clock=self.context.clock,
            peppers=self._peppers,
        )

    @cached_property
    def console_sessions(self) -> ConsoleSessions:
        """Keeps the console's sessions; one for the process, because it remembers how they were prolonged."""
        key = derived_key(self.context.config.encryption_key.get_secret_value(), "console sessions")
        return ConsoleSessions(
            box=SecretBox(key=key, token_bytes=secrets.token_bytes),
            authenticator=self.authenticator,
            identity_provider=self.identity_provider,
            clock=self.context.clock,
            token_bytes=secrets.token_bytes,
        )

    @cached_property
    def request_limits(self) -> RequestLimits:
        """Limits the rate of requests; one for the process, because it counts them."""
        config = self.context.config
        return RequestLimits(
            principal_per_second=config.rate_limit_principal_per_second,
            tenant_per_second=config.rate_limit_tenant_per_second,
            uploads_per_minute=config.rate_limit_uploads_per_minute,
            replicas=config.rate_limit_replicas,
            metrics=self.context.metrics,
        )

    def create_token_service(self) -> TokenService:
        """Make the service of ``/auth/token``."""
        return TokenService(identity_provider=self.identity_provider, attempts=self._token_attempts)

    def create_api_key_service(self) -> ApiKeyService:
        """Make the service of ``/auth/api-keys``."""
        return ApiKeyService(
            work=self._work,
            pager=self._pager,
            usage=self.key_usage,
            pepper=self._peppers[0],
            token_bytes=secrets.token_bytes,
        )

    def create_user_service(self) -> UserService:
        """Make the service behind ``payrec users``."""
        return UserService(work=self._work)

    def create_expected_transaction_service(self) -> ExpectedTransactionService:
        """Make the service of ``/expected-transactions``."""
        return ExpectedTransactionService(work=self._work, pager=self._pager)

    def create_expected_bulk_service(self) -> ExpectedBulkService:
        """Make what creates many expected transactions at once."""
        return ExpectedBulkService(work=self._work)

    def create_expected_change_service(self) -> ExpectedChangeService:
        """Make what changes expected transactions."""
        return ExpectedChangeService(work=self._work)

    def create_incoming_transaction_service(self) -> IncomingTransactionService:
        """Make the service of ``/incoming-transactions``."""
        return IncomingTransactionService(work=self._work, pager=self._pager)

    def create_incoming_bulk_service(self) -> IncomingBulkService:
        """Make what stores many incoming transactions at once."""
        return IncomingBulkService(work=self._work)

    def create_incoming_state_service(self) -> IncomingStateService:
        """Make what ignores, classifies and restores incoming transactions."""
        return IncomingStateService(work=self._work)

    def create_return_service(self) -> ReturnService:
        """Make what links returns to the payments that they take back."""
        return ReturnService(work=self._work)

    @cached_property
    def sources(self) -> SourceFactory:
        """Makes what has to do with data sources."""
        key = derived_key(self.context.config.encryption_key.get_secret_value(), "data source secrets")
        return SourceFactory(
            config=self.context.config,
            work=self._work,
            pager=self._pager,
            metrics=self.context.metrics,
            imports=self.create_import_service,
            rates=self.create_ecb_rate_service,
            key=key,
        )

    @cached_property
    def upkeep(self) -> UpkeepFactory:
        """Makes what workers do by the clock."""
        return UpkeepFactory(work=self._work, metrics=self.context.metrics, store=self._store)

    @cached_property
    def webhooks(self) -> WebhookFactory:
        """Makes what has to do with webhooks."""
        config, metrics = self.context.config, self.context.metrics
        key = derived_key(config.encryption_key.get_secret_value(), "webhook secrets")
        return WebhookFactory(
            work=self._work, pager=self._pager, metrics=metrics, destinations=config.webhook_destinations, key=key
        )

    def create_import_service(self) -> ImportService:
        """Make the service of uploads and ``/imports``."""
        return ImportService(work=self._work, pager=self._pager, processor=self.create_import_processor())

    @cached_property
    def upload_previews(self) -> UploadPreviewService:
        """Reads files without storing them; one for the process, because it counts what is read at the same time."""
        return UploadPreviewService(work=self._work, sources=self.sources.create_data_source_service())

    def create_import_processor(self) -> ImportProcessor:
        """Make what reads uploaded files, for requests and for jobs."""
        return ImportProcessor(work=self._work, metrics=self.context.metrics)

    def create_snapshot_service(self) -> SnapshotService:
        """Make the service of ``/expected-transactions/snapshots``."""
        return SnapshotService(work=self._work, pager=self._pager)

    def create_search_service(self) -> SearchService:
        """Make the service of the console's search."""
        return SearchService(work=self._work)

    def create_match_candidate_service(self) -> MatchCandidateService:
        """Make what compares one open transaction with others."""
        return MatchCandidateService(work=self._work)

    def create_match_service(self) -> MatchService:
        """Make the service of ``/matches``."""
        return MatchService(work=self._work, pager=self._pager)

    def create_match_decision_service(self) -> MatchDecisionService:
        """Make what accepts, rejects and reverses one match."""
        return MatchDecisionService(work=self._work)

    def create_match_alternative_service(self) -> MatchAlternativeService:
        """Make what tells what else would fit."""
        return MatchAlternativeService(work=self._work)

    def create_review_service(self) -> ReviewService:
        """Make what tells a person what is next to decide."""
        candidates = self.create_match_candidate_service()
        return ReviewService(work=self._work, candidates=candidates, search=self.create_search_service())

    def create_actor_name_service(self) -> ActorNameService:
        """Make what says who somebody is."""
        return ActorNameService(work=self._work)

    def create_bulk_match_service(self) -> BulkMatchService:
        """Make what accepts and rejects many matches."""
        return BulkMatchService(work=self._work)

    def create_manual_match_service(self) -> ManualMatchService:
        """Make what stores matches that people state."""
        return ManualMatchService(work=self._work)

    def create_match_verification_service(self) -> MatchVerificationService:
        """Make what looks at a stored match again."""
        return MatchVerificationService(database=self.context.database)

    def create_match_run_service(self) -> MatchRunService:
        """Make the service of ``/matches/match``."""
        return MatchRunService(work=self._work)

    def create_calibration_service(self) -> CalibrationService:
        """Make the service of ``/matching/calibration``."""
        return CalibrationService(work=self._work)

    def create_alias_service(self) -> AliasService:
        """Make the service of ``/matching/aliases``."""
        return AliasService(work=self._work, pager=self._pager)

    def create_match_record_service(self) -> MatchRecordService:
        """Make what tells an auditor of a match."""
        return MatchRecordService(database=self.context.database)

    def create_match_rejection_service(self) -> MatchRejectionService:
        """Make the service of ``/matching/rejections``."""
        return MatchRejectionService(work=self._work, pager=self._pager)

    def create_account_service(self) -> AccountService:
        """Make the service of ``/accounts``."""
        return AccountService(work=self._work, pager=self._pager)

    def create_reconciliation_service(self) -> ReconciliationService:
        """Make the service of reconciliation statements."""
        return ReconciliationService(work=self._work, pager=self._pager)

    def create_period_lock_service(self) -> PeriodLockService:
        """Make the service of ``/period-locks``."""
        return PeriodLockService(work=self._work, pager=self._pager)

    def create_statement_timeline_service(self) -> StatementTimelineService:
        """Make what tells of which days accounts have statements."""
        return StatementTimelineService(work=self._work)

    def create_posting_service(self) -> PostingService:
        """Make the service of ``/postings``."""
        return PostingService(work=self._work, pager=self._pager)

    def create_remittance_advice_service(self) -> RemittanceAdviceService:
        """Make the service of ``/remittance-advices``."""
        return RemittanceAdviceService(work=self._work, pager=self._pager)

    def create_fx_rate_service(self) -> FxRateService:
        """Make the service of ``/fx-rates``."""
        return FxRateService(work=self._work, pager=self._pager)

    def create_report_service(self) -> ReportService:
        """Make the service of ``/reports``."""
        return ReportService(work=self._work, pager=self._pager)

    def create_ecb_rate_service(self) -> EcbRateService:
        """Make what stores files of exchange rates."""
        return EcbRateService(work=self._work)

    def create_erasure_service(self) -> ErasureService:
        """Make the service of ``/privacy/erasures``."""
        key = derived_key(self.context.config.encryption_key.get_secret_value(), "erasures")
        box = SecretBox(key=key, token_bytes=secrets.token_bytes)
        return ErasureService(work=self._work, pager=self._pager, box=box)

    def create_audit_log_service(self) -> AuditLogService:
        """Make the service of ``/audit-log``."""
        return AuditLogService(database=self.context.database, pager=self._pager)

    def create_backtest_service(self) -> BacktestService:
        """Make what starts backtests, for ``/jobs``."""
        return BacktestService(work=self._work)

    def create_match_rate_service(self) -> MatchRateService:
        """Make what tells how matching went over the last weeks."""
        return MatchRateService(work=self._work)

    def create_export_service(self) -> ExportService:
        """Make what exports lists, for ``/jobs`` and ``/exports``."""
        return ExportService(work=self._work)

    def create_job_service(self) -> JobService:
        """Make the service of ``/jobs``."""
        return JobService(work=self._work, pager=self._pager)

    def create_event_service(self) -> EventService:
        """Make the service of ``/events``."""
        return EventService(work=self._work, pager=self._pager)

    @cached_property
    def _token_attempts(self) -> AttemptCounter:
        config = self.context.config
        return AttemptCounter(
            database=self.context.database,
            key=derived_key(config.encryption_key.get_secret_value(), "token attempts"),
            per_username=config.rate_limit_token_per_username_per_minute,
            per_address=config.rate_limit_token_per_address_per_minute,
            metrics=self.context.metrics,
        )

    @cached_property
    def _discovery(self) -> ProviderDiscovery | None:
        if self.context.config.idp_issuer_url is None:
            return None
        return ProviderDiscovery(issuer=self.issuer, http=self.context.http, clock=self.context.clock.now)
