"""A workload's conditions, from where it stands: `Assigned`, `Placed`, `Available`, `Fits`.

    Fits       some node could hold it                        platform/fitting
    Assigned   regions are given as many as are wanted        this platform
    Placed     as many have a node                            what waits, and why, from the regions
    Available  as many serve as must                          and the regions that are lost

Each says the gravest reason that it knows, in few words: every change of them is a record of the log.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import NO_ROOM, Code
from holdfast.core.model.meta import Condition, Reason, Truth
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Workload
from holdfast.core.platform.fitting import Fit, fits, fits_condition, places
from holdfast.core.platform.state import PlatformState
from holdfast.core.reconcilers.status_sums import Held, Standing

ASSIGNED, PLACED, AVAILABLE = "Assigned", "Placed", "Available"
#: So much of what a region says is repeated.
MESSAGE_MAX = 160

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
    Reason.NEVER_FITS, Reason.CANNOT_START, Reason.CRASHED, Reason.PROBE_FAILED, Reason.WAITING_FOR_QUOTA,
    Reason.WAITING_FOR_ROOM, Reason.PLUGIN_FAILED, Reason.OVERRIDDEN, Reason.SESSION_ENDED, Reason.STALE_VIEW,
    Reason.NOT_YET_EXAMINED, Reason.PROGRESSING,
)  # fmt: skip


def conditions_of(state: PlatformState, workload: Workload, standing: Standing) -> tuple[Condition, ...]:
    """All of them, sorted by type, without the time since when."""
    if workload.meta.deletion is not None:
        return (_condition(AVAILABLE, Fit(Truth.FALSE, Reason.PROGRESSING, "it is being deleted"), standing),)
    assigned = _assigned(state, workload, standing)
    placed = _placed(workload, standing, assigned)
    found = [_condition(ASSIGNED, assigned, standing), _condition(PLACED, placed, standing)]
    if not workload.spec.batch:  # what completes is not there to be available
        found.append(_condition(AVAILABLE, _available(workload, standing, placed), standing))
    return tuple(sorted([*found, fits_condition(state, workload, 0)], key=lambda one: one.type))


def reason_of(code: str) -> Reason:
    """What the code of a reason from below is called here."""
    return REASONS.get(code, Reason.PROGRESSING)


def _condition(type: str, fit: Fit, standing: Standing) -> Condition:
    return Condition(
        type=type,
        status=fit.status,
        reason=fit.reason,
        message=fit.message,
        observed_generation=standing.generation,
    )


def _true(message: str = "") -> Fit:
    return Fit(Truth.TRUE, Reason.AS_DESIRED, message)


def _false(reason: Reason, message: str) -> Fit:
    return Fit(Truth.FALSE, reason, message)


def _assigned(state: PlatformState, workload: Workload, standing: Standing) -> Fit:
    """Whether regions are given as many as are wanted."""
    wanted, assigned = workload.spec.replicas, standing.assigned
    if assigned == wanted:
        return _true()
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


def _placed(workload: Workload, standing: Standing, assigned: Fit) -> Fit:
    """Whether as many have a node as are wanted; where they wait, the gravest reason from below."""
    wanted = workload.spec.replicas
    if standing.alive >= wanted:
        return _true()
    share = f"{standing.alive} of {wanted} have a node"
    if standing.waiting:
        held = min(standing.waiting, key=_gravity)
        waiting = held.waiting
        said = f": {waiting.message}" if waiting.message else ""
        return _false(reason_of(waiting.code), _short(f"{held.region}: {waiting.count} wait{said}"))
    if standing.lost:
        return _false(Reason.LOST, _short(f"{share}; {_without(standing)}"))
    if assigned.status is not Truth.TRUE and assigned.reason is not Reason.PROGRESSING:
        return assigned
    return _false(Reason.PROGRESSING, share)


def _available(workload: Workload, standing: Standing, placed: Fit) -> Fit:
    """Whether as many serve as must. Of what is wanted at all, at least one must."""
    wanted = workload.spec.replicas
    least = max(wanted - workload.spec.disruption_max, min(wanted, 1))
    without = _without(standing)
    if standing.serving >= least:
        return _true(_short(without))
    share = "; ".join(filter(None, (f"{standing.serving} of {wanted} serve", without)))
    if standing.lost:
        return _false(Reason.LOST, _short(share))
    if placed.status is Truth.FALSE:
        return _false(placed.reason, _short(share))
    return _false(Reason.PROGRESSING, _short(share))


def _gravity(held: Held) -> tuple[int, int, str, str]:
    reason = reason_of(held.waiting.code)
    place = GRAVITY.index(reason) if reason in GRAVITY else len(GRAVITY)
    return place, -held.waiting.count, held.region, held.waiting.code


def _without(standing: Standing) -> str:
    """Which regions are not counted, since nobody hears them."""
    lost = [f"{region} is lost, {bound} there are not counted" for region, bound in standing.lost]
    return "; ".join(lost)


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 3]}..."
