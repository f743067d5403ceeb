-- What a Citus cluster needs beside external-postgres/roles.sql: PostgreSQL 18 with Citus 15, a coordinator and its
-- workers. First roles.sql on every server, then this on every server as a superuser:
--
--   psql "$NODE_URL/payrec" --set ON_ERROR_STOP=1 --file nodes.sql
--
-- and once on the coordinator, whose address is the one of DATABASE_URL and ADMIN_DATABASE_URL:
--
--   SELECT citus_set_coordinator_host('coordinator.example.com', 5432);
--   SELECT citus_add_node('worker-1.example.com', 5432);
--   SELECT citus_add_node('worker-2.example.com', 5432);
--   ALTER DATABASE payrec SET citus.enable_schema_based_sharding = on;
--
-- Then `payrec migrate`. A database that has environments already is not turned into a cluster by that.
CREATE EXTENSION IF NOT EXISTS citus;

-- Citus reaches a worker as the role of the environment. Who may do so from where is said in pg_hba.conf.
GRANT CONNECT ON DATABASE payrec TO PUBLIC;
