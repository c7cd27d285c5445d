"""AdmitServer, RevokeServer, ForgetServer: the servers of a ledger, by the tokens that they announced in its store.

    announced in the store ──▶ AdmitServer ──▶ honoured until its end ──▶ remembered for a while ──▶ ForgetServer
                                                      └── RevokeServer: its end is now

A server has the token that it shows and the one that comes next. Where there are more than `SERVER_TOKENS_MAX` of one
name, or `SERVERS_MAX` in all, the one that ends first makes room for one that ends later, and never for an earlier one:
so servers that share a name by mistake do not keep pushing one another out.
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

#: Who writes down what servers announced.
SERVERS = "controller/servers"


class AdmitServer(Row, frozen=True, tag="admit-server"):
    """A server of this ledger has announced its token in the store."""

    server: ServerToken


class RevokeServer(Row, frozen=True, tag="revoke-server"):
    """No token that this server has shown or announced so far is honoured any more; it makes another by itself."""

    principal: str


class ForgetServer(Row, frozen=True, tag="forget-server"):
    """A server's token has been over for so long that nobody can announce it again."""

    name: str


class ServerStored(Row, frozen=True, tag="server-stored"):
    """A server's token as it is now, whole."""

    SINCE: ClassVar[int] = 2

    server: ServerToken


class ServerForgotten(Row, frozen=True, tag="server-forgotten"):
    SINCE: ClassVar[int] = 2

    name: str


# Decide


def admit_server(state: LedgerState, command: AdmitServer, ctx: CommandContext) -> Accepted | Refused:
    """A sound token of a server of this ledger, with an end that is neither past nor too far away."""
    new = command.server
    if not is_valid_server_token(new):
        return Refused(Code.MALFORMED, "that is no server's token", {"name": new.name, "principal": new.principal})
    if ledger_of(new.principal) != state.info.ledger:
        message = f"{new.principal} is no server of {state.info.ledger}"
        return Refused(Code.WRONG_SCOPE, message, {"principal": new.principal, "ledger": state.info.ledger})
    latest = ctx.at + SERVER_TOKEN_LIFE
    if not ctx.at < new.expires <= latest:
        facts = {"at": ctx.at, "ends": new.expires, "latest": latest}
        return Refused(Code.EXPIRED, "a server's token ends after now and within its longest life", facts)
    if new.name in state.servers:
        return Refused(Code.ALREADY, f"token {new.name} is known, or was", {"name": new.name})
    forgotten = _displaced(state, new)
    if forgotten is not None and forgotten.expires >= new.expires:
        return too_large("tokens of servers that end later", len(state.servers), SERVERS_MAX)
    left = () if forgotten is None else (ServerForgotten(forgotten.name),)
    return Accepted((*left, ServerStored(new)))


def _displaced(state: LedgerState, new: ServerToken) -> ServerToken | None:
    """The one that has to make room: the first to end of the same server's, or of all."""
    own = [one for _, one in state.servers.unordered() if one.principal == new.principal]
    others = [one for _, one in state.servers.unordered()] if len(state.servers) >= SERVERS_MAX else []
    crowded = own if len(own) >= SERVER_TOKENS_MAX else others
    return min(crowded, key=lambda one: (one.expires, one.name), default=None)


def revoke_server(state: LedgerState, command: RevokeServer, ctx: CommandContext) -> Accepted | Refused:
    """Every token of the server that is honoured now ends now."""
    own = [one for one in state.servers.values() if one.principal == command.principal]
    if not own:
        return not_found("server", command.principal)
    good = [one for one in own if one.expires > ctx.at]
    if not good:
        return Refused(Code.ALREADY, f"no token of {command.principal} is honoured", {"principal": command.principal})
    return Accepted(tuple(ServerStored(replace(one, expires=ctx.at)) for one in good))


def forget_server(state: LedgerState, command: ForgetServer, ctx: CommandContext) -> Accepted | Refused:
    """Not before whatever was announced under its name is over, too."""
    known = state.servers.get(command.name)
    if known is None:
        return not_found("server token", command.name)
    if ctx.at < forgettable_at(known):
        facts = {"at": ctx.at, "ends": forgettable_at(known)}
        return Refused(Code.TOO_EARLY, f"token {command.name} is remembered for longer", facts)
    return Accepted((ServerForgotten(command.name),))


def forgettable_at(token: ServerToken) -> int:
    """When a token may be forgotten: were it revoked the moment it was announced, it would be over by then."""
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
         "who holds that token acts for nobody any more",
         "nothing: the server makes another, and AdmitServer takes it", whole=True),
    CommandRule(ForgetServer, forget_server, (SERVERS,), CommandLane.OPERATORS,
         "its row is free",
         "nothing to undo: its token is over"),
)  # fmt: skip
