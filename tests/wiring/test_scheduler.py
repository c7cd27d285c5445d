"""What a scheduler's process refuses to start with, and how it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.host.clock import SystemClock
from holdfast.wiring.private import write_private
from holdfast.wiring.scheduler import Ending, SchedulerWish, schedule, wrong

#: Port 1 is nobody's here, and a connection to it is refused.
NOBODY = "http://127.0.0.1:1"


def a_wish(**said: Any) -> SchedulerWish:
    return SchedulerWish(**{"servers": (NOBODY,), "name": "far", "token_file": "t", **said})


def test_the_least_that_must_be_said_is_enough() -> None:
    assert list(wrong(a_wish())) == []
    assert list(wrong(a_wish(token_file="", tls_certificate="c", tls_key="k"))) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"servers": ()}, "say --server URL"),
        ({"servers": ("127.0.0.1:7400",)}, "is no URL"),
        ({"servers": ("http://hf.example:7400",)}, "the token would travel in the clear"),
        ({"name": ""}, "is no name for a scheduler"),
        ({"name": "*"}, "is no name for a scheduler"),
        ({"token_file": ""}, "nothing shows that this is scheduler/far"),
        ({"tls_certificate": "c"}, "only good together"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_way_out(said: dict[str, Any], why: str) -> None:
    (found,) = wrong(a_wish(**said))
    assert why in found


def test_whoever_keeps_the_wire_private_says_so() -> None:
    assert list(wrong(a_wish(servers=("http://hf.example:7400",), insecure=True))) == []


def ended(wish: SchedulerWish, seconds: float) -> Ending:
    """How it ends when it is asked to stop after so long."""

    async def run() -> Ending:
        asked = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, asked.set)
        return await schedule(wish, SystemClock(), asked)

    return asyncio.run(run())


def test_without_its_token_it_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(a_wish(token_file=str(tmp_path / "none")), 5) is Ending.CANNOT_START
    assert "holdfast token create --principal scheduler/far" in capsys.readouterr().err


def test_certificates_that_are_not_there_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_private(tmp_path / "token", f"hf_far_{'x' * 43}\n")
    wish = a_wish(token_file=str(tmp_path / "token"), tls_trust=str(tmp_path / "none.pem"))
    assert ended(wish, 5) is Ending.CANNOT_START
    assert "the certificates are not good" in capsys.readouterr().err


def test_while_its_region_is_not_there_it_waits_and_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    write_private(tmp_path / "token", f"hf_far_{'x' * 43}\n")
    assert ended(a_wish(token_file=str(tmp_path / "token")), 0.3) is Ending.ASKED
