"""The model of what senders expect: the revision of the object that a command changes, and what is wrong with it."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.log import Configure, RaiseLevel
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.platform import commands as c
from tests.properties.platform.model.platform import World

#: These come before: nothing is said of the object to whoever is refused so.
FIRST = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER, Code.MALFORMED, Code.TOO_LARGE)


def present(world: World, command: Any) -> int | None:
    """The revision at which the object is, 0 where there is none; None: the command changes no object."""
    match command:
        case c.Put(thing):
            return _of(world.things.get((type(thing).__name__, thing.meta.name)))
        case c.Delete(kind, name):
            return _of(world.things.get((kind, name)))
        case c.PutWorkload(workload):
            return _of(world.live(workload.meta.tenant, workload.meta.name))
        case c.DeleteWorkload(tenant, name):
            return _of(world.live(tenant, name))
        case c.AttestRight(uid):
            return _of(world.workloads.get(uid))
        case c.BelieveRegion(region) | c.DeclareLost(region) | c.RetireRegion(region):
            return _of(world.things.get(("Region", region)))
        case c.PublishPolicy(name):
            return newest(world, name)
        case c.RollBackPolicy(revision):
            return newest(world, world.published[revision][0]) if revision in world.published else 0
        case c.ActivatePolicy(_, region, scope):
            return world.validities.get((region, scope), 0)
        case EndOverride(uid):
            return uid if uid in world.overrides else 0
        case Configure():
            return world.configured
        case OpenOverride() | RaiseLevel():
            return None
    return None


def newest(world: World, name: str) -> int:
    return max((revision for revision, said in world.published.items() if said[0] == name), default=0)


def unexpected(world: World, envelope: Envelope[Any]) -> tuple[Code, bool] | None:
    """The code by which it is refused, and whether there is no such object."""
    expect = envelope.expect or getattr(envelope.command, "expect", 0)
    if not expect:
        return None
    found = present(world, envelope.command)
    if found is None:
        return Code.MALFORMED, False
    if expect == found or (expect == PRESENT and found) or (expect == ABSENT and not found):
        return None
    return (Code.EXISTS if expect == ABSENT else Code.STALE), not found


def _of(thing: Any) -> int:
    return int(thing.meta.revision) if thing is not None else 0
