"""Puts the first documents of a new platform through its API, as an operator would: regions, principals and tokens.

A secret never leaves this machine: the platform receives its hash, and the machine reads the file. Documents that exist
already are left unchanged, so all of it can be repeated at every start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.api.kinds import API_VERSION, apply_order
from holdfast.client.blocking_client import Client
from holdfast.client.config import ClientConfig
from holdfast.core.model.objects.principals import hash_secret, parse_token
from holdfast.transports.blocking_http import BlockingHttpTransport
from holdfast.wiring.config.private_files import new_token, read_or_create_token

Document = dict[str, Any]

#: A machine's token is replaced when less than TOKEN_LEFT of its validity remains.
TOKEN_LIFE, TOKEN_LEFT = timedelta(days=90), timedelta(days=30)
#: Long enough for a platform to restart, and short enough for a Ctrl-C.
PATIENCE_MS = 10_000
_NO_TOKEN: Document = {"spec": {}}


class ApplyRefused(Exception):
    """The platform refused documents; the message names each with the reason."""


class ApplyCounts(Struct, frozen=True):
    """How many documents the platform accepted, by outcome."""

    created: int = 0
    configured: int = 0
    unchanged: int = 0


@contextmanager
def operator(server: str, token: str) -> Iterator[Client]:
    """A client with the operator's token."""
    access = ClientConfig(servers=(server,), token=token, retry_for_ms=PATIENCE_MS, timeout_ms=PATIENCE_MS // 2)
    with closing(BlockingHttpTransport()) as transport:
        yield Client(transport, access)


class RegionEntry(Struct, frozen=True):
    """A region: the address of its servers, and the file with its token."""

    address: str
    token_file: Path


def apply_regions(client: Client, places: Mapping[str, RegionEntry], now: datetime) -> ApplyCounts:
    """Make each region exist with this address and a valid token. Other changes by operators stay."""
    known = {kind: {one["metadata"]["name"]: one for one in client.list(kind).items} for kind in ("regions", "tokens")}
    wanted: list[Document] = []
    for region, place in sorted(places.items()):
        found = known["regions"].get(region) or document("Region", region, {})
        if found["spec"].get("address") != place.address:
            # without a precondition: a region that is joining changes its own object
            marks = {key: found["metadata"][key] for key in ("labels", "annotations") if key in found["metadata"]}
            made = document("Region", region, {**found["spec"], "address": place.address})
            wanted.append({**made, "metadata": {**made["metadata"], **marks}})
        wanted += _speaks(f"region/{region}", f"region-{region}", place.token_file, known["tokens"], now)
    return apply_documents(client, wanted)


class MachineEntry(Struct, frozen=True):
    """An agent or scheduler: principal, region, and token by name and file. Without a region it is any of its kind,
    anywhere."""

    principal: str
    region: str
    token: str
    file: Path


def apply_machines(client: Client, machines: Iterable[MachineEntry], now: datetime) -> ApplyCounts:
    """Make each machine's principal exist, with the token in its file."""
    known = {one["metadata"]["name"]: one for one in client.list("tokens").items}
    wanted = [
        one
        for machine in machines
        for one in _speaks(machine.principal, machine.token, machine.file, known, now, machine.region)
    ]
    return apply_documents(client, wanted)


def _speaks(
    principal: str, token: str, file: Path, known: Mapping[str, Document], now: datetime, region: str = ""
) -> list[Document]:
    """Return the principal, and its token if it is missing or expires soon. A revoked token is replaced."""
    wanted = [document("Principal", principal, {"scope": {"region": region}} if region else {})]
    parts = parse_token(read_or_create_token(token, file))
    assert parts is not None, principal
    if known.get(parts[0], _NO_TOKEN)["spec"].get("revoked"):
        parts = parse_token(new_token(token, file))
        assert parts is not None, principal
    name, secret = parts
    if _lasts(known.get(name), now):
        return wanted
    expires = (now + TOKEN_LIFE).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    spec = {"principal": principal, "hash": hash_secret(secret), "expires": expires}
    return [*wanted, document("Token", name, {**spec, "any": True} if principal.endswith("/*") else spec)]


def apply_documents(client: Client, documents: Iterable[Document]) -> ApplyCounts:
    """Put these documents, in the order of their references. `ApplyRefused` with all refused ones."""
    ordered = sorted(documents, key=lambda one: apply_order(one.get("kind")))
    outcomes = client.batch(ordered)
    wrong = [
        f"{one['kind']} {one['metadata']['name']}: {applied.problem.shown()}"
        for one, applied in zip(ordered, outcomes, strict=True)
        if applied.problem is not None
    ]
    if wrong:
        raise ApplyRefused("\n".join(wrong))
    return _counted([applied.outcome for applied in outcomes])


def document(kind: str, name: str, spec: Document) -> Document:
    """Return a document in the form of a manifest."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _lasts(token: Document | None, now: datetime) -> bool:
    return token is not None and datetime.fromisoformat(token["spec"]["expires"]) - now > TOKEN_LEFT


def _counted(outcomes: Sequence[str]) -> ApplyCounts:
    return ApplyCounts(**{name: outcomes.count(name) for name in ("created", "configured", "unchanged")})
