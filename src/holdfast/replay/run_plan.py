"""What a run was given: the faults and the actions that its seed drew. A recording holds it."""

from __future__ import annotations

from random import Random

from msgspec import Struct


class PlannedFault(Struct, frozen=True, array_like=True):
    """Something that goes wrong at a time, somewhere, for a while."""

    at: int
    what: str
    where: str
    lasts: int
    #: What of it is drawn when it happens: how much, which way.
    draw: int = 0


class PlannedAction(Struct, frozen=True, array_like=True):
    """Something that people do at a time; `draw` says what exactly."""

    at: int
    kind: str
    draw: int


class PlannedVariant(Struct, frozen=True, array_like=True):
    """What is odd about a node, a workload or a tenant from the start; `draw` says how exactly (see `variety`)."""

    subject: str
    kind: str
    draw: int


class RunPlan(Struct, frozen=True, array_like=True):
    """All of it: what happens in the order of time, and what is odd from the start."""

    length: int
    faults: tuple[PlannedFault, ...]
    acts: tuple[PlannedAction, ...]
    fittings: tuple[PlannedVariant, ...] = ()

    def odd(self, subject: str) -> list[tuple[str, Random]]:
        """What is odd about something: of which kind, and chance for how exactly."""
        return [(one.kind, Random(one.draw)) for one in self.fittings if one.subject == subject]
