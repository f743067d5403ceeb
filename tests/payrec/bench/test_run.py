"""What is loaded when, and how the matches are numbered: by what they say, whatever the order of the rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from payrec.bench.generator import generate
from payrec.bench.process import Timing
from payrec.bench.run import Bench, Outcome, Plan, numbered
from payrec.bench.store import LINK_SCHEMA
from payrec.factory import TimeOrderedIds

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_new_lines_are_the_last_ones_in_whatever_order(tmp_path: Path) -> None:
    data = generate(rows=300, seed=4, preset="base")
    factory: Any = SimpleNamespace(context=SimpleNamespace(ids=TimeOrderedIds()))
    caller: Any = None
    plans = [Plan(new_lines=40), Plan(new_lines=40, permute=3)]
    found = [
        Bench(factory, caller=caller, folder=tmp_path / str(n))._render(data, plan, NOW) for n, plan in enumerate(plans)
    ]

    for plain, shuffled in zip(*found, strict=True):
        assert plain.ids["id"].to_list() != shuffled.ids["id"].to_list()
        assert sorted(plain.ids["id"]) == sorted(shuffled.ids["id"])
    assert found[0][2].ids["id"].to_list() == data.incoming["id"].to_list()[-40:]


PAIRS = st.dictionaries(
    st.integers(0, 5), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=3, unique=True)
)


def links_of(matches: dict[int, list[tuple[int, int]]], name: str) -> pl.DataFrame:
    rows = [
        (f"{name}{match}", f"e{expected}", f"i{incoming}", True, 1500, "high", "one_to_one", 1, 1)
        for match, pairs in matches.items()
        for expected, incoming in pairs
    ]
    return pl.DataFrame(rows, schema={**LINK_SCHEMA, "auto": pl.Boolean()}, orient="row")


@given(matches=PAIRS, dice=st.randoms(use_true_random=False))
def test_matches_are_numbered_by_their_content(matches: dict[int, list[tuple[int, int]]], dice: Any) -> None:
    ids = [pl.DataFrame({"uuid": [f"{side}{n}" for n in range(7)], "id": [-n for n in range(7)]}) for side in "ei"]
    plain = numbered(links_of(matches, "a"), *ids)
    others = list(matches)
    dice.shuffle(others)
    renamed = {n: matches[old] for n, old in enumerate(others)}
    shuffled = links_of(renamed, "b").sample(fraction=1.0, shuffle=True, seed=dice.randrange(100))

    assert_frame_equal(numbered(shuffled, *ids), plain)
    assert plain["match_id"].n_unique() == len(matches)
    assert plain.height == sum(map(len, matches.values()))
    assert set(plain["score"]) <= {1.5}


def test_the_time_told_is_the_median_s_and_the_memory_the_worst() -> None:
    timings = [
        Timing(seconds={"total": total}, peak_rss_mib=peak, engine_version="1", counts={})
        for total, peak in ((3.0, 10), (1.0, 30), (2.0, 20))
    ]
    outcome = Outcome(
        rows={},
        links=pl.DataFrame({"match_id": [1, 1, 2]}),
        timings=timings,
        repeatable=True,
        left_out={},
        versions={},
        server={},
    )

    assert (outcome.timing.seconds["total"], outcome.peak_rss_mib, outcome.proposals) == (2.0, 30, 2)
