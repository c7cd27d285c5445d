"""One attempt of a probe: an HTTP GET, a TCP connection or an exec command. The result is why it failed."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import Protocol

import aiohttp

from holdfast.agent.admission import run_spec_of
from holdfast.agent.drivers.driver import OWN_ERRNOS, CannotStart, Driver, ExecNotRun
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.blocking_calls import BlockingCalls, Hangs
from holdfast.host.runtime.deadlines import DeadlinePassed, within

#: Status codes that pass: all but client and server errors.
_WELL = range(200, 400)

#: Longest time for the lookup of a host name.
LOOKUP_MS = 5_000


class ProbeNotRun(Exception):
    """The agent itself could not probe, for example without a free file descriptor: the process's state is unknown."""


class Prober(Protocol):
    """Probes a process."""

    async def probe(self, one: BoundSlot, template: Template, probe: Probe) -> str:
        """Return why it did not pass, within the probe's timeout; empty: it passed. Raises `ProbeNotRun`."""


class NodeProber:
    """Probes real processes at the address of their node."""

    def __init__(self, driver: Driver, clock: Clock, host: str) -> None:
        self._driver = driver
        self._clock = clock
        self._host = host
        self._calls = BlockingCalls(clock)
        self._session: aiohttp.ClientSession | None = None

    async def probe(self, one: BoundSlot, template: Template, probe: Probe) -> str:
        try:
            if probe.exec is not None:
                return await self._run(one, template, probe.exec.command, probe.timeout)
            return await within(self._clock, probe.timeout, self._ask(one, probe))
        except DeadlinePassed:
            return f"no answer within {probe.timeout} ms"
        except ExecNotRun as error:
            raise ProbeNotRun(str(error)) from error
        except (OSError, aiohttp.ClientError, CannotStart, Hangs) as error:
            if isinstance(error, OSError) and error.errno in OWN_ERRNOS:
                raise ProbeNotRun(str(error)) from error
            return f"{type(error).__name__}: {error}"[:120]

    async def _run(self, one: BoundSlot, template: Template, command: tuple[str, ...], limit_ms: int) -> str:
        """Run a command beside the process. Its guard ends it in time, so a hanging guard is not mistaken for the
        process."""
        began = self._clock.boot()
        code = await self._driver.exec(run_spec_of(one, template, 0), command, limit_ms)
        if code < 0 and self._clock.boot() - began >= limit_ms:
            return f"no answer within {limit_ms} ms"
        return "" if code == 0 else f"its command ended with {code}"

    async def _ask(self, one: BoundSlot, probe: Probe) -> str:
        if probe.http is not None:
            return await self._get(await self._address(), one.ports[probe.http.port], probe.http.path)
        assert probe.tcp is not None, "a probe is http, tcp or exec"
        _, writer = await asyncio.open_connection(await self._address(), one.ports[probe.tcp.port])
        writer.close()
        with suppress(OSError):  # a peer that accepts and closes at once has accepted
            await writer.wait_closed()
        return ""

    async def _address(self) -> str:
        """Return the node's address as a number. A thread looks up a name, since heartbeats need the loop."""
        with suppress(ValueError):
            return str(ip_address(self._host))
        found = await self._calls.ask(
            f"looking up {self._host}", LOOKUP_MS, lambda: socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        )
        return str(found[0][4][0])

    async def _get(self, address: str, port: int, path: str) -> str:
        if self._session is None:
            # Each attempt has a connection of its own: a probe checks that a new connection is answered.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0))
        url = f"http://{_in_url(address)}:{port}{path}"
        headers = {"Host": f"{_in_url(self._host)}:{port}"}
        async with self._session.get(url, headers=headers, allow_redirects=False) as reply:
            return "" if reply.status in _WELL else f"GET {path} was answered {reply.status}"

    async def close(self) -> None:
        """Close open connections."""
        if self._session is not None:
            await self._session.close()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
