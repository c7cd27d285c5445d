"""The file in which a server keeps its own token: private, whole, and the same after a restart."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from holdfast.wiring.config.private_files import SERVER_TOKEN_FILE, ServerTokenFile, draw_secret


def test_the_file_is_its_owners_alone_and_one_that_others_could_read_is_no_secret(tmp_path: Path) -> None:
    async def story() -> None:
        file = ServerTokenFile(tmp_path / SERVER_TOKEN_FILE)
        assert await file.read() is None
        await file.write("secret")
        assert stat.S_IMODE((tmp_path / SERVER_TOKEN_FILE).stat().st_mode) == 0o600
        assert await file.read() == "secret"
        (tmp_path / SERVER_TOKEN_FILE).chmod(0o644)
        with pytest.raises(PermissionError, match="revoke-server"):
            await file.read()

    asyncio.run(story())


def test_no_two_tokens_that_are_drawn_are_alike() -> None:
    many = [draw_secret() for _ in range(100)]
    assert len({name for name, _ in many}) == len({secret for _, secret in many}) == 100
