"""Refusal codes that no swarm has to meet."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code

_CLIENTS = "simulated users have the production client, which sends no such request"
_OPERATORS = "simulated users send no such request"
_PLATFORM = "the platform makes no such assignment"
_RACES = "controllers see it in the current state or in one a batch before: few runs meet it"
#: Codes that a swarm need not meet, and why. Tests of the ledgers' tables and models cover them.
NOT_REQUIRED: dict[Code, str] = {
    Code.MALFORMED: _CLIENTS,
    Code.TOO_LARGE: _CLIENTS,
    Code.TOO_OLD_TO_RETRY: "no sender retries after a day, and runs take minutes",
    Code.TOO_MANY_IN_FLIGHT: _CLIENTS,
    Code.TOO_MANY_KEYS: "no sender sends that many commands within minutes",
    Code.KEY_REUSED: _CLIENTS,
    Code.NO_RIGHT: _OPERATORS,
    Code.WRONG_SCOPE: _OPERATORS,
    Code.LEVEL: "all servers that lead write the same level",
    Code.EXPIRED: "a proposal is dated by the ledger time of its view, and is seldom late",
    Code.EXISTS: f"{_OPERATORS}; {_RACES}",
    Code.IN_USE: _OPERATORS,
    Code.CONTRADICTORY: _OPERATORS,
    Code.NOT_OWNER: "controllers send only their own commands",
    Code.TOO_EARLY: f"controllers wait for the time of the refusal; {_RACES}",
    Code.RESIDENCY: _PLATFORM,
    Code.LATENCY: _PLATFORM,
    Code.GRANT_ENDED: "slots on an emergency account are stopped at its end, counted as stopped.grant-ended",
    Code.PRIORITY: f"schedulers choose victims of lower priorities; {_RACES}",
    Code.GANG: f"schedulers propose gangs that are whole; {_RACES}",
    Code.OVER_QUOTA: f"no tenant reaches the limit of workloads; for grants: {_RACES}",
    Code.TOO_MANY_PENDING: "no tenant reaches the limit of pending replicas",
    Code.REGION_UNAVAILABLE: _RACES,
    Code.RIGHT_HELD: _RACES,
    Code.GAP: "a stream begins where the region's cursor is",
    Code.DIVERGED: "no store of a simulated world goes backwards",
    Code.TOMBSTONED: "no region of a simulated world is retired",
}
