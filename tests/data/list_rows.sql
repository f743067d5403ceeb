CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, d, minor, at, day,
    (substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id,
    '00000000-0000-7000-8000-000000000001'::uuid AS change,
    CASE WHEN d < 80 THEN 'EUR' WHEN d < 95 THEN 'USD' ELSE 'JPY' END AS currency,
    CASE WHEN d % 5 = 0 THEN 'debit' ELSE 'credit' END AS direction
FROM (
    SELECT n, n * 7919 % 100 AS d, n * 104729 % 90000 + 1000 AS minor,
        timestamptz '2026-01-01T00:00:00Z' + n * interval '10 minutes' AS at, date '2026-01-01' + (n / 144)::int AS day
    FROM generate_series(1::bigint, 40000) n
) numbers CROSS JOIN LATERAL (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS h) hex;

INSERT INTO expected_transaction (id, amount_minor, created_at, updated_at, change_id, due_on, currency, direction,
    external_id, reference, counterparty_name, account, group_key, description)
SELECT id, minor, at, at, change, CASE WHEN d <> 7 THEN day + 14 END, currency, direction, 'E' || n, 'INV-' || n,
    'Customer ' || n % 3000, 'A' || n % 4, CASE WHEN d < 20 THEN 'G' || n / 300 END, 'Services of ' || day
FROM made;

INSERT INTO incoming_transaction (id, amount_minor, created_at, updated_at, change_id, booking_on, value_on, import_id,
    identity, fingerprint, currency, direction, external_id, account, remittance, end_to_end_id, counterparty_name,
    group_key, pending)
SELECT id, minor, at, at, change, day, day, ('00000000-0000-7000-8000-' || lpad(to_hex(n / 500), 12, '0'))::uuid,
    decode(md5('i' || n), 'hex'), decode(md5('f' || n), 'hex'), currency, direction, 'I' || n, 'A' || n % 4,
    'Invoice INV-' || n, 'E2E-' || n, 'Customer ' || n % 3000, CASE WHEN d < 20 THEN 'G' || n / 300 END, n % 1000 = 999
FROM made;

INSERT INTO allocation (transaction_id, side, amount_minor, allocated_minor, updated_at, version, status)
SELECT id, side, minor, CASE WHEN d < 60 THEN minor WHEN d < 62 THEN minor / 2 ELSE 0 END, at, 2,
    CASE WHEN d < 60 THEN 'matched' WHEN d < 62 THEN 'partially_matched' WHEN side = 1 THEN 'void'
         WHEN d = 62 THEN 'ignored' WHEN d = 63 THEN 'classified' WHEN d = 64 THEN 'reversed' ELSE 'linked' END
FROM made CROSS JOIN (VALUES (1), (2)) sides (side) WHERE d < 66;

INSERT INTO expected_open (transaction_id, open_minor, total_minor, tie_key, due_day, direction, currency)
SELECT id, minor, minor, n, CASE WHEN d <> 7 THEN day + 14 - date '1970-01-01' END, 1, currency
FROM made WHERE d >= 66 OR d IN (60, 61);

INSERT INTO incoming_open (transaction_id, open_minor, total_minor, tie_key, booking_day, direction, pending, currency,
    reference_keys)
SELECT id, minor, minor, n, day - date '1970-01-01', 1, n % 1000 = 999, currency, '{}' FROM made WHERE d >= 66 OR d IN (60, 61);

INSERT INTO open_reason (transaction_id, side, reason) SELECT transaction_id, 1, 1 + tie_key % 8 FROM expected_open;
INSERT INTO open_reason (transaction_id, side, reason) SELECT transaction_id, 2, 1 + tie_key % 8 FROM incoming_open;

INSERT INTO match (id, amount_minor, created_at, updated_at, score, status, kind, confidence, uniqueness, currency,
    created_by, decided_by, run_id, effective_on, levels)
SELECT id, minor, at, at, 9000, CASE WHEN d < 60 THEN 'accepted' WHEN d < 80 THEN 'superseded'
        WHEN d < 90 THEN 'rejected' WHEN d < 92 THEN 'reversed' ELSE 'proposed' END,
    CASE WHEN d % 10 = 0 THEN 'one_to_many' ELSE 'one_to_one' END,
    CASE WHEN d < 40 THEN 'exact' WHEN d < 70 THEN 'high' WHEN d < 90 THEN 'medium' ELSE 'low' END, 'unique', currency,
    'engine:1', 'engine:1', ('00000000-0000-7000-8000-' || lpad(to_hex(n / 2000), 12, '0'))::uuid,
    CASE WHEN d < 60 OR d IN (90, 91) THEN day END, '{1}'
FROM made;

INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, settled_currency)
SELECT id, 1, id, id, amount_minor, amount_minor, currency FROM match;
