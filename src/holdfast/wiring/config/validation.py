"""Checks of listen addresses, and of settings that contradict one another or break a guarantee of a server. Pure.

Each finding names the error and the remedy. A server with findings does not start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import fields, replace

from holdfast.core.ledger.reconciler import SCHEDULERS_MAX
from holdfast.core.model.values import addresses
from holdfast.core.model.values.quantities import BadQuantity, parse_duration
from holdfast.core.model.values.settings import DEFAULTS, Settings, settings_problems
from holdfast.stores.registry import SCHEMES
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.config.sources import suggestion

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")
#: Ledger settings that are counts; all others are durations.
_COUNTS = ("drift_per_million", "keys_per_actor")
RETENTION_MIN_MS = 60_000
SNAPSHOT_BATCHES_MIN = 100
DEADLINE_MAX_MS = 60_000


def invalid_settings(settings: ServerSettings) -> list[str]:
    """Return why this completed set of settings is rejected; empty if it is valid."""
    return [*_whose(settings), *_where(settings), *_wire(settings), *_numbers(settings), *ledger_settings(settings)[1]]


def ledger_settings(settings: ServerSettings) -> tuple[Settings, list[str]]:
    """Return the ledger settings of a new log, and their errors."""
    known = {field.encode_name: field.name for field in fields(Settings)}
    values: dict[str, Any] = {}
    wrong = []
    for key, text in settings.ledger:
        name = known.get(key)
        if name is None:
            wrong.append(f"ledger: unknown setting {key}{suggestion(key, known)}")
            continue
        try:
            values[name] = int(text) if name in _COUNTS else parse_duration(text)
        except BadQuantity as error:
            wrong.append(f"ledger: {key}: {error}")
        except ValueError:
            wrong.append(f"ledger: {key}: {text!r} is not a count such as 1000")
    found = replace(DEFAULTS, **values)
    return found, [*wrong, *(f"ledger: {why}" for why in settings_problems(found))]


def _whose(s: ServerSettings) -> Iterator[str]:
    if not s.role:
        yield "no role is given; use --role platform, or --role region --region NAME"
    if s.role == "region":
        if not s.region:
            yield "a region's server needs the region's name; use --region NAME"
        if not s.platform:
            yield "a region's server needs a URL of the platform; use --platform URL"
        if not s.token_file:
            yield "a region's server needs a token for the platform; use --token-file FILE"
        if s.bootstrap_file:
            yield "bootstrapFile is for a platform's server: a region receives its principals from there; leave it out"
    if s.role == "platform" and (s.region or s.platform or s.token_file):
        yield "region, platform and tokenFile are for a region's server; use --role region, or leave them out"
    if s.schedulers != 1 and (s.role == "platform" or s.scheduler == "none"):
        yield "schedulers is for a region's server with `scheduler: beside`; leave it out"
    if not 1 <= s.schedulers <= SCHEDULERS_MAX:
        yield f"schedulers is {s.schedulers}, but beside a leader run 1 to {SCHEDULERS_MAX}; run more apart"
    if s.role == "platform" and s.scheduler == "none":
        yield "scheduler is for a region's server: a platform has none; use --role region, or leave it out"
    if s.region and not _NAME.fullmatch(s.region):
        yield f"{s.region!r} is no name for a region; use small letters, digits, - and ."
    if not s.operator.startswith("person/") or not s.operator.removeprefix("person/"):
        yield f"the operator {s.operator!r} is no person; use --operator person/NAME"


def _where(s: ServerSettings) -> Iterator[str]:
    scheme, colon, path = s.store.partition(":")
    if not colon or scheme not in SCHEMES:
        yield f"store {s.store!r} is unknown; use sqlite:PATH or memory:"
    elif scheme == "sqlite" and not path:
        yield "store sqlite: needs a folder; use sqlite:ledger for one in the data folder, or sqlite:/a/path"
    elif scheme == "memory" and path:
        yield f"store memory: takes no path, but has {path!r}; use memory:"
    if parse_listen(s.listen) is None:
        yield f"listen {s.listen!r} is no address and port; use one such as 127.0.0.1:7400"
    for name, url in (
        ("advertise", s.advertise),
        *(("reachedAt", url) for url in s.reached_at),
        *(("platform", url) for url in s.platform),
    ):
        why = addresses.address_problem(url)
        if why:
            yield f"{name} {addresses.without_user(url)} {why}"
    if s.advertise in s.platform:
        yield f"platform {s.advertise} is this server itself; name the platform's servers"


def _wire(s: ServerSettings) -> Iterator[str]:
    if bool(s.tls_certificate) != bool(s.tls_key):
        yield "tlsCertificate and tlsKey are only valid together; set both or none"
    has_tls = bool(s.tls_certificate and s.tls_key)
    if s.tls_require_clients and not (has_tls and s.tls_trust):
        yield "tlsRequireClients needs tlsCertificate, tlsKey and tlsTrust, the authorities of clients"
    if parse_listen(s.listen) is not None and not is_loopback(s.listen) and not has_tls and not s.insecure:
        yield (
            f"listen {s.listen} is reachable from other machines and there is no TLS: tokens travel in the clear; "
            "use --tls-certificate and --tls-key, or --insecure if the network is protected otherwise"
        )
    for url in s.platform:
        if addresses.is_exposed(url) and not s.insecure:
            yield (
                f"platform {url} is remote, without TLS: this region's token would travel in the clear; use https, "
                "or --insecure if the network is protected otherwise"
            )
    if addresses.is_exposed(s.advertise) and not has_tls and not s.insecure:
        yield (
            f"advertise {s.advertise} is remote, without TLS: its clients would send tokens in the clear; use https, "
            "or --insecure if the network is protected otherwise"
        )
    if has_tls and s.advertise.startswith("http:"):
        yield f"advertise {s.advertise} has no TLS, which this server requires; use https"
    if has_tls and s.insecure:
        yield "insecure and TLS exclude each other; leave one out"


def _numbers(s: ServerSettings) -> Iterator[str]:
    least_one = ("body_bytes", "batch_items", "writes_per_second", "writes_burst", "lists_at_a_time", "list_items",
                 "watches", "timeout", "timeout_most", "bootstrap_life")  # fmt: skip
    for field in least_one:
        if getattr(s, field) < 1:
            yield f"{field.replace('_', ' ')} must be above zero: with 0 the server would answer nothing"
    if s.timeout > s.timeout_most:
        yield "timeout is longer than timeoutMost, the longest limit of a request"
    if s.timeout_most > DEADLINE_MAX_MS:
        yield "timeoutMost is longer than a minute: requests of disconnected clients would wait that long"
    if s.writes_burst < s.writes_per_second:
        yield "writesBurst is less than writesPerSecond: the rate could never be reached"
    if s.snapshot_bytes < 1 or s.snapshot_batches < SNAPSHOT_BATCHES_MIN:
        yield (
            f"snapshotBatches is less than {SNAPSHOT_BATCHES_MIN}, or snapshotBytes is 0: one snapshot would "
            "be due before the last is written"
        )
    if s.retention < RETENTION_MIN_MS:
        yield "retention is less than a minute: every slow reader would have to list again"


def parse_listen(listen: str) -> tuple[str, int] | None:
    """Return host and port of `127.0.0.1:7400` or `[::1]:7400`; None for other texts."""
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        return None
    return host, int(port)


def is_loopback(listen: str) -> bool:
    """Whether only this machine can reach the address. A name other than localhost may resolve to any host."""
    found = parse_listen(listen)
    return found is not None and addresses.is_loopback(found[0])
