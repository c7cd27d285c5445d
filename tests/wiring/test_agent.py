"""An agent's process: what it tells whoever started it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.wiring import agent
from tests.support.aio import in_a_loop


@in_a_loop
async def test_a_disk_that_takes_no_ready_file_stops_no_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "full").touch()
    registered = asyncio.Event()
    registered.set()
    node: Any = SimpleNamespace(is_registered=registered)
    with caplog.at_level(logging.WARNING):
        telling = asyncio.create_task(agent.tell(node, tmp_path / "full" / "ready.json"))
        await asyncio.sleep(0)
    assert not telling.done(), "it goes on"
    telling.cancel()
    assert "not-told-ready" in caplog.text
