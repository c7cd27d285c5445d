"""Who is answered what: every kind, verb, route and command, asked by every sort of principal of servers that run.

    world with two tenants ──▶ each request, by each principal, at each place ──▶ yes or no ──▶ docs/reference/access.md

A place is a server that leads a ledger, one that follows and hands on, or the platform on the way to a region.
`make reference` writes the page, and a test asks again: whoever loosens a right changes what is answered.
"""

from __future__ import annotations

import asyncio
import enum
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace

from holdfast.api.kinds import KINDS, ResourceKind
from holdfast.api.resources.schemas import tag_of
from holdfast.api.server.routes import Route
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import Permission, format_token
from holdfast.core.model.objects.topology import Region, RegionSpec, RegionStatus
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.host.ports.transport import StreamReply
from holdfast.stores.memory import MemoryStore
from tests.architecture.checkout import ROOT
from tests.support.api.api_cluster import OPERATOR, Part, World, in_world
from tests.support.api.two_tenants import MARK, two_tenants
from tests.support.ledgers.deciding_region import DecidingRegion
from tests.support.ledgers.region import a_principal, an_assignment

PAGE = ROOT / "docs" / "reference" / "access.md"

#: Who asks: the name of the column, the token and the actor. `tenant` is shop, whose objects are asked for.
ASKERS = (
    ("tenant", "tenant-a", "tenant/shop"),
    ("other tenant", f"tenant-{MARK}", f"tenant/{MARK}"),
    ("reader", "reader", "person/reader"),
    ("operator", "operator", OPERATOR),
    ("agent", "agents", "agent/n1"),
    ("scheduler", "schedulers", "scheduler/main"),
    ("region", "regions", "region/eu"),
    ("server", "", "platform/p1"),
    ("nobody", "", ""),
)
COLUMNS = tuple(name for name, _, _ in ASKERS)
YES, NO = "yes", "-"


class Place(NamedTuple):
    """Where they are asked: the server, what goes before the path, and the ledger that is meant."""

    name: str
    server: str
    before: str
    ledger: str


PLACES = (
    Place("platform", "p1", "", "platform"),
    Place("region", "r-eu", "", "region"),
    Place("through", "p1", "/in/eu", "region"),
    Place("a follower of the platform", "p2", "", "platform"),
    Place("a follower of the region", "r-eu-2", "", "region"),
)
#: By place: the one where the same is decided, and is compared with.
FOLLOWED = {"a follower of the platform": "platform", "a follower of the region": "region"}
_DENIED = (401, 403, 404)
#: Streams that a leader alone sends, and whose reader looks for it: a follower knows who asks, and sends them on.
BY_LEADERS = ("shipments", "log", "bindings")
#: By kind: the name of the object that is asked for, which is shop's where the kind is a tenant's.
NAMES = {
    "tenants": "shop", "quotas": "shop", "principals": "person/other",
    "tokens": "other", "regions": "eu", "nodepools": "general", "recoverybudgets": "both", "workloads": "shop/web",
    "assignments": "shop/web/eu/serving", "grants": "eu/quota/shop", "policies": "common", "nodes": "n1",
    "replicas": "shop/web/eu/0", "endpoints": "shop/web/eu/0",
}  # fmt: skip

_PRINCIPALS: tuple[tuple[str, tuple[Permission, ...]], ...] = (
    ("tenant/shop", (Permission.READ, Permission.WRITE)),
    (f"tenant/{MARK}", (Permission.READ, Permission.WRITE)),
    ("person/reader", (Permission.READ,)),
    ("person/other", (Permission.READ,)),
    ("agent/*", ()),
    ("scheduler/*", ()),
    ("region/eu", ()),
)
_TOKENS = (
    ("tenant-a", "tenant/shop"), (f"tenant-{MARK}", f"tenant/{MARK}"), ("reader", "person/reader"),
    ("other", "person/other"), ("agents", "agent/*"), ("schedulers", "scheduler/*"), ("regions", "region/eu"),
)  # fmt: skip

Cell = tuple[str, str, str]  # where, what, who
Table = dict[Cell, str]


async def _prepared(world: World) -> tuple[Part, Part]:
    """The two tenants, with a token for everybody who asks, on both ledgers, and a follower of each."""
    stores = MemoryStore("p1"), MemoryStore("r-eu")
    platform, region = await two_tenants(world, *stores)
    await world.until(platform.is_known)
    rights_of = dict(_PRINCIPALS)
    for token, name in _TOKENS:
        if name == f"tenant/{MARK}":
            continue  # it is there already
        await world.principal(platform, name, *rights_of[name], token=token)
    principals = [a_principal(name, *rights) for name, rights in _PRINCIPALS if not name.endswith("*")]
    deciding = DecidingRegion(region, world.clock.wall)
    tokens = [world._token(*one) for one in _TOKENS if not one[1].endswith("*")]
    await deciding.ship(*map(c.ShippedPrincipal, principals), *map(c.ShippedToken, tokens))
    await platform.submit("region/eu", OpenSession())
    workload = platform.state.workload_names["shop/web"]
    platform.state.assignments.put(901, an_assignment(901, workload, tenant="shop", workload_name="web"))
    now, node = world.clock.wall(), region.state.node_names["n2"]
    hold = c.Hold(ReservationPurpose.ROOM, node, "quota/shop", now + 60_000, Resources(cpu=10), tenant="shop")
    await region.submit(OPERATOR, hold, key="hold-for-shop")
    slot = next(one for one in region.state.slots.values() if one.ordinal == 0 and one.workload == 1)
    region.state.slots.put((1, 0), replace(slot, phase=Phase.SERVING, ports=(30_000,)))
    region.state.nodes.put(slot.node, replace(region.state.nodes[slot.node], address="10.0.0.1"))
    old = platform.state.regions["eu"]
    spec, status = RegionSpec(jurisdiction="eu", address="r-eu"), RegionStatus(since=1, heard_at=world.clock.wall())
    platform.state.regions.put("eu", Region(meta=old.meta, spec=spec, status=status))
    starts = StartLog("log-platform", "platform", OPERATOR), StartLog("log-eu", "region/eu", OPERATOR)
    for leader, name, store, start in zip((platform, region), ("p2", "r-eu-2"), stores, starts, strict=True):
        await _followed(world, leader, name, store, start)
    await deciding.ship(*map(c.ShippedServer, await world.platform_servers()))
    return platform, region


async def _followed(world: World, leader: Part, name: str, store: MemoryStore, start: StartLog) -> None:
    """A follower that has all that its leader has: what is not in the log, too."""
    follower = world.part(name, leader.ledger.definition, store, start)
    await follower.start().follows()
    await world.until(lambda: follower.is_known() and follower.state.info.seq == leader.state.info.seq)
    for spec in leader.state.TABLES:
        mine, theirs = leader.state.table(spec.name), follower.state.table(spec.name)
        for key, row in list(mine.unordered()):
            theirs.put(key, row)


def _as(world: World, actor: str) -> dict[str, str]:
    """What is said besides a token. A server has one of its own, which proves nothing where it is only shown."""
    kind = actor.partition("/")[0]
    if kind == "platform":
        own = next(part for part in world.parts if part.name == "p1").token.current()
        assert own is not None, "the platform's server has its token by now"
        return {"authorization": f"Bearer {format_token(own.name, own.secret)}"}
    return {"holdfast_actor": actor} if kind in ("agent", "scheduler") else {}


async def _object_of(world: World, kind: ResourceKind, where: Place) -> tuple[str, Any]:
    """An object of the kind there, which is shop's where it can be: its name, and as an operator sees it."""
    to, before = where.server, where.before
    if kind.plural in NAMES:
        found = await world.ask("GET", f"/v1{before}/{kind.plural}/{NAMES[kind.plural]}", to=to)
        assert found.status == 200, (where, kind.plural, found)
        return NAMES[kind.plural], found.json
    items = (await world.ask("GET", f"/v1{before}/{kind.plural}", to=to)).json["items"]
    assert items, f"{kind.plural} on {where.name}: of what there is none, nothing is shown here"
    one = next((one for one in items if _is_of_shop(one)), None) or next(one for one in items if _is_of_nobody(one))
    metadata = one["metadata"]
    return f"{metadata['tenant']}/{metadata['name']}" if kind.tenanted else metadata["name"], one


def _is_of_shop(one: Any) -> bool:
    return "shop" in (one["metadata"].get("tenant"), one["spec"].get("target"), one["spec"].get("tenant"))


def _is_of_nobody(one: Any) -> bool:
    return MARK not in str(one["spec"].get("facts", ""))


async def kinds(world: World, parts: dict[str, Part]) -> Table:
    """Every kind and verb."""
    table: Table = {}
    for where in PLACES:
        place, to, before, ledger = where
        for kind in [kind for kind in KINDS.values() if ledger in kind.ledger]:
            name, whole = await _object_of(world, kind, where)
            path, uid = f"/v1{before}/{kind.plural}", whole["metadata"]["name"]
            for column, token, actor in ASKERS:
                said = {"to": to, "token": token, **_as(world, actor)}

                async def holds(query: str, said: dict[str, Any] = said, path: str = path, uid: str = uid) -> str:
                    found = await world.ask("GET", f"{path}{query}", **said)
                    return _yes(found.status == 200 and f'"name":"{uid}"'.encode() in found.body)

                one = await world.ask("GET", f"{path}/{name}", **said)
                cells = {"list": await holds(""), "get": _yes(one.status == 200)}
                cells["watch"] = await _watched(world, f"{path}?watch=true&initial=true", uid, said)
                if ledger in kind.written_on:
                    cells["put"] = _yes(
                        (await world.ask("PUT", f"{path}/{name}?dryRun=All", whole, **said)).status not in _DENIED
                    )
                    if kind.deletable:
                        gone = await world.ask("DELETE", f"{path}/{name}?dryRun=All", **said)
                        cells["delete"] = _yes(gone.status not in _DENIED)
                for verb, cell in cells.items():
                    table[place, f"{verb} {kind.plural}", column] = cell
    return table


async def _watched(world: World, path: str, uid: str, said: dict[str, Any]) -> str:
    """Whether a watch begins, and with the object."""
    headers = {name: value for name, value in said.items() if name not in ("to", "token")}
    request = world.request("GET", path, token=said["token"], **headers)
    source: Any = world.caller.stream(said["to"], request, 2_000)
    found = b""
    try:
        while b"BOOKMARK" not in found:
            async with asyncio.timeout(2):
                found += await anext(source)
    except Exception:
        return NO  # refused, ended or silent: whoever asks is shown nothing
    finally:
        await source.aclose()
    return _yes(f'"name":"{uid}"'.encode() in found)


def _yes(found: bool) -> str:
    return YES if found else NO


async def routes(world: World, parts: dict[str, Part]) -> Table:
    """Every route that is of no kind: whether who asks gets past the question of who that is, and of its right."""
    table: Table = {}
    for where in PLACES:
        plain = {path: verbs for path, verbs in parts[where.ledger].api.routes.items() if path[-1] not in KINDS}
        for path, verbs in plain.items():
            if where.before and path[0] != "v1":
                continue  # what is not of the API is asked of a server, and of nobody through another
            for verb, route in sorted(verbs.items()):
                whole = "/".join(("", *path, *_rest(path, route))).replace("/v1", f"/v1{where.before}", 1)
                body: Any = {} if verb != "GET" else None
                for column, token, actor in ASKERS:
                    status = await _status(world, verb, whole, body, where.server, token, actor)
                    is_turned_away = status == 503 and where.name in FOLLOWED and path[-1] in BY_LEADERS
                    assert status < 500 or is_turned_away, (where, verb, whole, column, status)
                    table[where.name, f"{verb} /{'/'.join(path)}", column] = _yes(status not in (401, 403))
    return table


def _rest(path: tuple[str, ...], route: Route) -> tuple[str, ...]:
    if path[-1] == "in":
        return ("eu", "whoami")
    return ("end-override",) if path[-1] == "commands" else ("shop",) * route.least


async def _status(world: World, verb: str, path: str, body: Any, to: str, token: str, actor: str) -> int:
    part = next(one for one in world.parts if one.name == to)
    found = await part.api.serve(world.request(verb, path, body, token=token, **_as(world, actor)))
    if isinstance(found, StreamReply):
        await found.messages.aclose()  # type: ignore[attr-defined]
        return 200
    return found.status


async def commands(world: World, parts: dict[str, Part]) -> Table:
    """Every command of both ledgers, in an envelope: whether its sender may send it at all."""
    table: Table = {}
    for where in PLACES:
        for rule in parts[where.ledger].ledger.definition.rules.values():
            tag, command = tag_of(rule.command), example(rule.command)
            for column, token, actor in ASKERS:
                world.keys += 1
                is_person = actor.partition("/")[0] in ("person", "tenant")
                key = f"command-{world.keys}" if is_person else ""
                sent: Envelope[Any] = Envelope(actor or OPERATOR, command, world.clock.wall(), key=key)
                path, said = f"/v1{where.before}/envelopes", _as(world, actor)
                answer = await world.ask("POST", path, encode(sent), to=where.server, token=token, **said)
                assert answer.status < 500, (where, tag, column, answer)
                is_denied = answer.status == 401 or b'"no-right"' in answer.body
                table[where.name, tag, column] = _yes(not is_denied)
    return table


def example(declared: Any) -> Any:
    """Some value of a type: what a handler says of it does not matter here."""
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        fields = msgspec.structs.fields(declared)
        return declared(**{one.name: example(one.type) for one in fields if one.required})
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return next(iter(declared))
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return None if type(None) in inner else example(inner[0])
    if origin is tuple:
        return () if inner[-1] is ... else tuple(example(one) for one in inner)
    if origin is not None and inner:
        return example(inner[0])
    return {str: "x", int: 1, bool: False, bytes: b""}[declared]


async def rights(world: World, parts: dict[str, Part]) -> Table:
    """Which one right a person needs for each command."""
    table: Table = {}
    for right in Permission:
        await world.principal(parts["platform"], f"person/{right.value}", right, token=f"only-{right.value}")
        principal = a_principal(f"person/{right.value}", right)
        token = world._token(f"only-{right.value}", f"person/{right.value}")
        await DecidingRegion(parts["region"], world.clock.wall).ship(
            c.ShippedPrincipal(principal), c.ShippedToken(token)
        )
    await world.until(
        lambda: len({part.state.info.seq for part in world.parts if part.ledger.definition is PLATFORM}) == 1
    )
    await world.until(
        lambda: len({part.state.info.seq for part in world.parts if part.ledger.definition is REGION}) == 1
    )
    for where in PLACES:
        for rule in parts[where.ledger].ledger.definition.rules.values():
            for right in Permission:
                world.keys += 1
                actor = f"person/{right.value}"
                sent: Envelope[Any] = Envelope(actor, example(rule.command), world.clock.wall(), key=f"r-{world.keys}")
                raw, token_name = encode(sent), f"only-{right.value}"
                path = f"/v1{where.before}/envelopes"
                answer = await world.ask("POST", path, raw, to=where.server, token=token_name)
                assert answer.status < 500, (where, rule.command, right, answer)
                table[where.name, tag_of(rule.command), right.value] = _yes(b'"no-right"' not in answer.body)
    return table


Asking = Callable[[World, dict[str, Part]], Any]


def asked(*parts_of_it: Asking) -> Table:
    """What servers answer."""

    async def story(world: World) -> Table:
        platform, region = await _prepared(world)
        parts = {"platform": platform, "region": region}
        table: Table = {}
        for one in parts_of_it:
            table |= await one(world, parts)
        return table

    return in_world(story)


def unlike(table: Table, place: str, other: str) -> set[tuple[str, str]]:
    """What is answered to whom otherwise in one place than in another."""
    found = {(what, who): cell for (where, what, who), cell in table.items() if where == place}
    return {(what, who) for (what, who), cell in found.items() if cell != table[other, what, who]}


def _section(title: str, said: str, table: Table, place: str, columns: Iterable[str]) -> list[str]:
    names = tuple(columns)
    rows = list(dict.fromkeys(what for where, what, _ in table if where == place))
    lines = [f"## {title}", "", said, "", "| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {row} | " + " | ".join(table.get((place, row, name), NO) for name in names) + " |" for row in rows]
    return [*lines, ""]


PLACE_TITLES = {
    "platform": "Kinds on the platform",
    "region": "Kinds in a region",
    "through": "Kinds in a region, through the platform",
}
WHOSE = {"platform": "the platform", "region": "the region", "through": "the region, through the platform"}
OF_KINDS = "Whether a tenant's object, or one without a tenant, is shown, or may be written."


HEAD = """# Access

Generated by `make reference` from the answers of running servers; a test sends every request again.

- `tenant`: the tenant of the object, with the rights to read and write; `other tenant`: another one
- `reader`: a person with the right to read alone; `operator`: a person with all rights
- `server`: a server of the platform with its own token, which acts for others by signing and has no rights of its own
- `nobody`: a request without credentials
- `through the platform`: `/v1/in/REGION/...`

A tenant's view of an object without a tenant omits what belongs to other tenants. A follower answers what it can, and
forwards the rest to its leader.
"""


class Tables(NamedTuple):
    """Everything that is asked."""

    kinds: Table
    routes: Table
    commands: Table
    rights: Table


def tables() -> Tables:
    """All of them, each from a world of its own."""
    return Tables(asked(kinds), asked(routes), asked(commands), asked(rights))


def page(found: Tables) -> str:
    """The whole document."""
    lines = [HEAD]
    for place, title in PLACE_TITLES.items():
        lines += _section(title, OF_KINDS, found.kinds, place, COLUMNS)
    for place, whose in WHOSE.items():
        said = "Whether the request passes authentication and authorization."
        lines += _section(f"Routes of {whose}", said, found.routes, place, COLUMNS)
    for place, whose in WHOSE.items():
        said = "Whether the command may be sent at all; its target is checked afterwards."
        lines += _section(f"Commands of {whose}", said, found.commands, place, COLUMNS)
    for place, whose in WHOSE.items():
        said = "Whether a person with this right alone may send the command."
        lines += _section(f"Rights to commands of {whose}", said, found.rights, place, map(str, Permission))
    for place, leader in FOLLOWED.items():
        cells = {(what, who) for table in found for where, what, who in table if where == place}
        odd = sorted({what for table in found for what, who in unlike(table, place, leader)})
        said = f"The same {len(cells)} requests were sent. "
        said += f"Answers differ from those of the leader of the {leader}: {', '.join(odd)}." if odd else ""
        said += "" if odd else f"All answers equal those of the leader of the {leader}."
        lines += [f"## At {place}", "", said, ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(tables()), encoding="utf-8")
