"""A region's link to the platform, in its plainest form: it polls, ships what changed, and says what the region has.

poll (a heartbeat of the region's session) ──▶ what this region is to have, and what the platform waits for
     ──▶ Ship: one full list, in parts, in each life of the link, then what differs from the list before
     ──▶ acknowledged grants, positions, removed assignments, released rights and finalizers
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import INDEX_MAX, revision
from holdfast.core.model.allotment import Stage
from holdfast.core.model.shapes import Instant, Revision, SlotKey
from holdfast.core.platform import commands as p
from holdfast.core.platform.state import PlatformState
from holdfast.core.region import commands as c
from holdfast.core.region.shipping import name_of
from holdfast.core.region.state import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader import Leader
from holdfast.host.ledger import Ledger
from holdfast.host.link.parts import in_parts
from holdfast.sim.actors.desk import encode
from holdfast.sim.actors.paths import Paths
from holdfast.sim.actors.remote import Heard, Remote, Speaker
from holdfast.sim.world import Process

POLL_MS = 2_000
PATIENCE_MS = 2_000
#: Objects in a part of a full list: few, so that lists are under way when something breaks.
PART_OBJECTS, PART_BYTES = 5, 1 << 16


class Told(Struct, frozen=True, array_like=True):
    """What a poll is answered. Without `puts`: nothing has changed since the batch that the region named."""

    said: str
    log_id: str = ""
    term: int = 0
    seq: int = 0
    at: Instant = 0
    puts: list[c.Shipped] | None = None
    rights: list[SlotKey] = []
    finalizers: list[Revision] = []


_told = msgspec.msgpack.Decoder(Told)
_asked = msgspec.msgpack.Decoder(tuple[str, int, int])


def serve_polls(paths: Paths, ledger: Ledger[PlatformState]) -> None:
    """Answer the links of regions, in their sessions."""

    async def poll(body: bytes) -> bytes:
        region, session, known = _asked.decode(body)
        try:
            renewal = ledger.renew(f"region/{region}", session)
        except Unavailable as error:
            return encode(Told(error.code))
        if isinstance(renewal, Refused) or ledger.leader is None:
            return encode(Told("no-session"))
        state, at = ledger.durable.state, ledger.leader.term.now()
        if state.facts.seq == known:
            return encode(Told("same", renewal.log_id, renewal.term, known, at))
        return encode(_all(state, region, renewal.term, at))

    paths.add("/poll", poll)


def _all(state: PlatformState, region: str, term: int, at: Instant) -> Told:
    puts: list[c.Shipped] = [c.RegionShipped(region, state.regions[region].spec.jurisdiction)]
    puts += [c.TemplateShipped(digest, one) for digest, one in state.templates.items()]
    puts += [c.ClassShipped(one) for one in state.priority_classes.values()]
    puts += [c.PrincipalShipped(one) for one in state.principals.values() if one.meta.created_by != "ledger"]
    puts += [c.TokenShipped(one) for one in state.tokens.values()]
    puts += [c.PolicyShipped(one) for one in state.policies.values()]
    puts += [c.ValidityShipped(one) for one in state.validities.values() if one.region == region]
    puts += [c.OverrideShipped(one) for one in state.overrides.values() if one.region in ("", region)]
    puts += [c.AssignmentShipped(one) for one in state.assignments.values() if one.region == region]
    for grant in state.grants.values():
        if grant.region == region:
            puts.append(c.GrantShipped(grant.account, grant.version, grant.target, grant.ends, grant.protected))
    rights = [key for key, held in state.rights.items() if held.region == region]
    owner = f"region/{region}"
    ending = [uid for uid, one in state.workloads.items() if any(f.owner == owner for f in one.meta.finalizers)]
    return Told("list", state.facts.log_id, term, state.facts.seq, at, puts, rights, ending)


class Link:
    """One life of the link, beside the leader of its region."""

    def __init__(self, process: Process, ledger: Ledger[RegionState], servers: list[str], heard: Heard) -> None:
        self._process = process
        self._ledger = ledger
        self._region = ledger.identity.start.ledger.removeprefix("region/") if ledger.identity.start else ""
        self._speaker = Speaker(process, Remote(process, servers, heard), f"region/{self._region}")
        self._joined = False
        self._told: Told | None = None
        #: What was shipped last, by kind and key; None: nothing yet in this life.
        self._shipped: dict[tuple[str, str], c.Shipped] | None = None
        self._settled: dict[str, int] = {}
        self._acknowledged: Revision = 0

    async def run(self, leader: Leader[RegionState]) -> None:
        """Keep the region up to date for as long as this server leads it."""
        self._joined, self._told, self._shipped = False, None, None
        while True:
            if not self._speaker.session:
                self._joined = False
                await self._speaker.open()
            if self._speaker.session and not self._joined:
                log_id = self._ledger.durable.state.facts.log_id
                reply = await self._speaker.send(p.JoinRegion(self._region, log_id), PATIENCE_MS)
                self._joined = reply is not None and (reply.said == "landed" or reply.code == "already")
            if self._joined:
                await self._poll(leader)
            await self._process.clock.sleep(POLL_MS)

    async def _poll(self, leader: Leader[RegionState]) -> None:
        asked_at = leader.term.now()
        known = self._told.seq if self._told is not None else 0
        raw = await self._speaker.remote.ask("/poll", encode((self._region, self._speaker.session, known)))
        if raw is None:
            return
        told = _told.decode(raw)
        if told.said == "list" and told.puts is not None:
            if await self._ship(leader, told, asked_at):
                self._told = told
        elif told.said == "no-session":
            self._speaker.session = 0
        elif told.said != "same":
            self._speaker.remote.elsewhere()
        if self._told is not None:
            await self._report(self._told)

    async def _ship(self, leader: Leader[RegionState], told: Told, asked_at: Instant) -> bool:
        named = {name_of(put): put for put in told.puts or ()}
        before, place = self._shipped, leader.term.durable.state.place
        changed = [put for key, put in named.items() if before is None or before.get(key) != put]
        gone = [c.Gone(kind, key) for kind, key in before or {} if (kind, key) not in named]
        to = revision(told.seq, INDEX_MAX)
        puts = tuple(_in_our_time(put, asked_at - told.at) for put in changed)
        step = c.Ship(told.log_id, told.term, place.cursor, to, puts, tuple(gone), full=before is None)
        if to > place.cursor and (changed or gone or before is None):
            for part in in_parts(step, PART_OBJECTS, PART_BYTES) if step.full else (step,):
                if not await self._applied(leader, part):
                    self._shipped = None  # whatever went wrong, a full list mends it
                    return False
        self._shipped = named
        return True

    async def _applied(self, leader: Leader[RegionState], step: c.Ship) -> bool:
        """Whether the region's ledger took it, to the end of what a list's last part takes away."""
        try:
            while True:
                answer = await leader.submit(Envelope("controller/link", step, leader.term.now()))
                if isinstance(answer, Refused):
                    return answer.code is Code.ALREADY and step.full
                if not (step.full and step.last) or leader.term.durable.state.place.listing is None:
                    return True
        except Unavailable:
            return False

    async def _report(self, told: Told) -> None:
        state = self._ledger.durable.state
        commands: list[Any] = []
        for account, allowance in state.allowances.items():
            if allowance.version > self._settled.get(account, 0):
                commands.append(p.AcknowledgeGrant(account, allowance.version, allowance.limit))
        assigned = [put.assignment for put in told.puts or () if isinstance(put, c.AssignmentShipped)]
        released = [one for one in assigned if one.stage is Stage.ENDED and one.uid not in state.assignments]
        commands += [p.RemoveAssignment(one.uid) for one in released]
        listed = {(a.workload, n) for a in state.assignments.values() for n in a.ordinals}
        free = [(a, n) for a in assigned for n in a.returning if (a.workload, n) not in listed]
        commands += [p.ReleaseRight(a.workload, n, a.revision) for a, n in free if (a.workload, n) not in state.slots]
        cursor = state.place.cursor
        if cursor != self._acknowledged:
            position = revision(state.facts.seq, INDEX_MAX)
            commands.append(p.Acknowledge(self._region, state.facts.log_id, position, cursor))
        for command in commands:
            reply = await self._speaker.send(command, PATIENCE_MS)
            if reply is None or not self._speaker.session:
                return
            if isinstance(command, p.AcknowledgeGrant):
                self._settled[command.account] = command.version
            elif isinstance(command, p.Acknowledge):
                self._acknowledged = command.cursor


def _in_our_time(put: c.Shipped, behind: int) -> c.Shipped:
    """A lease ends by the platform's time; here it ends by ours, as it was when we asked: never later."""
    if isinstance(put, c.AssignmentShipped) and put.assignment.right_until:
        return c.AssignmentShipped(replace(put.assignment, right_until=put.assignment.right_until + behind))
    return put
