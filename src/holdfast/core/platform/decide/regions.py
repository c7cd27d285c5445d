"""JoinRegion, Acknowledge, BelieveRegion, JudgeRegion, DeclareLost: the state of a region (RULES 8).

    healthy <--> suspect --> lost --> healthy, once it is in contact again  by region health
        \\___________\\________/ lost                                         by an operator
    any --> retired --> healthy, as a new log                               by an operator; see `region_retirement`

A *suspect* region gets nothing new. From a *lost* one failover may begin, but nothing that it holds is released. In a
*retired* one nothing runs, as an operator attests.

Any holder of the region's bearer token can acknowledge a position of its log, which the log must contain from then on.
An operator can drop that position; the next acknowledgement sets a new one (ADR 0010).
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, contradictory, malformed
from holdfast.core.ledger.builtin import log
from holdfast.core.ledger.builtin.overrides import active_overrides, refuse_while_paused
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.revision import format_revision, is_formatted_digest, seq_of
from holdfast.core.model.objects.topology import RegionHealth, RegionStatus
from holdfast.core.model.values.structs import Duration
from holdfast.core.platform import events as e
from holdfast.core.platform.commands import Acknowledge, BelieveRegion, DeclareLost, JoinRegion, JudgeRegion
from holdfast.core.platform.decide import checks
from holdfast.core.platform.limits import ADDRESS_MAX, LOG_ID_MAX
from holdfast.core.platform.state.lookups import SESSIONS_SINCE, reporting_session
from holdfast.core.platform.state.tables import PlatformState

_H = RegionHealth
#: Changes of health that the region health controller may make.
JUDGEMENTS = {_H.HEALTHY: (_H.SUSPECT,), _H.SUSPECT: (_H.HEALTHY, _H.LOST), _H.LOST: (_H.HEALTHY,), _H.RETIRED: ()}


def join_region(state: PlatformState, command: JoinRegion, ctx: CommandContext) -> Accepted | Refused:
    """Bind a region to one log, from its first join until the region is retired.

    The answer contains the region's previous session. If that was not its own, another sender has its credentials.
    """
    refused = (
        checks.refuse_other_sender(command.region, ctx)
        or _refuse_log_id(state, command.log_id)
        or checks.refuse_other_region(state, command.region, ctx)
        or _refuse_address(command.address)
        or _refuse_times(state, command)
    )
    if refused is not None:
        return refused
    status, session = state.regions[command.region].status, ctx.envelope.session
    if status.unreleased:
        facts = {"region": command.region, "unreleased": status.unreleased}
        return Refused(Code.IN_USE, f"region {command.region} is retired, and not all it held is released yet", facts)
    if not status.log_id:
        other = next((name for name, one in state.regions.items() if one.status.log_id == command.log_id), "")
        if other:
            return Refused(Code.EXISTS, f"the log {command.log_id} belongs to region {other}", {"region": other})
        # A retired region starts again. One that was lost before its first join does not become healthy by joining.
        health = _anew(state, command.region, ctx) if status.health is _H.RETIRED else status.health
        joined = e.RegionJoined(command.region, command.log_id, session, health, command.address, *_times(command))
        return Accepted((joined,))
    if status.log_id != command.log_id:
        return _diverged(command.region)
    if (status.session, status.address, *_times(status)) == (session, command.address, *_times(command)):
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    before = (
        format_revision(reporting_session(state, command.region)).encode()
        if state.info.level >= SESSIONS_SINCE
        else b""
    )
    return Accepted((e.RegionRejoined(command.region, session, command.address, *_times(command)),), before)


def _times(told: JoinRegion | RegionStatus) -> tuple[Duration, Duration, Duration]:
    return told.session_lease, told.grace, told.fence_time


def _refuse_times(state: PlatformState, command: JoinRegion) -> Refused | None:
    """Refuse a grace below the platform's: the region would stop exclusive replicas before the grace they were admitted
    with."""
    least = state.info.settings.grace
    if not command.fence_time or command.grace >= least:
        return None
    message = (
        f"region {command.region} fences with a grace of {command.grace} ms, and exclusive work is admitted with up to "
        f"{least} ms: raise the region's, or lower the platform's"
    )
    return Refused(Code.CONTRADICTORY, message, {"region": command.region, "grace": command.grace, "least": least})


def configure(state: PlatformState, command: log.Configure, ctx: CommandContext) -> Accepted | Refused:
    """Refuse also a grace above that of a joined region."""
    grace = command.settings.grace
    joined = ((name, one.status) for name, one in state.regions.items() if one.status.fence_time)
    short = [name for name, status in joined if status.grace < grace and status.health is not _H.RETIRED]
    if short:
        message = f"region {short[0]} fences with a grace below {grace} ms, the limit for exclusive work"
        return Refused(Code.CONTRADICTORY, f"{message}: raise the region's first", {"regions": short, "grace": grace})
    return log.configure(state, command, ctx)


def _anew(state: PlatformState, region: str, ctx: CommandContext) -> RegionHealth:
    """Return the health of a retired region that starts again: healthy, unless an override declares it lost."""
    return _H.LOST if active_overrides(state, ctx.at, region).loss_of(region) is not None else _H.HEALTHY


def acknowledge(state: PlatformState, command: Acknowledge, ctx: CommandContext) -> Accepted | Refused:
    """Record the region's position and cursor. Both only grow; an older position was overtaken in transit."""
    refused = (
        checks.refuse_other_sender(command.region, ctx)
        or _refuse_log_id(state, command.log_id)
        or checks.refuse_other_region(state, command.region, ctx)
    )
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if status.log_id and status.log_id != command.log_id:
        return _diverged(command.region)
    refused = checks.refuse_unjoined_session(state, command.region, ctx)
    if refused is not None:
        return refused
    if seq_of(command.cursor) > state.info.seq:
        return malformed("the cursor is beyond this log", cursor=command.cursor, seq=state.info.seq)
    if not is_formatted_digest(command.digest):
        return malformed("a digest is shown by its first 16 hexadecimal digits", characters=len(command.digest))
    if command.position <= status.position:
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    if command.cursor < status.cursor:
        return contradictory("the region's log went on and its cursor went back", cursor=status.cursor)
    return Accepted((e.RegionAcknowledged(command.region, command.position, command.cursor, command.digest),))


def _refuse_log_id(state: PlatformState, log_id: str) -> Refused | None:
    if not 0 < len(log_id) <= LOG_ID_MAX:
        return malformed(f"a log id has 1 to {LOG_ID_MAX} characters", characters=len(log_id))
    if log_id not in state.tombstones:
        return None
    message = f"the log {log_id} is tombstoned: stop everything; only a new log may join"
    return Refused(Code.TOMBSTONED, message, {"log_id": log_id, "region": state.tombstones[log_id]})


def _refuse_address(address: str) -> Refused | None:
    if len(address) <= ADDRESS_MAX and address.isprintable():
        return None
    return malformed(f"an address has at most {ADDRESS_MAX} printable characters", characters=len(address))


def _diverged(region: str) -> Refused:
    """Refuse another log, without naming the region's own: the sender may have stolen the region's bearer token."""
    return Refused(Code.DIVERGED, f"region {region} has another log; retire it to begin this one", {"region": region})


def _refuse_person(state: PlatformState, command: BelieveRegion | DeclareLost, ctx: CommandContext) -> Refused | None:
    """Refuse an operator's command about a region that does not exist, is outside the operator's scope, or has no
    reason."""
    return (
        checks.refuse_unknown("Region", (command.region,), state.regions)
        or checks.refuse_outside_whole_region(ctx, command.region)
        or checks.refuse_reason(command.reason)
    )


def believe_region(state: PlatformState, command: BelieveRegion, ctx: CommandContext) -> Accepted | Refused:
    """Drop the acknowledged position, since an operator attests that the region's log is complete."""
    refused = _refuse_person(state, command, ctx)
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if status.health is _H.RETIRED:
        facts = {"region": command.region, "health": status.health.value}
        return Refused(Code.WRONG_PHASE, f"region {command.region} is retired: it begins with a new log", facts)
    if not status.position:
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    return Accepted((e.RegionBelieved(command.region, status.position, status.digest),))


def judge_region(state: PlatformState, command: JudgeRegion, ctx: CommandContext) -> Accepted | Refused:
    """Change the health by the rules for the region health controller."""
    refused = checks.refuse_unknown("Region", (command.region,), state.regions)
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if command.health is status.health:
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    if command.health not in JUDGEMENTS[status.health]:
        facts = {"region": command.region, "health": status.health.value, "asked": command.health.value}
        return Refused(Code.WRONG_PHASE, f"region {command.region} is {status.health}", facts)
    refused = _refuse_return(state, command.region, status, ctx) if command.health is _H.HEALTHY else None
    if refused is not None:
        return refused
    return Accepted((e.RegionJudged(command.region, command.health, command.reason),))


def _refuse_return(state: PlatformState, region: str, status: RegionStatus, ctx: CommandContext) -> Refused | None:
    """Refuse to return without contact since the loss, or while an override declares the region lost (RULES 19)."""
    refused = refuse_while_paused(
        active_overrides(state, ctx.at, region).loss_of(region), f"region {region} is declared lost"
    )
    if refused is not None:
        return refused
    if status.health is _H.LOST and status.heard_at <= status.since:
        facts = {"heard_at": status.heard_at, "since": status.since}
        return Refused(Code.TOO_EARLY, f"region {region} has not been in contact since it was lost", facts)
    return None


def declare_lost(state: PlatformState, command: DeclareLost, ctx: CommandContext) -> Accepted | Refused:
    """Declare a region lost without waiting for the silence that region health needs."""
    refused = _refuse_person(state, command, ctx)
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if status.health is _H.LOST:
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    if status.health is _H.RETIRED:
        facts = {"region": command.region, "health": status.health.value}
        return Refused(Code.WRONG_PHASE, f"region {command.region} is retired", facts)
    return Accepted((e.RegionJudged(command.region, _H.LOST, command.reason),))
