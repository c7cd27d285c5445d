"""Checks of an object without a server, by the code of the ledgers.

The checks run on a state in which everything that the object names exists, and its sender has every permission. An
object that is refused there is refused everywhere; checks that depend on the real state are left to the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.api.kinds import public_name
from holdfast.api.resources.platform_types import SchedulerPolicyView
from holdfast.api.resources.region_types import NodeSpec, NodeView
from holdfast.api.serialization.composites import MapSerializer, OptionalSerializer, StructSerializer
from holdfast.api.serialization.field_errors import FieldError, child_pointer
from holdfast.api.serialization.registry import camel, struct_serializer_for
from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.commit.size_limits import find_excess, refuse_excess
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects import tenants
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec, Scope, Token
from holdfast.core.model.objects.topology import NodePool, Region, RegionSpec
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.nodes import Node as NodeRow
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO
from holdfast.core.platform.commands import PublishPolicy
from holdfast.core.platform.decide import object_kinds, workloads
from holdfast.core.platform.decide.checks import refuse_marks, refuse_name
from holdfast.core.platform.decide.policies import refuse_policy_name, refuse_weights
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.commands import AdministerNode
from holdfast.core.region.decide.nodes import administer_node
from holdfast.core.region.state.tables import RegionState

#: Before any end: the ledger checks whether a time has passed.
_ONCE = -(2**62)
_NODE_UID = 1
_PLENTY = 2**40
#: In place of a missing token hash; the stored one stays unchanged.
_STORED = "0" * 64


def validate_object(obj: Any) -> list[FieldError]:
    """Return every reason for which any ledger would refuse this object, with the field if it is known."""
    kind, meta = public_name(type(obj)), obj.meta
    if isinstance(obj, NodeView):
        return [
            *_excess(administer_command(obj, _NODE_UID)),
            *(_fault(one, obj) for one in _answers((_administered(obj),))),
        ]
    if isinstance(obj, SchedulerPolicyView):
        return _policy_faults(obj)
    found = [_named(refused) for refused in _answers((refuse_name(kind, meta.name),))]
    for part in ("labels", "annotations"):
        alone = Meta(name=meta.name, **{part: getattr(meta, part)})
        refused = refuse_excess(alone) or refuse_marks(alone)
        found.extend(FieldError(f"/metadata/{part}", refused.message) for refused in _answers((refused,)))
    found.extend(_excess(obj.spec))
    for refused in _answers(_judged(kind, obj)):
        messages = refused.facts.get("contradictions") or [refused.message]
        found.extend(_fault(replace(refused, message=message), obj) for message in messages)
    return found


def _excess(spec: Any) -> Iterator[FieldError]:
    """Yield the value that exceeds a limit, and its place."""
    excess, refused = find_excess(spec), refuse_excess(spec)
    if excess is not None and refused is not None:
        yield FieldError(f"/spec/{excess.field.replace('.', '/')}", refused.message)


def administer_command(node: NodeView, uid: int) -> AdministerNode:
    """Return the command that gives the node with this uid the settings of the document."""
    return AdministerNode(uid, **{name: getattr(node.spec, name) for name in NodeSpec.__struct_fields__})


def publish_command(policy: SchedulerPolicyView) -> PublishPolicy:
    return PublishPolicy(policy.meta.name, policy.spec)


def _policy_faults(policy: SchedulerPolicyView) -> list[FieldError]:
    found = [_named(refused) for refused in _answers((refuse_policy_name(policy.meta.name),))]
    return [*found, *(_fault(refused, policy) for refused in _answers((refuse_weights(policy.spec),)))]


def _answers(answers: Iterable[Any]) -> Iterator[Refused]:
    return (answer for answer in answers if isinstance(answer, Refused))


def _case(command: Any) -> CommandContext:
    case = CommandContext(Envelope(actor="person/somebody", command=command, sent=_ONCE), _ONCE, 1)
    case.principal = Principal(meta=Meta(name="person/somebody"), spec=PrincipalSpec(rights=tuple(Permission)))
    return case


def _judged(kind: str, obj: Any) -> list[Refused | None]:
    world = _world_of(obj)
    if isinstance(obj, Workload):
        return [judge(world, obj, None) for judge in workloads.CHECKS]
    if isinstance(obj, Token):
        # The end of a token is checked against the time of sending, and `any` against the stored principal.
        obj = replace(obj, spec=replace(obj.spec, hash=obj.spec.hash or _STORED, expires=_ONCE + 1))
    return [object_kinds.CHECKS[kind](world, obj, None, _case(obj))]


def _administered(node: NodeView) -> Any:
    world = RegionState()
    world.nodes.put(_NODE_UID, NodeRow(node.meta.name, _NODE_UID, 0, "pool", "zone", ZERO, note="before"))
    command = administer_command(node, _NODE_UID)
    answer = administer_node(world, command, _case(command))
    # A document that would change nothing is valid.
    return None if isinstance(answer, Refused) and answer.code == "already" else answer


def _world_of(obj: Any) -> PlatformState:
    """Return a platform state in which everything that the object names exists."""
    world = PlatformState()
    spec = obj.spec
    match obj:
        case Workload():
            classes, budget = (spec.priority_class,), spec.recovery.budget
            _tenants(world, (obj.meta.tenant,), classes)
            named = spec.placement.regions or ("anywhere",)
            _regions(world, named, (spec.placement.jurisdictions or ("",))[0])
            _regions(world, [name for name, _ in spec.placement.weights if name not in named], "")
            held = tenants.RecoveryBudgetSpec(regions=(), each=ZERO)
            world.recovery_budgets.put(budget, tenants.RecoveryBudget(meta=Meta(name=budget), spec=held))
        case tenants.Tenant():
            _tenants(world, (), spec.priority_classes)
        case tenants.Quota():
            _tenants(world, (obj.meta.name,), ())
        case NodePool():
            _regions(world, (spec.region,), "")
        case tenants.RecoveryBudget():
            _regions(world, spec.regions, "")
            _tenants(world, spec.tenants, ())
        case Token():
            scope = Scope(region="" if spec.any else "somewhere")
            principal = Principal(meta=Meta(name=spec.principal), spec=PrincipalSpec(scope=scope))
            world.principals.put(spec.principal, principal)
    return world


def _tenants(world: PlatformState, names: tuple[str, ...], classes: tuple[str, ...]) -> None:
    for name in classes:
        world.priority_classes.put(
            name, tenants.PriorityClass(meta=Meta(name=name), spec=tenants.PriorityClassSpec(priority=0))
        )
    for name in names:
        world.tenants.put(
            name,
            tenants.Tenant(
                meta=Meta(name=name), spec=tenants.TenantSpec(priority_classes=classes, pending_max=_PLENTY)
            ),
        )


def _regions(world: PlatformState, names: Iterable[str], jurisdiction: str) -> None:
    for name in names:
        world.regions.put(name, Region(meta=Meta(name=name), spec=RegionSpec(jurisdiction=jurisdiction)))


def _named(refused: Refused) -> FieldError:
    """Return a refusal of a name as a fault."""
    form = refused.facts.get("form")
    return FieldError("/metadata/name", refused.message, f"a name matches {form}" if form else "")


def _fault(refused: Refused, obj: Any) -> FieldError:
    """Return a refusal as a fault, with a pointer to the first field that its facts or its message name.

    A nested field is named `readiness.http.path`, a member of a map `scores.packing`.
    """
    field = str(refused.facts.get("field", ""))
    words = [word.strip(",;:.") for word in refused.message.split()]
    facts = [camel(fact) for fact in refused.facts]
    of: Any = type(obj)
    places = _places(struct_serializer_for(of).fields["spec"].form, "/spec")
    named = (word.split(".") for word in (field, *words, *facts))
    place = next((_within(places[first], rest) for first, *rest in named if first in places), "/spec")
    return FieldError(place, refused.message.removeprefix(f"{field}: ") if "." in field else refused.message)


class _Place(NamedTuple):
    pointer: str
    form: Any


def _places(form: Any, at: str) -> dict[str, _Place]:
    """Return the place of every field by its name. An outer field wins over an inner one of the same name."""
    if not isinstance(form, StructSerializer):
        return {}
    inner = {
        name: place
        for field in form.fields.values()
        for name, place in _places(field.form, f"{at}/{field.name}").items()
    }
    return {**inner, **{name: _Place(f"{at}/{name}", field.form) for name, field in form.fields.items()}}


def _within(place: _Place, names: list[str]) -> str:
    """Return the pointer to a field inside this one, as far as the names exist."""
    pointer, form = place
    for depth, name in enumerate(names):
        form = form.item if isinstance(form, OptionalSerializer) else form
        if isinstance(form, MapSerializer):
            return child_pointer(pointer, ".".join(names[depth:]))
        if not isinstance(form, StructSerializer) or name not in form.fields:
            break
        pointer, form = f"{pointer}/{name}", form.fields[name].form
    return pointer
