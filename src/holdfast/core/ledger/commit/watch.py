"""What an event touches, told from the event alone.

A key is a kind and an id, in the model's own words: `("node", uid)`, `("tenant", name)`. Since no state is asked, a
watch that is filtered while events happen and one that is resumed from the log years later see the same. Kinds are a
closed list for each ledger. A kind promises: whoever watches it is told of every event that changes what its sentence
names; it may be told of more.

Here are the kinds that both ledgers have. What a repeat is answered (`answered`, `watch`, a session's highest number)
is bookkeeping of the records, which no event names and nobody watches.
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
    LOG: "The log itself, by what of it changes: `started`, `term`, `level`, `digest`, `settings`, `denials`.",
    SESSION: "One life of a machine, by uid: its beginning and its end.",
    PRINCIPAL: "An actor by name: its rights, and its sessions' beginnings and ends.",
    OVERRIDE: "A person's decision by uid: opened, ended.",
    SERVER: "The token of a server, by name: honoured, revoked, forgotten.",
    BREACH: "A broken promise, by `invariant/key`: opened, grown, shrunk, closed.",
}


def breach(invariant: str, key: str) -> WatchKey:
    """The key of a breach. No invariant has a slash in its name, so it reads back in one way only."""
    return BREACH, f"{invariant}/{key}"
