"""A payment, the item that it pays, and the codes of the books that a test posts them by."""

from __future__ import annotations

from uuid import UUID

from payrec.domain.postings import Codes, End

LINE = UUID(int=3)
BOOKS = Codes(
    suspense="S",
    receivable="R",
    payable="P",
    accounts={"A": "B"},
    adjustments={"fx": "X", "fee": "F", "over_payment": "O"},
    categories={"rent": "C"},
)
LATER = Codes(suspense="S2", receivable="R2", payable="P2", accounts={"A": "B2"}, categories={"rent": "C2"})
PAYMENT = End(id=LINE, is_line=True, sign=1, currency="EUR", name="A", whole_minor=200)
ITEM = End(id=UUID(int=9), is_line=False, sign=-1, currency="EUR", name="E1")
