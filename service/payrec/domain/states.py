"""State machines as tables: what may be done in which state, and where that leads.

A machine is a tuple of rows, nothing else: services ask it before they change anything, the documentation is drawn from
it, and tests walk it. What is not in a table is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from payrec.errors import ConflictError

BEGIN: Final = ""
"""The state before there is anything: a row from it creates."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of a machine."""

    before: str
    verb: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What may become of one kind of thing."""

    noun: str
    """What it is called in an error: ``match``."""
    rows: tuple[Transition, ...]

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in the order in which the table names them."""
        named = [state for row in self.rows for state in (row.before, row.after)]
        return tuple(dict.fromkeys(state for state in named if state != BEGIN))

    @property
    def verbs(self) -> tuple[str, ...]:
        """Every verb, in the order in which the table names them."""
        return tuple(dict.fromkeys(row.verb for row in self.rows))

    def after(self, before: str, verb: str) -> frozenset[str]:
        """Return where a verb may lead from a state; empty where it is not allowed. Amounts say which it is."""
        return frozenset(row.after for row in self.rows if (row.before, row.verb) == (before, verb))

    def allows(self, before: str, verb: str) -> bool:
        """Tell whether a verb is allowed in a state."""
        return bool(self.after(before, verb))

    def sources(self, verb: str) -> frozenset[str]:
        """Return the states in which a verb is allowed."""
        return frozenset(row.before for row in self.rows if row.verb == verb)

    def check(self, before: str, verb: str) -> frozenset[str]:
        """Return where a verb may lead from a state.

        Raises
        ------
        ConflictError
            The state does not allow the verb (409 ``invalid_state``).
        """
        found = self.after(before, verb)
        if not found:
            raise ConflictError(f"the {self.noun} is {before.replace('_', ' ')}")
        return found

    def mermaid(self) -> str:
        """Draw the machine as a diagram in Mermaid's language. States that nothing leaves are its ends."""
        ends = [state for state in self.states if state not in {row.before for row in self.rows}]
        lines = ["stateDiagram-v2"]
        lines += [f"    {row.before or '[*]'} --> {row.after}: {row.verb}" for row in self.rows]
        lines += [f"    {state} --> [*]" for state in ends]
        return "\n".join(lines)


def table(noun: str, *rows: tuple[str, str, str]) -> Machine:
    """Make a machine of its rows (from, verb, to).

    Raises
    ------
    ValueError
        A row is there twice, or a state cannot be reached.
    """
    machine = Machine(noun=noun, rows=tuple(Transition(*row) for row in rows))
    if len(set(machine.rows)) != len(machine.rows):
        raise ValueError(f"a row of {noun} is there twice")
    reached, size = {BEGIN}, 0
    while len(reached) > size:
        size = len(reached)
        reached |= {row.after for row in machine.rows if row.before in reached}
    if unreached := set(machine.states) - reached:
        raise ValueError(f"states of {noun} cannot be reached: {', '.join(sorted(unreached))}")
    return machine
