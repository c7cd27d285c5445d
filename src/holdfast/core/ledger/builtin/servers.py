"""AdmitServer, RevokeServer, ForgetServer: the servers of a ledger, by the tokens that they announced in its store.

    announced in the store ──▶ AdmitServer ──▶ valid until its end ──▶ stored a while longer ──▶ ForgetServer
                                                      └── RevokeServer: its end is now

A server has its current token and the next one. Above `SERVER_TOKENS_MAX` tokens of one name, or `SERVERS_MAX` in all,
a new token replaces the one that ends first, if that ends before the new one. So servers that share a name by mistake
do not keep replacing each other's tokens.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found, too_large
from holdfast.core.ledger.commit.rules import CommandContext, CommandLane, CommandRule
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.servers import SERVER_TOKEN_LIFE, ServerToken, is_valid_server_token, ledger_of
from holdfast.core.model.values.limits import SERVER_TOKENS_MAX, SERVERS_MAX
from holdfast.core.model.values.structs import Row

#: The controller that records the tokens servers announced.
SERVERS = "controller/servers"


class AdmitServer(Row, frozen=True, tag="admit-server"):
    """Admit a server of this ledger, which has announced its token in the store."""

    server: ServerToken


class RevokeServer(Row, frozen=True, tag="revoke-server"):
    """Revoke all tokens that a server has announced so far. The server makes a new one by itself."""

    principal: str


class ForgetServer(Row, frozen=True, tag="forget-server"):
    """Delete a server token that ended so long ago that it cannot be announced again."""

    name: str


class ServerStored(Row, frozen=True, tag="server-stored"):
    """A server's token in its current state, in full."""

    SINCE: ClassVar[int] = 2

    server: ServerToken


class ServerForgotten(Row, frozen=True, tag="server-forgotten"):
    SINCE: ClassVar[int] = 2

    name: str


# Decide


def admit_server(state: LedgerState, command: AdmitServer, ctx: CommandContext) -> Accepted | Refused:
    """Require a valid token of a server of this ledger, with an end in the future within the longest lifetime."""
    new = command.server
    if not is_valid_server_token(new):
        return Refused(Code.MALFORMED, "not a valid server token", {"name": new.name, "principal": new.principal})
    if ledger_of(new.principal) != state.info.ledger:
        message = f"{new.principal} is no server of {state.info.ledger}"
        return Refused(Code.WRONG_SCOPE, message, {"principal": new.principal, "ledger": state.info.ledger})
    latest = ctx.at + SERVER_TOKEN_LIFE
    if not ctx.at < new.expires <= latest:
        facts = {"at": ctx.at, "ends": new.expires, "latest": latest}
        return Refused(Code.EXPIRED, "a server's token must end after now and within its longest lifetime", facts)
    if new.name in state.servers:
        return Refused(Code.ALREADY, f"token {new.name} is already stored", {"name": new.name})
    forgotten = _displaced(state, new)
    if forgotten is not None and forgotten.expires >= new.expires:
        return too_large("tokens of servers that end later", len(state.servers), SERVERS_MAX)
    left = () if forgotten is None else (ServerForgotten(forgotten.name),)
    return Accepted((*left, ServerStored(new)))


def _displaced(state: LedgerState, new: ServerToken) -> ServerToken | None:
    """Return the token to replace: the first to end, of the same server's tokens or of all."""
    own = [one for _, one in state.servers.unordered() if one.principal == new.principal]
    others = [one for _, one in state.servers.unordered()] if len(state.servers) >= SERVERS_MAX else []
    crowded = own if len(own) >= SERVER_TOKENS_MAX else others
    return min(crowded, key=lambda one: (one.expires, one.name), default=None)


def revoke_server(state: LedgerState, command: RevokeServer, ctx: CommandContext) -> Accepted | Refused:
    """End every valid token of the server now."""
    own = [one for one in state.servers.values() if one.principal == command.principal]
    if not own:
        return not_found("server", command.principal)
    good = [one for one in own if one.expires > ctx.at]
    if not good:
        return Refused(Code.ALREADY, f"no token of {command.principal} is valid", {"principal": command.principal})
    return Accepted(tuple(ServerStored(replace(one, expires=ctx.at)) for one in good))


def forget_server(state: LedgerState, command: ForgetServer, ctx: CommandContext) -> Accepted | Refused:
    """Refuse to forget a token while an announcement under its name could still be valid."""
    known = state.servers.get(command.name)
    if known is None:
        return not_found("server token", command.name)
    if ctx.at < forgettable_at(known):
        facts = {"at": ctx.at, "ends": forgettable_at(known)}
        return Refused(Code.TOO_EARLY, f"token {command.name} must be stored for longer", facts)
    return Accepted((ServerForgotten(command.name),))


def forgettable_at(token: ServerToken) -> int:
    """Return when a token may be forgotten: had it been revoked when announced, it would have ended by then."""
    return token.expires + SERVER_TOKEN_LIFE


# Evolve


def server_stored(state: LedgerState, event: ServerStored, stamp: Stamp) -> None:
    state.servers.put(event.server.name, event.server)


def server_forgotten(state: LedgerState, event: ServerForgotten, stamp: Stamp) -> None:
    state.servers.drop(event.name)


APPLY: dict[type, Any] = {ServerStored: server_stored, ServerForgotten: server_forgotten}

RULES: tuple[CommandRule[Any], ...] = (
    CommandRule(AdmitServer, admit_server, (SERVERS,), CommandLane.OPERATORS,
         "this server may act for others",
         "RevokeServer; its end, and then ForgetServer"),
    CommandRule(RevokeServer, revoke_server, ("person",), CommandLane.OPERATORS,
         "the token is no longer valid",
         "nothing: the server makes another, which AdmitServer admits", whole=True),
    CommandRule(ForgetServer, forget_server, (SERVERS,), CommandLane.OPERATORS,
         "its row is deleted",
         "nothing to undo: its token has expired"),
)  # fmt: skip
