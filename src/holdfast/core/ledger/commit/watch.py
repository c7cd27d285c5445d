"""Watch keys: which objects an event touches, derived from the event alone.

A key is a kind and an id, such as `("node", uid)` or `("tenant", name)`. No state is read. So a live watch and one that
is resumed from the log years later see the same. Each ledger has a closed list of kinds. A watch of a kind receives
every event that changes what the kind's sentence names, and may receive more.

This module has the kinds that both ledgers share. Answers for retries (`answered`, `keys`, a session's highest number)
have no key: no event names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.model.values.structs import Revision

WatchKey = tuple[str, str | int]
#: The keys of one event, which has this revision: each once, in the order in which the event names them.
KeysOf = Callable[[Any, Revision], tuple[WatchKey, ...]]

LOG, SESSION, PRINCIPAL, OVERRIDE, BREACH, SERVER = "log", "session", "principal", "override", "breach", "server"

WATCH_KINDS: dict[str, str] = {
    LOG: "The log itself, by aspect: `started`, `term`, `level`, `digest`, `settings`, `denials`.",
    SESSION: "A session of a machine, by uid: opened, ended.",
    PRINCIPAL: "An actor by name: its permissions, and its sessions opened and ended.",
    OVERRIDE: "An operator's override by uid: opened, ended.",
    SERVER: "The token of a server, by name: admitted, revoked, forgotten.",
    BREACH: "A breach of an invariant, by `invariant/key`: opened, grown, shrunk, closed.",
}


def breach(invariant: str, key: str) -> WatchKey:
    """Return the key of a breach. The name of an invariant has no slash, so the key is unambiguous."""
    return BREACH, f"{invariant}/{key}"
