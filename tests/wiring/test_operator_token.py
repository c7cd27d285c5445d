"""The operator's first token: made once, good until it is over, in nobody's log."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import Token, parse_token, verify_secret
from holdfast.core.platform.commands import Put
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from holdfast.host.ledger.ledger import Ledger, ServerIdentity
from holdfast.host.ports.clock import Clock
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.stores.memory import MemoryStore
from holdfast.wiring.config.private_files import draw_secret, read_private, write_private
from holdfast.wiring.operator_token import OperatorToken, is_good

OPERATOR = "person/operator"
DAY = 86_400_000


class File:
    """The operator's file, read and written in no time: virtual time waits for no thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def read(self) -> str | None:
        return read_private(self.path)

    async def write(self, text: str) -> None:
        write_private(self.path, text + "\n")


class Platform:
    """A platform's server that is started again and again on one store."""

    def __init__(self, file: Path, operator: str = OPERATOR) -> None:
        self.file = file
        self.operator = operator
        self.store = MemoryStore()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop)
        self.state = PlatformState()

    async def start(self) -> None:
        """One life, until the token is seen to."""
        await self.live(self._nothing)

    async def live(self, story: Callable[[Ledger[PlatformState]], Coroutine[Any, Any, None]]) -> None:
        """One life with a story in it, told once the token is seen to."""
        identity = ServerIdentity("s1", StartLog("log-1", "platform", OPERATOR))
        ledger: Ledger[PlatformState] = Ledger(PLATFORM, self.store, self.clock, identity)
        bootstrap = OperatorToken(File(self.file), draw_secret, self.operator, 30 * DAY)
        ledger.leader_tasks["bootstrap"] = bootstrap.run
        running = asyncio.create_task(ledger.run())
        try:
            await bootstrap.done.wait()
            await story(ledger)
            self.state = ledger.durable.state
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def _nothing(self, ledger: Ledger[PlatformState]) -> None:
        assert ledger.leader is not None

    def text(self) -> str:
        return self.file.read_text(encoding="utf-8").strip()

    def tokens(self) -> list[Token]:
        return [token for _, token in self.state.tokens.items()]


def told(file: Path, story: Callable[[Platform], Coroutine[Any, Any, None]], operator: str = OPERATOR) -> None:
    async def run() -> None:
        await story(Platform(file, operator))

    run_virtual(run())


def test_the_first_start_makes_a_token_whose_hash_is_in_the_log_and_whose_secret_is_not(tmp_path: Path) -> None:
    async def story(platform: Platform) -> None:
        await platform.start()
        parts = parse_token(platform.text())
        assert parts is not None
        (token,) = platform.tokens()
        assert (token.meta.name, token.spec.principal) == (parts[0], OPERATOR)
        assert verify_secret(parts[1], token.spec.hash)
        assert token.spec.expires - platform.clock.wall() > 29 * DAY
        assert stat.S_IMODE(platform.file.stat().st_mode) == 0o600
        raw = b"".join([batch.raw for batch in await platform.store.read(1)])
        assert parts[1].encode() not in raw

    told(tmp_path / "operator.token", story)


def test_further_starts_change_nothing(tmp_path: Path) -> None:
    async def story(platform: Platform) -> None:
        await platform.start()
        first, before = platform.text(), platform.tokens()
        await platform.start()
        await platform.start()
        assert (platform.text(), platform.tokens()) == (first, before)

    told(tmp_path / "operator.token", story)


def test_a_start_that_was_cut_short_after_the_file_is_made_good_by_the_next(tmp_path: Path) -> None:
    async def story(platform: Platform) -> None:
        text = f"hf_bootstrap-1_{'x' * 43}"
        platform.file.touch(0o600)
        platform.file.write_text(text, encoding="utf-8")
        await platform.start()
        assert platform.text() == text
        assert is_good(platform.state, text, OPERATOR, platform.clock.wall())

    told(tmp_path / "operator.token", story)


def test_a_lost_file_is_replaced_by_a_new_token(tmp_path: Path) -> None:
    async def story(platform: Platform) -> None:
        await platform.start()
        first = platform.text()
        platform.file.unlink()
        await platform.start()
        assert platform.text() != first
        assert is_good(platform.state, platform.text(), OPERATOR, platform.clock.wall())

    told(tmp_path / "operator.token", story)


def test_a_token_that_is_over_is_replaced_at_the_next_start(tmp_path: Path) -> None:
    async def story(platform: Platform) -> None:
        await platform.start()
        first = platform.text()
        await platform.clock.sleep(31 * DAY)
        await platform.start()
        now = platform.clock.wall()
        assert not is_good(platform.state, first, OPERATOR, now)
        assert is_good(platform.state, platform.text(), OPERATOR, now)

    told(tmp_path / "operator.token", story)


def test_a_revoked_token_is_replaced_and_stays_revoked(tmp_path: Path) -> None:
    async def story(platform: Platform) -> None:
        async def revoke(ledger: Ledger[PlatformState]) -> None:
            (token,) = (one for _, one in ledger.durable.state.tokens.items())
            put = Put(replace(token, spec=replace(token.spec, revoked=True)))
            answer = await ledger.submit(Envelope(OPERATOR, put, ledger.clock.wall(), key="revoke"))
            assert isinstance(answer, Committed)

        await platform.live(revoke)
        first = platform.text()
        await platform.start()
        assert platform.text() != first
        assert [token.spec.revoked for token in platform.tokens()].count(True) == 1

    told(tmp_path / "operator.token", story)


def test_a_file_that_others_can_read_is_left_alone_and_the_platform_leads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(platform: Platform) -> None:
        platform.file.write_text("hf_a_" + "x" * 43, encoding="utf-8")
        platform.file.chmod(0o644)
        await platform.start()
        assert platform.tokens() == []

    told(tmp_path / "operator.token", story)
    assert "chmod 600" in caplog.text


def test_an_operator_that_the_log_does_not_know_gets_no_rights_by_naming_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(platform: Platform) -> None:
        await platform.start()
        assert platform.tokens() == []

    told(tmp_path / "operator.token", story, operator="person/somebody-else")
    assert "bootstrap-token-refused" in caplog.text


def test_the_secret_is_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def story(platform: Platform) -> None:
        await platform.start()
        parts = parse_token(platform.text())
        assert parts is not None
        assert "bootstrap-token" in caplog.text
        assert parts[1] not in caplog.text

    told(tmp_path / "operator.token", story)
