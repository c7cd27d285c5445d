"""Which objects of the platform a region has a copy of, and what the platform's events mean for that copy.

Of everybody's: priority classes, principals, tokens, the platform's servers, policies, and overrides of this region or
of all. Of its own: where it lies, what its node pools cost, assignments, grants, policy validities. A template comes
with the assignments that name it and is gone when the platform forgets it: a region has no use for others, and one that
it no longer needs does no harm, since a template is what its digest says for ever.

The one idea: an event says which objects it touches, the state says what they are. So a step holds each object once,
as it is, however often it changed.
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

#: What an object is told apart by: its kind, and its key as text, as `shipping.name_of` gives them.
Name = tuple[str, str]
#: So many objects of a full list are looked at before others have their turn.
AT_ONCE = 1_000

#: The platform's numbers: a region is told its grace.
SETTINGS = (LOG, "settings")
#: Kinds whose objects are named by one key, as it is in the platform's events.
_NAMED = (k.PRIORITY_CLASS, PRINCIPAL, k.TOKEN, k.NODE_POOL, k.POLICY, OVERRIDE, SERVER, k.TEMPLATE, k.ASSIGNMENT)
#: Events that change what is copied. Others touch the same keys: sessions of a principal, what a region itself says.
_TELLING = (
    e.ObjectStored, e.ObjectRemoved, e.TemplatesForgotten, e.AssignmentStored, e.GrantStored, e.GrantsRemoved,
    e.GrantsForgotten, e.PolicyPublished, e.PoliciesDropped, e.PolicyStaged, e.ValidityStored, e.ValiditiesDropped,
    OverrideOpened, OverrideEnded, ServerStored, ServerForgotten,
)  # fmt: skip


def region_filter(region: str) -> WatchFilter:
    """What the platform's log holds for a region."""
    return WatchFilter(frozenset({(k.REGION, region), SETTINGS}), frozenset(k.SHIPPED_TO_ALL))


def touched_by(event: Any, revision: Revision, region: str) -> Iterator[Name]:
    """Which of a region's objects an event may have changed, told from the event alone."""
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
    """Whether the region need not be told: an override of another one, or a grant's version that it has acknowledged,
    which it did from its own log."""
    if isinstance(event, OverrideOpened):
        return event.override.region not in ("", region)
    return isinstance(event, e.GrantStored) and event.grant.acknowledged == event.grant.version


def everything(state: PlatformState, region: str) -> Iterator[c.ShippedItem | None]:
    """All that a region has a copy of, as it is: each object once, templates first.

    Now and then None: there may be very many, and whoever goes through them lets others have their turn then.
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
    """What a region has a copy of, but for templates: each comes after what it needs to be understood."""
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
    """What these objects are, with what they need to be understood, and which of them are no more.

    Each is as it is in `state`, which may be ahead of the event that named it. That is safe: whatever it refers to that
    the region may not have heard of yet comes with it; and its last change names it again, so that the region ends
    with the last of everything.
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
    """What the region must have to understand this object."""
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
    """Whether an object that is not shipped is there all the same: a template comes with who names it, and the
    operator that every log begins with is its own ledger's."""
    kind, key = name
    if kind == k.TEMPLATE:
        return key in state.templates
    return kind == k.REGION or (kind == PRINCIPAL and key in state.principals)


def _copy(state: PlatformState, region: str, name: Name) -> c.ShippedItem | None:
    """The object as this region gets it; None: it is no more, or not for this region."""
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
        return c.ShippedGrant(grant.account, grant.version, grant.target, grant.ends, grant.protected)
    assignment = state.assignments.get(int(key))
    return c.ShippedAssignment(assignment) if assignment and assignment.region == region else None
