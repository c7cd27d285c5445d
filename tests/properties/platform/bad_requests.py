"""What goes wrong on the way: wrong senders, repeats, reused keys, ended sessions, numbers and times out of range."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import Configure, RecordDigest, StartLog
from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform import commands as c
from tests.properties.platform.intents import (
    DAY,
    HELPER,
    NOWHERE,
    REGIONS,
    TENANTS,
    Idle,
    come_back,
    one_in,
    pick,
    region,
)
from tests.properties.platform.program import Program
from tests.support.ledgers.platform import DIGEST, HOUR, ROOT, a_quota, a_template, a_tenant, a_workload, cpu

ACTORS = ("ledger", "controller/grant", "controller/other", ROOT, HELPER, "person/nobody", "tenant/acme", "region/eu",
          "region/us", "region/other", "agent/n1", "stranger")  # fmt: skip


def repeat(p: Program) -> None:
    """The same envelope once more gets the first answer, however much has happened since."""
    known = [envelope for envelope in p.accepted if envelope.key or envelope.session]
    if known:
        p.give(p.chance.choice(known))


def reuse_key(p: Program) -> None:
    known = [envelope for envelope in p.accepted if envelope.key]
    if known:
        old = p.chance.choice(known)
        p.send(old.actor, c.DeleteWorkload("acme", "not-that-one"), key=old.key)


def wrong_sender(p: Program) -> None:
    """Somebody else sends what was accepted from another."""
    if p.accepted:
        p.send(p.chance.choice(ACTORS), p.chance.choice(p.accepted).command)


def too_old(p: Program) -> None:
    if p.accepted:
        old = p.chance.choice(p.accepted)
        p.give(replace(old, sent=p.at - p.world.settings.retry_window - 1))
        p.give(replace(old, sent=p.at + p.world.settings.sent_ahead + 1))


def numbers(p: Program) -> None:
    """Gaps, jumps, and numbers that are too far ahead or behind."""
    where = region(p)
    life = p.world.sessions.get(p.world.session_of(f"region/{where}"))
    if life is None:
        return
    for number in (
        life.high + p.chance.choice((1, 2, 200, 257)),
        p.chance.choice((0, 1, life.high - 256, life.high - 3)),
    ):
        standing = p.world.standing.get(where)
        position = standing.position + 1 if standing else 1
        log = standing.log if standing else ""
        p.send(f"region/{where}", c.Acknowledge(where, log, position, p.world.seq << 20, DIGEST), sequence=number)


def ended_session(p: Program) -> None:
    """Who was there before speaks again; nobody listens."""
    where = pick(p, REGIONS, "")
    actor = f"region/{where}"
    old = p.world.session_of(actor)
    p.send(actor, OpenSession())
    p.send(actor, c.ReleaseRights(NOWHERE, (0,), 0), session=old)
    p.send(actor, c.ReleaseRights(NOWHERE, (0,), 0))
    p.send("region/us2", EndSession(p.world.session_of(actor), "not mine"))
    come_back(p, where)


def odd_envelopes(p: Program) -> None:
    what = p.chance.randrange(6)
    if what == 0:
        p.send("ledger", StartLog("log-other", "platform", ROOT))
    elif what == 1:
        p.send("ledger", RecordDigest(1, b""), key="a")
    elif what == 2:
        p.send(ROOT, c.Put(a_quota("acme", cpu(1))), key="")
    elif what == 3:
        p.send(ROOT, c.Put(a_quota("acme", cpu(1))), key="k" * 300)
    elif what == 4:
        p.send(ROOT, Configure(replace(p.world.settings, fence_time=1)))
    else:
        p.send("region/eu", OpenSession(), session=p.world.session_of("region/eu"), sequence=p.chance.randrange(3))
        come_back(p, "eu")


def out_of_range(p: Program) -> None:
    """What is no name, no amount, no account, no share."""
    uid = pick(p, p.world.workloads, NOWHERE)
    what = p.chance.randrange(10)
    if what == 9:
        p.send("tenant/acme", c.PutWorkload(a_workload("crowd", replicas=p.chance.choice((15, 30)))))
    elif what == 0:
        p.send(ROOT, c.Put(a_tenant("Not A Name")))
    elif what == 1:
        p.send(ROOT, c.Put(a_quota("acme", cpu(-1))))
    elif what == 2:
        account = pick(p, ("acme", "emergency/x", "emergency/7", "quota/none"), "")
        p.send("controller/grant", c.OfferGrant(account, "eu", cpu(1), p.at + HOUR))
    elif what == 3:
        p.send("controller/assignment", c.Assign(uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.ENDED, ()))
    elif what == 4:
        p.send("controller/assignment", c.Assign(uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.STANDBY, ()))
    elif what == 5:
        p.send("tenant/acme", c.PutWorkload(a_workload("web", priority_class="low")))
        p.send("tenant/acme", c.PutWorkload(a_workload("web", regions=("nowhere",))))
        p.send("tenant/acme", c.PutWorkload(a_workload("other", jurisdictions=("MOON",))))
    elif what == 6:
        p.send("tenant/acme", c.PutWorkload(a_workload("web", replicas=-1)))
    elif what == 7:
        marks = (("same", "a"), ("same", "b"))
        p.send(ROOT, c.Put(replace(a_tenant("beta"), meta=Meta(name="beta", labels=marks))))
    else:
        p.send(ROOT, c.Delete(pick(p, ("Workload", "Region"), ""), "nowhere"))


def huge(p: Program) -> None:
    """A template that does not fit into a record together with the workload that names it."""
    template = replace(a_template(500), command=("x" * 30_000,) * 20)
    p.send("tenant/acme", c.PutWorkload(a_workload("huge", template=template)))


def long_winded(p: Program) -> None:
    """Texts and lists beyond what anybody may send, of objects that are there and that are not."""
    uid = max((uid for uid, _ in p.bench.state.overrides.items()), default=1)
    p.send(ROOT, EndOverride(uid, "r" * 1_001))
    p.send(ROOT, c.Delete("Tenant", "t" * 257))
    p.send("tenant/acme", c.PutWorkload(a_workload("wordy", template=a_template(500, "x" * 32_769))))


def flood(p: Program) -> None:
    """More offers than anybody can keep to a region that does not answer."""
    where = region(p, RegionHealth.HEALTHY)
    p.bench.checked = False
    for number in range(70):
        p.send("controller/grant", c.OfferGrant("quota/beta", where, cpu(number % 2), p.at + HOUR))
    p.bench.checked = True
    p.bench.verify()
    long_winded(p)
    restless(p)


def restless(p: Program) -> None:
    """More restarts than templates are kept."""
    for at in range(1, 14):
        p.send("tenant/acme", c.PutWorkload(a_workload("web", template=replace(a_template(500), restarted=at))))


def crowd(p: Program) -> None:
    """A person with too many keys waits until they are forgotten."""
    if p.send(ROOT, Configure(replace(p.world.settings, keys_per_actor=1))):
        for tenant in TENANTS:
            p.send(ROOT, c.Delete("Tenant", tenant))
        p.bench.later(DAY + HOUR)
        p.send(ROOT, Configure(replace(p.world.settings, keys_per_actor=10_000)))


MISCHIEF: tuple[tuple[int, Callable[[Program], None]], ...] = (
    (60, repeat), (30, reuse_key), (60, wrong_sender), (30, too_old), (30, numbers), (20, ended_session),
    (40, odd_envelopes), (60, out_of_range), (3, huge), (3, flood), (6, crowd),
)  # fmt: skip


def step(p: Program, intents: tuple[tuple[int, Callable[[Program], None]], ...]) -> None:
    """One thing that happens, after some time."""
    p.bench.later(p.chance.choice((0, 0, 0, 1_000, 1_000, 30_000)))
    many = MISCHIEF if one_in(p, 8) else intents
    weights = [weight for weight, _ in many]
    with suppress(Idle):
        p.chance.choices([action for _, action in many], weights)[0](p)
