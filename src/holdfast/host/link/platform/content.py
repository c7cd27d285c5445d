"""The platform's objects that a region has copies of, and the effect of events on these copies.

Every region has priority classes, principals, tokens, the platform's servers, policies, and overrides for it or for all
regions. It also has its own jurisdiction, node pool costs, assignments, grants and policy validities. A template is
shipped with the assignments that name it, and removed when the platform forgets it. One that is no longer needed does
no harm: a digest always names the same content.

An event names the objects that it touches; the state contains them. So a step has each object once, in its present
form, however often it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.core.ledger.builtin.log import Configured
from holdfast.core.ledger.builtin.overrides import OverrideEnded, OverrideOpened
from holdfast.core.ledger.builtin.servers import ServerForgotten, ServerStored
from holdfast.core.ledger.commit.watch import LOG, OVERRIDE, PRINCIPAL, SERVER
from holdfast.core.model.objects.policies import validity_key
from holdfast.core.model.records.grants import grant_key
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import events as e
from holdfast.core.platform import watch as k
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region import commands as c
from holdfast.core.region.state.shipped_objects import shipped_name
from holdfast.host.watch.changes import WatchFilter

#: Identity of an object: its kind, and its key as text, as from `shipped_name`.
Name = tuple[str, str]
#: Objects of a full list that are examined before other tasks run.
AT_ONCE = 1_000

#: The platform's settings: a region receives the grace.
SETTINGS = (LOG, "settings")
#: Kinds whose objects have one key, as in the platform's events.
_NAMED = (k.PRIORITY_CLASS, PRINCIPAL, k.TOKEN, k.NODE_POOL, k.POLICY, OVERRIDE, SERVER, k.TEMPLATE, k.ASSIGNMENT)
#: Events that change copied objects. Others touch the same keys: sessions of a principal, a region's own reports.
_TELLING = (
    e.ObjectStored, e.ObjectRemoved, e.TemplatesForgotten, e.AssignmentStored, e.GrantStored, e.GrantsRemoved,
    e.GrantsForgotten, e.PolicyPublished, e.PoliciesDropped, e.PolicyStaged, e.ValidityStored, e.ValiditiesDropped,
    OverrideOpened, OverrideEnded, ServerStored, ServerForgotten,
)  # fmt: skip


def region_filter(region: str) -> WatchFilter:
    """Return the filter for a region's part of the platform's log."""
    return WatchFilter(frozenset({(k.REGION, region), SETTINGS}), frozenset(k.SHIPPED_TO_ALL))


def touched_by(event: Any, revision: Revision, region: str) -> Iterator[Name]:
    """Yield the region's objects that an event may have changed, computed from the event alone."""
    if isinstance(event, Configured):
        yield k.REGION, region
    elif isinstance(event, e.AssignmentsEnded | e.AssignmentsRemoved):
        yield from ((k.ASSIGNMENT, str(one.assignment)) for one in event.assignments if one.region == region)
    elif isinstance(event, _TELLING) and not _is_known(event, region):
        for kind, key in PLATFORM.keys[type(event)](event, revision):
            if kind in (k.GRANT, k.VALIDITY):
                owner, _, rest = str(key).partition("|")
                if owner == region:
                    yield kind, rest
            elif kind in _NAMED or (kind == k.REGION and key == region and isinstance(event, e.ObjectStored)):
                yield kind, str(key)


def _is_known(event: Any, region: str) -> bool:
    """Return whether the region needs no copy: an override for another region, or a grant version from its own
    acknowledgement."""
    if isinstance(event, OverrideOpened):
        return event.override.region not in ("", region)
    return isinstance(event, e.GrantStored) and event.grant.acknowledged == event.grant.version


def everything(state: PlatformState, region: str) -> Iterator[c.ShippedItem | None]:
    """Yield all objects that a region has copies of, each once, templates first.

    It yields None at intervals: there may be very many objects, and the caller then lets other tasks run.
    """
    mine: list[Revision] = []
    digests: dict[str, None] = {}
    for number, (uid, one) in enumerate(state.assignments.unordered(), 1):
        if one.region == region:
            mine.append(uid)
            digests.update(dict.fromkeys(share.template for share in one.shares))
        if number % AT_ONCE == 0:
            yield None
    for number, digest in enumerate(sorted(digests), 1):
        yield c.ShippedTemplate(digest, state.templates[digest])
        if number % AT_ONCE == 0:
            yield None
    for number, name in enumerate(_names(state, region, sorted(mine)), 1):
        found = _copy(state, region, name)
        if found is not None:
            yield found
        if number % AT_ONCE == 0:
            yield None


def _names(state: PlatformState, region: str, assignments: list[Revision]) -> list[Name]:
    """Return the names of a region's copies, without templates: each after the objects that it depends on."""
    names: list[Name] = [(k.REGION, region)]
    names += [(k.PRIORITY_CLASS, name) for name, _ in state.priority_classes.items()]
    names += [(PRINCIPAL, name) for name, _ in state.principals.items()]
    names += [(k.TOKEN, name) for name, _ in state.tokens.items()]
    names += [(SERVER, name) for name, _ in state.servers.items()]
    names += [(k.NODE_POOL, name) for name, one in state.node_pools.items() if one.spec.region == region]
    names += [(k.POLICY, str(revision)) for revision, _ in state.policies.items()]
    names += [(k.VALIDITY, one.scope) for one in state.validities.values() if one.region == region]
    names += [(OVERRIDE, str(uid)) for uid, _ in state.overrides.items()]
    names += sorted((k.GRANT, one.account) for _, one in state.grants.unordered() if one.region == region)
    return names + [(k.ASSIGNMENT, str(uid)) for uid in assignments]


def changed(
    state: PlatformState, region: str, names: Iterable[Name]
) -> tuple[tuple[c.ShippedItem, ...], tuple[c.RemovedObject, ...]]:
    """Return the present form of these objects, with their dependencies, and those that are deleted.

    An object is as in `state`, which may be ahead of the event that named it. This is safe: new dependencies are
    shipped with it, and its last change names it again. So the region ends with the last form of every object.
    """
    puts: dict[Name, c.ShippedItem] = {}
    gone: list[c.RemovedObject] = []
    for name in dict.fromkeys(names):
        found = _copy(state, region, name)
        if found is not None:
            puts |= {shipped_name(one): one for one in (*_needs(state, found), found)}
        elif not _stays(state, name):
            gone.append(c.RemovedObject(*name))
    ordered = sorted(puts.values(), key=lambda one: not isinstance(one, c.ShippedTemplate))
    return tuple(ordered), tuple(gone)


def _needs(state: PlatformState, put: c.ShippedItem) -> list[c.ShippedItem]:
    """Return the objects on which a shipped object depends."""
    match put:
        case c.ShippedAssignment(assignment):
            digests = sorted({share.template for share in assignment.shares})
            templates = [c.ShippedTemplate(digest, state.templates[digest]) for digest in digests]
            priority = state.priority_classes.get(assignment.priority_class)
            return [*templates, *([c.ShippedPriorityClass(priority)] if priority is not None else ())]
        case c.ShippedValidity(validity):
            policy = state.policies.get(validity.revision)
            return [c.ShippedPolicy(policy)] if policy is not None else []
        case _:
            return []


def _stays(state: PlatformState, name: Name) -> bool:
    """Return whether an object that is not shipped still exists: a template is shipped with its assignments, and the
    first operator of a log is not shipped."""
    kind, key = name
    if kind == k.TEMPLATE:
        return key in state.templates
    return kind == k.REGION or (kind == PRINCIPAL and key in state.principals)


def _copy(state: PlatformState, region: str, name: Name) -> c.ShippedItem | None:
    """Return the object in the form for this region; None: it is deleted, or not for this region."""
    kind, key = name
    if kind in (k.REGION, k.NODE_POOL, k.VALIDITY, k.GRANT, k.ASSIGNMENT):
        return _copy_of_its_own(state, region, name)
    if kind == k.PRIORITY_CLASS:
        priority = state.priority_classes.get(key)
        return c.ShippedPriorityClass(priority) if priority is not None else None
    if kind == PRINCIPAL:
        principal = state.principals.get(key)
        return c.ShippedPrincipal(principal) if principal and principal.meta.created_by != "ledger" else None
    if kind == k.TOKEN:
        token = state.tokens.get(key)
        return c.ShippedToken(token) if token is not None else None
    if kind == k.POLICY:
        policy = state.policies.get(int(key))
        return c.ShippedPolicy(policy) if policy is not None else None
    if kind == OVERRIDE:
        override = state.overrides.get(int(key))
        return c.ShippedOverride(override) if override and override.region in ("", region) else None
    if kind == SERVER:
        server = state.servers.get(key)
        return c.ShippedServer(server) if server is not None else None
    assert kind == k.TEMPLATE, name
    return None


def _copy_of_its_own(state: PlatformState, region: str, name: Name) -> c.ShippedItem | None:
    kind, key = name
    if kind == k.REGION:
        place = state.regions.get(region)
        grace = state.info.settings.grace
        return c.ShippedRegion(region, place.spec.jurisdiction, grace) if place is not None else None
    if kind == k.NODE_POOL:
        pool = state.node_pools.get(key)
        return c.ShippedPool(key, pool.spec.cost) if pool and pool.spec.region == region else None
    if kind == k.VALIDITY:
        validity = state.validities.get(validity_key(region, key))
        return c.ShippedValidity(validity) if validity is not None else None
    if kind == k.GRANT:
        grant = state.grants.get(grant_key(region, key))
        if grant is None:
            return None
        return c.ShippedGrant(grant.account, grant.version, grant.target, grant.ends, grant.protected, grant.weight)
    assignment = state.assignments.get(int(key))
    return c.ShippedAssignment(assignment) if assignment and assignment.region == region else None
