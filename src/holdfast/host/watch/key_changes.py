"""Which keys changed, for controllers and schedulers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.model.values.structs import Revision


class ChangedKeys(Struct, frozen=True):
    """The keys that batches touched, and the revision of a view that contains them."""

    revision: Revision
    keys: tuple[WatchKey, ...]


class KeyChanges(Protocol):
    """A feed with an item for every later durable batch, also for one without keys.

    Batches between two reads become one item. The feed ends when it had to drop keys: then list everything and open a
    new one.
    """

    def __aiter__(self) -> AsyncIterator[ChangedKeys]: ...

    def close(self) -> None:
        """End the feed."""
