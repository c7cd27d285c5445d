"""What the platform ships to the region of a random program: one change of its mind, or a full list."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.policies import (
    Override,
    OverrideAction,
    PolicyDocument,
    PolicyStage,
    SchedulerPolicy,
    Validity,
)
from holdfast.core.model.objects.principals import Token, TokenSpec
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region import commands as c
from holdfast.host.link.platform.batching import list_parts
from tests.properties.region.program import Program
from tests.properties.region.world import (
    ACCOUNTS,
    DIGESTS,
    KINDS,
    OTHER_CLASSES,
    PEOPLE,
    SECOND,
    TEMPLATES,
    an_assignment_of,
)
from tests.support.ledgers.region import a_principal

LINK = "controller/link"
DAY = 86_400_000


def step(p: Program, *puts: c.ShippedItem, gone: tuple[c.RemovedObject, ...] = (), **fields: Any) -> Envelope[Any]:
    """The next step of the stream, unless told otherwise."""
    after, model = p.model.cursor, p.model
    command = c.Ship(model.platform_log, model.platform_term, after, after + 1 + p.chance.below(3), puts, gone)
    command = replace(command, **fields)
    # By its place: one more draw would change every program of every seed.
    return p.envelope(LINK, replace(command, proof=f"proof of {command.to}" if command.to % 3 else ""))


def change(p: Program) -> Envelope[Any]:
    """One or two changes in one step."""
    puts: list[c.ShippedItem] = []
    for _ in range(1 + p.chance.one_in(4)):
        kind = p.chance.weighed(
            ((6, a_grant), (9, an_assignment), (2, a_template), (2, a_class), (2, a_person), (1, a_token), (1, a_pool),
             (2, a_server), (2, a_policy), (2, an_override), (3, a_jurisdiction))
        )  # fmt: skip
        puts += kind(p)
    return step(p, *puts)


def a_grant(p: Program) -> list[c.ShippedItem]:
    """Raised, shrunk, ended, renewed, with or without something protected; now and then an old version again."""
    chance, live = p.chance, {account for account, grant in p.model.grants.items() if grant.ends > p.at}
    account = chance.pick([one for one in ACCOUNTS if one not in live] or ACCOUNTS)
    old = p.model.grants.get(account)
    version = (old.version if old else 0) + (0 if chance.one_in(8) else 1)
    spent = p.model.charged(account).get("cpu", 0)
    cpu = chance.pick((9000, 9000, 9000, spent + 500, spent + 2000, spent + 3500, spent // 2))
    target = Resources(cpu, 16_000, 300, 4000, (("fpga", 2),))
    ends = p.at + chance.pick((DAY, DAY, DAY, 5000, 0))
    protected = ZERO
    if account.startswith("quota/") and chance.one_in(2):
        free = p.model.free()
        cpu, memory = chance.pick((3000, 9000, free.get("cpu", 0))), chance.pick((0, free.get("memory", 0)))
        protected = Resources(max(cpu, 0), max(memory, 0), 0, chance.pick((0, 2000)))
    return [c.ShippedGrant(account, version, target, ends, protected, chance.pick((1, 1, 3)))]


def renewal(p: Program) -> Envelope[Any] | None:
    """Every grant that is missing or over, again for a day."""
    live = {account for account, grant in p.model.grants.items() if grant.ends > p.at}
    target = Resources(9000, 16_000, 300, 4000, (("fpga", 2),))
    puts = []
    for account in ACCOUNTS:
        known = p.model.grants.get(account)
        if account not in live:
            puts.append(c.ShippedGrant(account, known.version + 1 if known else 1, target, p.at + DAY))
    return step(p, *puts) if puts else None


def other_accounts(p: Program) -> Envelope[Any] | None:
    """An assignment whose slots are charged gets other accounts: they may be adopted now."""
    charged = {slot.assignment for slot in p.model.slots.values() if slot.account}
    known = [p.model.assignments[uid] for uid in sorted(charged & set(KINDS)) if len(KINDS[uid].accounts) > 1]
    if not known:
        return None
    one = p.chance.pick(known)
    return step(p, c.ShippedAssignment(replace(one, accounts=p.chance.pick(KINDS[one.uid].accounts))))


def an_assignment(p: Program) -> list[c.ShippedItem]:
    """More or fewer, another template, another stage, other ordinals, accounts, jurisdictions, rights or deadlines."""
    chance = p.chance
    uid = chance.pick([*sorted(p.model.assignments), *sorted(p.model.assignments), *KINDS, SECOND])
    kind = KINDS[100 if uid == SECOND else uid]
    known = p.model.assignments.get(uid) or an_assignment_of(uid)
    first, other = chance.pick(kind.templates), chance.pick(kind.templates)
    counts = (
        [(first, kind.count), (other, chance.below(3))] if first != other else [(first, chance.pick((kind.count, 1)))]
    )
    lapse = p.at + chance.pick((100, 60_000))
    changed = chance.weighed(
        (
            (6, an_assignment_of(uid, shares=counts)),
            (3, replace(known, stage=AssignmentStage.ACTIVE, disruption=chance.below(4))),
            (1, replace(known, stage=AssignmentStage.STANDBY)),
            (2, replace(known, stage=AssignmentStage.ENDED)),
            (2, replace(known, ordinals=known.ordinals[chance.below(2) :], right_until=chance.pick((0, lapse)))),
            (3, replace(known, accounts=chance.pick(kind.accounts[1:] or (*kind.accounts, ())))),
            (2, replace(known, jurisdictions=chance.pick(((), ("eu",), ("us",))))),
            (3, replace(known, deadline=chance.pick((0, lapse)), fails_late=chance.below(3) > 0)),
            (1, replace(known, priority_class=chance.pick(("normal", "best-effort", "critical")))),
        )
    )
    arriving = [share.template for share in changed.shares if share.template not in p.model.templates]
    templates = [name for name in TEMPLATES if DIGESTS[name] in arriving]
    return [*(c.ShippedTemplate(DIGESTS[name], TEMPLATES[name]) for name in templates), c.ShippedAssignment(changed)]


def a_template(p: Program) -> list[c.ShippedItem]:
    name = p.chance.pick(list(TEMPLATES))
    return [c.ShippedTemplate(DIGESTS[name], TEMPLATES[name])]


def a_class(p: Program) -> list[c.ShippedItem]:
    return [c.ShippedPriorityClass(p.chance.pick(OTHER_CLASSES))]


def a_person(p: Program) -> list[c.ShippedItem]:
    kept = [person for person in PEOPLE if p.model.principals.get(person.meta.name) != person]
    return [c.ShippedPrincipal(p.chance.pick(kept or list(PEOPLE)))]


def a_token(p: Program) -> list[c.ShippedItem]:
    spec = TokenSpec(principal="person/ops", hash="0f" * 32, expires=p.at + DAY)
    return [c.ShippedToken(Token(meta=Meta(name=f"t{p.chance.below(3)}"), spec=spec))]


def a_server(p: Program) -> list[c.ShippedItem]:
    principal = p.chance.pick(("platform/s1", "platform/s1", "platform/s2", "platform/s3", "region/eu/s1"))
    return [c.ShippedServer(ServerToken(f"server-{p.chance.below(3)}", principal, "0f" * 32, p.at + DAY))]


def a_pool(p: Program) -> list[c.ShippedItem]:
    return [c.ShippedPool(p.chance.pick(("general", "gpu")), p.chance.below(3))]


def a_policy(p: Program) -> list[c.ShippedItem]:
    number = 1 + p.chance.below(3)
    policy = SchedulerPolicy(number, "packed", PolicyDocument(), PolicyStage.ACTIVE, "person/ops", p.at)
    scope = p.chance.pick(("", "acme"))
    return [c.ShippedPolicy(policy), c.ShippedValidity(Validity("eu", scope, p.chance.pick((0, number))))]


def an_override(p: Program) -> list[c.ShippedItem]:
    uid, action, target = p.chance.pick(
        (
            (11, OverrideAction.AVOID_ZONE, "b"),
            (12, OverrideAction.PAUSE_SCHEDULING, ""),
            (13, OverrideAction.PAUSE_SCHEDULING, "beta"),
        )
    )
    ends = p.at + p.chance.pick((-1, 100, 1000))
    return [c.ShippedOverride(Override(uid, action, "eu", target, "a storm", "person/ops", p.at - 10, ends))]


def a_jurisdiction(p: Program) -> list[c.ShippedItem]:
    return [c.ShippedRegion("eu", p.chance.pick(("eu", "eu", "us")))]


def gone(p: Program) -> Envelope[Any] | None:
    """Something is no longer shipped."""
    model, chance = p.model, p.chance
    known = [
        *(c.RemovedObject("assignment", str(uid)) for uid in sorted(model.assignments)),
        *(c.RemovedObject("template", digest) for digest in sorted(model.templates) if digest not in model.leaving),
        *(c.RemovedObject("validity", scope) for scope in sorted(model.validities)),
        *(c.RemovedObject("override", str(uid)) for uid in sorted(model.shipped_overrides)),
        *(c.RemovedObject("policy", str(uid)) for uid in sorted(model.policies)),
        *(c.RemovedObject("token", name) for name in sorted(model.tokens)),
        *(c.RemovedObject("node-pool", name) for name in sorted(model.pools)),
        *(c.RemovedObject("server", name) for name in sorted(model.platform_servers)),
        c.RemovedObject("grant", chance.pick(ACCOUNTS)),
        c.RemovedObject("priority-class", "best-effort"),
        c.RemovedObject("principal", chance.pick(PEOPLE).meta.name),
        c.RemovedObject("token", "never-was"),
    ]
    return step(p, gone=(chance.pick(known),))


def full_list(p: Program) -> Envelope[Any] | None:
    """Everything that is known, but for a thing or two, or many; from this log or from another. Its first part."""
    model, chance = p.model, p.chance
    grants = [
        c.ShippedGrant(account, grant.version + chance.below(2), Resources(**_core(grant.target)), p.at + DAY)
        for account, grant in sorted(model.grants.items())
    ]
    puts: list[c.ShippedItem] = [
        c.ShippedRegion("eu", "eu"),
        *(
            c.ShippedTemplate(digest, one)
            for digest, one in sorted(model.templates.items())
            if digest not in model.leaving
        ),
        *(c.ShippedAssignment(assignment) for _, assignment in sorted(model.assignments.items())),
        *grants,
        *(c.ShippedPriorityClass(cls) for _, cls in sorted(model.classes.items())),
        *(c.ShippedPrincipal(one) for _, one in sorted(model.principals.items()) if one.meta.created_by != "ledger"),
        *(c.ShippedToken(token) for _, token in sorted(model.tokens.items())),
        *(c.ShippedPool(name, cost) for name, cost in sorted(model.pools.items())),
        *(c.ShippedServer(one) for _, one in sorted(model.platform_servers.items())),
        *(c.ShippedPolicy(policy) for _, policy in sorted(model.policies.items())),
        *(c.ShippedValidity(Validity("eu", scope, number)) for scope, number in sorted(model.validities.items())),
        *(c.ShippedOverride(one) for _, one in sorted(model.shipped_overrides.items())),
    ]
    if chance.one_in(2):
        puts.pop(chance.below(len(puts)))
    if chance.one_in(4):
        first = chance.below(len(puts))
        del puts[first : first + 8]
    log_id = model.platform_log if chance.one_in(2) else model.platform_log + "'"
    meant = step(p, *puts, full=True, log_id=log_id[:32], to=model.cursor + chance.below(3))
    cut = list_parts(meant.command, meant.command.puts, chance.pick((3, 8, len(puts))), 1 << 20)
    parts = tuple(part for part in cut if part is not None)
    p.lists = {**p.lists, list_of(meant.command): parts}
    return replace(meant, command=parts[0])


def list_of(command: c.Ship) -> tuple[str, int, int]:
    """What a list is told apart by."""
    return command.log_id, command.term, command.to


def next_part(p: Program) -> Envelope[Any] | None:
    """The next part of the list under way; its last part again while there is more to take away."""
    parts = p.lists.get(p.model.listing) if p.model.listing is not None else None
    number = len(p.model.listed) - (p.model.swept is not None)
    return p.envelope(LINK, parts[number]) if parts is not None and number < len(parts) else None


def _core(target: dict[str, int]) -> dict[str, Any]:
    named = {name: target.get(name, 0) for name in ("cpu", "memory", "disk", "gpu")}
    rest = tuple(sorted((name, amount) for name, amount in target.items() if name not in named))
    return {**named, "extended": rest}


def machines_back(p: Program) -> Envelope[Any] | None:
    """A full list may have left out who may speak at all."""
    missing = [name for name in ("agent/*", "scheduler/*") if name not in p.model.principals]
    return step(p, *(c.ShippedPrincipal(a_principal(name)) for name in missing)) if missing else None
