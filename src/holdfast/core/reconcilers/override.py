"""Overrides end. By ledger time nothing of them holds after their end; here the end becomes a record.

Its end only returns authority: what an override kept from happening is then decided by whoever owns it (RULES 19).
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.reconciler import NOTHING, Key, Outcome, Wanted, WatchKey
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.values.structs import Instant


class Overrides:
    """Looks at one override at a time, by uid."""

    name = "override"
    watches: tuple[str, ...] = ("override",)

    def keys(self, state: LedgerState) -> Iterable[Key]:
        return state.overrides.keys()

    def wake(self, state: LedgerState, touched: WatchKey) -> Iterable[Key]:
        return [touched[1]]

    def reconcile(self, state: LedgerState, key: Key, now: Instant) -> Outcome:
        override = state.overrides.get(key)  # type: ignore[arg-type]
        if override is None:
            return NOTHING
        if now < override.ends:
            return Outcome((), override.ends)
        return Outcome((Wanted(EndOverride(override.uid, "its end has passed"), override.uid),))
