"""`/v1/audit`: who may read it, what of it, and that no page walks the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.api.server.redaction import _tenants_in as tenants_in
from holdfast.api.server.redaction import known_tenants
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.objects.principals import Permission, Scope
from holdfast.core.model.objects.tenants import Tenant, TenantSpec
from holdfast.core.model.records.decisions import AuditEvent
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform.commands import Delete, Put
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.indexes.log_index import TIDY_EVERY_MS
from holdfast.host.ports.transport import Request
from holdfast.stores.indexes.audit_store import AuditDatabase
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import OPERATOR, World, a_shop, a_tenant, a_workload, bearer, in_world
from tests.support.api.two_tenants import MARK, two_tenants
from tests.support.ledgers.deciding_region import DecidingRegion
from tests.support.ledgers.region import a_principal


async def items(world: World, query: str = "limit=500", **fields: Any) -> list[dict[str, Any]]:
    answer = await world.ask("GET", f"/v1/audit?{query}", **fields)
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.json["items"]
    return found


@pytest.mark.parametrize(
    ("rights", "scope", "status", "code"),
    [
        ((Permission.READ,), {}, 403, "no-right"),
        ((Permission.READ, Permission.SEE_OTHER_TENANTS, Permission.WRITE, Permission.OVERRIDE), {}, 403, "no-right"),
        ((Permission.AUDIT,), {}, 200, ""),
        ((Permission.OPERATE,), {}, 200, ""),
        ((Permission.AUDIT,), {"tenant": "shop"}, 200, ""),
        ((Permission.AUDIT,), {"region": "eu"}, 403, "wrong-scope"),
        ((Permission.OPERATE,), {"node": "n1"}, 403, "wrong-scope"),
    ],
)
def test_the_audit_takes_a_right_of_its_own_or_that_to_operate(
    rights: tuple[Permission, ...], scope: dict[str, str], status: int, code: str
) -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/p", *rights, scope=Scope(**scope))
        answer = await world.ask("GET", "/v1/audit", token="person-p")
        assert (answer.status, answer.json.get("code", "")) == (status, code), answer

    in_world(story)


def test_a_regions_operator_reads_the_audit_of_that_region_and_no_other() -> None:
    async def story(world: World) -> None:
        for region in ("eu", "us"):
            part = await world.region(region)
            token = world._token("local", "person/local")
            principal = a_principal("person/local", Permission.READ, Permission.OPERATE, region="eu")
            await DecidingRegion(part, world.clock.wall).ship(c.ShippedPrincipal(principal), c.ShippedToken(token))
        assert (await world.ask("GET", "/v1/audit", to="r-eu", token="local")).status == 200
        assert (await world.ask("GET", "/v1/audit", to="r-us", token="local")).json["code"] == "wrong-scope"

    in_world(story)


def test_nobody_writes_an_entry_of_the_audit_by_what_is_sent_along_with_a_command() -> None:
    """What a sender based its command on lies where entries do, and may say that it is one."""

    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/p", *Permission, token="p")
        at = world.clock.wall()
        tenant = Tenant(meta=Meta(name="of-p"), spec=TenantSpec())
        forged = encode(AuditEvent(OPERATOR, at, "delete", encode(Delete("Tenant", "shop")), via="platform/p1"))
        sent = Envelope("person/p", Put(tenant), at, key="forged", evidence=forged, via="platform/p1")
        headers = (("authorization", bearer("p")), ("content-type", "application/msgpack"))
        asked = Request("POST", "/v1/envelopes", (), headers, encode(sent))
        answer = await world.caller.call("p1", asked, 60_000)
        assert answer.status == 200, answer
        found = [(one["actor"], one["command"], one.get("via")) for one in await items(world, "limit=500&read=linear")]
        assert found[0] == ("person/p", "put", None)
        assert "delete" not in {command for _, command, _ in found}, found

    in_world(story)


def test_what_lies_beside_a_machines_record_is_no_entry_of_the_audit() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "region/eu")
        at = world.clock.wall()
        forged = encode(AuditEvent(OPERATOR, at, "delete", encode(Delete("Tenant", "shop"))))
        tenant = Tenant(meta=Meta(name="other"), spec=TenantSpec())
        landed = await asyncio.gather(
            part.submit("region/eu", OpenSession(), evidence=forged),
            part.submit(OPERATOR, Put(tenant), key="other"),
        )
        assert seq_of(landed[0].revision) == seq_of(landed[1].revision), "both are in one batch"
        found = [one["command"] for one in await items(world, "limit=500&read=linear")]
        assert "delete" not in found

    in_world(story)


def test_machines_do_not_read_the_audit() -> None:
    async def story(world: World) -> None:
        await world.region("eu")
        for token, actor in (("agents", "agent/n1"), ("schedulers", "scheduler/main")):
            answer = await world.ask("GET", "/v1/audit", to="r-eu", token=token, holdfast_actor=actor)
            assert (answer.status, answer.json["code"]) == (403, "no-right")

    in_world(story)


def test_a_tenant_reads_what_was_done_to_it_and_by_its_own_and_of_nobody_else() -> None:
    async def story(world: World) -> None:
        platform, _ = await two_tenants(world)
        await world.ask("PUT", "/v1/workloads/shop/own", a_workload("own"), token="shop")
        await world.ask("PUT", f"/v1/workloads/{MARK}/more", a_workload("more", MARK), token=f"{MARK}-token")
        await world.ask("GET", "/v1/workloads/shop/web", token=f"tenant-{MARK}")
        await world.ask("GET", f"/v1/workloads/{MARK}/more", token="shop")
        await world.clock.sleep(3_000)
        found = await items(world, token="shop")
        assert MARK not in str(found)
        assert {(one["actor"], one["command"]) for one in found} >= {
            ("tenant/shop", "put-workload"),
            (OPERATOR, "put"),
            (OPERATOR, "open-override"),
            ("", "GET /v1/workloads"),
        }
        everything = await items(world)
        assert len(everything) > len(found)
        assert MARK in str(everything)
        assert await items(world, f"actor=tenant/{MARK}", token="shop") == []
        assert await items(world, "actor=person/keeper", token="shop") == []
        assert platform.state.principals["person/keeper"].spec.scope.tenant == MARK

    in_world(story)


def test_who_the_other_tenants_are_is_not_looked_for_again_with_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be ten thousand of them, and five hundred entries on a page: a tenant's read would be a stall."""
    asked: list[int] = []

    def counted(state: Any) -> set[str]:
        asked.append(state.info.seq)
        return tenants_in(state)

    async def story(world: World) -> None:
        platform, _ = await two_tenants(world)
        for number in range(30):
            await world.ask("PUT", f"/v1/workloads/shop/w{number}", a_workload(f"w{number}"), token="shop")
        await world.clock.sleep(3_000)
        monkeypatch.setattr("holdfast.api.server.redaction._tenants_in", counted)
        before = platform.state.info.seq
        assert len(await items(world, token="shop")) > 30
        assert len(asked) <= 1 + platform.state.info.seq - before
        made = await world.ask("PUT", "/v1/tenants/later", a_tenant("later"))
        assert made.status == 201
        assert "later" in known_tenants(platform.state)

    in_world(story)


def test_pages_are_narrowed_down_and_go_on_without_a_gap() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        for number in range(7):
            await world.ask("PUT", f"/v1/tenants/t{number}", a_tenant(f"t{number}"))
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        whole = await items(world, "command=put")
        assert {one["command"] for one in whole} == {"put"}
        found, more = [], ""
        while True:
            answer = (await world.ask("GET", f"/v1/audit?command=put&limit=2{more}")).json
            found += answer["items"]
            if "continue" not in answer["metadata"]:
                break
            more = f"&continue={answer['metadata']['continue']}"
        assert found == whole
        assert [one["at"] for one in found] == sorted((one["at"] for one in found), reverse=True)
        assert await items(world, "outcome=wrong-scope") == []
        assert len(await items(world, f"actor={OPERATOR}&command=put-workload")) == 1

    in_world(story)


def test_no_page_reads_the_log() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        before = await items(world)
        store: Any = part.ledger.store

        async def read(*_: Any) -> Any:
            raise AssertionError("a page has read the log")

        store.read = read
        assert await items(world) == before
        assert await items(world, "limit=1&actor=person/nobody") == []

    in_world(story)


def test_a_follower_and_an_index_that_begins_anew_tell_the_same_in_the_same_pages() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        first = await world.platform("p1", store)
        second = await world.part("p2", PLATFORM, store, StartLog("log", "platform", OPERATOR)).start().follows()
        for number in range(3):
            await world.ask("PUT", f"/v1/tenants/t{number}", a_tenant(f"t{number}"))
        seq = first.state.info.seq
        await world.until(lambda: second.state.info.seq >= seq)
        pages = [(await world.ask("GET", "/v1/audit?limit=2", to=name)).json for name in ("p1", "p2")]
        assert pages[0] == pages[1]
        await first.audit._kept.begin(await AuditDatabase().position())  # as after a file that was damaged
        anew = AuditIndex(first.ledger, AuditDatabase())
        first.api.ctx.audit = anew
        task = asyncio.create_task(anew.run())
        assert (await world.ask("GET", "/v1/audit?limit=2")).json == pages[0]
        task.cancel()

    in_world(story)


def test_entries_go_when_they_are_older_than_they_are_kept() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        part.audit._lasting = type(part.audit._lasting)(retention_ms=TIDY_EVERY_MS)
        assert await items(world)
        await world.clock.sleep(3 * TIDY_EVERY_MS)
        await world.ask("PUT", "/v1/tenants/late", a_tenant("late"))
        await world.clock.sleep(2 * TIDY_EVERY_MS)
        assert [one["body"]["object"]["metadata"]["name"] for one in await items(world)] == ["late"]

    in_world(story)


def test_who_operates_without_the_right_to_the_audit_may_hand_it_on() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/old", Permission.READ, Permission.OPERATE)
        auditor = {"apiVersion": "holdfast/v1", "kind": "Principal", "metadata": {"name": "person/auditor"}}
        for rights, status in ((["read", "audit"], 201), (["break-glass"], 403)):
            body = {**auditor, "spec": {"rights": rights}}
            answer = await world.ask("PUT", "/v1/principals/person/auditor", body, token="person-old")
            assert answer.status == status, answer

    in_world(story)
