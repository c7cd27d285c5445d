"""The operator's first token: made by whoever owns the process and its store, which is authority enough.

    file there, token in the log and good ──▶ nothing to do
    file there, token not in the log      ──▶ put it: an earlier start was cut short
    no file, or its token is over         ──▶ a new secret into the file, then its hash into the log

The file is written first: cut short in between, the next start puts what the file says. The log holds a hash only, and
the file is readable by its owner alone. Run beside the platform's leader, at the start of each term.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import (
    Token,
    TokenSpec,
    format_token,
    hash_secret,
    parse_token,
    verify_secret,
)
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import Put
from holdfast.core.platform.state.tables import PlatformState
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.server_token import DrawSecret, PrivateFile
from holdfast.host.runtime.telemetry import Logger
from holdfast.wiring.config.private_files import NotPrivate

RETRY_MS = 500
#: So much of what was drawn tells its name from others.
PART = 8


def is_good(state: PlatformState, text: str, principal: str, now: Instant) -> bool:
    """Whether this token, as it is spoken, is in the log, is the principal's, and may still be used."""
    parts = parse_token(text)
    token = state.tokens.get(parts[0]) if parts is not None else None
    if parts is None or token is None:
        return False
    spec = token.spec
    return (
        verify_secret(parts[1], spec.hash) and spec.principal == principal and not spec.revoked and now < spec.expires
    )


class OperatorToken:
    """Keeps the operator's token in a file good. `ledger.beside["bootstrap"] = Bootstrap(...).run`."""

    def __init__(self, file: PrivateFile, draw: DrawSecret, operator: str, life_ms: int) -> None:
        self._file = file
        self._draw = draw
        self._operator = operator
        self._life_ms = life_ms
        self._logger = Logger("bootstrap", file=str(file), operator=operator)
        #: Set when there is nothing to wait for any more, whether it worked or not.
        self.done = asyncio.Event()

    async def run(self, leader: Leader[PlatformState]) -> None:
        """See to it once, then rest for the remainder of the term: work beside a leader may not end."""
        try:
            await self._see_to_it(leader)
        except (NotPrivate, OSError) as error:
            self._logger.error("no-bootstrap-token", why=error)
        self.done.set()
        await asyncio.Event().wait()

    async def _see_to_it(self, leader: Leader[PlatformState]) -> None:
        state, now = leader.term.durable.state, leader.term.now()
        text = await self._file.read() or ""
        if is_good(state, text, self._operator, now):
            return
        parts = parse_token(text)
        if parts is None or parts[0] in state.tokens:
            part, secret = self._draw()
            parts = f"bootstrap-{part[:PART]}", secret
            await self._file.write(format_token(*parts))
        await self._put(leader, self._token(*parts, now + self._life_ms))

    def _token(self, name: str, secret: str, expires: Instant) -> Token:
        return Token(
            meta=Meta(name=name, annotations=(("holdfast/made", "at a server's start, for its operator"),)),
            spec=TokenSpec(principal=self._operator, hash=hash_secret(secret), expires=expires),
        )

    async def _put(self, leader: Leader[PlatformState], token: Token) -> None:
        name, expires = token.meta.name, token.spec.expires
        envelope: Envelope[Any] = Envelope(
            self._operator, Put(token), leader.term.now(), key=f"bootstrap-{name}-{expires}"
        )
        while True:
            try:
                answer = await leader.submit(envelope)
            except Unavailable as error:
                self._logger.warning("bootstrap-token-waits", token=name, why=error)
                await leader.term.clock.sleep(RETRY_MS)
                continue
            break
        if isinstance(answer, Refused) and answer.code is not Code.ALREADY:
            # The log began with another operator, or somebody took the rights away: that is theirs to decide.
            self._logger.warning("bootstrap-token-refused", token=name, code=answer.code.value, why=answer.message)
        else:
            self._logger.info("bootstrap-token", token=name, expires=expires)
