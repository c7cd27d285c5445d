"""The model of the link and of breaches: what the platform says, and what that or a shrinking node breaks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.values.ranges import contains
from holdfast.core.region import commands as c
from tests.properties.region.model.records import Grant, Node, amounts, larger, plus
from tests.properties.region.model.region import Model
from tests.properties.region.model.senders import Sender
from tests.properties.region.model.tenants import unwelcome

STEPS_MAX = 10_000
#: So many objects are gone at once with the last part of a list: few here, so that it takes its time.
GONE_MAX = 4
Overshoots = dict[tuple[str, str], int]
#: By kind: whether its key is a number.
KINDS = {
    "template": False, "assignment": True, "grant": False, "priority-class": False, "principal": False,
    "token": False, "node-pool": False, "policy": True, "validity": False, "override": True, "server": False,
}  # fmt: skip


def _other(old: Grant, new: Grant) -> bool:
    return (old.target, old.ends, old.protected, old.weight) != (new.target, new.ends, new.protected, new.weight)


def name_of(put: c.ShippedItem) -> tuple[str, str]:
    """The kind and the key of what is shipped, as a full list and `Gone` name it."""
    kind = str(type(put).__struct_config__.tag)
    match put:
        case c.ShippedRegion():
            return kind, put.name
        case c.ShippedTemplate():
            return kind, put.digest
        case c.ShippedAssignment():
            return kind, str(put.assignment.uid)
        case c.ShippedGrant():
            return kind, put.account
        case c.ShippedPriorityClass():
            return kind, put.priority_class.meta.name
        case c.ShippedPrincipal():
            return kind, put.principal.meta.name
        case c.ShippedToken():
            return kind, put.token.meta.name
        case c.ShippedPool():
            return kind, put.name
        case c.ShippedPolicy():
            return kind, str(put.policy.revision)
        case c.ShippedValidity():
            return kind, put.validity.scope
        case c.ShippedOverride():
            return kind, str(put.override.uid)
        case c.ShippedServer():
            return kind, put.server.name


def table_of(model: Model, kind: str) -> dict[Any, Any]:
    tables: dict[str, dict[Any, Any]] = {
        "template": model.templates, "assignment": model.assignments, "grant": model.grants,
        "priority-class": model.classes, "principal": model.principals, "token": model.tokens,
        "node-pool": model.pools, "policy": model.policies, "validity": model.validities,
        "override": model.shipped_overrides, "server": model.platform_servers,
    }  # fmt: skip
    return tables[kind]


def ship(model: Model, command: c.Ship, sender: Sender) -> Code | None:
    """A step is applied whole, with its cursor, or not at all."""
    refused = _refuse_cursor(model, command) or _refuse_contents(model, command)
    if refused is not None:
        return refused
    puts = () if _goes_on(model, command) else command.puts
    before = _overshoots_of_assignments(model)
    missing, ended = _list(model, command) if command.full else ([], True)
    moved = model.jurisdiction
    for put in puts:
        _put(model, put, anew=command.log_id != model.platform_log)
    for gone in (*command.gone, *missing):
        _gone(model, gone, sender.at)
    told = {put.assignment.uid for put in puts if isinstance(put, c.ShippedAssignment)}
    told |= {int(gone.key) for gone in (*command.gone, *missing) if gone.kind == "assignment"}
    for uid, assignment in model.assignments.items():
        if uid in told or model.jurisdiction != moved:
            open_breaches(model, before, overshoots_of_assignment(model, assignment), sender.at)
    if ended:
        model.proof = command.proof or (model.proof if command.log_id == model.platform_log else "")
        model.platform_log, model.platform_term, model.cursor = command.log_id, command.term, command.to
        model.listing, model.listed, model.swept = None, (), None
    return None


def _list(model: Model, command: c.Ship) -> tuple[list[c.RemovedObject], bool]:
    """What this part takes away, and whether the list ends with it."""
    if not _goes_on(model, command):
        before = model.listed if command.part else ()
        model.listing, model.swept = (command.log_id, command.term, command.to), None
        model.listed = (*before, frozenset(map(name_of, command.puts)))
    if not command.last:
        return [], False
    missing = _missing(model)
    if len(missing) <= GONE_MAX:
        return missing, True
    last = missing[GONE_MAX - 1]
    model.swept = last.kind, last.key
    return missing[:GONE_MAX], False


def _goes_on(model: Model, command: c.Ship) -> bool:
    """Whether all of this list was named, and this last part only goes on to take away the rest."""
    is_last = command.full and command.last and command.part == len(model.listed) - 1
    return is_last and model.swept is not None and model.listing == (command.log_id, command.term, command.to)


def _refuse_cursor(model: Model, command: c.Ship) -> Code | None:
    if len(command.puts) + len(command.gone) > STEPS_MAX:
        return Code.TOO_LARGE
    if command.full and (command.gone or command.part < 0):
        return Code.MALFORMED
    if not command.full and (command.part or not command.last):
        return Code.MALFORMED
    same_log = command.log_id == model.platform_log
    if same_log and command.term < model.platform_term:
        return Code.STALE
    if model.listing is not None and model.listing[0] == command.log_id and command.term < model.listing[1]:
        return Code.STALE
    if command.full:
        return _refuse_part(model, command)
    if not same_log:
        return Code.DIVERGED
    if command.to <= model.cursor:
        return Code.ALREADY
    return None if command.after == model.cursor and model.listing is None else Code.GAP


def _refuse_part(model: Model, command: c.Ship) -> Code | None:
    here = len(model.listed)
    if model.listing == (command.log_id, command.term, command.to):
        if _goes_on(model, command) or (command.part == here and model.swept is None):
            return None
        return Code.ALREADY if command.part < here else Code.GAP
    behind = model.cursor - command.to if command.log_id == model.platform_log else -1
    if behind > 0 or (behind == 0 and command.part > 0):
        return Code.ALREADY
    return Code.DIVERGED if command.part > 0 else None


def _refuse_contents(model: Model, command: c.Ship) -> Code | None:
    names = [*map(name_of, command.puts), *((gone.kind, gone.key) for gone in command.gone)]
    if len(set(names)) < len(names):
        return Code.MALFORMED
    known = {*model.templates, *(put.digest for put in command.puts if isinstance(put, c.ShippedTemplate))}
    here = model.ledger.removeprefix("region/")
    for put in command.puts:
        if isinstance(put, c.ShippedTemplate) and template_digest(put.template) != put.digest:
            return Code.MALFORMED
        if isinstance(put, c.ShippedRegion) and put.name != here:
            return Code.WRONG_SCOPE
        if isinstance(put, c.ShippedServer) and not put.server.principal.startswith("platform/"):
            return Code.WRONG_SCOPE
        if isinstance(put, c.ShippedAssignment):
            new = put.assignment
            if new.region != here:
                return Code.WRONG_SCOPE
            if not all(share.template in known for share in new.shares):
                return Code.NOT_FOUND
            old = model.assignments.get(new.uid, new)
            if (old.workload, old.tenant, old.exclusive) != (new.workload, new.tenant, new.exclusive):
                return Code.MALFORMED
    odd = any(gone.kind not in KINDS or (KINDS[gone.kind] and not gone.key.isdecimal()) for gone in command.gone)
    return Code.MALFORMED if odd else None


def _missing(model: Model) -> list[c.RemovedObject]:
    """What a full list does not name is gone, templates last; the operator that this log began with is not the
    platform's to take."""
    named = {name for part in model.listed for name in part}
    own = {("principal", p.meta.name) for p in model.principals.values() if p.meta.created_by == "ledger"}
    known = [(kind, str(key)) for kind in KINDS for key in table_of(model, kind)]
    ordered = sorted((kind == "template", (kind, key)) for kind, key in known)
    if model.swept is not None:
        ordered = [one for one in ordered if one > (model.swept[0] == "template", model.swept)]
    return [c.RemovedObject(*name) for _, name in ordered if name not in named | own]


def _put(model: Model, put: c.ShippedItem, *, anew: bool) -> None:
    match put:
        case c.ShippedRegion():
            model.jurisdiction = put.jurisdiction
        case c.ShippedTemplate():
            model.templates[put.digest] = put.template
            model.leaving.discard(put.digest)
        case c.ShippedAssignment():
            told_in = model.term if put.assignment.right_until else 0
            model.assignments[put.assignment.uid] = replace(put.assignment, right_term=told_in)
        case c.ShippedGrant():
            old = model.grants.get(put.account)
            target = amounts(put.target)
            limit = larger(target, model.charged(put.account))
            new = Grant(put.version, target, limit, put.ends, amounts(put.protected), put.weight)
            # The same version twice is one offer, unless it says something else: then it was gone, and lent anew.
            if old is None or anew or old.version < new.version or (old.version == new.version and _other(old, new)):
                model.grants[put.account] = new
        case c.ShippedPriorityClass():
            model.classes[put.priority_class.meta.name] = put.priority_class
        case c.ShippedPrincipal():
            model.principals[put.principal.meta.name] = put.principal
        case c.ShippedToken():
            model.tokens[put.token.meta.name] = put.token
        case c.ShippedPool():
            model.pools[put.name] = put.cost
        case c.ShippedPolicy():
            model.policies[put.policy.revision] = put.policy
        case c.ShippedValidity():
            model.validities[put.validity.scope] = put.validity.revision
        case c.ShippedOverride():
            model.shipped_overrides[put.override.uid] = put.override
        case c.ShippedServer():
            model.platform_servers[put.server.name] = put.server


def _gone(model: Model, gone: c.RemovedObject, at: int) -> None:
    """It leaves at once, unless something here still stands on it: then it ends, and goes when that is gone."""
    table = table_of(model, gone.kind)
    key: Any = int(gone.key) if KINDS[gone.kind] else gone.key
    own = gone.kind == "principal" and key in table and table[key].meta.created_by == "ledger"
    if key not in table or own:
        return
    if gone.kind == "template":
        model.leaving.add(key)
    elif gone.kind == "grant" and model.charged(key):
        old: Grant = table[key]
        table[key] = Grant(old.version, {}, model.charged(key), min(old.ends, at), {}, old.weight)
    elif gone.kind == "assignment" and _stands(model, key):
        table[key] = replace(table[key], stage=AssignmentStage.ENDED, shares=(), ordinals=())
    else:
        del table[key]


def stand_down(model: Model, command: c.StandDown, sender: Sender) -> Code | None:
    """Everything that is assigned ends, and nothing new is paid for."""
    running = [uid for uid, one in model.assignments.items() if one.stage is not AssignmentStage.ENDED]
    paying = [account for account, one in model.grants.items() if one.ends > sender.at or any(one.target.values())]
    if not running and not paying:
        return Code.ALREADY
    for uid in running:
        model.assignments[uid] = replace(model.assignments[uid], stage=AssignmentStage.ENDED, shares=(), disruption=0)
    for account in paying:
        old = model.grants[account]
        model.grants[account] = Grant(old.version, {}, model.charged(account), min(old.ends, sender.at), {}, old.weight)
    return None


def _stands(model: Model, assignment: int) -> bool:
    return bool(model.of(assignment)) or any(hold.assignment == assignment for hold in model.holds.values())


# What the world breaks


def tolerated(template: Template, taint: Taint) -> bool:
    return any(one.key == taint.key and one.value in ("", taint.value) for one in template.tolerate)


def overshoots_of_node(model: Model, node: Node) -> Overshoots:
    """By how much more stands there than the node has, and how many slots that it evicts or keeps out."""
    room, capacity, found = model.room(node.uid), model.capacity(node), Overshoots()
    firm = plus(room.firm, room.held)
    for name in {**room.all, **firm}:
        over = max(room.all.get(name, 0), firm.get(name, 0)) - capacity.get(name, 0)
        if over > 0:
            found["region.capacity", f"node/{node.uid}/{name}"] = over
    count = len(unwelcome(model, node))
    if count:
        found["region.allowed", f"node/{node.uid}"] = count
    return found


def overshoots_of_assignment(model: Model, assignment: Assignment) -> Overshoots:
    """How many of its slots stand here against its residency, or without a right."""
    found = Overshoots()
    standing = [slot for slot in model.standing() if slot.assignment == assignment.uid]
    if assignment.jurisdictions and model.jurisdiction not in assignment.jurisdictions and standing:
        found["region.residency", f"assignment/{assignment.uid}"] = len(standing)
    without = [slot for slot in standing if assignment.exclusive and not contains(assignment.ordinals, slot.ordinal)]
    if without:
        found["region.right", f"assignment/{assignment.uid}"] = len(without)
    return found


def _overshoots_of_assignments(model: Model) -> Overshoots:
    found = Overshoots()
    for assignment in model.assignments.values():
        found |= overshoots_of_assignment(model, assignment)
    return found


def open_breaches(model: Model, before: Overshoots, found: Overshoots, at: int) -> None:
    """What was broken before goes on from when it was opened, and never shrinks; the rest is broken from now on."""
    for key, over in found.items():
        known = model.breaches.get(key) if key in before else None
        model.breaches[key] = (max(over, known[0]), known[1]) if known is not None else (over, at)


def close_breach(model: Model, command: c.CloseBreach, sender: Sender) -> Code | None:
    key = (command.invariant, command.key)
    if key not in model.breaches:
        return Code.NOT_FOUND
    now = _overshoots_of_assignments(model)
    for node in model.nodes.values():
        now |= overshoots_of_node(model, node)
    if key in now:
        return Code.TOO_EARLY
    del model.breaches[key]
    return None
