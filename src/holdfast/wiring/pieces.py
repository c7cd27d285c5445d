"""What a server is put together from, each made from its settings; and what keeps it from starting."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.api.carriers.connection import Limits as CarrierLimits
from holdfast.api.carriers.connections import Most
from holdfast.api.carriers.http import HttpTransport
from holdfast.api.carriers.tls import Tls
from holdfast.api.server import Limits
from holdfast.host.clock import Clock
from holdfast.host.store import Store, StoreCorrupt, StoreError
from holdfast.wiring.credentials import Credentials, NoToken
from holdfast.wiring.files import allow_many_files
from holdfast.wiring.opening import ledger_in, open_store
from holdfast.wiring.private import make_folder
from holdfast.wiring.settings import ServerSettings

#: Files that a server opens for itself, with its connections to others.
OWN_FILES = 512
#: What a request has around its body: the carrier bears that much more than the API takes.
AROUND_BYTES = 64 << 10


class CannotStart(Exception):
    """What keeps the server from starting, and what to do next."""


def ledger_name(settings: ServerSettings) -> str:
    """Whose ledger it is, as its log says it."""
    return "platform" if settings.role == "platform" else f"region/{settings.region}"


def data_folder(settings: ServerSettings) -> Path:
    """The server's folder."""
    data = Path(settings.data)
    try:
        make_folder(data)
    except OSError as error:
        raise CannotStart(f"the data folder {data}: {error.strerror}\nhint: say --data FOLDER") from error
    return data


def transport(settings: ServerSettings, clock: Clock) -> HttpTransport:
    """The way to others, not started."""
    most = Most(
        min(settings.connections, max(OWN_FILES, allow_many_files() - OWN_FILES)),
        settings.caller_connections,
        settings.stranger_connections,
    )
    limits = CarrierLimits(body_bytes=settings.body_bytes + AROUND_BYTES, most=most)
    return HttpTransport(clock, listen=settings.listen, tls=_tls(settings), limits=limits, insecure=settings.insecure)


def limits(settings: ServerSettings) -> Limits:
    """What the API may take on."""
    return Limits(
        body_bytes=settings.body_bytes,
        batch_items=settings.batch_items,
        writes_per_second=settings.writes_per_second,
        writes_burst=settings.writes_burst,
        lists_at_a_time=settings.lists_at_a_time,
        list_items=settings.list_items,
        watches=settings.watches,
        timeout_ms=settings.timeout,
        timeout_most_ms=settings.timeout_most,
    )


async def opened(settings: ServerSettings) -> Store:
    """The server's store, and its folder without the ready file of an earlier life: nobody else has the store open."""
    data = data_folder(settings)
    try:
        store = await open_store(settings.store, data)
        (data / "ready.json").unlink(missing_ok=True)
        return store
    except StoreCorrupt:
        raise
    except StoreError as error:
        raise CannotStart(str(error)) from error


async def must_be_ours(settings: ServerSettings, store: Store) -> None:
    """`CannotStart` when the store holds the log of another ledger."""
    try:
        found, ours = await ledger_in(store), ledger_name(settings)
    except StoreCorrupt:
        raise
    except StoreError as error:
        raise CannotStart(str(error)) from error
    if found and found != ours:
        hint = "hint: name the store of this ledger with --data or --store, or start this server as that one"
        raise CannotStart(f"{store.name} holds the log of {found}, and this server is set up for {ours}\n{hint}")


def credentials(settings: ServerSettings) -> Credentials:
    """What a region shows to its platform."""
    try:
        return Credentials(Path(settings.token_file))
    except NoToken as error:
        made = f"`holdfast token create --principal region/{settings.region} --ttl 90d`"
        hint = f"hint: {made}, into that file, with mode 0600"
        raise CannotStart(f"{error}\n{hint}") from error


def _tls(settings: ServerSettings) -> Tls | None:
    if not settings.tls_certificate and not settings.tls_trust:
        return None
    for path in (settings.tls_certificate, settings.tls_key, settings.tls_trust):
        if path and not os.access(path, os.R_OK):
            raise CannotStart(f"{path} cannot be read\nhint: `holdfast server --show-settings` shows who named it")
    return Tls(settings.tls_certificate, settings.tls_key, settings.tls_trust, settings.tls_require_clients)
