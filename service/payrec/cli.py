"""The command ``payrec``: what can be said on the command line. What is done is in ``payrec.commands``.

Exit codes: 0 done, 1 failed, 2 the command line or a setting is wrong, 130 interrupted; `payrec parse` also has 3, some
records were rejected, and 4, the file cannot be read. An expected error is one line on standard error, never a
traceback.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from payrec import __version__
from payrec.constants import MATCHING_ROWS_MAX
from payrec.domain.principal import ENVIRONMENTS, ROLES
from payrec.errors import ConfigurationError, PayrecError

PORT_MAX: Final = 65_535

WAIT_SECONDS_MAX: Final = 3_600
"""Longest time that a command can be asked to wait."""

ALLOCATOR: Final = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:3000,muzzy_decay_ms:3000")
"""Where the columns' allocator looks for its settings, and ours: memory that is not used goes back after 3 seconds.

By itself it gives back what the next step of a run asks for again, which takes a fifth of the run's processor time.
"""

ACTIONS: Final = ("api", "upload", "matching", "provisioning", "webhooks", "operator")
"""What `payrec bench` measures by itself."""

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    # Before anything imports the allocator, which looks once; what whoever started us has said counts.
    os.environ.setdefault(*ALLOCATOR)
    try:
        # Imported when it is asked for: `payrec keys` needs neither the API nor the matching engine.
        return int(_imported(given.command).run(given))
    except ConfigurationError as error:
        sys.stderr.write(f"payrec: {error.detail}\n")
        return EXIT_USAGE
    except PayrecError as error:
        sys.stderr.write(f"payrec: {_readable(error)}\n")
        return EXIT_FAILED
    except BrokenPipeError:
        # Whoever read our output has gone, as `| head` does. Python would complain again when it closes it.
        sys.stdout = None
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _readable(error: PayrecError) -> str:
    fields = "; ".join(f"{e.pointer.lstrip('/')}: {e.detail}" for e in error.errors)
    return f"{error.detail}: {fields}" if fields else error.detail


def _imported(command: str) -> ModuleType:
    # What modules make stays as long as the process does: to look for garbage among it took a third of the processor
    # time of a start, and 0.2 s at once whenever it was done later.
    gc.disable()
    module = importlib.import_module(f"payrec.commands.{command.replace('-', '_')}")
    gc.freeze()
    gc.enable()
    return module


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="payrec",
        description="Multi-tenant payment reconciliation: what was expected, what really moved, and why they match.",
        epilog="Settings are environment variables; service/README.md lists them.",
    )
    parser.add_argument("--version", action="version", version=f"payrec {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_processes(commands)
    _add_tenants(commands)
    _add_users(commands)
    _add_keys(commands)
    _add_parse(commands)
    _add_verify_match(commands)
    _add_audit(commands)
    _add_bench(commands)
    return parser


def _add_processes(commands: Any) -> None:
    demo = commands.add_parser("demo", help="show the whole thing at work on a real statement; needs nothing else")
    demo.add_argument("--exit", action="store_true", help="end when everything was shown")
    demo.add_argument("--port", type=_port, default=8000, help="0 takes any free one (default 8000)")

    dev = commands.add_parser("dev", help="run everything for development, embedding what is not set")
    _add_ports(dev)
    dev.add_argument("--data-dir", type=Path, help="where everything is kept (DATA_DIR)")

    _add_ports(commands.add_parser("serve", help="serve the API"))
    worker = commands.add_parser("worker", help="do the jobs: imports and matching runs")
    _add_internal_port(worker)
    # For `payrec dev`: standard input is a pipe that ends when the parent does, however it ends.
    worker.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    bootstrap = commands.add_parser("bootstrap", help="make the roles and the database of a new server")
    bootstrap.add_argument(
        "--wait", type=_seconds, default=0, help="seconds to wait for a server that does not answer yet"
    )
    commands.add_parser("migrate", help="bring the control schema and every tenant's schema to this version")
    waiting = commands.add_parser(
        "wait-for-migration", help="wait until the control schema is this version's; migrates nothing"
    )
    waiting.add_argument("--seconds", type=_seconds, default=300, help="how long (default 300)")
    commands.add_parser("openapi", help="print the OpenAPI document")
    commands.add_parser("problems", help="print what each code of an error means, and what to do about it")


def _add_ports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, help="0 takes any free one (PORT, default 8000)")
    _add_internal_port(parser)


def _add_internal_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--internal-port", type=_port, help="/livez, /readyz and /metrics (INTERNAL_PORT, default 9090)"
    )


def _add_tenants(commands: Any) -> None:
    actions = commands.add_parser("tenants", help="tenants: create, list, suspend, resume, delete").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    create = actions.add_parser("create", help="create a tenant and its schemas")
    create.add_argument("--name", required=True, help="for people to read")
    create.add_argument("--slug", help="made from the name when it is not given")
    create.add_argument("--environments", type=_environments, help="separated by commas; all four by default")
    listing = actions.add_parser("list", help="list all tenants")
    listing.add_argument(
        "--status", choices=("provisioning", "active", "suspended", "deleting"), help="only those with it"
    )
    for name, text in (("suspend", "refuse every request of a tenant"), ("resume", "end a suspension")):
        actions.add_parser(name, help=text).add_argument("slug")
    actions.add_parser(
        "export-registration", help="print a tenant's environments, users and keys: what no dump of a schema has"
    ).add_argument("slug")
    restore = actions.add_parser(
        "restore-registration", help="register a tenant from such a document, suspended, with empty schemas"
    )
    restore.add_argument("file", type=Path, metavar="FILE", help="what export-registration has printed")
    actions.add_parser(
        "mend", help="give all registered environments their roles, rights and schemas back, without tables in them"
    )
    wake = actions.add_parser("wake", help="tell the workers of what waits in a tenant that was restored")
    wake.add_argument("slug")
    delete = actions.add_parser("delete", help="delete a tenant with all of its data; there is no way back")
    delete.add_argument("slug")
    delete.add_argument("--yes", action="store_true", help="do not ask")


def _add_users(commands: Any) -> None:
    actions = commands.add_parser("users", help="users: add, list, enable, disable, change").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    add = actions.add_parser("add", help="let somebody act for a tenant")
    add.add_argument("--tenant", required=True, help="slug")
    add.add_argument("--username", required=True, help="the name at the identity provider")
    add.add_argument("--email", help="for people to read; nothing is sent there")
    add.add_argument(
        "--subject", help="the identity provider's id of the user (sub); by default that of the user's first token"
    )
    add.add_argument("--roles", type=_roles, required=True, help=f"of {', '.join(ROLES)}; separated by commas")
    add.add_argument("--environments", type=_environments, help="separated by commas; all of the tenant's by default")
    add.add_argument("--id", type=_uuid, help="when the id is decided elsewhere")
    add.add_argument(
        "--password-stdin", action="store_true", help="read a password (the embedded identity provider only)"
    )
    actions.add_parser(
        "list", help="list a tenant's users, and whether the identity provider's subject is known (linked)"
    ).add_argument("--tenant", required=True, help="slug")
    for name, text in (("enable", "let a disabled user in again"), ("disable", "refuse a user's requests")):
        actions.add_parser(name, help=text).add_argument("--username", required=True, help="as the list has it")
    roles = actions.add_parser("set-roles", help="replace a user's roles")
    roles.add_argument("--username", required=True, help="as the list has it")
    roles.add_argument("--roles", type=_roles, required=True, help=f"of {', '.join(ROLES)}; separated by commas")
    environments = actions.add_parser("set-environments", help="replace the environments open to a user")
    environments.add_argument("--username", required=True, help="as the list has it")
    environments.add_argument("--environments", type=_environments, required=True, help="separated by commas")


def _add_keys(commands: Any) -> None:
    actions = commands.add_parser("keys", help="API keys: create, list, revoke").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    create = actions.add_parser("create", help="create a key and print it, once")
    listing = actions.add_parser("list", help="list the keys of an environment, and when they were last used")
    revoke = actions.add_parser("revoke", help="refuse a key from its next request on")
    for action in (create, listing, revoke):
        action.add_argument("--tenant", required=True, help="slug")
        action.add_argument("--environment", required=True, choices=ENVIRONMENTS, help="the one that the key opens")
    create.add_argument("--name", help="what it is for")
    create.add_argument("--read", action="store_true", help="let it read")
    create.add_argument("--write", action="store_true", help="let it change things")
    create.add_argument("--expires-at", help="RFC 3339, such as 2027-01-01T00:00:00Z; never by default")
    revoke.add_argument("--id", type=_uuid, required=True, help="as the list has it")


def _add_parse(commands: Any) -> None:
    parse = commands.add_parser(
        "parse", help="read a bank's file and show what is in it; needs neither a database nor a setting"
    )
    parse.add_argument("file", type=Path, metavar="FILE", help="whatever can be uploaded, gzip and zip included")
    parse.add_argument("--format", default="auto", help="what it is, such as camt.053 or csv (default: by its content)")
    parse.add_argument("--profile", type=Path, metavar="P.json", help="what a table looks like, where it does not tell")
    parse.add_argument("--currency", help="ISO 4217 code, where the file names none")
    parse.add_argument("--account", help="the account that it is of, where the file names none")
    parse.add_argument("--date-order", choices=("ymd", "dmy", "mdy"), help="of dates that could be read either way")
    parse.add_argument("--no-entries", action="store_true", help="leave the transactions out of --json and --jsonl")
    shape = parse.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="for programs: one document")
    shape.add_argument("--jsonl", action="store_true", help="for programs: a line for each transaction and statement")


def _add_verify_match(commands: Any) -> None:
    verify = commands.add_parser(
        "verify-match", help="show what a match rests on, and whether it still computes to the same"
    )
    verify.add_argument("id", type=_uuid, help="the match's")
    verify.add_argument("--tenant", required=True, help="slug")
    verify.add_argument("--environment", required=True, choices=ENVIRONMENTS, help="the one that the match is in")
    verify.add_argument("--json", action="store_true", help="for programs")


def _add_audit(commands: Any) -> None:
    actions = commands.add_parser("audit", help="the audit log: verify its seals").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    verify = actions.add_parser(
        "verify", help="show whether it is what was sealed, and what of it is redacted or not sealed yet"
    )
    verify.add_argument("--tenant", required=True, help="slug")
    verify.add_argument("--environment", required=True, choices=ENVIRONMENTS, help="whose log it is")
    verify.add_argument(
        "--root", type=_root, action="append", metavar="SEAL:ROOT", help="one that was kept elsewhere; may be repeated"
    )
    verify.add_argument("--json", action="store_true", help="for programs")


def _root(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})", text)
    if found is None:
        raise argparse.ArgumentTypeError("must be the number of a seal, a colon, and 64 hexadecimal digits")
    return int(found[1]), found[2].lower()


def _add_bench(commands: Any) -> None:
    parser = commands.add_parser("bench", help="measure this version on this machine, each figure beside its yardstick")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action in ("all", *ACTIONS):
        what = "every figure" if action == "all" else f"the figures of {action}"
        own = actions.add_parser(action, help=f"{what}, in one table; from a checkout")
        own.add_argument("--json", type=Path, metavar="FILE", help="write what was measured; other rows there stay")
        size = own.add_mutually_exclusive_group()
        size.add_argument("--quick", action="store_true", help="small sizes, for the ratios alone: two minutes for all")
        if action == "matching":
            _add_bench_rows(own, size)


def _add_bench_rows(matching: argparse.ArgumentParser, source: Any) -> None:
    source.add_argument(
        "--data", type=Path, help="measure one run: directory of expected.parquet, incoming.parquet, fx.json"
    )
    source.add_argument("--rows", type=_count, help="measure one run: generate so many rows a side")
    matching.add_argument("--seed", type=int, default=1, help="of generated data (default 1)")
    matching.add_argument("--preset", choices=("base", "hard"), default="base", help="of generated data")
    matching.add_argument("--history", type=Path, help="directory with the accepted past, truth.parquet included")
    matching.add_argument("--out", type=Path, help="directory for links.parquet and result.json")
    matching.add_argument("--new-lines", type=_count, default=0, help="match all but the last N lines first, untimed")
    matching.add_argument("--permute", type=int, metavar="SEED", help="shuffle both sides before they are loaded")
    matching.add_argument("--repeat", type=_count, default=1, metavar="K", help="run K times (default 1)")


def _number(smallest: int, largest: int) -> Callable[[str], int]:
    """Return what reads an argument that is a number from ``smallest`` to ``largest``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and smallest <= int(text) <= largest):
            raise argparse.ArgumentTypeError(f"must be a number from {smallest} to {largest}")
        return int(text)

    return read


_seconds: Final = _number(0, WAIT_SECONDS_MAX)
_count: Final = _number(1, MATCHING_ROWS_MAX)
_port: Final = _number(0, PORT_MAX)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a UUID") from None


def _environments(text: str) -> list[str]:
    return _words(text, ENVIRONMENTS)


def _roles(text: str) -> list[str]:
    return _words(text, tuple(ROLES))


def _words(text: str, known: Sequence[str]) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not set(words) <= set(known):
        raise argparse.ArgumentTypeError(f"must be among {', '.join(known)}, separated by commas")
    return words


if __name__ == "__main__":
    sys.exit(main())
