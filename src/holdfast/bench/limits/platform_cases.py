"""The limits of the platform's ledger, and how each case ends.

Size: one list of its limits, in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.bench.limits.case import (
    OPERATOR,
    PLENTY,
    LimitCase,
    Story,
    a_class,
    a_principal,
    a_tenant,
    founding,
    in_steps,
)
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.objects.principals import Permission, Token, TokenSpec, hash_secret
from holdfast.core.model.objects.tenants import Quota, QuotaSpec, RecoveryBudget, RecoveryBudgetSpec
from holdfast.core.model.objects.topology import Region, RegionSpec, Toleration
from holdfast.core.model.objects.workloads import (
    Apart,
    FailoverMode,
    Near,
    Placement,
    Template,
    Workload,
    WorkloadSpec,
    name_key,
)
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, Trouble, WorkloadReport
from holdfast.core.model.values import limits
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.ranges import first_of, split_ranges
from holdfast.core.model.values.resources import ZERO
from holdfast.core.platform import commands as c
from holdfast.core.platform.limits import COUNTS_MAX, ISSUES_MAX, NODES_MAX, OFFERS_MAX
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState

ASSIGNMENT, GRANT, TENANT = "controller/assignment", "controller/grant", "tenant/acme"
HOUR = 3_600_000
WORKLOADS = 10_000
THINGS = 1_000
FEW = 50


def founded() -> Story:
    """Create a platform with one tenant and one region."""
    yield from founding("platform")
    yield [(OPERATOR, c.Put(a_principal("region/*"))), (OPERATOR, c.Put(a_principal("tenant/*", Permission.WRITE)))]
    yield [(OPERATOR, c.Put(a_class()))]
    yield [(OPERATOR, c.Put(a_tenant(workloads_max=10**6, pending_max=10**9)))]
    yield [(OPERATOR, c.Put(Quota(meta=Meta(name="acme"), spec=QuotaSpec(hard=PLENTY))))]
    yield from joined("eu")


def joined(name: str, log_id: str = "") -> Story:
    yield [(OPERATOR, c.Put(Region(meta=Meta(name=name), spec=RegionSpec())))]
    yield [(f"region/{name}", OpenSession())]
    yield [(f"region/{name}", c.JoinRegion(name, log_id or f"log-{name}"))]


def a_workload(name: str, template: Template, replicas: int = 1, **fields: Any) -> Workload:
    spec = WorkloadSpec(template=template, replicas=replicas, priority_class="normal", **fields)
    return Workload(meta=Meta(name=name, tenant="acme"), spec=spec)


def assigned(state: PlatformState, name: str, region: str, count: int = 1) -> tuple[str, Any]:
    uid = state.workload_names[name_key("acme", name)]
    shares = (Share(template_digest(state.workloads[uid].spec.template), count),)
    return ASSIGNMENT, c.Assign(uid, region, AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, shares)


def deleted(state: PlatformState, *names: str) -> Story:
    """Delete workloads as their tenant, and release them in every region with an assignment."""
    uids = [state.workload_names[name_key("acme", name)] for name in names]
    yield from in_steps([(TENANT, c.DeleteWorkload("acme", name)) for name in names])
    left = [one for uid in uids for one in assignments_of(state, uid)]
    yield from in_steps([(f"region/{one.region}", c.RemoveAssignment(one.uid)) for one in left])


# One workload with the maximum of everything


def _largest(at: int) -> Workload:
    many = range(limits.MARKS_MAX)
    template = Template(
        command=("x" * limits.ARGUMENT_MAX, *("argument",) * (limits.ENTRIES_MAX - 1)),
        environment=tuple((f"V{number}", "value") for number in range(limits.ENTRIES_MAX)),
        secrets=tuple((f"S{number}", f"file:/{'s' * 200}") for number in many),
        folder="/" + "f" * (limits.PATH_MAX - 1),
        ports=limits.PORTS_MAX,
        require=tuple((f"label-{number}", "v" * limits.TEXT_MAX) for number in many),
        tolerate=tuple(Toleration(f"taint-{number}", "v" * limits.TEXT_MAX) for number in many),
        apart=tuple(Apart(group=f"group-{number}") for number in many),
        near=tuple(Near(group=f"near-{number}") for number in many),
        uses=tuple(f"{number:02}{'u' * 198}" for number in range(32)),
        restarted=at,
    )
    marks = tuple((f"mark-{number:02}", "v" * limits.TEXT_MAX) for number in many)
    notes = tuple((f"note-{number:02}", "n" * limits.ANNOTATION_MAX) for number in many)
    largest = a_workload("largest", template, limits.IDENTITIES_MAX, placement=Placement(regions=("eu",)))
    return replace(largest, meta=Meta(name="largest", tenant="acme", labels=marks, annotations=notes))


def largest(state: PlatformState) -> Story:
    for at in range(limits.TEMPLATES_MAX + 5):
        yield [(TENANT, c.PutWorkload(_largest(at)))]
    yield [assigned(state, "largest", "eu", limits.IDENTITIES_MAX)]


# A workload in the maximum number of regions


def regions(state: PlatformState, most: int = limits.REGIONS_MAX) -> Story:
    names = [f"r{number:03}" for number in range(most - 1)]
    yield from in_steps([(OPERATOR, c.Put(Region(meta=Meta(name=name), spec=RegionSpec()))) for name in names])
    yield from in_steps([(f"region/{name}", OpenSession()) for name in names])
    yield from in_steps([(f"region/{name}", c.JoinRegion(name, f"log-{name}")) for name in names])
    budget = RecoveryBudgetSpec(regions=tuple(names), each=PLENTY)
    yield [(OPERATOR, c.Put(RecoveryBudget(meta=Meta(name="reserve"), spec=budget)))]
    spec = Placement(weights=tuple((name, 1) for name in names))
    yield [(TENANT, c.PutWorkload(a_workload("wide", Template(command=("serve",)), len(names), placement=spec)))]
    yield from in_steps([assigned(state, "wide", name) for name in names])
    ends = state.info.at + HOUR
    yield from in_steps([(GRANT, c.OfferGrant("quota/acme", name, ZERO, ends)) for name in names])
    for number in range(1, OFFERS_MAX):
        yield [(GRANT, c.OfferGrant("quota/acme", names[0], ZERO, ends + number))]
    scores = tuple((f"plugin/{number:04}", 1) for number in range(limits.ENTRIES_MAX))
    yield [(OPERATOR, c.PublishPolicy("heavy", PolicyDocument(scores=scores)))]
    revision = max(key for key, _ in state.policies.items())
    yield from in_steps([(OPERATOR, c.ActivatePolicy(revision, name)) for name in names])


def no_regions(state: PlatformState) -> Story:
    names = [name for name, _ in state.regions.items() if name != "eu"]
    yield from deleted(state, "wide")
    yield [(OPERATOR, c.Delete("RecoveryBudget", "reserve"))]
    sessions = {name: state.session_of[f"region/{name}"] for name in names}
    yield from in_steps([(f"region/{name}", EndSession(uid, "retired")) for name, uid in sessions.items()])
    yield from in_steps([(OPERATOR, c.RetireRegion(name, "nothing runs there")) for name in names])
    yield from in_steps([(OPERATOR, c.Delete("Region", name)) for name in names])


# The maximum number of workloads of a tenant, and a region's reports about them


def workloads(state: PlatformState, most: int = WORKLOADS) -> Story:
    names = _names(most)
    plain = Template(command=("serve",))
    yield from in_steps([(TENANT, c.PutWorkload(a_workload(name, plain))) for name in names])
    yield from in_steps([assigned(state, name, "eu") for name in names])


def _names(count: int) -> list[str]:
    return [f"w{number:05}" for number in range(count)]


def no_workloads(state: PlatformState, most: int = WORKLOADS) -> Story:
    yield from deleted(state, *_names(most))


def reported(state: PlatformState) -> Story:
    names = _names(THINGS)
    plain = Template(command=("serve",))
    yield from in_steps([(TENANT, c.PutWorkload(a_workload(name, plain))) for name in names])
    yield from in_steps([assigned(state, name, "eu") for name in names])
    uids = [state.workload_names[name_key("acme", name)] for name in names]
    counts = tuple(TemplateCounts(f"{number:032}", 1, 1, 1) for number in range(COUNTS_MAX))
    seen = tuple(WorkloadReport(uid, 1, counts) for uid in uids)
    troubles = tuple(Trouble(f"kind-{number}", 1, 0, "m" * 512) for number in range(ISSUES_MAX))
    nodes = tuple(_nodes(NODES_MAX))
    yield [("region/eu", c.Report("eu", 1, seen))]
    yield [("region/eu", c.Report("eu", 2, summary=RegionSummary(nodes, (), troubles)))]


def _nodes(count: int) -> Iterator[Nodes]:
    for number in range(count):
        labels = tuple((f"label-{mark}", "v") for mark in range(limits.MARKS_MAX))
        yield Nodes(f"pool-{number}", labels, (), (), (), 1, PLENTY, PLENTY, (PLENTY,), (PLENTY,))


def unreported(state: PlatformState) -> Story:
    yield from deleted(state, *_names(THINGS))
    yield [(OPERATOR, c.RetireRegion("eu", "nothing runs there"))]
    yield [(OPERATOR, c.Delete("Region", "eu"))]
    yield from joined("eu", "log-eu-2")


def published(state: PlatformState) -> Story:
    """Publish more revisions of a policy than are retained; the first one is valid."""
    for weight in range(3 * limits.POLICIES_MAX):
        yield [(OPERATOR, c.PublishPolicy("often", PolicyDocument(scores=(("packing", weight),))))]
        if not weight:
            yield [(OPERATOR, c.ActivatePolicy(min(key for key, _ in state.policies.items()), "eu"))]


def rolled_back(state: PlatformState) -> Story:
    """Roll the policy back, and publish another revision, which removes it."""
    first, *_, last = [key for key, _ in state.policies.items()]
    yield [(OPERATOR, c.RollBackPolicy(first, last, "r" * limits.REASON_MAX))]
    yield [(OPERATOR, c.PublishPolicy("often", PolicyDocument()))]


def named(state: PlatformState) -> Story:
    """Publish the maximum number of policies."""
    names = [f"policy-{number}" for number in range(limits.POLICY_NAMES_MAX)]
    yield from in_steps([(OPERATOR, c.PublishPolicy(name, PolicyDocument())) for name in names])


def taken_back(state: PlatformState) -> Story:
    """Roll back each policy, which makes space for another."""
    known = [revision for revision, _ in state.policies.items()]
    yield from in_steps([(OPERATOR, c.RollBackPolicy(revision, 0, "r" * limits.REASON_MAX)) for revision in known])
    names = [f"another-{number}" for number in range(limits.POLICY_NAMES_MAX)]
    yield from in_steps([(OPERATOR, c.PublishPolicy(name, PolicyDocument())) for name in names])
    assert not any(revision in state.policies for revision in known), "every first policy is removed"


# Rights to every identity of the largest exclusive workload, returned in parts


def rights(state: PlatformState) -> Story:
    one = a_workload(
        "db", Template(command=("serve",)), limits.IDENTITIES_MAX, exclusive=True, failover=FailoverMode.ACKNOWLEDGED
    )
    yield [(TENANT, c.PutWorkload(one))]
    uid = state.workload_names[name_key("acme", "db")]
    for part in split_ranges(((0, limits.IDENTITIES_MAX),), limits.RIGHTS_MAX):
        yield [(ASSIGNMENT, c.GrantRight(uid, part, "eu"))]
    shares = (Share(template_digest(one.spec.template), limits.IDENTITIES_MAX),)
    yield [
        (
            ASSIGNMENT,
            c.Assign(
                uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, shares, ((0, limits.IDENTITIES_MAX),)
            ),
        )
    ]


def no_rights(state: PlatformState) -> Story:
    uid = state.workload_names[name_key("acme", "db")]
    yield [(ASSIGNMENT, c.Assign(uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, (), ()))]
    (mine,) = assignments_of(state, uid)
    while mine.returning:
        yield [("region/eu", c.ReleaseRights(uid, first_of(mine.returning, limits.RIGHTS_MAX), mine.revision))]
        (mine,) = assignments_of(state, uid)
    yield from deleted(state, "db")


def held(state: PlatformState) -> Story:
    """Give a region the maximum; it is then retired with it."""
    yield from rights(state)
    yield from reported(state)


def retired(state: PlatformState) -> Story:
    yield [(OPERATOR, c.RetireRegion("eu", "nothing runs there"))]
    while state.regions["eu"].status.unreleased:
        yield [("controller/retirement", c.ReleaseRetired("eu"))]
    yield from deleted(state, "db", *_names(THINGS))
    yield [(OPERATOR, c.Delete("Region", "eu"))]
    yield from joined("eu", "log-eu-2")


# Objects that operators write


def operated(state: PlatformState) -> Story:
    many = range(THINGS)
    yield from in_steps([(OPERATOR, c.Put(a_class(f"class-{number}"))) for number in many])
    classes = tuple(f"class-{number}" for number in many)
    yield [(OPERATOR, c.Put(replace(a_tenant("beta"), spec=replace(a_tenant().spec, priority_classes=classes))))]
    agents = [a_principal(f"agent/n{number}", Permission.READ, region="eu") for number in many]
    yield from in_steps([(OPERATOR, c.Put(one)) for one in agents])
    yield from in_steps([(OPERATOR, c.Put(_token(number, state.info.at + HOUR))) for number in many])
    zone, ends = "z" * (limits.TEXT_MAX - 4), state.info.at + HOUR
    zones = [f"{zone}{number:04}" for number in range(limits.OVERRIDES_MAX)]
    opened = [OpenOverride(OverrideAction.AVOID_ZONE, "eu", one, "r" * limits.REASON_MAX, ends) for one in zones]
    yield from in_steps([(OPERATOR, one) for one in opened])


def _token(number: int, expires: int, *, revoked: bool = False) -> Token:
    spec = TokenSpec(principal=f"agent/n{number}", hash=hash_secret("secret"), expires=expires, revoked=revoked)
    return Token(meta=Meta(name=f"token-{number}"), spec=spec)


def not_operated(state: PlatformState) -> Story:
    many = range(THINGS)
    ending = [(OPERATOR, EndOverride(uid, "r" * limits.REASON_MAX)) for uid, _ in state.overrides.items()]
    yield from in_steps(ending)
    expires = {name: token.spec.expires for name, token in state.tokens.items()}
    yield from in_steps([(OPERATOR, c.Put(_token(n, expires[f"token-{n}"], revoked=True))) for n in many])
    yield from in_steps([(OPERATOR, c.Delete("Token", f"token-{number}")) for number in many])
    yield from in_steps([(OPERATOR, c.Delete("Principal", f"agent/n{number}")) for number in many])
    yield [(OPERATOR, c.Delete("Tenant", "beta"))]
    yield from in_steps([(OPERATOR, c.Delete("PriorityClass", f"class-{number}")) for number in many])


CASES = (
    LimitCase("workload", "platform", (
        "limits.ANNOTATION_MAX", "limits.ARGUMENT_MAX", "limits.ENTRIES_MAX", "limits.IDENTITIES_MAX",
        "platform.COUNT_MAX", "limits.MARKS_MAX", "limits.PATH_MAX", "limits.PORTS_MAX", "limits.TEMPLATES_MAX",
        "limits.TEXT_MAX", "workload_validation.USES_MAX", "topology.PRESENT_NAME_MAX"),
        largest, lambda state: deleted(state, "largest")),
    LimitCase("regions", "platform", ("limits.REGIONS_MAX", "platform.OFFERS_MAX"), regions, no_regions,
         less=(partial(regions, most=FEW), no_regions)),
    LimitCase("workloads", "platform", (), workloads, no_workloads,
         less=(partial(workloads, most=FEW), partial(no_workloads, most=FEW))),
    LimitCase("reports", "platform", (
        "platform.REPORTS_MAX", "platform.COUNTS_MAX", "platform.NODES_MAX", "platform.ISSUES_MAX",
        "platform.MESSAGE_MAX"), reported, unreported),
    LimitCase("policies", "platform", ("limits.POLICIES_MAX",), published, rolled_back),
    LimitCase("rights", "platform", ("limits.RIGHTS_MAX",), rights, no_rights),
    LimitCase("retirement", "platform", ("limits.RIGHTS_MAX", "platform.OBJECTS_MAX"), held, retired),
    LimitCase("operators", "platform", ("limits.REASON_MAX", "limits.OVERRIDES_MAX"), operated, not_operated),
    LimitCase("policy_names", "platform", ("limits.POLICY_NAMES_MAX",), named, taken_back),
)  # fmt: skip
