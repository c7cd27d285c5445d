"""What of a region may be other than the platform was told, and since when: noticed from the region's own changes.

    a change is heard of ──▶ noticed ──▶ looked at
    the resync: everything ──▶ looked at; news of what nobody had noticed ──▶ heard of within a second? if not: caught

The state may be newer than what was heard of it, so what is heard a little later was not missed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from itertools import islice

from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import ASSIGNMENT, CURSOR, GRANT, WORKLOAD

#: What is no progress is told so long after it was first noticed: mostly something else follows from it.
CALM_MS = 100
#: Within so long what is in the state was heard of.
CHANGES_MS = 1_000
#: The summary among what is looked at: its kind and key.
SUMMARY = ("summary", "")


class DirtyObjects:
    """Workloads, accounts, and whether the summary is old. Times are of the even clock."""

    def __init__(self) -> None:
        self.accounts: dict[str, None] = {}
        self.is_summary_old = True
        #: Workloads to look at, and those that were looked at and wait for what follows; since when.
        self._fresh: OrderedDict[Revision, int] = OrderedDict()
        self._calm: dict[Revision, int] = {}
        #: Workloads that are looked at again, whatever happens; when.
        self._due: dict[Revision, int] = {}
        #: What is looked at for the resync alone, by kind and key; and what of it was news, since when.
        self._unprompted: dict[WatchKey, None] = {}
        self._suspects: dict[WatchKey, int] = {}

    def __bool__(self) -> bool:
        """Whether there is something to look at now."""
        return bool(self._fresh or self.accounts)

    def on_change(self, state: RegionState, keys: Iterable[WatchKey], now: int) -> None:
        """Note what a batch touched."""
        for kind, key in keys:
            if kind == WORKLOAD:
                self._note(key, now)  # type: ignore[arg-type]
            elif kind == GRANT:
                self.accounts[str(key)] = None
                self._heard(GRANT, str(key))
            elif kind == ASSIGNMENT and (assignment := state.assignments.get(key)) is not None:  # type: ignore[arg-type]
                self._note(assignment.workload, now)
            if kind != CURSOR:
                self.is_summary_old = True
                self._heard(*SUMMARY)

    def _note(self, workload: Revision, now: int) -> None:
        self._fresh.setdefault(workload, self._calm.pop(workload, now))
        self._heard(WORKLOAD, workload)

    def _heard(self, kind: str, key: Revision | str) -> None:
        self._unprompted.pop((kind, key), None)
        self._suspects.pop((kind, key), None)

    def resync(self, state: RegionState, above: Container[str]) -> None:
        """Look at everything, and keep of what nobody had noticed that it may be other than it was told. Accounts that
        are charged above their target are looked at whatever changes."""
        workloads = {*self._fresh, *self._calm, *self._due}
        accounts = [one for one, _ in state.accepted_grants.items() if one not in self.accounts and one not in above]
        unprompted: dict[WatchKey, None] = dict.fromkeys((GRANT, account) for account in accounts)
        unprompted.update({(WORKLOAD, uid): None for uid, _ in state.assignments_of.items() if uid not in workloads})
        if not self.is_summary_old:
            unprompted[SUMMARY] = None
        self.everything(state)
        self._unprompted = unprompted

    def looked_at(self, kind: str, key: Revision | str, now: int, *, is_news: bool) -> None:
        """Something was looked at, and was other than it was told, or not."""
        if (kind, key) in self._unprompted:
            del self._unprompted[kind, key]
            if is_news:
                self._suspects[kind, key] = now

    def take_caught(self, now: int) -> int:
        """Of how much that was news nobody has told all the while."""
        caught = [key for key, since in self._suspects.items() if since + CHANGES_MS <= now]
        for key in caught:
            del self._suspects[key]
        return len(caught)

    def everything(self, state: RegionState) -> None:
        """Anything may be other than it was told."""
        self._unprompted = {}
        self._fresh = OrderedDict.fromkeys(state.assignments_of.keys(), 0)
        self._calm = {}
        self.accounts = dict.fromkeys(account for account, _ in state.accepted_grants.items())
        self.is_summary_old = True

    def rested_at(self) -> int | None:
        """When the first of those that wait has waited long enough; None: none waits."""
        return min([*(since + CALM_MS for since in self._calm.values()), *self._due.values()], default=None)

    def wake(self, now: int) -> None:
        """Those that have waited long enough are looked at again."""
        rested = [workload for workload, since in self._calm.items() if since + CALM_MS <= now]
        for workload in reversed(rested):
            self._fresh[workload] = self._calm.pop(workload)
            self._fresh.move_to_end(workload, last=False)
        for workload in [workload for workload, at in self._due.items() if at <= now]:
            self._fresh.setdefault(workload, self._due.pop(workload))

    def take(self, most: int) -> list[tuple[Revision, int]]:
        """Workloads to look at, at most so many, and since when: they are noticed no more."""
        found = list(islice(self._fresh.items(), most))
        for workload, _ in found:
            del self._fresh[workload]
            self._due.pop(workload, None)
        return found

    def let_rest(self, workload: Revision, since: int) -> None:
        """Look at it once more when it has waited long enough."""
        self._calm.setdefault(workload, since)

    def look_again(self, workload: Revision, at: int) -> None:
        """Look at it then, whatever happens, or before."""
        self._due[workload] = min(at, self._due.get(workload, at))
