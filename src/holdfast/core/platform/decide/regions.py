"""JoinRegion, Acknowledge, BelieveRegion, JudgeRegion, DeclareLost: what the platform knows of a region (RULES 8).

    healthy <--> suspect --> lost --> healthy, once it is heard again       by region health
        \\___________\\________/ lost                                         by a person
    any --> retired --> healthy, as a new log                               by a person; see `retirement`

Three different words. *Suspect*: nothing new goes there. *Lost*: failover may begin, and nothing it holds comes back.
*Retired*: a person attests that nothing runs there.

How far a region's log is, is the word of whoever has the region's token. It holds the region to what it once was, for
good, so a person may take it back: the region then begins again at what it shows (ADR 0010).
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, contradictory, malformed
from holdfast.core.ledger.builtin import log
from holdfast.core.ledger.builtin.overrides import active_overrides, refuse_while_paused
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.revision import format_revision, is_formatted_digest, seq_of
from holdfast.core.model.objects.topology import RegionHealth, RegionStatus
from holdfast.core.model.values.structs import Duration
from holdfast.core.platform.commands import Acknowledge, BelieveRegion, DeclareLost, JoinRegion, JudgeRegion
from holdfast.core.platform.decide.checks import (
    refuse_other_region,
    refuse_other_sender,
    refuse_outside_whole_region,
    refuse_reason,
    refuse_unjoined_session,
    refuse_unknown,
)
from holdfast.core.platform.events import (
    RegionAcknowledged,
    RegionBelieved,
    RegionJoined,
    RegionJudged,
    RegionRejoined,
)
from holdfast.core.platform.limits import ADDRESS_MAX, LOG_ID_MAX
from holdfast.core.platform.state.lookups import SESSIONS_SINCE, reporting_session
from holdfast.core.platform.state.tables import PlatformState

_H = RegionHealth
#: What region health may say, by what the region is.
JUDGEMENTS = {_H.HEALTHY: (_H.SUSPECT,), _H.SUSPECT: (_H.HEALTHY, _H.LOST), _H.LOST: (_H.HEALTHY,), _H.RETIRED: ()}


def join_region(state: PlatformState, command: JoinRegion, ctx: CommandContext) -> Accepted | Refused:
    """One log speaks for a region, from the first time until the region is retired.

    It is answered in which session the region spoke before. Where that was none of its own, somebody else spoke for it.
    """
    refused = (
        refuse_other_sender(command.region, ctx)
        or _refuse_log_id(state, command.log_id)
        or refuse_other_region(state, command.region, ctx)
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
            return Refused(Code.EXISTS, f"the log {command.log_id} speaks for region {other}", {"region": other})
        # A retired region begins anew; one that was lost before it was ever heard is not healthy for having joined.
        health = _anew(state, command.region, ctx) if status.health is _H.RETIRED else status.health
        joined = RegionJoined(command.region, command.log_id, session, health, command.address, *_times(command))
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
    return Accepted((RegionRejoined(command.region, session, command.address, *_times(command)),), before)


def _times(told: JoinRegion | RegionStatus) -> tuple[Duration, Duration, Duration]:
    return told.session_lease, told.grace, told.fence_time


def _refuse_times(state: PlatformState, command: JoinRegion) -> Refused | None:
    """Templates are admitted with the platform's grace: a region that counts with less would end them before it."""
    least = state.info.settings.grace
    if not command.fence_time or command.grace >= least:
        return None
    message = (
        f"region {command.region} fences with a grace of {command.grace} ms, and exclusive work is admitted with up to "
        f"{least} ms: raise the region's, or lower the platform's"
    )
    return Refused(Code.CONTRADICTORY, message, {"region": command.region, "grace": command.grace, "least": least})


def configure(state: PlatformState, command: log.Configure, ctx: CommandContext) -> Accepted | Refused:
    """Beside what is unsafe in itself: a grace above that of a region which has joined."""
    grace = command.settings.grace
    joined = ((name, one.status) for name, one in state.regions.items() if one.status.fence_time)
    short = [name for name, status in joined if status.grace < grace and status.health is not _H.RETIRED]
    if short:
        message = f"region {short[0]} fences with a grace below {grace} ms, by which work would be admitted"
        return Refused(Code.CONTRADICTORY, f"{message}: raise the region's first", {"regions": short, "grace": grace})
    return log.configure(state, command, ctx)


def _anew(state: PlatformState, region: str, ctx: CommandContext) -> RegionHealth:
    """What a retired region is when it begins again: healthy, unless a person holds that it is lost."""
    return _H.LOST if active_overrides(state, ctx.at, region).loss_of(region) is not None else _H.HEALTHY


def acknowledge(state: PlatformState, command: Acknowledge, ctx: CommandContext) -> Accepted | Refused:
    """Both positions only ever grow: what is older was overtaken on the way."""
    refused = (
        refuse_other_sender(command.region, ctx)
        or _refuse_log_id(state, command.log_id)
        or refuse_other_region(state, command.region, ctx)
    )
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if status.log_id and status.log_id != command.log_id:
        return _diverged(command.region)
    refused = refuse_unjoined_session(state, command.region, ctx)
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
    return Accepted((RegionAcknowledged(command.region, command.position, command.cursor, command.digest),))


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
    """Without the name of the true log: who does not know it may have stolen the region's token."""
    return Refused(Code.DIVERGED, f"region {region} has another log; retire it to begin this one", {"region": region})


def _refuse_person(state: PlatformState, command: BelieveRegion | DeclareLost, ctx: CommandContext) -> Refused | None:
    """Whoever says something of a region names one that exists, has a right to all of it, and says why."""
    return (
        refuse_unknown("Region", (command.region,), state.regions)
        or refuse_outside_whole_region(ctx, command.region)
        or refuse_reason(command.reason)
    )


def believe_region(state: PlatformState, command: BelieveRegion, ctx: CommandContext) -> Accepted | Refused:
    """A person attests that the region's log is whole, whatever was acknowledged in its name."""
    refused = _refuse_person(state, command, ctx)
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if status.health is _H.RETIRED:
        facts = {"region": command.region, "health": status.health.value}
        return Refused(Code.WRONG_PHASE, f"region {command.region} is retired: it begins with a new log", facts)
    if not status.position:
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    return Accepted((RegionBelieved(command.region, status.position, status.digest),))


def judge_region(state: PlatformState, command: JudgeRegion, ctx: CommandContext) -> Accepted | Refused:
    """What a controller may conclude from silence and from hearing again, and nothing heavier."""
    refused = refuse_unknown("Region", (command.region,), state.regions)
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
    return Accepted((RegionJudged(command.region, command.health, command.reason),))


def _refuse_return(state: PlatformState, region: str, status: RegionStatus, ctx: CommandContext) -> Refused | None:
    """Positive evidence, and no person who holds otherwise: an override's end alone brings nobody back (RULES 19)."""
    refused = refuse_while_paused(
        active_overrides(state, ctx.at, region).loss_of(region), f"region {region} is declared lost"
    )
    if refused is not None:
        return refused
    if status.health is _H.LOST and status.heard_at <= status.since:
        facts = {"heard_at": status.heard_at, "since": status.since}
        return Refused(Code.TOO_EARLY, f"region {region} was not heard since it was lost", facts)
    return None


def declare_lost(state: PlatformState, command: DeclareLost, ctx: CommandContext) -> Accepted | Refused:
    """A person need not wait for silence to be proven."""
    refused = _refuse_person(state, command, ctx)
    if refused is not None:
        return refused
    status = state.regions[command.region].status
    if status.health is _H.LOST:
        return already(f"Region/{command.region}", state.regions[command.region].meta.revision)
    if status.health is _H.RETIRED:
        facts = {"region": command.region, "health": status.health.value}
        return Refused(Code.WRONG_PHASE, f"region {command.region} is retired", facts)
    return Accepted((RegionJudged(command.region, _H.LOST, command.reason),))
