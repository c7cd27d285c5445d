"""Controllers of the platform, in their plainest form: assignments and rights, grants, failover."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import NOTHING, Key, Outcome, Wanted, WatchKey
from holdfast.core.model.allotment import Assignment, Purpose, Share, Stage
from holdfast.core.model.resources import Resources
from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import Region, RegionHealth
from holdfast.core.model.workload import Workload
from holdfast.core.platform import commands as c
from holdfast.core.platform.identities import lease_is_half_over
from holdfast.core.platform.state import PlatformState, assignments_of, grant_key

AGAIN_MS = 5_000
_GONE = (RegionHealth.LOST, RegionHealth.RETIRED)


class OfWorkloads:
    """Looks at one workload at a time; regions concern all of them."""

    watches: tuple[str, ...] = ("workload", "region")

    def keys(self, state: PlatformState) -> Iterable[Key]:
        return [uid for uid, _ in state.workloads.items()]

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[Key]:
        return [touched[1]] if touched[0] == "workload" else self.keys(state)


def _allowed(state: PlatformState, workload: Workload) -> dict[str, Region]:
    """The regions that have joined and where it may be."""
    named = workload.spec.placement.regions
    return {name: one for name, one in state.regions.items() if one.status.log_id and (not named or name in named)}


def _in(assignments: Iterable[Assignment], region: str, purpose: Purpose) -> Assignment | None:
    return next((a for a in assignments if a.region == region and a.purpose is purpose), None)


class Assigning(OfWorkloads):
    """Replicas are spread evenly over the regions that are there; identities follow the rights to them."""

    name = "assignment"

    def reconcile(self, state: PlatformState, key: Key, now: Instant) -> Outcome:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None or workload.meta.deletion is not None:
            return NOTHING
        commands = [*self._rights(state, workload), *self._shares(state, workload, now)]
        leased = any(a.right_until for a in assignments_of(state, workload.meta.uid))
        again = now + AGAIN_MS if commands or leased else None
        return Outcome(tuple(Wanted(command, workload.meta.revision) for command in commands), again)

    def _rights(self, state: PlatformState, workload: Workload) -> list[Any]:
        spec, uid = workload.spec, workload.meta.uid
        regions = [n for n, r in _allowed(state, workload).items() if r.status.health is RegionHealth.HEALTHY]
        if not spec.exclusive or not regions:
            return []
        found = []
        for ordinal in range(spec.replicas):
            held = state.rights.get((uid, ordinal))
            if held is None or state.regions[held.region].status.health in _GONE:
                found.append(c.GrantRight(uid, ordinal, regions[ordinal % len(regions)]))
        return found

    def _shares(self, state: PlatformState, workload: Workload, now: Instant) -> list[c.Assign]:
        spec, uid = workload.spec, workload.meta.uid
        allowed, mine = _allowed(state, workload), assignments_of(state, uid)
        kept = [name for name, region in allowed.items() if spec.recovery.budget or region.status.health not in _GONE]
        digest = template_digest(spec.template)
        found = []
        for place, name in enumerate(kept):
            old = _in(mine, name, Purpose.SERVING)
            ordinals: tuple[int, ...] = ()
            count = spec.replicas // len(kept) + (place < spec.replicas % len(kept))
            if spec.exclusive:
                ordinals = tuple(n for n in range(spec.replicas) if self._holds(state, uid, n, name))
                count = len(ordinals)
            shares = (Share(digest, count),) if count else ()
            if old is None and not count:
                continue
            new = c.Assign(uid, name, Purpose.SERVING, Stage.ACTIVE, shares, ordinals, disruption=1)
            same = old is not None and (old.shares, old.ordinals, old.stage) == (shares, ordinals, Stage.ACTIVE)
            if old is None or not same or lease_is_half_over(state, workload, old, now):
                found.append(new)
        return found

    def _holds(self, state: PlatformState, uid: int, ordinal: int, region: str) -> bool:
        held = state.rights.get((uid, ordinal))
        return held is not None and held.region == region


class Failing(OfWorkloads):
    """Recovery stands by in every region of its budget, runs in one while another is lost, and ends after that."""

    name = "failover"

    def reconcile(self, state: PlatformState, key: Key, now: Instant) -> Outcome:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None or workload.meta.deletion is not None or not workload.spec.recovery.budget:
            return NOTHING
        commands = self._steps(state, workload)
        return Outcome(
            tuple(Wanted(command, workload.meta.revision) for command in commands), now + AGAIN_MS if commands else None
        )

    def _steps(self, state: PlatformState, workload: Workload) -> list[Any]:
        mine = assignments_of(state, workload.meta.uid)
        budget = state.budgets[workload.spec.recovery.budget]
        lost = [r for r, one in state.regions.items() if one.status.health is RegionHealth.LOST]
        struck = any(_in(mine, region, Purpose.SERVING) is not None for region in lost)
        shares = (Share(template_digest(workload.spec.template), workload.spec.recovery.min_serving),)
        found: list[Any] = []
        active = any(a.purpose is Purpose.RECOVERY and a.stage is Stage.ACTIVE and a.region not in lost for a in mine)
        for region in budget.spec.regions:
            health = state.regions[region].status.health
            old = _in(mine, region, Purpose.RECOVERY)
            if old is None and health is RegionHealth.HEALTHY:
                standby = c.Assign(workload.meta.uid, region, Purpose.RECOVERY, Stage.STANDBY, shares)
                found.append(standby)
            elif old is not None and old.stage is Stage.STANDBY and struck and not active and region not in lost:
                found.append(c.Activate(old.uid))
                active = True
            elif old is not None and old.stage is Stage.ACTIVE and not struck and health is RegionHealth.HEALTHY:
                found.append(c.EndAssignment(old.uid))
        return found


class Granting:
    """Every region is lent the same slice of a tenant's quota, and all of a recovery budget that it is to hold."""

    name = "grant"
    watches: tuple[str, ...] = ("quota", "recovery-budget", "region", "grant")

    def keys(self, state: PlatformState) -> Iterable[Key]:
        return [
            *(f"quota/{name}" for name, _ in state.quotas.items()),
            *(f"recovery/{name}" for name, _ in state.budgets.items()),
        ]

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[Key]:
        kind, key = touched
        if kind == "quota":
            return [f"quota/{key}"]
        if kind == "recovery-budget":
            return [f"recovery/{key}"]
        return self.keys(state) if kind == "region" else [str(key).partition("|")[2]]

    def reconcile(self, state: PlatformState, key: Key, now: Instant) -> Outcome:
        kind, _, name = str(key).partition("/")
        joined = [region for region, one in state.regions.items() if one.status.log_id]
        if kind == "quota" and name in state.quotas and joined:
            slice_ = _part(state.quotas[name].spec.hard, len(joined))
        elif kind == "recovery" and name in state.budgets:
            slice_ = state.budgets[name].spec.each
            joined = [region for region in joined if region in state.budgets[name].spec.regions]
        else:
            return NOTHING
        found = []
        for region in joined:
            old = state.grants.get(grant_key(region, str(key)))
            life = state.facts.settings.grant_life
            if old is None or old.target != slice_ or 2 * (old.ends - now) < life:
                found.append(Wanted(c.OfferGrant(str(key), region, slice_, now + life - 1_000)))
        return Outcome(tuple(found), now + AGAIN_MS if found else None)


def _part(whole: Resources, parts: int) -> Resources:
    return Resources(whole.cpu // parts, whole.memory // parts, whole.disk // parts, whole.gpu // parts)
