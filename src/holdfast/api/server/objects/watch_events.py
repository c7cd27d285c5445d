"""The lines of a watch: one line of JSON for each object that changed.

After a batch, the line of an object is equal for all watchers with the same view, so it is encoded once for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import encode
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.model.values.structs import Revision
from holdfast.host.errors import show_token

#: Objects whose lines are cached for watchers that receive the same batch a little later.
KEPT_MAX = 4_096


class WatchEventCache:
    """The lines of the newest batch, encoded on first use."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Any, Revision, str], bytes] = {}
        #: By the watchers' request: the objects of the batch that concern them, and their lines.
        self._told: dict[Hashable, tuple[tuple[Any, ...], list[bytes]]] = {}
        self._of: RevisionToken | None = None

    def told(self, asked: Hashable, state: Any, token: RevisionToken) -> tuple[tuple[Any, ...], list[bytes]] | None:
        """Return what an equal request was sent for this batch, if it is the newest."""
        return self._told.get(asked) if token == self._of and state.info.seq == token.seq else None

    def tell(
        self, asked: Hashable, state: Any, token: RevisionToken, keys: tuple[Any, ...], lines: list[bytes]
    ) -> None:
        """Cache the lines for other watchers with an equal request."""
        if token == self._of and state.info.seq == token.seq:
            self._told[asked] = (keys, lines)

    def of(
        self, redaction: Redaction, kind: ResourceKind, key: Any, row: Any, token: RevisionToken, at: Revision
    ) -> bytes:
        """Return the line of the current object, for a change at a revision in the batch of the token."""
        if redaction.seq != token.seq:
            # The newest content may be sent: it is newer than the batch, and its own batch sends it again.
            return self._line(redaction, kind, key, row, token, at)
        if token != self._of or len(self._made) >= KEPT_MAX:
            self._made.clear()  # no later line can show the state of an older batch
            self._told.clear()
            self._of = token
        known = (kind.plural, key, at, redaction.tenant)
        line = self._made.get(known)
        if line is None:
            line = self._made[known] = self._line(redaction, kind, key, row, token, at)
        return line

    def _line(
        self, redaction: Redaction, kind: ResourceKind, key: Any, row: Any, token: RevisionToken, at: Revision
    ) -> bytes:
        tree = redaction.tree(kind, key, row)
        added = tree["metadata"].get("uid") == show_revision(at)
        return _event_line("ADDED" if added else "MODIFIED", tree, token)


def added_event(tree: dict[str, Any], token: RevisionToken) -> bytes:
    """Return the line of an object that existed when the watch began."""
    return _event_line("ADDED", tree, token)


def deleted_event(kind: ResourceKind, key: Any, name: str, token: RevisionToken) -> bytes:
    """Return the line of a deleted object: its uid, and its name if known."""
    metadata: dict[str, Any] = {"uid": show_revision(key)} if isinstance(key, int) else {}
    if name:
        metadata["name"] = name
    tree = {"apiVersion": "holdfast/v1", "kind": kind.name, "metadata": metadata}
    return _event_line("DELETED", tree, token)


def bookmark_event(token: RevisionToken) -> bytes:
    """Return the line of a bookmark: no event was missed up to here."""
    return _event_line("BOOKMARK", None, token)


def _event_line(word: str, tree: Any, token: RevisionToken) -> bytes:
    line = {"type": word, "token": show_token(token)}
    return encode(line if tree is None else line | {"object": tree})
