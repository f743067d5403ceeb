"""Which codes of a bank take a payment back, in all the ways in which they are written."""

from __future__ import annotations

import pytest

from payrec.bench.codes import is_reversal


@pytest.mark.parametrize(
    "code", ["PMNT-RCDT-RRTN", "pmnt/iddt/updd", "PMNTIDDTPRDD", "RRTN", "109", "NRTI", "NRTI+109+00931", "GVC 181"]
)
def test_what_takes_a_payment_back(code: str) -> None:
    assert is_reversal(code)


@pytest.mark.parametrize(
    "code", [None, "", "PMNT-RCDT-ESCT", "166", "1090", "NTRF+166+00931", "XXRRTN", "PMNTRCDTESCT", "\x00", "RÜCK"]
)
def test_what_does_not(code: str | None) -> None:
    assert not is_reversal(code)
