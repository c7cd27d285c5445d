"""The examples of the client's guide are run, one after the other, against a server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from holdfast.host.local import LocalNetwork
from holdfast.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.support.answers import Answers, BlockingAnswers

GUIDE = Path(__file__).parents[2] / "docs" / "client.md"
SERVER = "https://a.example:7400"


def examples() -> list[tuple[int, str]]:
    """Each block of Python, and the line on which it begins."""
    text = GUIDE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: match.start(1)].count("\n"), match.group(1)) for match in found]


def test_the_examples_of_the_guide_run() -> None:
    blocks = examples()
    assert len(blocks) > 8
    names: dict[str, Any] = {"transport": BlockingAnswers(Answers())}
    for above, block in blocks:
        # Blank lines above, so that a failure names the line in the guide.
        exec(compile("\n" * above + block, str(GUIDE), "exec"), names)
    run_virtual(_follow(names["follow"]))


async def _follow(example: Any) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = VirtualClock(loop)
    network = LocalNetwork(clock)
    server, asker = network.join(SERVER), network.join("asker")
    server.serve(Answers().serve)
    await example(asker, clock)
    await asker.close()
    await server.close()
