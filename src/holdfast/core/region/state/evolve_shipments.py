"""Effects of shipped events: each stores or deletes a copy, and the cursor moves with them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.sparse_rows import put_or_drop
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.values.resources import ZERO, clamp_zero, subtract
from holdfast.core.region import events as e
from holdfast.core.region.state.account_usage import owed, shift_protected
from holdfast.core.region.state.indexes import count_template, index_assignment, index_unended, unindex_assignment
from holdfast.core.region.state.shipped_objects import TABLE_OF_SHIPPED
from holdfast.core.region.state.tables import FullListProgress, RegionState


def cursor_moved(state: RegionState, event: e.CursorMoved, stamp: Stamp) -> None:
    _forget_list(state)
    place = state.region
    # The newest proof of that log, even of an earlier cursor: a server cannot always sign.
    proof = event.proof or (place.proof if event.log_id == place.platform_log else "")
    moved = {"platform_log": event.log_id, "platform_term": event.term, "cursor": event.cursor, "proof": proof}
    state.region = replace(place, **moved)


def list_taken(state: RegionState, event: e.ListTaken, stamp: Stamp) -> None:
    if event.part == 0:
        _forget_list(state)
    state.listed_names.put(event.part, event.names)
    listing = FullListProgress(event.log_id, event.term, event.to, event.part + 1)
    state.region = replace(state.region, listing=listing)


def list_swept(state: RegionState, event: e.ListSwept, stamp: Stamp) -> None:
    listing = state.region.listing
    assert listing is not None, "no full list is in progress"
    state.region = replace(state.region, listing=replace(listing, swept=(event.last.kind, event.last.key)))


def _forget_list(state: RegionState) -> None:
    listing = state.region.listing
    if listing is not None:
        for part in range(listing.parts):
            state.listed_names.drop(part)
        state.region = replace(state.region, listing=None)


def place_stored(state: RegionState, event: e.RegionReceived, stamp: Stamp) -> None:
    place = event.place
    state.region = replace(state.region, name=place.name, jurisdiction=place.jurisdiction, grace=place.grace)


def template_stored(state: RegionState, event: e.TemplateReceived, stamp: Stamp) -> None:
    state.templates.put(event.digest, event.template)
    state.leaving_templates.drop(event.digest)


def template_leaving(state: RegionState, event: e.TemplateLeaving, stamp: Stamp) -> None:
    if event.digest in state.template_uses:
        state.leaving_templates.put(event.digest, True)
    else:
        state.templates.drop(event.digest)


def assignment_stored(state: RegionState, event: e.AssignmentReceived, stamp: Stamp) -> None:
    before = state.assignments.get(event.assignment.uid)
    state.assignments.put(event.assignment.uid, event.assignment)
    index_unended(state, event.assignment, before)
    if before is None:
        index_assignment(state, event.assignment.uid, event.assignment)
    for share in event.assignment.shares:
        count_template(state, share.template, 1)
    for share in before.shares if before else ():
        count_template(state, share.template, -1)
    _keep_finished(state, event.assignment)


def _keep_finished(state: RegionState, assignment: Assignment) -> None:
    """Keep finished ordinals while their template is a share of batch work. Those of an ended assignment stay until it
    is forgotten."""
    rows = state.finished.get(assignment.uid)
    if rows is None or assignment.stage is AssignmentStage.ENDED:
        return
    asked = [share.template for share in assignment.shares] if assignment.batch else []
    put_or_drop(state.finished, assignment.uid, tuple(row for row in rows if row.template in asked))


def allowance_stored(state: RegionState, event: e.GrantReceived, stamp: Stamp) -> None:
    allowance = event.allowance
    before = owed(state, allowance.account)
    state.accepted_grants.put(allowance.account, allowance)
    use = state.account_usage.get(allowance.account) or AccountUsage()
    shift_protected(state, before, clamp_zero(subtract(allowance.protected, use.placed)))


def class_stored(state: RegionState, event: e.PriorityClassReceived, stamp: Stamp) -> None:
    state.priority_classes.put(event.priority_class.meta.name, event.priority_class)


def principal_stored(state: RegionState, event: e.PrincipalReceived, stamp: Stamp) -> None:
    state.principals.put(event.principal.meta.name, event.principal)


def token_stored(state: RegionState, event: e.TokenReceived, stamp: Stamp) -> None:
    state.tokens.put(event.token.meta.name, event.token)


def pool_stored(state: RegionState, event: e.PoolReceived, stamp: Stamp) -> None:
    state.pool_costs.put(event.name, event.cost)


def policy_stored(state: RegionState, event: e.PolicyReceived, stamp: Stamp) -> None:
    state.policies.put(event.policy.revision, event.policy)


def validity_stored(state: RegionState, event: e.ValidityReceived, stamp: Stamp) -> None:
    state.validities.put(event.validity.scope, event.validity.revision)


def override_stored(state: RegionState, event: e.OverrideReceived, stamp: Stamp) -> None:
    state.platform_overrides.put(event.override.uid, event.override)


def platform_server_stored(state: RegionState, event: e.PlatformServerReceived, stamp: Stamp) -> None:
    state.platform_servers.put(event.server.name, event.server)


def shipped_gone(state: RegionState, event: e.ShippedObjectRemoved, stamp: Stamp) -> None:
    kind, key = event.gone.kind, event.gone.key
    if kind == "grant":
        shift_protected(state, owed(state, key), ZERO)
    assert kind != "assignment", "an assignment is removed by AssignmentForgotten, which names its workload"
    table, numeric = TABLE_OF_SHIPPED[kind]
    state.table(table).drop(int(key) if numeric else key)


APPLY_SHIPPED: dict[type, Any] = {
    e.CursorMoved: cursor_moved,
    e.ListTaken: list_taken,
    e.ListSwept: list_swept,
    e.RegionReceived: place_stored,
    e.TemplateReceived: template_stored,
    e.TemplateLeaving: template_leaving,
    e.AssignmentReceived: assignment_stored,
    e.GrantReceived: allowance_stored,
    e.PriorityClassReceived: class_stored,
    e.PrincipalReceived: principal_stored,
    e.TokenReceived: token_stored,
    e.PoolReceived: pool_stored,
    e.PolicyReceived: policy_stored,
    e.ValidityReceived: validity_stored,
    e.OverrideReceived: override_stored,
    e.PlatformServerReceived: platform_server_stored,
    e.ShippedObjectRemoved: shipped_gone,
}


def assignment_forgotten(state: RegionState, event: e.AssignmentForgotten, stamp: Stamp) -> None:
    assignment = state.assignments[event.assignment]
    unindex_assignment(state, assignment)
    index_unended(state, None, assignment)
    state.assignments.drop(event.assignment)
    state.finished.drop(event.assignment)
    for share in assignment.shares:
        count_template(state, share.template, -1)
