"""A server's own token: made by the server, kept in a file, announced in the store, and replaced well before its end.

    no file, or its token is over or revoked ──▶ a new one into the file, then announced
    half of its life is over                 ──▶ the next one into the file, then announced; the old one is still shown
    three quarters are                       ──▶ the next one is shown: everybody has heard of it by then

The file is written first: cut short in between, the next start announces what the file says. A token is announced again
for as long as the log does not have it, at growing intervals. The secret is in the file and in memory, nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.principals import format_token, parse_token
from holdfast.core.model.records.servers import SERVER_TOKEN_LIFE, ServerToken, server_principal
from holdfast.core.model.values.structs import Instant
from holdfast.host.ledger.ledger import Ledger, Role
from holdfast.host.ledger.server_admission import LEVEL, announcement
from holdfast.host.ports.store import StoreError
from holdfast.host.protocol import request_signatures
from holdfast.host.runtime.telemetry import Logger

#: How long a token lasts. A leader takes a day more: two servers' clocks may differ by that much.
LIFE_MS = SERVER_TOKEN_LIFE * 6 // 7
#: How soon a token is announced again that is not in the log, at first and at most; so often a good one is looked at.
RETRY_MS, RETRY_MAX_MS = 1_000, 60_000
#: How soon it is looked again whether there is a log at all.
POLL_MS = 50


class PrivateFile(Protocol):
    """Where one server keeps its token, out of everybody else's sight."""

    async def read(self) -> str | None:
        """What the file says; None: there is none. `OSError` when it cannot be read, or others could."""

    async def write(self, text: str) -> None:
        """Put this there, whole and durably. `OSError` when it cannot be done."""


#: What makes a token: a part of its name that no other has, and its secret. Chance comes from outside.
DrawSecret = Callable[[], tuple[str, str]]


class StoredToken(Struct, frozen=True):
    """A token as it is spoken, and its end."""

    token: str
    expires: Instant


class ServerTokens(Struct, frozen=True):
    """What is in the file: whose tokens, the one that is shown, and the one that comes next."""

    principal: str
    current: StoredToken
    next: StoredToken | None = None


class ServerTokenKeeper:
    """The token of one server. `run` it beside the ledger; `current` is what it signs with."""

    def __init__(self, ledger: Ledger[Any], file: PrivateFile, draw: DrawSecret, told: Callable[[], None]) -> None:
        self._ledger = ledger
        self._file = file
        self._draw = draw
        #: Called when something was announced: whoever leads beside this need not wait.
        self._told = told
        self._logger = Logger("server-token", server=ledger.identity.server)
        self._tokens: ServerTokens | None = None
        self._again_ms = RETRY_MS

    def current(self) -> request_signatures.SigningToken | None:
        """With what this server signs; None while it has no token that would be honoured."""
        if self._tokens is None or self._tokens.current.expires <= self._now():
            return None
        parts = parse_token(self._tokens.current.token)
        assert parts is not None, "a token that was read or made reads back"
        return request_signatures.SigningToken(*parts)

    async def run(self) -> None:
        """Keep the token good for as long as this server runs."""
        await self._read()
        while True:
            state, wait_ms = self._ledger.durable.state, POLL_MS
            if self._ledger.role is not Role.LOADING and state.info.log_id and state.info.level >= LEVEL:
                try:
                    wait_ms = await self._look(state)
                except (StoreError, OSError) as error:
                    wait_ms = self._later()
                    self._logger.warning("server-token-waits", why=error)
            await self._ledger.clock.sleep(wait_ms)

    async def _read(self) -> None:
        try:
            text = await self._file.read()
        except (OSError, ValueError) as error:
            self._logger.warning("server-token-not-read", why=error)
            text = None
        self._tokens = _parsed(text) if text is not None else None

    async def _look(self, state: LedgerState) -> int:
        """Renew what is due, announce what the log does not have; how long that holds."""
        principal = server_principal(state.info.ledger, self._ledger.identity.server)
        if not principal:
            return RETRY_MAX_MS  # a log whose name no server can have: it acts for nobody
        kept = self._due(state, principal)
        if kept != self._tokens:
            await self._file.write(msgspec.json.encode(kept).decode())
            self._tokens = kept
        unknown = [one for one in _rows(kept) if one.name not in state.servers]
        for one in unknown:
            await self._ledger.store.announce(one.name, announcement(one))
            self._ledger.metrics.count("server_tokens_announced")
            self._logger.info("server-token-announced", token=one.name, principal=one.principal, expires=one.expires)
        if unknown:
            self._told()
            return self._later()
        self._again_ms = RETRY_MS
        return RETRY_MAX_MS

    def _later(self) -> int:
        wait_ms, self._again_ms = self._again_ms, min(self._again_ms * 2, RETRY_MAX_MS)
        return wait_ms

    def _due(self, state: LedgerState, principal: str) -> ServerTokens:
        """What this server should have now."""
        kept, now = self._tokens, self._now()
        is_ours = kept is not None and kept.principal == principal
        current, coming = (kept.current, kept.next) if kept is not None and is_ours else (None, None)
        if coming is not None and not _is_good(state, principal, coming, now):
            coming = None
        if current is not None and not _is_good(state, principal, current, now):
            current = None
        if coming is not None and (current is None or current.expires - now <= LIFE_MS // 4):
            current, coming = coming, None
            self._logger.info("server-token-replaced", principal=principal, expires=current.expires)
        if current is None:
            current = self._mint(principal, now, "server-token-minted")
        if coming is None and current.expires - now <= LIFE_MS // 2:
            coming = self._mint(principal, now, "server-token-renewed")
        return ServerTokens(principal, current, coming)

    def _mint(self, principal: str, now: Instant, event: str) -> StoredToken:
        part, secret = self._draw()
        held = StoredToken(format_token(f"server-{part}", secret), now + LIFE_MS)
        self._ledger.metrics.count("server_tokens_minted")
        self._logger.info(event, token=f"server-{part}", principal=principal, expires=held.expires)
        return held

    def _now(self) -> Instant:
        at: Instant = self._ledger.durable.state.info.at
        return max(at, self._ledger.clock.wall())


def _parsed(text: str) -> ServerTokens | None:
    """What the file holds; None: no tokens of a server, so there are new ones."""
    try:
        found = msgspec.json.decode(text, type=ServerTokens)
    except (msgspec.MsgspecError, ValueError):
        return None
    held = [one for one in (found.current, found.next) if one is not None]
    return found if all(parse_token(one.token) is not None for one in held) else None


def _rows(kept: ServerTokens) -> list[ServerToken]:
    return [_row(kept.principal, one) for one in (kept.current, kept.next) if one is not None]


def _row(principal: str, held: StoredToken) -> ServerToken:
    parts = parse_token(held.token)
    assert parts is not None, "a token that was read or made reads back"
    return ServerToken(parts[0], principal, request_signatures.public_key_of(parts[1]), held.expires)


def _is_good(state: LedgerState, principal: str, held: StoredToken, now: Instant) -> bool:
    """Whether it has not ended, was not revoked, is nobody else's, and does not last for longer than a leader takes it,
    as one does that was made while this machine's clock was ahead."""
    row = _row(principal, held)
    return now < held.expires <= now + SERVER_TOKEN_LIFE and state.servers.get(row.name) in (None, row)
