CREATE TABLE control.audit_record (
	id UUID NOT NULL, 
	at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL, 
	tenant_id UUID, 
	environment TEXT, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	resource_id UUID, 
	before JSONB, 
	after JSONB, 
	request_id TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX control_audit_record_by_tenant ON control.audit_record (tenant_id, environment, id);
CREATE TABLE control.idempotency (
	key BYTEA NOT NULL, 
	fingerprint BYTEA NOT NULL, 
	status INTEGER, 
	body TEXT, 
	headers JSONB, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (key), 
	CONSTRAINT control_idempotency_lengths CHECK (octet_length(key) = 32 AND octet_length(fingerprint) = 32)
);
CREATE INDEX control_idempotency_by_age ON control.idempotency (created_at);
CREATE TABLE control.idp_signing_key (
	kid TEXT NOT NULL, 
	public_jwk JSONB NOT NULL, 
	private_encrypted BYTEA NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	retired_at TIMESTAMP WITH TIME ZONE, 
	PRIMARY KEY (kid)
);
CREATE UNIQUE INDEX idp_signing_key_one_active ON control.idp_signing_key ((true)) WHERE retired_at IS NULL;
CREATE TABLE control.idp_user (
	username TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	password_hash TEXT NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (username), 
	CONSTRAINT idp_user_password_is_hashed CHECK (starts_with(password_hash, '$scrypt$'))
);
CREATE UNIQUE INDEX idp_user_subject_unique ON control.idp_user (subject);
CREATE TABLE control.tenant (
	id UUID NOT NULL, 
	slug TEXT NOT NULL, 
	name TEXT NOT NULL, 
	status TEXT NOT NULL, 
	settings JSONB DEFAULT '{}' NOT NULL, 
	version INTEGER DEFAULT 1 NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT tenant_slug_unique UNIQUE (slug), 
	CONSTRAINT tenant_status_known CHECK (status IN ('provisioning', 'active', 'suspended', 'deleting'))
);
CREATE TABLE control.api_key (
	id UUID NOT NULL, 
	public_id TEXT NOT NULL, 
	tenant_id UUID NOT NULL, 
	environment TEXT NOT NULL, 
	name TEXT, 
	digest BYTEA NOT NULL, 
	read BOOLEAN NOT NULL, 
	write BOOLEAN NOT NULL, 
	expires_at TIMESTAMP WITH TIME ZONE, 
	revoked_at TIMESTAMP WITH TIME ZONE, 
	last_used_at TIMESTAMP WITH TIME ZONE, 
	created_by TEXT NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT api_key_public_id_unique UNIQUE (public_id), 
	CONSTRAINT api_key_tenant FOREIGN KEY(tenant_id) REFERENCES control.tenant (id), 
	CONSTRAINT api_key_opens_something CHECK (read OR write), 
	CONSTRAINT api_key_digest_length CHECK (octet_length(digest) = 32)
);
CREATE INDEX api_key_by_environment ON control.api_key (tenant_id, environment, id);
CREATE TABLE control.app_user (
	id UUID NOT NULL, 
	tenant_id UUID NOT NULL, 
	subject TEXT, 
	username TEXT NOT NULL, 
	email TEXT, 
	display_name TEXT, 
	roles TEXT[] NOT NULL, 
	environments TEXT[] NOT NULL, 
	status TEXT NOT NULL, 
	version INTEGER DEFAULT 1 NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT app_user_username_unique UNIQUE (username), 
	CONSTRAINT app_user_tenant FOREIGN KEY(tenant_id) REFERENCES control.tenant (id), 
	CONSTRAINT app_user_status_known CHECK (status IN ('active', 'disabled'))
);
CREATE INDEX app_user_by_tenant ON control.app_user (tenant_id, id);
CREATE UNIQUE INDEX app_user_subject_unique ON control.app_user (subject) WHERE subject IS NOT NULL;
CREATE TABLE control.tenant_environment (
	id UUID NOT NULL, 
	tenant_id UUID NOT NULL, 
	environment TEXT NOT NULL, 
	schema_name TEXT NOT NULL, 
	role_name TEXT NOT NULL, 
	status TEXT NOT NULL, 
	revision TEXT, 
	created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT tenant_environment_unique UNIQUE (tenant_id, environment), 
	CONSTRAINT tenant_environment_schema_unique UNIQUE (schema_name), 
	CONSTRAINT tenant_environment_role_unique UNIQUE (role_name), 
	CONSTRAINT tenant_environment_tenant FOREIGN KEY(tenant_id) REFERENCES control.tenant (id), 
	CONSTRAINT tenant_environment_name_known CHECK (environment IN ('development', 'staging', 'production', 'test')), 
	CONSTRAINT tenant_environment_status_known CHECK (status IN ('provisioning', 'active', 'suspended'))
);
