"""The contract of a reconciler: `reconcile(state, key, now)` returns commands and the time of the next call.

    touched object --wake--> keys --reconcile--> commands to the ledger, which decides them like any sender's

A reconciler works from the current state, not from past events: called too often it returns nothing, called late it
returns the same as in time. It stores nothing between calls. The controller manager decides when to call it, how often,
and how to treat a refusal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.values.structs import Instant, Revision

T = TypeVar("T")

#: The subject of one call: plain values with a stable repr, such as a uid, a name, or a tuple of them.
ReconcileKey = Hashable
#: What an event touched: the kind of the object and its id.
WatchKey = tuple[str, Hashable]

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)

#: Answer of `wake` if a change concerns all keys: the caller lists them once for all changes.
EVERYTHING: tuple[ReconcileKey, ...] = ("everything",)


class ProposedCommand(Struct, frozen=True):
    """A command to send, and the revision that made it necessary. `expect` is the revision of the object that it was
    decided by; the command is stale once the object has another."""

    command: Any
    cause: Revision = 0
    expect: Revision = 0


class ReconcileResult(Struct, frozen=True):
    """Commands to send now, and when to reconcile again even without a change. The commands are independent: each may
    be refused alone."""

    commands: tuple[ProposedCommand, ...] = ()
    requeue_at: Instant | None = None


NO_CHANGES = ReconcileResult()


class Reconciler(Protocol[S_contra]):
    """One controller. Its principal is `controller/NAME`, which limits the commands it may send."""

    name: str
    #: The kinds of objects whose changes wake it.
    watches: tuple[str, ...]

    def keys(self, state: S_contra) -> Iterable[ReconcileKey]:
        """Return all keys that may need work, in a chosen order: a resync reconciles them."""

    def wake(self, state: S_contra, touched: WatchKey) -> Iterable[ReconcileKey]:
        """Return the keys that a change of this object may concern, or `EVERYTHING`. It may be deleted already."""

    def reconcile(self, state: S_contra, key: ReconcileKey, now: Instant) -> ReconcileResult:
        """Return what to do for this key: nothing if the key is deleted or the state is as it should be."""


def keys_to_wake(reconciler: Reconciler[S], state: S, touched: Iterable[WatchKey]) -> Iterator[ReconcileKey]:
    """Yield the keys that these changes concern. All keys are listed once, even if several changes concern all."""
    listed = False
    for one in touched:
        if one[0] in reconciler.watches:
            keys = reconciler.wake(state, one)
            if keys is not EVERYTHING:
                yield from keys
            elif not listed:
                listed = True
                yield from reconciler.keys(state)


#: Largest number of embedded schedulers of a leader.
SCHEDULERS_MAX = 16
_SCHEDULER = "controller/scheduler"
_FURTHER = frozenset(f"{_SCHEDULER}-{number}" for number in range(2, SCHEDULERS_MAX + 1))


def principal(name: str) -> str:
    """Return the actor of the reconciler with this name."""
    return f"controller/{name}"


def scheduler_principal(number: int) -> str:
    """Return the actor of an embedded scheduler: the first one is `controller/scheduler`."""
    assert 1 <= number <= SCHEDULERS_MAX, number
    return _SCHEDULER if number == 1 else f"{_SCHEDULER}-{number}"


def owner_of(actor: str) -> str:
    """Return the owner, by the rules of commands, as which a controller acts: its own, or the first scheduler's."""
    return _SCHEDULER if actor in _FURTHER else actor


def chunked(named: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yield the values in chunks that one command may name (RULES 11)."""
    for first in range(0, len(named), PARTS_MAX):
        yield tuple(named[first : first + PARTS_MAX])
