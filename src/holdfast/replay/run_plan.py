"""The plan of a run: the faults, actions and variants that its seed drew. A recording contains it."""

from __future__ import annotations

from random import Random

from msgspec import Struct


class PlannedFault(Struct, frozen=True, array_like=True):
    """A fault with its start, kind, target and length."""

    at: int
    what: str
    where: str
    lasts: int
    #: Seed of what is drawn when it happens, such as amount and direction.
    draw: int = 0


class PlannedAction(Struct, frozen=True, array_like=True):
    """An action of a user at a time; `draw` is the seed of its details."""

    at: int
    kind: str
    draw: int


class PlannedVariant(Struct, frozen=True, array_like=True):
    """A variant of a node, a workload or a tenant from the start; `draw` is the seed of its details (see `variety`)."""

    subject: str
    kind: str
    draw: int


class RunPlan(Struct, frozen=True, array_like=True):
    """Faults and actions in order of time, and the variants of the world."""

    length: int
    faults: tuple[PlannedFault, ...]
    acts: tuple[PlannedAction, ...]
    fittings: tuple[PlannedVariant, ...] = ()

    def odd(self, subject: str) -> list[tuple[str, Random]]:
        """Return the variants of a subject: each kind with a random stream for its details."""
        return [(one.kind, Random(one.draw)) for one in self.fittings if one.subject == subject]
