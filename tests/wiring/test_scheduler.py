"""What a scheduler's process refuses to start with, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import Reply, Request, Unreachable
from holdfast.transports.http_transport import HttpTransport
from holdfast.wiring.config.private_files import write_private
from holdfast.wiring.machine import MachineOptions, invalid_machine_options
from holdfast.wiring.process import ExitCode
from holdfast.wiring.scheduler import run_scheduler
from tests.support.processes.real_cluster import free_ports

#: Port 1 is nobody's here, and a connection to it is refused.
NOBODY = "http://127.0.0.1:1"


def a_wish(**said: Any) -> MachineOptions:
    return MachineOptions(**{"kind": "scheduler", "servers": (NOBODY,), "name": "far", "token_file": "t", **said})


def test_the_least_that_must_be_said_is_enough() -> None:
    assert list(invalid_machine_options(a_wish())) == []
    assert list(invalid_machine_options(a_wish(token_file="", tls_certificate="c", tls_key="k"))) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"servers": ()}, "use --server with the URL"),
        ({"servers": ("127.0.0.1:7400",)}, "is no URL"),
        ({"servers": ("http://hf.example:7400",)}, "the token would travel in the clear"),
        ({"name": ""}, "is no name for a scheduler"),
        ({"name": "*"}, "is no name for a scheduler"),
        ({"token_file": ""}, "there is no credential for scheduler/far"),
        ({"tls_certificate": "c"}, "only valid together"),
        ({"listen": "7480"}, "is no address and port; use one such as 127.0.0.1:7480"),
        ({"listen": "0.0.0.0:7480"}, "is reachable from other machines, and is open to all"),
        ({"listen": "hf.example:7480", "tls_trust": "t"}, "is reachable from other machines"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_way_out(said: dict[str, Any], why: str) -> None:
    (found,) = invalid_machine_options(a_wish(**said))
    assert why in found


def test_whoever_keeps_the_wire_private_says_so() -> None:
    assert list(invalid_machine_options(a_wish(servers=("http://hf.example:7400",), insecure=True))) == []
    assert list(invalid_machine_options(a_wish(listen="0.0.0.0:7480", insecure=True))) == []


def test_numbers_are_told_on_this_machine_and_elsewhere_to_those_with_a_certificate() -> None:
    assert list(invalid_machine_options(a_wish(listen="127.0.0.1:7480"))) == []
    assert (
        list(invalid_machine_options(a_wish(listen="0.0.0.0:7480", tls_certificate="c", tls_key="k", tls_trust="t")))
        == []
    )


def ended(options: MachineOptions, seconds: float) -> ExitCode:
    """How it ends when it is asked to stop after so long."""

    async def run() -> ExitCode:
        asked = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, asked.set)
        return await run_scheduler(options, SystemClock(), asked)

    return asyncio.run(run())


def test_without_its_token_it_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(a_wish(token_file=str(tmp_path / "none")), 5) is ExitCode.CANNOT_START
    assert "holdfast token create --principal scheduler/far" in capsys.readouterr().err


def test_certificates_that_are_not_there_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_private(tmp_path / "token", f"hf_far_{'x' * 43}\n")
    wish = a_wish(token_file=str(tmp_path / "token"), tls_trust=str(tmp_path / "none.pem"))
    assert ended(wish, 5) is ExitCode.CANNOT_START
    assert "the certificates are not valid" in capsys.readouterr().err


def test_while_its_region_is_not_there_it_waits_and_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    write_private(tmp_path / "token", f"hf_far_{'x' * 43}\n")
    assert ended(a_wish(token_file=str(tmp_path / "token")), 0.3) is ExitCode.ASKED


async def _listens(client: HttpTransport, peer: str) -> None:
    async with asyncio.timeout(60):
        while True:
            with suppress(Unreachable):
                await client.call(peer, Request("GET", "/metrics"), 5_000)
                return
            await asyncio.sleep(0.01)


def test_it_tells_its_numbers_where_it_is_said_to(tmp_path: Path) -> None:
    write_private(tmp_path / "token", f"hf_far_{'x' * 43}\n")
    listen = f"127.0.0.1:{free_ports(1)}"
    wish = a_wish(token_file=str(tmp_path / "token"), listen=listen)

    async def story() -> tuple[Reply, Reply]:
        clock, asked = SystemClock(), asyncio.Event()
        client = HttpTransport(clock)
        await client.start()
        running = asyncio.create_task(run_scheduler(wish, clock, asked))
        await _listens(client, f"http://{listen}")
        ask = [client.call(f"http://{listen}", Request("GET", path), 5_000) for path in ("/metrics", "/v1/log")]
        told, other = [await one for one in ask]
        asked.set()
        assert await running is ExitCode.ASKED
        with pytest.raises(Unreachable):
            await client.call(f"http://{listen}", Request("GET", "/metrics"), 5_000)
        await client.close()
        return told, other

    told, other = asyncio.run(story())
    assert told.status == 200
    assert b'holdfast_mirror_breaks{why="unreachable"}' in told.body
    assert other.status == 404


def test_an_address_that_another_process_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_private(tmp_path / "token", f"hf_far_{'x' * 43}\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        assert ended(a_wish(token_file=str(tmp_path / "token"), listen=listen), 5) is ExitCode.CANNOT_START
    assert f"listening on {listen}" in capsys.readouterr().err
