"""A server's own token: created by the server, stored in a file, announced in the store, and replaced before it
expires.

    no file, or its token has expired or is revoked ──▶ write a new one to the file, then announce it
    half of its lifetime has passed                 ──▶ write the next one, announce it; the old one stays in use
    three quarters have passed                      ──▶ use the next one: every server has received it by then

After a crash in between, the next start announces the token in the file. Announcements repeat, with back-off, until the
token is in the log. The secret is in the file and in memory, nowhere else.
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

#: The lifetime of a token. A leader accepts one day more, for differing clocks.
LIFE_MS = SERVER_TOKEN_LIFE * 6 // 7
#: First and longest back-off of announcements; a good token is checked at the longest.
RETRY_MS, RETRY_MAX_MS = 1_000, 60_000
#: The interval of checks whether there is a log.
POLL_MS = 50


class PrivateFile(Protocol):
    """The file of one server's token, unreadable for others."""

    async def read(self) -> str | None:
        """Return the file's text; None: no file. Raise `OSError` if it is unreadable, or readable for others."""

    async def write(self, text: str) -> None:
        """Replace the text atomically and durably. Raise `OSError` on failure."""


#: Draws a unique part of a token's name, and its secret. Randomness comes from outside.
DrawSecret = Callable[[], tuple[str, str]]


class StoredToken(Struct, frozen=True):
    """A token in its text form, and its end."""

    token: str
    expires: Instant


class ServerTokens(Struct, frozen=True):
    """The content of the file: the principal, the token in use, and the next one."""

    principal: str
    current: StoredToken
    next: StoredToken | None = None


class ServerTokenKeeper:
    """The token of one server, which signs with `current`."""

    def __init__(self, ledger: Ledger[Any], file: PrivateFile, draw: DrawSecret, told: Callable[[], None]) -> None:
        self._ledger = ledger
        self._file = file
        self._draw = draw
        #: Called after an announcement, to wake a leader in the same process.
        self._told = told
        self._logger = Logger("server-token", server=ledger.identity.server)
        self._tokens: ServerTokens | None = None
        self._again_ms = RETRY_MS

    def current(self) -> request_signatures.SigningToken | None:
        """Return the token that this server signs with; None: no valid one."""
        if self._tokens is None or self._tokens.current.expires <= self._now():
            return None
        parts = parse_token(self._tokens.current.token)
        assert parts is not None, "a stored token can be parsed"
        return request_signatures.SigningToken(*parts)

    async def run(self) -> None:
        """Keep the token valid while this server runs."""
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
        """Renew tokens, announce those that are not in the log, and return the wait until the next check."""
        principal = server_principal(state.info.ledger, self._ledger.identity.server)
        if not principal:
            return RETRY_MAX_MS  # no server can have the name of this log: it acts for no principal
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
        """Return the tokens that this server should have now."""
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
    """Return the tokens in the text; None: there are none."""
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
    assert parts is not None, "a stored token can be parsed"
    return ServerToken(parts[0], principal, request_signatures.public_key_of(parts[1]), held.expires)


def _is_good(state: LedgerState, principal: str, held: StoredToken, now: Instant) -> bool:
    """Whether the token is not expired, not revoked, this server's, and no longer-lived than a leader accepts.

    A token lives too long if it was created while this machine's clock was ahead.
    """
    row = _row(principal, held)
    return now < held.expires <= now + SERVER_TOKEN_LIFE and state.servers.get(row.name) in (None, row)
