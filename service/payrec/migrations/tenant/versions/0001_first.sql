CREATE TABLE allocation (
	transaction_id UUID NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	allocated_minor BIGINT DEFAULT 0 NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	version INTEGER NOT NULL, 
	side SMALLINT NOT NULL, 
	status TEXT NOT NULL, 
	reason_code TEXT, 
	PRIMARY KEY (transaction_id, side), 
	CONSTRAINT allocation_side_known CHECK (side IN (1, 2)), 
	CONSTRAINT allocation_within_amount CHECK (allocated_minor BETWEEN 0 AND amount_minor), 
	CONSTRAINT allocation_status_known CHECK (status IN ('open', 'unmatched', 'pending', 'partially_matched', 'matched', 'void', 'ignored', 'classified', 'reversed'))
);
CREATE INDEX allocation_by_status ON allocation (side, status, transaction_id);
CREATE TABLE audit_record (
	change_id UUID NOT NULL, 
	ordinal BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	resource_id UUID, 
	reason TEXT, 
	before JSONB, 
	after JSONB, 
	request_id TEXT NOT NULL, 
	PRIMARY KEY (change_id, ordinal)
);
CREATE INDEX audit_record_by_resource ON audit_record (resource_id);
CREATE TABLE blob_chunk (
	blob_id UUID NOT NULL, 
	ordinal BIGINT NOT NULL, 
	data BYTEA NOT NULL, 
	PRIMARY KEY (blob_id, ordinal)
);
CREATE TABLE change (
	id UUID NOT NULL, 
	at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX change_by_instant ON change (at);
CREATE TABLE expected_open (
	transaction_id UUID NOT NULL, 
	open_minor BIGINT NOT NULL, 
	total_minor BIGINT NOT NULL, 
	min_minor BIGINT, 
	max_minor BIGINT, 
	reference_key BIGINT, 
	end_to_end_key BIGINT, 
	name_key BIGINT, 
	account_key BIGINT, 
	own_account_key BIGINT, 
	group_key BIGINT, 
	tie_key BIGINT NOT NULL, 
	due_day INTEGER, 
	from_day INTEGER, 
	to_day INTEGER, 
	revision INTEGER DEFAULT 1 NOT NULL, 
	direction SMALLINT NOT NULL, 
	reason SMALLINT, 
	currency TEXT NOT NULL, 
	PRIMARY KEY (transaction_id)
);
CREATE TABLE expected_transaction (
	id UUID NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	settled_before_minor BIGINT DEFAULT 0 NOT NULL, 
	min_amount_minor BIGINT, 
	max_amount_minor BIGINT, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	change_id UUID NOT NULL, 
	revision INTEGER DEFAULT 1 NOT NULL, 
	due_on DATE, 
	expected_from_on DATE, 
	expected_to_on DATE, 
	currency TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	external_id TEXT, 
	reference TEXT, 
	end_to_end_id TEXT, 
	counterparty_name TEXT, 
	counterparty_account TEXT, 
	account TEXT, 
	group_key TEXT, 
	description TEXT, 
	metadata JSONB DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT expected_transaction_amount_in_range CHECK (amount_minor BETWEEN 1 AND 999999999999999), 
	CONSTRAINT expected_transaction_direction_known CHECK (direction IN ('credit', 'debit'))
);
CREATE INDEX expected_transaction_by_amount ON expected_transaction (amount_minor, id);
CREATE INDEX expected_transaction_by_due ON expected_transaction ((COALESCE(due_on, 'infinity'::date)), id);
CREATE INDEX expected_transaction_by_group ON expected_transaction (group_key, id) WHERE group_key IS NOT NULL;
CREATE UNIQUE INDEX expected_transaction_external_id_unique ON expected_transaction (external_id) WHERE external_id IS NOT NULL;
CREATE TABLE idempotency (
	key BYTEA NOT NULL, 
	fingerprint BYTEA NOT NULL, 
	status INTEGER, 
	body TEXT, 
	headers JSONB, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (key), 
	CONSTRAINT idempotency_lengths CHECK (octet_length(key) = 32 AND octet_length(fingerprint) = 32)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
CREATE TABLE import (
	id UUID NOT NULL, 
	job_id UUID NOT NULL, 
	blob_id UUID, 
	content_key BYTEA NOT NULL, 
	bytes BIGINT NOT NULL, 
	records BIGINT DEFAULT 0 NOT NULL, 
	accepted BIGINT DEFAULT 0 NOT NULL, 
	duplicates BIGINT DEFAULT 0 NOT NULL, 
	skipped BIGINT DEFAULT 0 NOT NULL, 
	rejected BIGINT DEFAULT 0 NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	version INTEGER DEFAULT 1 NOT NULL, 
	status TEXT NOT NULL, 
	name TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	format TEXT, 
	format_version TEXT, 
	encoding TEXT, 
	options JSONB NOT NULL, 
	error JSONB, 
	PRIMARY KEY (id), 
	CONSTRAINT import_status_known CHECK (status IN ('processing', 'completed', 'failed')), 
	CONSTRAINT import_counts_add_up CHECK (status <> 'completed' OR records = accepted + duplicates + skipped + rejected), 
	CONSTRAINT import_content_key_length CHECK (octet_length(content_key) = 32)
);
CREATE INDEX import_by_job ON import (job_id);
CREATE INDEX import_by_status ON import (status, id);
CREATE UNIQUE INDEX import_content_unique ON import (content_key) WHERE status <> 'failed';
CREATE TABLE incoming_open (
	transaction_id UUID NOT NULL, 
	open_minor BIGINT NOT NULL, 
	total_minor BIGINT NOT NULL, 
	end_to_end_key BIGINT, 
	name_key BIGINT, 
	account_key BIGINT, 
	own_account_key BIGINT, 
	group_key BIGINT, 
	tie_key BIGINT NOT NULL, 
	booking_day INTEGER NOT NULL, 
	value_day INTEGER, 
	revision INTEGER DEFAULT 1 NOT NULL, 
	direction SMALLINT NOT NULL, 
	reason SMALLINT, 
	pending BOOLEAN DEFAULT false NOT NULL, 
	reversal BOOLEAN DEFAULT false NOT NULL, 
	duplicate BOOLEAN DEFAULT false NOT NULL, 
	currency TEXT NOT NULL, 
	reference_keys BIGINT[] NOT NULL, 
	PRIMARY KEY (transaction_id)
);
CREATE TABLE incoming_transaction (
	id UUID NOT NULL, 
	import_id UUID, 
	change_id UUID NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	net_minor BIGINT, 
	original_minor BIGINT, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	booking_on DATE NOT NULL, 
	value_on DATE, 
	revision INTEGER DEFAULT 1 NOT NULL, 
	statement_index INTEGER, 
	line INTEGER, 
	pending BOOLEAN DEFAULT false NOT NULL, 
	reversal BOOLEAN DEFAULT false NOT NULL, 
	identity BYTEA NOT NULL, 
	fingerprint BYTEA NOT NULL, 
	currency TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	external_id TEXT, 
	account TEXT, 
	remittance TEXT, 
	structured_reference TEXT, 
	end_to_end_id TEXT, 
	bank_reference TEXT, 
	counterparty_name TEXT, 
	counterparty_account TEXT, 
	bank_transaction_code TEXT, 
	group_key TEXT, 
	mandate_id TEXT, 
	instruction_id TEXT, 
	transaction_id TEXT, 
	uetr TEXT, 
	purpose_code TEXT, 
	return_reason TEXT, 
	net_currency TEXT, 
	original_currency TEXT, 
	exchange_rate TEXT, 
	charges JSONB, 
	batch JSONB, 
	metadata JSONB DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT incoming_transaction_amount_in_range CHECK (amount_minor BETWEEN 0 AND 999999999999999), 
	CONSTRAINT incoming_transaction_direction_known CHECK (direction IN ('credit', 'debit'))
);
CREATE INDEX incoming_transaction_by_amount ON incoming_transaction (amount_minor, id);
CREATE INDEX incoming_transaction_by_booking ON incoming_transaction (booking_on, id);
CREATE INDEX incoming_transaction_by_fingerprint ON incoming_transaction (fingerprint);
CREATE INDEX incoming_transaction_by_import ON incoming_transaction (import_id, id) WHERE import_id IS NOT NULL;
CREATE UNIQUE INDEX incoming_transaction_external_id_unique ON incoming_transaction (external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX incoming_transaction_identity_unique ON incoming_transaction (identity);
CREATE INDEX incoming_transaction_pending ON incoming_transaction (id) WHERE pending;
CREATE TABLE job (
	id UUID NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	started_at TIMESTAMP WITH TIME ZONE, 
	finished_at TIMESTAMP WITH TIME ZONE, 
	lease_until TIMESTAMP WITH TIME ZONE, 
	done BIGINT DEFAULT 0 NOT NULL, 
	total BIGINT, 
	attempts INTEGER DEFAULT 0 NOT NULL, 
	version INTEGER DEFAULT 1 NOT NULL, 
	kind TEXT NOT NULL, 
	status TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	request_id TEXT NOT NULL, 
	params JSONB DEFAULT '{}' NOT NULL, 
	result JSONB, 
	error JSONB, 
	PRIMARY KEY (id), 
	CONSTRAINT job_kind_known CHECK (kind IN ('match', 'import', 'sync', 'export', 'backtest', 'redeliver')), 
	CONSTRAINT job_status_known CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled'))
);
CREATE INDEX job_by_status ON job (status, id);
CREATE UNIQUE INDEX job_match_run_unique ON job (kind) WHERE kind = 'match' AND status IN ('queued', 'running');
CREATE INDEX job_waiting ON job (kind, id) WHERE status IN ('queued', 'running');
CREATE TABLE leg (
	match_id UUID NOT NULL, 
	ordinal SMALLINT NOT NULL, 
	expected_id UUID, 
	contra_expected_id UUID, 
	incoming_id UUID, 
	contra_incoming_id UUID, 
	valid_from UUID, 
	valid_to UUID, 
	amount_minor BIGINT NOT NULL, 
	settled_minor BIGINT NOT NULL, 
	expected_revision INTEGER DEFAULT 1 NOT NULL, 
	incoming_revision INTEGER DEFAULT 1 NOT NULL, 
	settled_currency TEXT NOT NULL, 
	PRIMARY KEY (match_id, ordinal), 
	CONSTRAINT leg_joins_two CHECK (num_nonnulls(expected_id, contra_expected_id, incoming_id, contra_incoming_id) = 2), 
	CONSTRAINT leg_amounts_positive CHECK (amount_minor > 0 AND settled_minor > 0)
)
 PARTITION BY RANGE (match_id);
CREATE INDEX leg_by_expected ON leg (expected_id) WHERE expected_id IS NOT NULL;
CREATE INDEX leg_by_incoming ON leg (incoming_id) WHERE incoming_id IS NOT NULL;
CREATE TABLE match (
	id UUID NOT NULL, 
	run_id UUID, 
	superseded_by UUID, 
	amount_minor BIGINT NOT NULL, 
	returned_minor BIGINT DEFAULT 0 NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	decided_at TIMESTAMP WITH TIME ZONE, 
	effective_on DATE, 
	version INTEGER DEFAULT 1 NOT NULL, 
	score INTEGER NOT NULL, 
	candidates INTEGER DEFAULT 1 NOT NULL, 
	sampled BOOLEAN DEFAULT false NOT NULL, 
	status TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	confidence TEXT NOT NULL, 
	uniqueness TEXT NOT NULL, 
	currency TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	decided_by TEXT, 
	decision_reason TEXT, 
	levels SMALLINT[], 
	alternatives JSONB, 
	adjustments JSONB, 
	PRIMARY KEY (id), 
	CONSTRAINT match_status_known CHECK (status IN ('proposed', 'pending_approval', 'accepted', 'rejected', 'superseded', 'reversed')), 
	CONSTRAINT match_confidence_known CHECK (confidence IN ('exact', 'high', 'medium', 'low'))
)
 PARTITION BY RANGE (id);
CREATE INDEX match_by_run ON match (run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX match_by_status ON match (status, id);
CREATE TABLE outbox (
	change_id UUID NOT NULL, 
	ordinal BIGINT NOT NULL, 
	type TEXT NOT NULL, 
	resource_ids UUID[] NOT NULL, 
	data JSONB DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (change_id, ordinal)
);
CREATE TABLE import_problem (
	import_id UUID NOT NULL, 
	ordinal BIGINT NOT NULL, 
	line BIGINT, 
	statement_index INTEGER, 
	rejects BOOLEAN NOT NULL, 
	severity TEXT NOT NULL, 
	code TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (import_id, ordinal), 
	CONSTRAINT import_problem_import FOREIGN KEY(import_id) REFERENCES import (id)
);
CREATE TABLE statement (
	import_id UUID NOT NULL, 
	ordinal BIGINT NOT NULL, 
	opening_minor BIGINT, 
	closing_minor BIGINT, 
	balance_difference_minor BIGINT, 
	credit_minor BIGINT NOT NULL, 
	debit_minor BIGINT NOT NULL, 
	first_booking_on DATE, 
	last_booking_on DATE, 
	entry_count INTEGER NOT NULL, 
	transaction_count INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	account TEXT, 
	currency TEXT, 
	statement_id TEXT, 
	sequence_number TEXT, 
	balance_check TEXT NOT NULL, 
	balances JSONB NOT NULL, 
	PRIMARY KEY (import_id, ordinal), 
	CONSTRAINT statement_import FOREIGN KEY(import_id) REFERENCES import (id)
);
CREATE INDEX statement_by_account ON statement (account, last_booking_on);
