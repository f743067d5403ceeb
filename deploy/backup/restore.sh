#!/usr/bin/env bash
# Puts the dump of one tenant environment in the place of what is there now: all of it or nothing, and nobody else is
# touched. The environment has to be registered, and should be suspended.
#
#   restore.sh DIRECTORY SCHEMA
#
# Needs pg_restore and psql, not older than the server, and the role of ADMIN_DATABASE_URL.
set -euo pipefail

directory=${1:?"usage: restore.sh DIRECTORY SCHEMA"}
schema=${2:?"usage: restore.sh DIRECTORY SCHEMA"}
: "${ADMIN_DATABASE_URL:?is not set}"

query() { psql "$ADMIN_DATABASE_URL" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 "$@"; }

role=$(query --no-align --tuples-only --set=schema="$schema" <<<"SELECT role_name FROM control.tenant_environment
  WHERE schema_name = :'schema'")
[[ -n $role ]] || {
  echo "no environment has the schema $schema here: register its tenant first" >&2
  exit 1
}
# Read to its end before anything is changed: what is cut off is noticed here.
script=$(mktemp)
trap 'rm -f "$script"' EXIT
pg_restore --no-owner --no-privileges --schema="$schema" --file="$script" "$directory/$schema.dump"
{
  printf 'SET ROLE "%s";\nDROP SCHEMA IF EXISTS "%s" CASCADE;\nRESET ROLE;\n' "$role" "$schema"
  printf 'CREATE SCHEMA "%s" AUTHORIZATION "%s";\nSET ROLE "%s";\n' "$schema" "$role" "$role"
  cat "$script"
} | query --single-transaction --output=/dev/null
echo "$schema"
