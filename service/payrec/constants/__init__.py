"""Every limit and interval, each with its unit; larger subjects have modules of their own. Nothing else invents one."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

AMOUNT_MINOR_MAX: Final = 10**15 - 1
"""Largest amount in minor units; three digits below what int64 and a double can hold exactly."""

SUM_MINOR_MAX: Final = 2**63 - 1
"""What legs of a match or entries of a statement come to in minor units at most: what a column holds. As many as there
may be, of the largest amount each, are more."""

# Requests ------------------------------------------------------------------------------------------------------

API_VERSION: Final = b"1"
"""Major version of the interface, a header of every answer."""

JSON_BODY_BYTES_MAX: Final = 1024 * 1024
"""Bytes of an ordinary JSON body."""

JSON_DEPTH_MAX: Final = 32
"""Nesting of a request body."""

BULK_BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of the JSON body of a request that brings many items."""

BULK_ITEMS_MAX: Final = 10_000
"""Items of such a request."""

FX_RATE_DIGITS_MAX: Final = 15
"""Significant digits of an exchange rate, so that a rate times an amount fits 128 bits."""

FX_RATE_PLACES_MAX: Final = 12
"""Digits after the point of an exchange rate."""

UPLOAD_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of an uploaded file as it comes over the wire."""

HEADER_BYTES_MAX: Final = 16 * 1024
"""Bytes of all header names and values together."""

IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255
"""Characters of an Idempotency-Key, visible ASCII."""

IDEMPOTENCY_RETENTION: Final = timedelta(hours=24)
"""How long a stored answer is replayed."""

PAGE_SIZE_DEFAULT: Final = 50
"""Rows of a list page when ``limit`` is absent."""

PAGE_SIZE_MAX: Final = 200
"""Rows of a list page at most."""

CURSOR_LENGTH_MAX: Final = 4096
"""Characters of a cursor: one of groups has a name of ``TEXT_LENGTH_MAX`` characters, of four bytes each."""

REASON_LENGTH_MAX: Final = 500
"""Characters of the words in which somebody says why something was decided."""

METADATA_ENTRIES_MAX: Final = 50
"""Pairs in ``metadata``."""

METADATA_KEY_LENGTH_MAX: Final = 64
"""Characters of a metadata key."""

METADATA_VALUE_LENGTH_MAX: Final = 500
"""Characters of a metadata value."""

TEXT_LENGTH_MAX: Final = 500
"""Characters of a name, a reference, a description or a reason."""

REMITTANCE_LENGTH_MAX: Final = 64 * 1024
"""Characters of a remittance text (a camt entry may carry many lines)."""

PROBLEMS_READ_AT_ONCE: Final = 5_000
"""Problems of an import that are in memory while all of them are written."""

API_KEYS_ACTIVE_MAX: Final = 100
"""Active API keys of one tenant environment."""

RATE_LIMIT_BUCKETS_MAX: Final = 100_000
"""Buckets of principals and tenant environments that a process keeps; beyond, the one that rested longest is full."""

LOG_DEPTH_MAX: Final = 8
"""Containers within containers of one field of a log line; what is deeper is left out."""

LOG_ITEMS_MAX: Final = 100
"""Members of one container in a log line; those beyond are left out."""

# Identity ------------------------------------------------------------------------------------------------------

ACCESS_TOKEN_LENGTH_MAX: Final = 16 * 1024
"""Characters of an access token; it has to fit into the header block of later requests."""

TOKEN_NAME_LENGTH_MAX: Final = 255
"""Characters of a kid, a subject (OpenID Connect Core, section 2) or a username in a token."""

PROVIDER_TIMEOUT_SECONDS: Final = 5.0
"""Seconds for one whole exchange with the identity provider, its body included."""

PROVIDER_RESPONSE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a response of the identity provider."""

PROVIDER_METADATA_FRESH: Final = timedelta(hours=1)
"""How long the discovery document is used before it is read again."""

PROVIDER_METADATA_COOL_DOWN: Final = timedelta(seconds=1)
"""Least time between two attempts to read the discovery document."""

PROVIDER_CLOCK_SKEW: Final = timedelta(seconds=30)
"""How far ahead the provider's clock may be (``nbf``, ``iat``). ``exp`` gets no leeway: over is over."""

PROVIDER_KEYS_FRESH: Final = timedelta(minutes=10)
"""How long the provider's keys are used before they are read again; so long a withdrawn key may still be taken."""

PROVIDER_KEYS_COOL_DOWN: Final = timedelta(seconds=30)
"""Least time between two routine attempts to read the keys while some are cached, and after an attempt that was made
for a token and did not bring its key."""

PROVIDER_KEYS_COLD_RETRY: Final = timedelta(seconds=1)
"""The same while there are none to go on with."""

PROVIDER_KEYS_STALE_MAX: Final = timedelta(hours=24)
"""How long keys are used that cannot be read again, because the provider does not answer."""

PROVIDER_KEYS_MAX: Final = 64
"""Keys in a key set."""

PROVIDER_RSA_BITS_MIN: Final = 2048
"""Bits of an RSA modulus (NIST SP 800-131A)."""

PROVIDER_RSA_BITS_MAX: Final = 8192
"""The same at most; beyond, each verification would cost too much."""

EMBEDDED_TOKEN_LIFETIME: Final = timedelta(hours=1)
"""How long a token of the embedded provider is valid."""

EMBEDDED_RETIRED_KEY_PUBLISHED: Final = EMBEDDED_TOKEN_LIFETIME + timedelta(minutes=5)
"""How long a retired key stays in the embedded provider's key set: until every token that it signed is over."""

EMBEDDED_KEY_SET_MAX_AGE_SECONDS: Final = 60
"""Seconds that a cache may keep the embedded provider's key set."""

EMBEDDED_FORM_BYTES_MAX: Final = 16 * 1024
"""Bytes of a token request to the embedded provider."""

EMBEDDED_FORM_FIELDS_MAX: Final = 16
"""Parameters of a token request to the embedded provider."""

ENCRYPTION_KEY_BYTES_MIN: Final = 16
"""Bytes of ENCRYPTION_KEY at least."""

USERNAME_LENGTH_MAX: Final = 255
"""Characters of a username."""

PASSWORD_LENGTH_MAX: Final = 1024
"""Characters of a password."""

PASSWORD_HASHES_AT_ONCE: Final = 2
"""Hashes of passwords that are made at the same time."""

PASSWORD_HASHES_WAITING_MAX: Final = 64
"""Hashes of passwords that may wait for their turn."""

TOKEN_ATTEMPT_DELAY_MAX: Final = timedelta(minutes=15)
"""Least time between two attempts at ``/auth/token``, at most, however many have failed."""

TOKEN_FAILURE_FADES_AFTER: Final = timedelta(minutes=15)
"""Time in which one failed attempt is forgotten; not shorter than the longest delay, or guessing would outrun it."""

TOKEN_ATTEMPTS_FORGOTTEN_AFTER: Final = timedelta(hours=1)
"""How long attempts are remembered after the last one; more than the longest delay."""

TOKEN_ATTEMPTS_PRUNED_MAX: Final = 100
"""Forgotten attempts that are deleted along with one new one, which adds two at most."""

TOKEN_ADDRESS_IPV6_BYTES: Final = 8
"""Bytes of an IPv6 address that count: its first 64 bits, since whoever has one address has the network (RFC 7421)."""

API_KEY_USES_FLUSH_SECONDS: Final = 10.0
"""Seconds between two writes of when keys were last used."""

API_KEY_USES_NOTED_MAX: Final = 10_000
"""Keys whose uses one process remembers between two writes; those beyond are noted when they are used again."""

API_KEY_EXPIRY_NOTICE: Final = timedelta(days=7)
"""How long before a key expires its tenant is told."""

API_KEY_EXPIRY_BATCH: Final = 500
"""Expiring keys that are read at a time."""

# Files (the readers in payrec.formats) -------------------------------------------------------------------------

DETECTION_BYTES: Final = 64 * 1024
"""Bytes at the start of a file, after its container, that detection looks at."""

FILE_BYTES_EXPANDED_MAX: Final = 1024 * 1024 * 1024
"""Bytes of a file after gzip or zip was opened, all members together, counted while reading."""

FILE_RECORDS_MAX: Final = 2_000_000
"""Records of one file."""

FILE_ACCOUNTS_MAX: Final = 10_000
"""Pairs of account and currency in one CSV or JSON file; each is a statement that stays open to the end."""

FILE_PROBLEMS_MAX: Final = 1_000
"""Problems of one file that are kept; all are counted and pass in the stream."""

FILE_PIECE_BYTES: Final = 64 * 1024
"""Bytes asked of a file at a time."""

CONTINUITY_STATEMENTS_MAX: Final = 10_000
"""Statements of one file whose continuity is looked at."""

CONTINUITY_DAY_STATEMENTS_MAX: Final = 1_000
"""Stored statements of one account and day whose continuity is looked at, those that came first."""

STATEMENT_NUMBER_DIGITS_MAX: Final = 18
"""Digits of a statement's number that is compared with others."""

CONTAINER_MEMBERS_MAX: Final = 1_000
"""Members of a zip."""

CONTAINER_DIRECTORY_BYTES_MAX: Final = 1024 * CONTAINER_MEMBERS_MAX
"""Bytes of a zip's central directory: names and extra fields of its members together."""

CONTAINER_NAME_LENGTH_MAX: Final = 255
"""Characters of a member's name that are kept."""

CONTAINER_RATIO_MAX: Final = 200
"""Expanded bytes for each compressed byte, looked at after the first CONTAINER_RATIO_FREE_BYTES."""

CONTAINER_RATIO_FREE_BYTES: Final = 1024 * 1024
"""Expanded bytes before the ratio counts."""

XML_DEPTH_MAX: Final = 64
"""Depth of elements."""

XML_TOKEN_BYTES_MAX: Final = 1024 * 1024
"""Bytes fed to the parser without it making progress."""

XML_NAMES_MAX: Final = 20_000
"""Different names of elements and attributes in one file; the parser keeps each for as long as it lives."""

XML_ENTRY_CHARACTERS_MAX: Final = 64 * 1024 * 1024
"""Characters of all wanted texts of one entry with its details."""

CAMT_BALANCES_MAX: Final = 1_000
"""Balances of one camt statement that are kept."""

MT940_BALANCES_MAX: Final = 100
"""Balances of one MT940 statement that are kept; a bank writes two, and a handful of forward ones."""

BAI2_LINES_LOOKED_AT: Final = 10
"""Lines after the file header of BAI2 among which a group header must come."""

OFX_HEAD_CHARACTERS: Final = 4 * 1024
"""Characters at the start of a file among which the begin of OFX is looked for."""

FIELD_BYTES_MAX: Final = 64 * 1024
"""Bytes of one element's text or one CSV field; longer rejects the record as ``field_too_long``."""

BATCH_DETAILS_MAX: Final = 100_000
"""Details of one batch entry."""

LINE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one line, or one CSV record."""

AMOUNT_TEXT_LENGTH_MAX: Final = 64
"""Characters of an amount in a file, surplus zeros on both sides included; no bank needs half of it."""

DATE_TEXT_LENGTH_MAX: Final = 40
"""Characters of a date cell, with time, offset and weekday."""

CSV_COLUMNS_MAX: Final = 512
"""Columns of a CSV file."""

CSV_HEADER_SEARCHED_ROWS: Final = 40
"""Records at the start of a CSV file among which the header is looked for."""

QUESTION_ALTERNATIVES_MAX: Final = 20
"""Answers that are offered to a question about a file."""

QUESTION_LABEL_LENGTH_MAX: Final = 40
"""Characters of a column's heading in such an answer."""

CSV_SPOOL_MEMORY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the spool that stay in memory while a CSV file is read twice; more goes to a temporary file."""

CSV_CELLS_REMEMBERED_MAX: Final = 8_192
"""Distinct cells of one kind that are kept with what they mean (for dates: 20 years of days)."""

CSV_CELL_REMEMBERED_LENGTH_MAX: Final = 100
"""Characters of a cell that is worth remembering."""

XLSX_SPOOL_MEMORY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a workbook that stay in memory while it is read; a larger one goes to a temporary file."""

XLSX_PART_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of the shared strings of a workbook, or of its styles, after they are expanded."""

XLSX_SHEETS_MAX: Final = 1_000
"""Sheets of a workbook."""

XLSX_STYLES_MAX: Final = 65_536
"""Cell formats of a workbook; Excel writes at most 65,490."""

XLSX_HEAD_ROWS: Final = 240
"""Rows at the start of a sheet that detection looks at: where the header may be, and two hundred below."""

PROFILE_HEADER_ROW_MAX: Final = 1_000
"""Line of the header in a profile, counted from 1."""

PROFILE_FOOTER_ROWS_MAX: Final = 1_000
"""Rows at the end that a profile says are no transactions."""

PROFILE_SHEET_MAX: Final = 1_000
"""Place of a sheet in a workbook, counted from 0."""

PROFILE_RULES_MAX: Final = 50
"""Rules in ``skipWhen``, texts in a list of marks, columns joined to one remittance text."""

PROFILE_PATTERN_LENGTH_MAX: Final = 500
"""Characters of ``matches``."""

PROFILE_PATTERN_REPEATS_MAX: Final = 2
"""Unbounded repeats in ``matches``: with two, the time of a search is at most the cube of the length matched."""

PROFILE_MATCHED_LENGTH_MAX: Final = 200
"""Characters of a cell that ``matches`` looks at."""

PROFILE_DATE_FORMAT_LENGTH_MAX: Final = 40
"""Characters of ``dateFormat``."""

PROFILE_BYTES_MAX: Final = 64 * 1024
"""Characters of a profile as JSON."""

DATA_SOURCES_MAX: Final = 1_000
"""Data sources of one tenant environment."""

PROFILE_ENCODING_LENGTH_MAX: Final = 40
"""Characters of ``encoding`` that are looked at."""

JSON_LINES_LOOKED_AT: Final = 50
"""Lines among which one whole record tells JSON lines whose first line is torn."""

JSON_RECORD_DEPTH_MAX: Final = 8
"""Nesting of one record in a JSON file."""

JSON_RECORD_BYTES_MAX: Final = 64 * 1024
"""Bytes of one record in a JSON file."""

PARSE_SECONDS_BASE: Final = 10.0
"""Seconds that any file may take to parse."""

PARSE_SECONDS_PER_MIB: Final = 1.0
"""Further seconds for each MiB of the file."""

# Matching ------------------------------------------------------------------------------------------------------

KEYS_VERSION: Final = 1
"""Of the keys of open rows: changes whenever a text could give another one, with a migration that makes the indexes of
0051 anew."""

MATCHING_ROWS_MAX: Final = 5_000_000
"""Rows of one side; a row's number and a pair of numbers must fit 32 and 64 bits, and the frames the memory."""

KEYS_CACHED_MAX: Final = 16_384
"""Keys of names and of accounts that are remembered: the same parties come again and again."""

TEXTS_CACHED_MAX: Final = 256
"""Texts of which is remembered what several of their keys are made of: more than are made keys of at once."""

REMITTANCE_KEYS_MAX: Final = 64
"""Keys of one line. Single words come before joins, so a long list of invoices loses joins first."""

REMITTANCE_WORDS_MAX: Final = 2_000
"""Words of a remittance text that are looked at."""

DECISIONS_READ_MAX: Final = 100_000
"""Decisions of persons that are learned of, the newest ones."""

ALIASES_MAX: Final = 100_000
"""Names on statements that a tenant environment remembers."""

ALIASES_TAUGHT_MAX: Final = 1_000
"""Names that one run may learn of, those matched by hand first, then those that were explained most often."""

LESSONS_MAX: Final = 20
"""Lessons of a kind that are kept of a name: accepted, rejected, and accepted for another counterparty."""

EXPLANATION_MEMBERS_MAX: Final = 6
"""Members of a group that an explanation or a piece of evidence names; of the others it says how many they are."""

EXPLANATION_QUOTE_LENGTH_MAX: Final = 60
"""Characters of a reference or name within an explanation."""
