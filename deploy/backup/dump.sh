#!/usr/bin/env bash
# Dumps payrec's data as the role of ADMIN_DATABASE_URL, which needs no right besides those that it has: it enters each
# tenant environment as that environment's role.
#
#   dump.sh DIRECTORY         the control schema, the job queue, and every tenant environment
#   dump.sh DIRECTORY SLUG    one tenant: its registration and its environments
#
# Needs pg_dump and psql, not older than the server, and for one tenant `payrec` with its settings, or in PAYREC another
# way to it: PAYREC="kubectl -n payrec exec deploy/payrec-operator -- payrec". Each schema is dumped as it is at one
# instant, and the instants are not the same; what is between them are wake-ups, which are made anew.
set -euo pipefail

directory=${1:?"usage: dump.sh DIRECTORY [SLUG]"}
slug=${2:-}
: "${ADMIN_DATABASE_URL:?is not set}"

umask 077
mkdir -p "$directory"
dump() { pg_dump "$ADMIN_DATABASE_URL" --format=custom --no-privileges --lock-wait-timeout=60s "$@"; }

if [[ -n $slug ]]; then
  ${PAYREC:-payrec} tenants export-registration "$slug" >"$directory/$slug.registration.json"
else
  dump --schema=control --schema=jobs --file="$directory/control.dump"
fi
# Without tables there is nothing to dump: the environment is being made.
environments=$(
  psql "$ADMIN_DATABASE_URL" --no-psqlrc --quiet --no-align --tuples-only --field-separator=' ' \
    --set=ON_ERROR_STOP=1 --set=slug="$slug" <<'SQL'
SELECT e.schema_name, e.role_name FROM control.tenant_environment e JOIN control.tenant t ON t.id = e.tenant_id
WHERE e.revision IS NOT NULL AND :'slug' IN ('', t.slug) ORDER BY e.id
SQL
)
while read -r schema role; do
  [[ -n $schema ]] || continue
  dump --schema="$schema" --role="$role" --file="$directory/$schema.dump"
  echo "$schema"
done <<<"$environments"
