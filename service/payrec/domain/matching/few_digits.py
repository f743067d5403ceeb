"""References that are a number of few digits and nothing else: a postal code or a day is as long.

Where somebody else quotes one, it is no proof that he pays what is called so.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.keys import reference_key

FEW_DIGITS_MAX: Final = 6
"""Digits that much else has as well: five of a postal code, six of a day or a bank code."""


def of_few_digits(pairs: pl.DataFrame, suspect: pl.Expr) -> pl.Expr:
    """Tell of ``suspect`` pairs whether the item's reference is a number of few digits.

    ``pairs`` has ``e_reference_key`` and ``e_reference_digits``. Letters are in the key alone, so the key of the digits
    without any is made, of the few that are suspect.
    """
    few = pl.col("e_reference_digits") < 2 * 10**FEW_DIGITS_MAX
    said = pairs.filter(few & suspect).select("e_reference_key", "e_reference_digits").unique()
    bare = [key for key, digits in said.iter_rows() if reference_key(str(digits)[1:]) == key]
    return suspect & pl.col("e_reference_key").is_in(bare) if bare else pl.lit(value=False)
