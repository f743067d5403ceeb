"""Which elements of camt messages are wanted, and under which key: a tree that the scanner walks along.

Through all versions: a path that a version does not have does no harm, and where a version moved something both
paths have the same key.
"""

from __future__ import annotations

from typing import Final

MESSAGES: Final = {
    "BkToCstmrAcctRpt": "camt.052",
    "BkToCstmrAcctRptV01": "camt.052",
    "BkToCstmrStmt": "camt.053",
    "BkToCstmrStmtV01": "camt.053",
    "BkToCstmrDbtCdtNtfctn": "camt.054",
    "BkToCstmrDbtCdtNtfctnV01": "camt.054",
}
"""Message elements (ISO 20022 Bank-to-Customer Cash Management); the first version carries its number in the name."""

PASS: Final = 0
"""Only on the way to a wanted element."""
TEXT: Final = 1
"""Text of which the first is wanted."""
TEXTS: Final = 2
"""Text of which all are wanted."""
AMOUNT: Final = 3
"""Text with the attribute ``Ccy``."""
RECORD: Final = 4
"""An element that is a record of its own."""


class Node:
    """An element at a wanted path, or on the way to one."""

    __slots__ = ("children", "event", "key", "kind", "wraps")

    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.kind = PASS
        self.key = ""
        self.event: str | None = None
        """Name of the event that ends the record; None for records inside of others."""
        self.wraps = False
        """Elements that are not known are gone into rather than passed over."""

    def at(self, path: str) -> Node:
        """Return the node at the path below, made on the way."""
        node = self
        for name in path.split("/"):
            node = node.children.setdefault(name, Node())
        return node

    def want(self, paths: dict[str, str]) -> Node:
        """Want text at paths: ``key`` the first, ``key*`` all of them, ``key$`` an amount with its currency."""
        for path, key in paths.items():
            node = self.at(path)
            node.key = key.rstrip("*$")
            node.kind = {"*": TEXTS, "$": AMOUNT}.get(key[-1], TEXT)
        return self

    def record(self, path: str, key: str, event: str | None = None) -> Node:
        """Make the element at the path a record of its own: an event, or an item of the list ``key``."""
        node = self.at(path)
        node.kind, node.key, node.event = RECORD, key, event
        return node


def _money_paths() -> dict[str, str]:
    """Return what an entry and its details share about amounts and codes."""
    paths = {
        "AmtDtls/InstdAmt/Amt": "instructed$",
        "AmtDtls/TxAmt/Amt": "transaction$",
        "BkTxCd/Domn/Cd": "domain",
        "BkTxCd/Domn/Fmly/Cd": "family",
        "BkTxCd/Domn/Fmly/SubFmlyCd": "sub_family",
        "BkTxCd/Prtry/Cd": "proprietary",
    }
    paths |= {f"AmtDtls/{amount}/CcyXchg/XchgRate": "rate" for amount in ("InstdAmt", "TxAmt", "CntrValAmt")}
    return paths


def _account_paths(element: str, iban: str, other: str) -> dict[str, str]:
    return {
        f"{element}/Id/IBAN": iban,
        f"{element}/Id/Othr/Id": other,
        f"{element}/Id/PrtryAcct/Id": other,
        f"{element}/Id/BBAN": other,
        f"{element}/Id/UPIC": other,
    }


def _party_paths(side: str, prefix: str) -> dict[str, str]:
    """Return the paths of a debtor or creditor through all versions: plain, and below ``Pty`` from .08 on."""
    paths = {
        f"RltdPties/{side}/Nm": f"{prefix}_name",
        f"RltdPties/{side}/Pty/Nm": f"{prefix}_name",
        f"RltdPties/{side}/Agt/FinInstnId/Nm": f"{prefix}_name",
        f"RltdPties/Ultmt{side}/Nm": f"{prefix}_ultimate",
        f"RltdPties/Ultmt{side}/Pty/Nm": f"{prefix}_ultimate",
    }
    for bic in ("BIC", "BICFI", "CmbndId/BIC"):
        paths[f"RltdAgts/{side}Agt/FinInstnId/{bic}"] = f"{prefix}_bic"
    return paths | _account_paths(f"RltdPties/{side}Acct", f"{prefix}_iban", f"{prefix}_other")


STATEMENT_PATHS: Final = {
    "Id": "id",
    "ElctrncSeqNb": "sequence",
    "LglSeqNb": "legal_sequence",
    "CreDtTm": "created",
    "FrToDt/FrDtTm": "from",
    "FrToDt/FrDt": "from",
    "FrToDt/ToDtTm": "to",
    "FrToDt/ToDt": "to",
    **_account_paths("Acct", "iban", "other"),
    "Acct/Ccy": "currency",
    "Acct/Nm": "name",
    "Acct/Ownr/Nm": "owner",
    "Acct/Svcr/FinInstnId/BIC": "bic",
    "Acct/Svcr/FinInstnId/BICFI": "bic",
    "TxsSummry/TtlNtries/NbOfNtries": "all_count",
    "TxsSummry/TtlNtries/Sum": "all_sum",
    "TxsSummry/TtlCdtNtries/NbOfNtries": "credit_count",
    "TxsSummry/TtlCdtNtries/Sum": "credit_sum",
    "TxsSummry/TtlDbtNtries/NbOfNtries": "debit_count",
    "TxsSummry/TtlDbtNtries/Sum": "debit_sum",
}

BALANCE_PATHS: Final = {
    "Tp/CdOrPrtry/Cd": "type",
    "Tp/Cd": "type",
    "Amt": "amount$",
    "CdtDbtInd": "direction",
    "Dt/Dt": "on",
    "Dt/DtTm": "on",
}

ENTRY_PATHS: Final = {
    "NtryRef": "entry_reference",
    "Amt": "amount$",
    "CdtDbtInd": "direction",
    "RvslInd": "reversal",
    "Sts": "status",
    "Sts/Cd": "status",
    "Sts/Prtry": "status",
    "BookgDt/Dt": "booking",
    "BookgDt/DtTm": "booking",
    "ValDt/Dt": "value",
    "ValDt/DtTm": "value",
    "AcctSvcrRef": "bank_reference",
    "AddtlNtryInf": "additional",
    "Btch/NbOfTxs": "batch_count",
    "NtryDtls/Btch/NbOfTxs": "batch_count",
    **_money_paths(),
}

DETAIL_PATHS: Final = {
    "Refs/AcctSvcrRef": "bank_reference",
    "Refs/EndToEndId": "end_to_end_id",
    "Refs/TxId": "transaction_id",
    "Refs/InstrId": "instruction_id",
    "Refs/PmtInfId": "payment_information_id",
    "Refs/MndtId": "mandate_id",
    "Refs/UETR": "uetr",
    "Refs/ChqNb": "check_number",
    "Amt": "amount$",
    "CdtDbtInd": "direction",
    "RmtInf/Ustrd": "remittance*",
    "RmtInf/Strd/RfrdDocInf/Nb": "documents*",
    "RmtInf/Strd/RfrdDocInf/RfrdDocNb": "documents*",
    "RmtInf/Strd/AddtlRmtInf": "documents*",
    "RmtInf/Strd/CdtrRefInf/Ref": "structured",
    "RmtInf/Strd/CdtrRefInf/CdtrRef": "structured",
    "Purp/Cd": "purpose",
    "RtrInf/Rsn/Cd": "return_reason",
    "RtrInf/RtrRsn/Cd": "return_reason",
    "AddtlTxInf": "additional",
    **_money_paths(),
    **_party_paths("Dbtr", "debtor"),
    **_party_paths("Cdtr", "creditor"),
}


def _tree() -> Node:
    """Build the tree of all wanted paths: wrappers, the message, its statements, their balances and entries."""
    detail = Node().want(DETAIL_PATHS)
    detail.kind, detail.key = RECORD, "details"
    entry = Node().want(ENTRY_PATHS)
    for owner in (entry, detail):
        charge = owner.record("Chrgs", "charges")
        said = {"Amt": "amount$", "CdtDbtInd": "direction", "ChrgInclInd": "included"}
        charge.want({**said, "TtlChrgsAndTaxAmt": "total$"})
        charge.record("Rcrd", "charges").want(said)
    entry.children["TxDtls"] = detail
    entry.at("NtryDtls").children["TxDtls"] = detail
    entry.kind, entry.event = RECORD, "entry"

    outside = Node()
    outside.wraps = True
    message = Node()
    header = message.record("GrpHdr", "", "header")
    header.want({"CreDtTm": "created", "MsgPgntn/PgNb": "page", "MsgPgntn/LastPgInd": "last_page"})
    for name in ("Stmt", "Rpt", "Ntfctn"):
        statement = message.record(name, "", "statement_end").want(STATEMENT_PATHS)
        statement.want({f"{name}Pgntn/PgNb": "page", f"{name}Pgntn/LastPgInd": "last_page"})
        statement.record("Bal", "", "balance").want(BALANCE_PATHS)
        statement.children["Ntry"] = entry
    for name in MESSAGES:
        outside.children[name] = message
    return outside


TREE: Final = _tree()
"""Where every document begins."""
