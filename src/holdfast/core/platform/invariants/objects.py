"""Invariants of the platform's objects.

Each is written once, over the rows of a full or a batch scan (see `scan`), without the functions that decide, so that
it finds their mistakes. An *always* invariant holds after every commit. An *at commit* one holds, or a breach is open
with owner, deadline and at least the present overshoot (RULES 18).
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.policies import PolicyStage
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.platform.invariants.scan import PlatformScan
from holdfast.core.platform.state.tables import TABLE_OF

Found = Iterator[str]


def policy(at: PlatformScan) -> Found:
    state = at.state
    for key, validity in at.rows("validities"):
        known = state.policies.get(validity.revision)
        if key != f"{validity.region}|{validity.scope}" or validity.region not in state.regions:
            yield f"validity {key} is of {validity.region} and {validity.scope}"
        if validity.scope and validity.scope not in state.tenants:
            yield f"validity {key} is pinned for a deleted tenant"
        if validity.revision != 0 and (known is None or known.stage in (PolicyStage.DRAFT, PolicyStage.ROLLED_BACK)):
            yield f"validity {key} names policy {validity.revision}, which is {known.stage if known else 'unknown'}"
    for number, known in at.rows("policies"):
        if number != known.revision or number == 0:
            yield f"policy {number} is stored as {known.revision}"


def override(at: PlatformScan) -> Found:
    for uid, opened in at.rows("overrides"):
        if uid != opened.uid or not opened.reason.strip() or not opened.owner or opened.ends <= opened.opened:
            yield f"override {uid} has no reason, owner or end"


def references(at: PlatformScan) -> Found:
    state = at.state
    for uid, assignment in at.rows("assignments"):
        if assignment.workload not in state.workloads or assignment.region not in state.regions:
            yield f"assignment {uid} is of workload {assignment.workload} in {assignment.region}"
        for share in assignment.shares:
            if share.count <= 0 or share.template not in state.templates:
                yield f"assignment {uid} has {share.count} of template {share.template}"
        if not {share.template for share in assignment.shares} <= set(
            state.templates_of.get(assignment.workload) or ()
        ):
            yield f"assignment {uid} has templates that its workload does not list"
    named = at.named_templates()
    for uid, workload in at.rows("workloads"):
        digest = template_digest(workload.spec.template)
        if digest not in (state.templates_of.get(uid) or ()) or workload.meta.tenant not in state.tenants:
            yield f"workload {uid} names template {digest} and tenant {workload.meta.tenant}"
    for uid, digests in at.rows("templates_of"):
        if uid not in state.workloads or any(digest not in state.templates for digest in digests):
            yield f"workload {uid} has named templates {digests}"
    for digest, template in at.rows("templates"):
        if digest not in named or template_digest(template) != digest:
            yield f"template {digest} is named by no workload, or has another digest"
    for key, grant in at.rows("grants"):
        if key != f"{grant.region}|{grant.account}" or grant.region not in state.regions:
            yield f"grant {key} is of {grant.account} in {grant.region}"


def one_each(at: PlatformScan) -> Found:
    seen: set[tuple[int, str, str]] = set()
    for uid, assignment in at.rows("assignments"):
        place = (assignment.workload, assignment.region, assignment.purpose.value)
        if place in seen:
            yield f"assignment {uid} is the second of {place}"
        seen.add(place)
    names: set[tuple[str, str]] = set()
    for uid, workload in at.namesakes():
        name = (workload.meta.tenant, workload.meta.name)
        if workload.meta.deletion is None and name in names:
            yield f"workload {uid} is the second live one named {name}"
        if workload.meta.deletion is None:
            names.add(name)


def disruption(at: PlatformScan) -> Found:
    state = at.state
    shared: dict[int, int] = {}
    for _, assignment in at.rows("assignments"):
        if assignment.purpose is AssignmentPurpose.SERVING and assignment.stage is not AssignmentStage.ENDED:
            shared[assignment.workload] = shared.get(assignment.workload, 0) + assignment.disruption
    for uid, total in sorted(shared.items()):
        over = total - state.workloads[uid].spec.disruption_max
        open_now = state.breaches.get(("platform.disruption", str(uid)))
        if over > (open_now.overshoot if open_now else 0):
            yield f"regions hold {total} of the disruption budget of workload {uid}, {over} too many"


def residency(at: PlatformScan) -> Found:
    state = at.state
    misplaced: dict[int, int] = {}
    for _, assignment in at.rows("assignments"):
        rules = state.workloads[assignment.workload].spec.placement
        region = state.regions[assignment.region]
        lawful = not rules.jurisdictions or region.spec.jurisdiction in rules.jurisdictions
        if assignment.stage is not AssignmentStage.ENDED and not (
            lawful and assignment.region in (rules.regions or (assignment.region,))
        ):
            count = sum(share.count for share in assignment.shares)
            misplaced[assignment.workload] = misplaced.get(assignment.workload, 0) + count
    for uid, count in sorted(misplaced.items()):
        open_now = state.breaches.get(("platform.residency", str(uid)))
        if count > (open_now.overshoot if open_now else 0):
            yield f"workload {uid} has {count} replicas where it may not be"


def finalizers(at: PlatformScan) -> Found:
    for uid, workload in at.rows("workloads"):
        deleting, names = workload.meta.deletion is not None, [f.owner for f in workload.meta.finalizers]
        if deleting != bool(names) or len(set(names)) != len(names):
            yield f"workload {uid} is {'' if deleting else 'not '}being deleted with finalizers {names}"


def revisions(at: PlatformScan) -> Found:
    last = pack_revision(at.state.info.seq, INDEX_MAX)
    for name in (*TABLE_OF.values(), "workloads"):
        for key, stored in at.rows(name):
            meta = stored.meta
            if not 0 < meta.uid <= meta.revision <= last or meta.generation < 1:
                yield f"{name} {key} has uid {meta.uid}, revision {meta.revision}, generation {meta.generation}"
    for name in ("assignments", "grants"):
        for key, row in at.rows(name):
            if not 0 < row.uid <= row.revision <= last or (name == "assignments" and key != row.uid):
                yield f"{name} {key} has uid {row.uid} and revision {row.revision}"


def breaches(at: PlatformScan) -> Found:
    for key, breach in at.rows("breaches"):
        whole = breach.owner and breach.overshoot > 0 and breach.opened < breach.deadline
        if key != (breach.invariant, breach.key) or not whole:
            yield f"breach {key} has no owner, size or deadline"


def derived(at: PlatformScan) -> Found:
    return at.miscounts()
