"""State machines as tables: each is drawn in the documentation as it is, and says what is stored and shown."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from payrec.domain.expected_states import EXPECTED_STATES
from payrec.domain.incoming_states import INCOMING_STATES
from payrec.domain.match_states import MATCH_STATES
from payrec.domain.period_locks import PERIOD_STATES
from payrec.domain.states import BEGIN, Machine, table
from payrec.errors import ConflictError
from payrec.models.matches import MatchStatus

DOCUMENT = Path(__file__).parents[3] / "service" / "states.md"
MACHINES = {
    "A match": MATCH_STATES,
    "An expected transaction": EXPECTED_STATES,
    "An incoming transaction": INCOMING_STATES,
    "A lock of a period": PERIOD_STATES,
}


@pytest.mark.parametrize("title", MACHINES)
def test_the_documentation_draws_the_table(title: str) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    drawn = text.split(f"## {title}\n")[1].split("```mermaid\n")[1].split("\n```")[0]
    assert drawn == MACHINES[title].mermaid(), MACHINES[title].mermaid()


def test_every_machine_is_in_the_documentation() -> None:
    titles = [line.removeprefix("## ") for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "## " in line]
    assert titles == list(MACHINES)


def test_a_match_has_the_statuses_that_are_shown() -> None:
    assert set(MATCH_STATES.states) == set(get_args(MatchStatus))


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_what_is_not_in_the_table_is_refused(machine: Machine) -> None:
    rows = {(row.before, row.verb) for row in machine.rows}
    for before, verb in product((BEGIN, *machine.states), machine.verbs):
        assert machine.allows(before, verb) == ((before, verb) in rows)
        if (before, verb) in rows:
            assert machine.check(before, verb) == machine.after(before, verb) <= set(machine.states)
            assert before in machine.sources(verb)
        else:
            with pytest.raises(ConflictError) as refused:
                machine.check(before, verb)
            assert (refused.value.status, refused.value.code) == (409, "invalid_state")
            assert str(refused.value) == f"the {machine.noun} is {before.replace('_', ' ')}"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(BEGIN, "make", "made"), (BEGIN, "make", "made")], "a row of thing is there twice"),
        ([(BEGIN, "make", "made"), ("lost", "find", "made")], "states of thing cannot be reached: lost"),
        ([("made", "change", "made")], "states of thing cannot be reached: made"),
        ([("b", "go", "a"), ("a", "go", "b")], "states of thing cannot be reached: a, b"),
    ],
)
def test_a_table_says_nothing_twice_and_reaches_everything(rows: list[tuple[str, str, str]], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        table("thing", *rows)


def test_what_is_reached_by_several_steps_is_reached_in_whatever_order_the_rows_are() -> None:
    machine = table("thing", ("b", "go", "c"), ("a", "go", "b"), (BEGIN, "make", "a"))
    assert (machine.noun, machine.states) == ("thing", ("b", "c", "a"))
    assert machine.verbs == ("go", "make")
    assert machine.sources("go") == {"a", "b"}
    assert machine.sources("make") == {BEGIN}
    assert machine.after("a", "go") == {"b"}
    assert not machine.allows("c", "go")
