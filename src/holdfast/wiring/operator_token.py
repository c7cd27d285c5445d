"""The operator's first token. The platform server makes it, since the owner of the server and its store has that
authority.

    file exists, token in the log and valid ──▶ nothing to do
    file exists, token not in the log       ──▶ put the token: an earlier start was interrupted
    no file, or its token has expired       ──▶ write a new secret to the file, then its hash to the log

The file is written first, so that after an interruption the next start puts its token. The log contains a hash only,
and only its owner can read the file. It runs as a leader task of the platform, at the start of each term.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects import principals
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
#: Length of the random part of a token's name.
PART = 8


def is_good(state: PlatformState, text: str, principal: str, now: Instant) -> bool:
    """Whether this token is in the log, belongs to the principal, and is still valid."""
    parts = principals.parse_token(text)
    token = state.tokens.get(parts[0]) if parts is not None else None
    if parts is None or token is None:
        return False
    spec = token.spec
    return (
        principals.verify_secret(parts[1], spec.hash)
        and spec.principal == principal
        and not spec.revoked
        and now < spec.expires
    )


class OperatorToken:
    """Keeps the operator's token in a file valid. `ledger.leader_tasks["bootstrap"] = OperatorToken(...).run`."""

    def __init__(self, file: PrivateFile, draw: DrawSecret, operator: str, life_ms: int) -> None:
        self._file = file
        self._draw = draw
        self._operator = operator
        self._life_ms = life_ms
        self._logger = Logger("bootstrap", file=str(file), operator=operator)
        #: Set when the attempt is finished, whether or not it succeeded.
        self.done = asyncio.Event()

    async def run(self, leader: Leader[PlatformState]) -> None:
        """Check the token once, then wait for the end of the term, since a leader task must not end."""
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
        parts = principals.parse_token(text)
        if parts is None or parts[0] in state.tokens:
            part, secret = self._draw()
            parts = f"bootstrap-{part[:PART]}", secret
            await self._file.write(principals.format_token(*parts))
        await self._put(leader, self._token(*parts, now + self._life_ms))

    def _token(self, name: str, secret: str, expires: Instant) -> principals.Token:
        return principals.Token(
            meta=Meta(name=name, annotations=(("holdfast/made", "at a server's start, for its operator"),)),
            spec=principals.TokenSpec(principal=self._operator, hash=principals.hash_secret(secret), expires=expires),
        )

    async def _put(self, leader: Leader[PlatformState], token: principals.Token) -> None:
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
            # The log began with another operator, or the permission was removed: an operator decides that.
            self._logger.warning("bootstrap-token-refused", token=name, code=answer.code.value, why=answer.message)
        else:
            self._logger.info("bootstrap-token", token=name, expires=expires)
