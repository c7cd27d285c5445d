"""A scheduler in a process of its own, from what it is told to its exit code.

| exit code | |
|---|---|
| 0 | it was asked to stop, by SIGTERM or SIGINT |
| 1 | it could not start: the message names what, and what to do next |
| 3 | it cannot read what the region writes: a newer version is needed |
| 4 | another scheduler has its name: it must not be started again as long as that one runs |
"""

from __future__ import annotations

import asyncio
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from enum import IntEnum
from pathlib import Path

from msgspec import Struct

from holdfast.api.carriers.connection import Limits
from holdfast.api.carriers.http import HttpTransport
from holdfast.api.carriers.tls import Tls
from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.host import collector
from holdfast.host.clock import Clock, SystemClock
from holdfast.host.exports import exporting
from holdfast.host.journal import Journal
from holdfast.host.meters import Meters
from holdfast.host.mirror.mirror import Mirror
from holdfast.host.scheduling_apart import SchedulerApart, Superseded
from holdfast.host.transport import Pairs, Transport
from holdfast.host.voice import Sender, Voice
from holdfast.host.waiting import together
from holdfast.wiring import logs
from holdfast.wiring.contradictions import address, is_loopback, is_near, unreachable
from holdfast.wiring.credentials import Credentials, NoToken
from holdfast.wiring.pieces import CannotStart
from holdfast.wiring.plugins import plugins

#: Where its numbers might be told, on this machine.
LISTEN = "127.0.0.1:7480"
#: Whoever collects numbers has little to say, and says it soon.
EXPORT_LIMITS = Limits(body_bytes=0, head_bytes=8 << 10, request_ms=5_000, idle_ms=75_000, drain_ms=500)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")


class SchedulerWish(Struct, frozen=True):
    """What a scheduler is told: where its region's servers are, its name, and what proves who it is."""

    servers: tuple[str, ...]
    name: str
    token_file: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_trust: str = ""
    insecure: bool = False
    log_level: str = "info"
    log_form: str = "text"
    #: Where it tells its numbers; empty: nowhere.
    listen: str = ""

    @property
    def actor(self) -> str:
        """The principal that it speaks as."""
        return f"scheduler/{self.name}"


class Ending(IntEnum):
    """How a scheduler's process ends."""

    ASKED = 0
    CANNOT_START = 1
    STOPPED = 3
    SUPERSEDED = 4


def wrong(wish: SchedulerWish) -> Iterator[str]:
    """Why it cannot be meant so, each with the way out."""
    if not wish.servers:
        yield "no server is named; say --server URL, of a server of the region"
    for url in wish.servers:
        why = unreachable(url)
        if why:
            yield f"server {url} {why}"
        elif url.startswith("http:") and not is_near(url) and not wish.insecure:
            yield f"server {url} is elsewhere and plain: the token would travel in the clear; say https, or --insecure"
    if not _NAME.fullmatch(wish.name):
        yield f"{wish.name!r} is no name for a scheduler; use small letters, digits, - and ."
    if not wish.token_file and not wish.tls_certificate:
        yield f"nothing shows that this is {wish.actor}; say --token-file FILE, or --tls-certificate and --tls-key"
    if bool(wish.tls_certificate) != bool(wish.tls_key):
        yield "--tls-certificate and --tls-key are only good together; say both or none"
    if wish.listen and address(wish.listen) is None:
        yield f"listen {wish.listen!r} is no address and port; say {LISTEN}"
    elif wish.listen and not is_loopback(wish.listen) and not _is_guarded(wish) and not wish.insecure:
        yield (
            f"listen {wish.listen} can be reached from elsewhere, and whoever asks is told; say --tls-certificate, "
            "--tls-key and --tls-trust, so that only those with a certificate are, or --insecure"
        )


def _is_guarded(wish: SchedulerWish) -> bool:
    """Whether those who collect numbers can be asked for a certificate."""
    return bool(wish.tls_certificate and wish.tls_key and wish.tls_trust)


def run(wish: SchedulerWish) -> int:
    """Run a scheduler until it is asked to stop or has to; its exit code. Of a wish with nothing wrong."""
    logs.set_up(wish.log_level, wish.log_form)
    return int(asyncio.run(_until_signalled(wish)))


async def _until_signalled(wish: SchedulerWish) -> Ending:
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    collector.no_full_passes()
    return await schedule(wish, SystemClock(), asked)


async def schedule(wish: SchedulerWish, clock: Clock, asked: asyncio.Event) -> Ending:
    """Run a scheduler within this loop until `asked` to stop."""
    transport, meters = HttpTransport(clock, tls=_tls(wish)), Meters()
    journal = Journal("scheduler", actor=wish.actor)
    try:
        credentials = _credentials(wish)
        await _start(transport)
        async with _exports(wish, clock, meters):
            await together(_scheduler(wish, transport, clock, credentials, meters).run(), _until(asked))
    except CannotStart as error:
        _say(f"cannot start: {error}")
        return Ending.CANNOT_START
    except Superseded as error:
        _say(f"stopped: {error}\nhint: a name is for one scheduler; say another --name, or stop the other one first")
        return Ending.SUPERSEDED
    except UpgradeNeeded as error:
        _say(f"stopped: {error}\nhint: start a newer version")
        return Ending.STOPPED
    finally:
        await transport.close()
    journal.info("stopping", why="asked to")
    return Ending.ASKED


def _scheduler(
    wish: SchedulerWish, transport: Transport, clock: Clock, credentials: Callable[[], Pairs], meters: Meters
) -> SchedulerApart:
    journal = Journal("scheduler", actor=wish.actor)
    voice = Voice(transport, clock, Sender(wish.actor, wish.servers, credentials), clock.boot)
    return SchedulerApart(voice, Mirror(voice, transport, clock, meters), plugins(journal), clock, meters)


@asynccontextmanager
async def _exports(wish: SchedulerWish, clock: Clock, meters: Meters) -> AsyncIterator[None]:
    """Tell its numbers meanwhile, if it is said where: on this machine to all, else to those with a certificate."""
    if not wish.listen:
        yield
        return
    guarded = _is_guarded(wish) and not is_loopback(wish.listen)
    tls = Tls(wish.tls_certificate, wish.tls_key, wish.tls_trust, require_client=True) if guarded else None
    exports = HttpTransport(clock, listen=wish.listen, tls=tls, limits=EXPORT_LIMITS)
    exports.serve(exporting(meters))
    try:
        await exports.start()
    except OSError as error:  # of certificates nobody gets here: with the same ones it asks
        hint = "hint: another process has it, or it is no address of this machine; say --listen ADDRESS:PORT"
        raise CannotStart(f"listening on {wish.listen}: {error.strerror or error}\n{hint}") from error
    try:
        yield
    finally:
        await exports.close()


async def _start(transport: HttpTransport) -> None:
    try:
        await transport.start()
    except (ssl.SSLError, OSError) as error:
        raise CannotStart(f"the certificates are not good: {error}") from error


async def _until(asked: asyncio.Event) -> None:
    await asked.wait()


def _credentials(wish: SchedulerWish) -> Callable[[], Pairs]:
    if not wish.token_file:
        return tuple
    try:
        return Credentials(Path(wish.token_file).expanduser()).speaking_as(wish.actor)
    except NoToken as error:
        hint = f"hint: `holdfast token create --principal {wish.actor} --ttl 90d`, into that file, with mode 0600"
        raise CannotStart(f"{error}\n{hint}") from error


def _tls(wish: SchedulerWish) -> Tls | None:
    if not wish.tls_certificate and not wish.tls_trust:
        return None
    return Tls(wish.tls_certificate, wish.tls_key, wish.tls_trust)


def _say(text: str) -> None:
    print(f"holdfast scheduler: {logs.blotted(text)}", file=sys.stderr, flush=True)
