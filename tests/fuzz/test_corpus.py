"""Every case that fuzzing has kept, and every finding that was mended, again; and no reader without a target."""

from __future__ import annotations

import pytest

from fuzz.files import options_of, read
from fuzz.targets import CORPUS, CORPUS_BYTES_MAX, FILES_OF, TARGETS, Target

EACH = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


@EACH
def test_what_fuzzing_has_kept_still_holds(target: Target) -> None:
    cases = list(target.cases())
    assert cases
    for case in cases:
        try:
            target.check(case.read_bytes())
        except Exception as error:
            error.add_note(f"the case is {target.name}/{case.name}")
            raise


@pytest.mark.parametrize("family", FILES_OF)
def test_every_reader_has_cases_that_it_reads(family: str) -> None:
    target = TARGETS[FILES_OF[family]]
    readings = [read(case.read_bytes(), options_of(family)) for case in target.cases()]
    assert any(reading.error is None and reading.file.counts.accepted for reading in readings)
    assert any(reading.error is not None for reading in readings), "nothing that it refuses"


def test_the_corpus_is_small_and_all_of_it_is_used() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == TARGETS.keys()
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(sizes) <= CORPUS_BYTES_MAX
