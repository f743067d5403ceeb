"""What a schema is made of, from PostgreSQL's own catalog, in a form that two schemas can be compared in."""

from __future__ import annotations

from typing import Final

import psycopg

_PARTS: Final[dict[str, str]] = {
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attcollation::regcollation::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
            AND a.attnum > 0 AND NOT a.attisdropped
    """,
    "constraints": """
        SELECT c.relname, x.conname, x.contype, pg_get_constraintdef(x.oid), x.convalidated
        FROM pg_constraint x JOIN pg_class c ON c.oid = x.conrelid WHERE c.relnamespace = %(schema)s::regnamespace
    """,
    "indexes": """
        SELECT c.relname, i.relname, pg_get_indexdef(x.indexrelid), x.indisvalid
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
        WHERE c.relnamespace = %(schema)s::regnamespace
    """,
    "relations": """
        SELECT c.relname, c.relkind, c.relpersistence, pg_get_partkeydef(c.oid),
               pg_get_expr(c.relpartbound, c.oid), c.reloptions::text,
               (SELECT string_agg(inhparent::regclass::text, ',') FROM pg_inherits WHERE inhrelid = c.oid)
        FROM pg_class c WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind <> 'c'
    """,
    "triggers": """
        SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = %(schema)s::regnamespace AND NOT t.tgisinternal
    """,
}


def describe(url: str, schema: str) -> dict[str, list[str]]:
    """Return every column, constraint, index, relation and trigger of a schema, each as one text, sorted.

    The schema's own name is left out of the texts, so that equal schemas have equal descriptions.
    """
    with psycopg.connect(url) as connection:
        return {
            part: sorted(
                repr(tuple(row)).replace(f"{schema}.", "")
                for row in connection.execute(query.encode(), {"schema": schema})
            )
            for part, query in _PARTS.items()
        }
