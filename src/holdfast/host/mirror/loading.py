"""A state on its way into a mirror: restored chunk by chunk, then folded up to where nothing is missing."""

from __future__ import annotations

from holdfast.core.ledger.codec import Corrupt
from holdfast.core.ledger.snapshot import Restore, decode_manifest
from holdfast.core.region.state import RegionState


class Loading:
    """One of them. Without a manifest it begins with nothing: the first batch of the log follows."""

    def __init__(self, manifest: bytes = b"") -> None:
        self.state = RegionState()
        #: How many chunks are still to come.
        self._left = 0
        if manifest:
            found = decode_manifest(manifest)
            self._restore = Restore(self.state, found)
            self._left = len(found.parts)

    @property
    def is_restored(self) -> bool:
        """Whether batches may follow."""
        return not self._left

    def take(self, raw: bytes) -> None:
        """The next chunk. `Corrupt`, `UpgradeNeeded`."""
        if not self._left:
            raise Corrupt("a chunk came that belongs to no snapshot")
        self._restore.take(raw)
        self._left -= 1
        if not self._left:
            self._restore.finish()
