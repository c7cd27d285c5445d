"""The objects that a watch has emitted: what it needs to compute changes after a new list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.client.objects import revision_of
from holdfast.client.requester import Document

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class WatchCache:
    """Objects by identity, each with its emitted revision and a stub that names it.

    With a `name` it holds that object only. A deletion may carry only a uid: it is matched by that, and emitted with
    the stored name.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._handed_out: dict[str, tuple[str, Document]] = {}

    def saw(self, change: str, found: Document) -> Document | None:
        """Record a change. Returns the object to emit, with its name; None if it is not watched."""
        identity = _identity(found)
        before = self._handed_out.get(identity)
        if change == DELETED and before is not None:
            found = _named_by(before[1], found)
        if self._name is not None and _metadata(found).get("name") != self._name:
            return None
        if change == DELETED:
            self._handed_out.pop(identity, None)
        else:
            self._handed_out[identity] = (revision_of(found), _stub(found))
        return found

    def compare(self, listed: Iterable[Document]) -> Iterator[tuple[str, Document]]:
        """Yield the differences between the emitted objects and this list. Deletions come first, so that a name is free
        before it is used again. A change counts as emitted when the next one is requested."""
        present = {_identity(found): found for found in listed}
        gone = [stub for identity, (_, stub) in self._handed_out.items() if identity not in present]
        for stub in gone:
            self.saw(DELETED, stub)
            yield DELETED, stub
        for identity, found in present.items():
            before = self._handed_out.get(identity)
            if before is not None and before[0] == revision_of(found):
                continue
            if self.saw(MODIFIED, found) is not None:
                yield (ADDED if before is None else MODIFIED), found


def _metadata(found: Document) -> Document:
    metadata = found.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _identity(found: Document) -> str:
    """Return the uid; for an object without one, its name within its tenant."""
    metadata = _metadata(found)
    return str(metadata.get("uid") or f"{metadata.get('tenant', '')}/{metadata.get('name', '')}")


def _stub(found: Document) -> Document:
    """Return the fields that name an object; nothing else of it is stored."""
    metadata = _metadata(found)
    kept = {field: metadata[field] for field in ("name", "tenant", "uid") if metadata.get(field)}
    return {"apiVersion": found.get("apiVersion", ""), "kind": found.get("kind", ""), "metadata": kept}


def _named_by(stub: Document, found: Document) -> Document:
    return {**stub, **found, "metadata": {**stub["metadata"], **_metadata(found)}}
