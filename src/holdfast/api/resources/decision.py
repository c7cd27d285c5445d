"""A decision as users read it: names in place of uids, and nothing of other tenants."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.model.records.decisions import DecisionOutcome, SchedulingPass
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.index_store import DecisionPage, DecisionRecord

_PART = r"[^/\x00-\x1f\x7f]+"
#: Query parameters of decisions: a workload by `[TENANT/]NAME` or its uid, a slot by
#: `[TENANT/]WORKLOAD/REGION/ORDINAL`, a node by its name or uid.
WORKLOAD_PATTERN = f"^({_PART}/)?{_PART}$"
SLOT_PATTERN = f"^({_PART}/)?{_PART}/{_PART}/[0-9]{{1,9}}$"
NODE_PATTERN = r"^[^\x00-\x1f\x7f]{1,253}$"


class RejectionCountView(Struct, frozen=True, rename="camel"):
    """How many examined nodes were excluded, or placements refused: the code, the first detail, and the number."""

    code: str
    detail: str
    count: int


class CandidateView(Struct, frozen=True, rename="camel"):
    """A feasible node: its score, and the parts of the score."""

    node: str
    score: int
    parts: tuple[tuple[str, int], ...] = ()


class AccountView(Struct, frozen=True, rename="camel"):
    """Charge and target of an account at the time of the pass."""

    account: str
    charged: Resources
    target: Resources


class RequestRefView(Struct, frozen=True, rename="camel"):
    """One scheduling request: workload and generation, purpose, and how many of its slots were placed."""

    workload: str
    uid: Revision
    purpose: str
    generation: int
    placed: int


class PlacementView(Struct, frozen=True, rename="camel"):
    """A slot and the node it was placed on."""

    slot: str
    node: str


class DecisionView(Struct, frozen=True, rename="camel"):
    """What a scheduler decided for equal requests of one tenant, when, and from which evidence.

    The fields `view` and `policy` are the revisions of the state and of the policy it used; `inFlight` is the number of
    its unanswered proposals. `requests` and `placements` contain a few entries that match the query; `requestCount` and
    `placed` count all. `candidateCount` counts the best nodes; `candidates` lists them to callers who see all tenants.
    `preempted` is the number of replicas that stop for the placements.
    """

    revision: Revision
    at: Instant
    scheduler: str
    outcome: DecisionOutcome
    tenant: str
    requests: tuple[RequestRefView, ...]
    request_count: int
    placed: int
    placements: tuple[PlacementView, ...]
    view: Revision
    policy: Revision
    in_flight: int = 0
    plugins: tuple[tuple[str, str], ...] = ()
    template: str = ""
    queued_since: Instant = 0
    examined: int = 0
    rejected: tuple[RejectionCountView, ...] = ()
    nearest: str = ""
    quota: tuple[AccountView, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    candidate_count: int = 0
    refused: tuple[RejectionCountView, ...] = ()
    reasons: tuple[PendingReason, ...] = ()
    next_owner: str = ""
    preempted: int = 0


_SILENT = SchedulingPass((), "", 0, "", "")


def decision_view(page: DecisionPage, told: DecisionRecord, region: str, *, nodes: bool) -> DecisionView:
    """Return a decision of a page, with the names of the candidates if the caller may see nodes."""
    decided = told.decided
    found = decided.found or _SILENT
    best = [CandidateView(_node(page, one.node), one.score, one.parts) for one in found.candidates]
    return DecisionView(
        revision=decided.revision,
        at=decided.at,
        scheduler=decided.actor,
        outcome=decided.outcome,
        tenant=decided.tenant,
        requests=tuple(_request(page, told)),
        request_count=told.requests,
        placed=told.placed,
        placements=tuple(
            PlacementView(f"{_workload(page, assignment)}/{region}/{ordinal}", _node(page, node))
            for assignment, ordinal, node in told.placements
        ),
        view=decided.view,
        policy=decided.policy,
        in_flight=decided.in_flight,
        plugins=decided.plugins,
        template=found.template,
        queued_since=found.queued_since,
        examined=found.examined,
        rejected=tuple(RejectionCountView(*one) for one in found.rejected),
        nearest=found.nearest,
        quota=tuple(AccountView(one.account, one.charged, one.target) for one in found.quota),
        candidates=tuple(best) if nodes else (),
        candidate_count=len(best),
        refused=tuple(RejectionCountView(*one) for one in decided.refused),
        reasons=decided.reasons,
        next_owner=found.next_owner,
        preempted=found.preempted,
    )


def _request(page: DecisionPage, told: DecisionRecord) -> list[RequestRefView]:
    found = []
    for one in told.parts:
        named = page.assignments.get(one.assignment)
        purpose = named.purpose if named is not None else ""
        name = _workload(page, one.assignment)
        found.append(RequestRefView(name, one.workload, purpose, one.generation, one.placed))
    return found


def _workload(page: DecisionPage, assignment: Revision) -> str:
    named = page.assignments.get(assignment)
    return named.name if named is not None else show_revision(assignment)


def _node(page: DecisionPage, uid: Revision) -> str:
    return page.nodes.get(uid) or show_revision(uid)
