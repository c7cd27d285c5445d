"""The rows that the platform's invariants check: all, or those near a batch.

A written row includes its workload with all assignments, the workload that had its name before, and the templates
named. An account's sum is the sum before, changed by the written rows.

Rare commands reach further: a region that is retired, deleted or moved to another jurisdiction includes every row that
names it; a changed policy includes every validity, a tombstone every region.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from holdfast.core.ledger.state.invariants import BatchDiff, present
from holdfast.core.ledger.state.invariants import BatchScan as Near
from holdfast.core.model.objects.policies import validity_key
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workloads import Workload, name_key
from holdfast.core.model.records.breaches import PLATFORM_DISRUPTION, PLATFORM_ESCROW, PLATFORM_RESIDENCY
from holdfast.core.model.records.grants import charge_key
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.invariants.counts import Counts, changed_counts, miscounted_anywhere, miscounted_near
from holdfast.core.platform.invariants.grants import Amounts, Charged, charged_anew, named, shared
from holdfast.core.platform.state.tables import PlatformState


class PlatformFullScan:
    """All rows of the platform, and sums added up from them."""

    def __init__(self, state: PlatformState) -> None:
        self.state = state

    def rows(self, table: str) -> Iterator[tuple[Any, Any]]:
        """Yield the rows to check. A workload's assignments are all included, or none."""
        return iter(self.state.table(table).items())

    def namesakes(self) -> Iterator[tuple[Revision, Workload]]:
        """Yield every workload of each name to check."""
        return self.rows("workloads")

    def named_templates(self) -> set[str]:
        """Return the templates to check that a workload names."""
        return {digest for _, digests in self.state.templates_of.unordered() for digest in digests}

    def charged(self) -> Charged:
        """Return the amount granted of each account and limit."""
        return charged_anew(self.state)

    def miscounts(self) -> Iterator[str]:
        """Yield derived tables that differ from their rows."""
        return miscounted_anywhere(self.state)


class PlatformBatchScan(Near[PlatformState]):
    """The rows that a batch has written on the platform, and their neighbors."""

    def __init__(self, change: BatchDiff[PlatformState]) -> None:
        super().__init__(change)
        for name, old, new in change.rows("regions"):
            if old is not None and (new is None or _reach(old) != _reach(new)):
                self._include_region(name)
        self._include_workloads()
        self._include_templates()
        self._include_policies()
        if "tombstones" in change.touched:
            self.include("regions", (name for name, _ in self.state.regions.items()))

    def _include_region(self, region: str) -> None:
        """Include everything that names a region."""
        for table in ("assignments", "grants", "rights", "validities"):
            self.include(table, (key for key, row in self.state.table(table).items() if row.region == region))
        self.include("summaries", (region,))
        owner = f"region/{region}"
        rows = self.state.workloads.items()
        self.include("workloads", (uid for uid, row in rows if any(f.owner == owner for f in row.meta.finalizers)))

    def _include_workloads(self) -> None:
        uids = dict.fromkeys(
            (*self.keys("workloads"), *self.keys("templates_of"), *self.keys("observed"), *self.keys("done_before"))
        )
        uids.update((workload, None) for workload, _ in self.keys("rights"))
        for state in (self.before, self.state):
            uids.update((row.workload, None) for _, row in present(state, "assignments", self.keys("assignments")))
        for invariant, key in self.keys("breaches"):
            if invariant in (PLATFORM_DISRUPTION, PLATFORM_RESIDENCY):
                uids[int(key)] = None
        lost = [name for name, _, new in self.change.rows("tenants") if new is None]
        if any(name in self.before.workload_counts for name in lost):
            uids.update((uid, None) for uid, row in self.state.workloads.items() if row.meta.tenant in lost)
        self.include("workloads", uids)
        self.include("templates_of", uids)
        self.include("observed", uids)
        self.include("overflows", uids)
        self.include("done_before", uids)
        for uid in uids:
            self.include("assignments", self.before.assignments_of.get(uid) or ())
        for uid, _, new in self.change.rows("workloads"):
            if new is None:
                held = self.before.rights_of.get(uid) or ()
                self.include("rights", ((uid, ordinal) for _, ordinals in held for ordinal in numbers(ordinals)))

    def _include_templates(self) -> None:
        for _, old, new in self.change.rows("templates_of"):
            self.include("templates", (*(old or ()), *(new or ())))
        lost = [digest for digest, _, new in self.change.rows("templates") if new is None]
        if any(self._names(digest) > 0 for digest in lost):
            rows = self.state.templates_of.items()
            uids = [uid for uid, digests in rows if any(one in lost for one in digests)]
            self.include("templates_of", uids)
            for uid in uids:
                self.include("assignments", self.before.assignments_of.get(uid) or ())
        other = [digest for digest, old, new in self.change.rows("templates") if None not in (old, new)]
        if other:  # the demand of every assignment of the template changes
            given = self.state.assignments.items()
            self.include("assignments", (uid for uid, a in given if any(share.template in other for share in a.shares)))

    def _names(self, digest: str) -> int:
        """Return how many workloads name a template."""
        count = sum(number for _, number in self.before.template_uses.get(digest) or ())
        for _, old, new in self.change.rows("templates_of"):
            count += (digest in (new or ())) - (digest in (old or ()))
        return count

    def _include_policies(self) -> None:
        regions = [name for name, _ in self.state.regions.items()]
        for tenant, _, new in self.change.rows("tenants"):
            if new is None:
                self.include("validities", (validity_key(region, tenant) for region in regions))
        changed = [number for number, old, _ in self.change.rows("policies") if old is not None]
        if changed:
            self.include("validities", (key for key, row in self.state.validities.items() if row.revision in changed))

    @cached_property
    def changed(self) -> Counts:
        """Changes of derived items that follow from the stored rows."""
        return changed_counts(self)

    def namesakes(self) -> Iterator[tuple[Revision, Workload]]:
        uids = dict.fromkeys(self.keys("workloads"))
        for _, workload in self.rows("workloads"):
            known = self.before.workload_names.get(name_key(workload.meta.tenant, workload.meta.name))
            if known is not None:
                uids[known] = None
        return present(self.state, "workloads", sorted(uids))

    def named_templates(self) -> set[str]:
        return {digest for digest in self.keys("templates") if self._names(digest) > 0}

    def charged(self) -> Charged:
        touched = dict.fromkeys(("quota/" + name, "") for name in self.keys("quotas"))
        touched.update((("emergency/" + str(uid), ""), None) for uid in self.keys("overrides"))
        owed = [key.split("/") for invariant, key in self.keys("breaches") if invariant == PLATFORM_ESCROW]
        places = [f"{kind}/{name}".partition("|") for kind, name, *_ in owed]
        touched.update(((account, region), None) for account, _, region in places)
        for state in (self.before, self.state):
            for name, budget in present(state, "budgets", self.keys("budgets")):
                touched.update(((f"recovery/{name}", region), None) for region in budget.spec.regions)
            touched.update((shared(grant), None) for _, grant in present(state, "grants", self.keys("grants")))
        return {place: self._lent(*place) for place in touched}

    def _lent(self, account: str, where: str) -> Amounts:
        key = charge_key(account, where)
        before = self.before.offered_of.get(key)
        lent = named(before) if before is not None else {}
        for (table, *what), change in self.changed.items():
            if table == "offered_of" and what[0] == key:
                lent[str(what[1])] = lent.get(str(what[1]), 0) + change
        return {name: amount for name, amount in lent.items() if amount}

    def miscounts(self) -> Iterator[str]:
        return miscounted_near(self, self.changed)


PlatformScan = PlatformFullScan | PlatformBatchScan


def _reach(region: Region) -> tuple[str, bool]:
    """Return what concerns every row of a region: its jurisdiction, and whether it is retired."""
    return region.spec.jurisdiction, region.status.health is RegionHealth.RETIRED
