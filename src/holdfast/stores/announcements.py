"""Announcements of servers in memory, for engines that one process uses."""

from __future__ import annotations

from holdfast.host.ports.store import ANNOUNCEMENT_BYTES, ANNOUNCEMENTS, StoreError


class AnnouncementTable:
    """Announcements in memory, for a store whose servers are all in one process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._announced: dict[str, bytes] = {}

    def put(self, name: str, raw: bytes) -> None:
        """Set or replace an announcement; an empty one removes it."""
        if not raw:
            self._announced.pop(name, None)
            return
        if len(raw) > ANNOUNCEMENT_BYTES:
            raise StoreError(f"{self._name}: announcement of {len(raw):,} bytes, limit {ANNOUNCEMENT_BYTES:,}")
        if name not in self._announced and len(self._announced) >= ANNOUNCEMENTS:
            raise StoreError(f"{self._name}: {ANNOUNCEMENTS:,} announcements wait for a leader\nhint: try again later")
        self._announced[name] = bytes(raw)

    def all(self) -> list[tuple[str, bytes]]:
        """Return all announcements by name."""
        return sorted(self._announced.items())
