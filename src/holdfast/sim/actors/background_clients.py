"""Clients that only read, and clients that storm: small commands at a high rate, with almost no retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.api.resources.command_catalog import render_command, tag_of
from holdfast.api.server.request import parse_token
from holdfast.client.errors import HoldfastError
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.sim.actors.user_client import ROOT, UserConnection
from holdfast.sim.checks.ledger_audit import LedgerAudit, PendingRead
from holdfast.sim.world.world import Program, SimProcess

STORM_ASK_MS, STORM_PATIENCE_MS, STORM_LIFE_MS = 40, 2_000, 10_000
READ_MS = 3_000
KINDS = {"platform": "Workload"}
OF_REGIONS = "Node"

#: A machine's connections to all ledgers, and the operator's token as soon as it exists.
UserConnections = Callable[[SimProcess], Mapping[str, UserConnection]]
TokenSource = Callable[[], Awaitable[str]]


def reader(lines: UserConnections, proof: TokenSource, audits: Mapping[str, LedgerAudit[Any]]) -> Program:
    """Return a program that reads any ledger: linear, or at least as new as its last read."""

    async def run(process: SimProcess) -> None:
        chance, token = process.chance("reads"), await proof()
        clients = {
            name: line.client(ROOT, token, ask_ms=READ_MS, patience_ms=READ_MS) for name, line in lines(process).items()
        }
        known: dict[str, str] = {}
        while True:
            ledger = chance.choice(sorted(clients))
            before = known.get(ledger, "") if chance.random() < 0.5 else ""
            audit = audits[ledger]
            asked = PendingRead(parse_token(before).seq, "at-least") if before else audit.asks()
            try:
                read = f"at-least={before}" if before else "linear"
                found = await clients[ledger].list(KINDS.get(ledger, OF_REGIONS), read=read)
            except HoldfastError:
                found = None
            if found is not None and found.token:
                seen = found.token
                audit.reads(asked, parse_token(seen).seq, found.items)
                known[ledger] = max(seen, known.get(ledger, seen), key=lambda one: parse_token(one).seq)
            await process.clock.sleep(chance.randrange(200, 2_000))

    return run


def storm(lines: UserConnections, proof: TokenSource, regions: list[str], goes_on: Callable[[], bool]) -> Program:
    """Return a program that sends small commands at a high rate; many machines run it at once."""

    async def run(process: SimProcess) -> None:
        chance = process.chance("storm")
        ledger, token = chance.choice(regions), await proof()
        client = lines(process)[ledger].client(ROOT, token, ask_ms=STORM_ASK_MS, patience_ms=STORM_PATIENCE_MS)
        number = 0
        while goes_on():
            number += 1
            ends = process.clock.wall() + STORM_LIFE_MS
            drill = OpenOverride(OverrideAction.PAUSE_AUTOSCALER, ledger, "", "a storm", ends)
            key = f"{process.name}-{number}"
            with suppress(HoldfastError):  # a failed command is not retried
                await client.command(tag_of(OpenOverride), idempotency_key=key, **render_command(drill))
            await process.clock.sleep(chance.randrange(20, 200))

    return run
