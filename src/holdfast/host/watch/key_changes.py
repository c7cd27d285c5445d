"""Which keys changed: what controllers and schedulers wait for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.model.values.structs import Revision


class ChangedKeys(Struct, frozen=True):
    """What one or more durable batches touched, and the revision of the view that holds them."""

    revision: Revision
    keys: tuple[WatchKey, ...]


class KeyChanges(Protocol):
    """Told of every batch that becomes durable after it was made, also if that touched nothing; of several at once, if
    nobody asked in between. Ends when something had to be left out: then list everything, and listen anew."""

    def __aiter__(self) -> AsyncIterator[ChangedKeys]: ...

    def close(self) -> None:
        """Hear nothing more."""
