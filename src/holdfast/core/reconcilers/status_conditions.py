"""A workload's conditions, from where it stands: `Assigned`, `Placed`, `Available`, `Fits`, `OnTime`, `Updated`.

    Fits       some node could hold it                        platform/fitting
    OnTime     its deadline was met, or may be                platform/deadlines
    Assigned   regions are given as many as are wanted        this platform
    Placed     as many have a node                            what waits, and why, from the regions
    Available  as many serve as must                          and the regions that are lost
    Updated    none runs an older template                    where some do, and what the change waits for

`Updated` is said of a workload that was changed since it was created: of all others there is no older template. Each
of them says the gravest reason that it knows, in few words: every change of them is a record of the log.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import NO_ROOM, Code
from holdfast.core.model.meta import Condition, Reason, Truth
from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Workload
from holdfast.core.platform.deadlines import is_given_up, is_told, on_time_condition
from holdfast.core.platform.fitting import Verdict, fits, fits_condition, places
from holdfast.core.platform.state import PlatformState
from holdfast.core.reconcilers.status_sums import Progress, WaitingIn

ASSIGNED, PLACED, AVAILABLE, UPDATED = "Assigned", "Placed", "Available", "Updated"
#: So much of what a region says is repeated, and so many regions are named of those where some wait.
MESSAGE_MAX = 160
REGIONS_MAX = 3

#: What a reason from below is called here. A code that is a reason itself stays what it is.
REASONS: dict[str, Reason] = {
    **dict.fromkeys((Code.OVER_GRANT.value, Code.GRANT_ENDED.value), Reason.WAITING_FOR_QUOTA),
    **{code.value: Reason.WAITING_FOR_ROOM for code in NO_ROOM},
    Code.PAUSED.value: Reason.OVERRIDDEN,
    Code.POLICY.value: Reason.STALE_VIEW,
    Code.STALE.value: Reason.STALE_VIEW,
    **{reason.value: reason for reason in Reason},
}
#: The gravest first: what waits for a person, for others, for the next look.
GRAVITY = (
    Reason.NEVER_FITS, Reason.DEADLINE_MISSED, Reason.CANNOT_START, Reason.CRASHED, Reason.PROBE_FAILED,
    Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_ROOM, Reason.PLUGIN_FAILED, Reason.OVERRIDDEN, Reason.SESSION_ENDED,
    Reason.STALE_VIEW, Reason.NOT_YET_EXAMINED, Reason.PROGRESSING,
)  # fmt: skip
#: Reasons that are over with the next look: a change of template does not wait for them.
_PASSING = (Reason.STALE_VIEW, Reason.NOT_YET_EXAMINED, Reason.PROGRESSING)


def conditions_of(state: PlatformState, workload: Workload, progress: Progress, now: Instant) -> tuple[Condition, ...]:
    """All of them, sorted by type, without the time since when."""
    if workload.meta.deletion is not None:
        return (_condition(AVAILABLE, Verdict(Truth.FALSE, Reason.PROGRESSING, "it is being deleted"), progress),)
    assigned = _assigned(state, workload, progress)
    placed = _placed(workload, progress, assigned)
    found = [_condition(ASSIGNED, assigned, progress), _condition(PLACED, placed, progress)]
    if not workload.spec.batch:  # what completes is not there to be available
        found.append(_condition(AVAILABLE, _available(workload, progress, placed), progress))
    if progress.generation > 1 or progress.older or any(one.type == UPDATED for one in workload.status.conditions):
        found.append(_condition(UPDATED, _updated(state, workload, progress), progress))
    if is_told(workload):
        found.append(replace(on_time_condition(state, workload, now), since=0))
    return tuple(sorted([*found, fits_condition(state, workload, 0)], key=lambda one: one.type))


def reason_of(code: str) -> Reason:
    """What the code of a reason from below is called here."""
    return REASONS.get(code, Reason.PROGRESSING)


def _condition(type: str, fit: Verdict, progress: Progress) -> Condition:
    return Condition(
        type=type,
        status=fit.status,
        reason=fit.reason,
        message=fit.message,
        observed_generation=progress.generation,
    )


def _true(message: str = "") -> Verdict:
    return Verdict(Truth.TRUE, Reason.AS_DESIRED, message)


def _false(reason: Reason, message: str) -> Verdict:
    return Verdict(Truth.FALSE, reason, message)


def _assigned(state: PlatformState, workload: Workload, progress: Progress) -> Verdict:
    """Whether regions are given as many as are wanted."""
    wanted, assigned = workload.spec.replicas, progress.assigned
    if assigned == wanted:
        return _true()
    if is_given_up(workload):
        return _false(Reason.DEADLINE_MISSED, f"{assigned} of {wanted} are assigned: it was to fail at its deadline")
    if assigned > wanted:
        return _false(Reason.PROGRESSING, f"{assigned} are assigned, {wanted} wanted")
    share = f"{assigned} of {wanted} are assigned"
    allowed = places(state, workload)
    healths = [(name, state.regions[name].status.health) for name in allowed]
    ill = [f"{name} is {health}" for name, health in healths if health is not RegionHealth.HEALTHY]
    if len(ill) == len(allowed):
        return _false(Reason.WAITING_FOR_REGION, _short(f"{share}: {', '.join(ill) or 'no region has joined'}"))
    fit = fits(state, workload)
    if fit.status is Truth.FALSE:
        return _false(fit.reason, _short(f"{share}: {fit.message}"))
    full = [one.region for one in state.overflows.get(workload.meta.uid) or () if one.until > state.facts.at]
    if full:
        return _false(Reason.WAITING_FOR_ROOM, _short(f"{share}: no room for more in {', '.join(full)}"))
    return _false(Reason.WAITING_FOR_REGION, _short("; ".join([share, *ill])))


def _placed(workload: Workload, progress: Progress, assigned: Verdict) -> Verdict:
    """Whether as many have a node as are wanted; where they wait, the reasons from below, the gravest first."""
    wanted = workload.spec.replicas
    if progress.alive >= wanted:
        return _true()
    share = f"{progress.alive} of {wanted} have a node"
    if progress.waiting:
        first, *others = _by_region(progress.waiting)
        return _false(_reason(first), "; ".join(filter(None, (_short(_said(first)), _short(_named(others))))))
    if progress.lost:
        return _false(Reason.LOST, _short(f"{share}; {_without(progress)}"))
    if assigned.status is not Truth.TRUE and assigned.reason is not Reason.PROGRESSING:
        return assigned
    return _false(Reason.PROGRESSING, share)


def _available(workload: Workload, progress: Progress, placed: Verdict) -> Verdict:
    """Whether as many serve as must. Of what is wanted at all, at least one must."""
    wanted = workload.spec.replicas
    least = max(wanted - workload.spec.disruption_max, min(wanted, 1))
    without = _without(progress)
    if progress.serving >= least:
        return _true(_short(without))
    share = "; ".join(filter(None, (f"{progress.serving} of {wanted} serve", without)))
    if progress.lost:
        return _false(Reason.LOST, _short(share))
    if placed.status is Truth.FALSE:
        return _false(placed.reason, _short(share))
    return _false(Reason.PROGRESSING, _short(share))


def _updated(state: PlatformState, workload: Workload, progress: Progress) -> Verdict:
    """Whether none runs an older template; where some do, what the change waits for."""
    without = _without(progress)
    if not progress.older:
        return _true(_short(without))
    where = ", ".join(f"{count} in {region}" for region, count in progress.older)
    share = "; ".join(filter(None, (f"of {progress.alive}, an older template is run by {where}", without)))
    if workload.spec.exclusive and not workload.spec.disruption_max:
        return _false(Reason.MAY_NOT_DISRUPT, _short(f"disruptionMax is 0; {share}"))
    regions = [region for region, _ in progress.older]
    waiting = [one for one in progress.waiting if one.region in regions and _reason(one) not in _PASSING]
    if waiting:
        held = min(waiting, key=_gravity)
        return _false(_reason(held), _short(f"{share}; {_said(held)}"))
    ill = [f"{name} is {state.regions[name].status.health}" for name in regions if not _is_healthy(state, name)]
    if len(ill) == len(regions):
        return _false(Reason.WAITING_FOR_REGION, _short("; ".join((share, *ill))))
    return _false(Reason.PROGRESSING, _short(share))


def _is_healthy(state: PlatformState, region: str) -> bool:
    return state.regions[region].status.health is RegionHealth.HEALTHY


def _reason(held: WaitingIn) -> Reason:
    return reason_of(held.waiting.code)


def _said(held: WaitingIn) -> str:
    """How many wait where, and why, in the words of the region."""
    said = f": {held.waiting.message}" if held.waiting.message else ""
    return f"{held.region}: {held.waiting.count} wait{said}"


def _by_region(waiting: tuple[WaitingIn, ...]) -> list[WaitingIn]:
    """The gravest reason of each region where some wait, the gravest first."""
    found: dict[str, WaitingIn] = {}
    for held in sorted(waiting, key=_gravity):
        found.setdefault(held.region, held)
    return list(found.values())


def _named(others: list[WaitingIn]) -> str:
    """Where else some wait, and by which code: in their own words those would change far more often."""
    named = [f"{held.region}: {held.waiting.count} wait: {held.waiting.code}" for held in others[: REGIONS_MAX - 1]]
    more = len(others) - len(named)
    return "; ".join([*named, f"and {more} more"] if more else named)


def _gravity(held: WaitingIn) -> tuple[int, int, str, str]:
    reason = _reason(held)
    place = GRAVITY.index(reason) if reason in GRAVITY else len(GRAVITY)
    return place, -held.waiting.count, held.region, held.waiting.code


def _without(progress: Progress) -> str:
    """Which regions are not counted, since nobody hears them."""
    lost = [f"{region} is lost, {bound} there are not counted" for region, bound in progress.lost]
    return "; ".join(lost)


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 3]}..."
