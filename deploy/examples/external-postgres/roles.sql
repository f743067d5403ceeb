-- What payrec needs of a PostgreSQL 16 or newer, once for an installation. Run it as a role that may create roles and
-- databases (of a managed server, the one that it came with); nobody needs to be a superuser:
--
--   psql "$SERVER_URL" --set ON_ERROR_STOP=1 --file roles.sql
--   psql "$SERVER_URL" --command '\password payrec_admin' --command '\password payrec_service'
--
-- Everything else (group roles, schemas, a role for each tenant environment) is made by `payrec migrate` and by whoever
-- makes tenants. Its roles belong to the server, so a server has one installation of payrec, however many databases.

-- ADMIN_DATABASE_URL: makes schemas and roles. It owns the control schema, and enters a tenant's only by SET ROLE.
CREATE ROLE payrec_admin LOGIN NOSUPERUSER NOCREATEDB CREATEROLE;

-- DATABASE_URL and JOBS_DATABASE_URL: what API and workers log in as. It owns nothing and inherits nothing: without
-- SET ROLE, which each transaction begins with, it sees no table.
CREATE ROLE payrec_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;

CREATE DATABASE payrec;

-- Only these two may connect. Temporary tables are every role's, because imports use them as the tenant's role.
REVOKE ALL ON DATABASE payrec FROM PUBLIC;
GRANT CONNECT, CREATE ON DATABASE payrec TO payrec_admin;
GRANT CONNECT ON DATABASE payrec TO payrec_service;
GRANT TEMPORARY ON DATABASE payrec TO PUBLIC;

-- What connections say themselves, unless a pooler in front of the server drops it.
ALTER DATABASE payrec SET timezone TO 'UTC';
