"""Redaction: decides in one place what a caller sees in lists, watches, decisions, queue, repairs and problems.

    a caller that sees all tenants   everything
    a caller without a tenant        objects of no tenant in full, and nothing of a tenant
    a caller of one tenant           the tenant's objects; objects of no tenant without the parts of others

A tenant does not see objects of others, including nodes reserved for others. In objects of no tenant it does not see
parts about others, and how much others use. Free text of users or schedulers may name any tenant: a text that names
another tenant is left out completely. What a tenant itself sent stays unchanged.

Size: what a caller sees is decided in this place alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources import platform_types as s
from holdfast.api.resources import region_types, reported_types
from holdfast.api.resources.rendering import view_of_row
from holdfast.api.resources.tables import account_tenant, is_region, labels_of, principal_tenant, tenant_of
from holdfast.api.serialization.registry import render
from holdfast.api.server.authentication import Caller
from holdfast.api.server.visibility import sees, sees_everything, sees_principal
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.policies import BUILT_IN_POLICY, EVERYWHERE
from holdfast.core.model.objects.tenants import RecoveryBudget
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.nodes import is_kept_from
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.resources import ZERO

#: Fields with free text of users, agents and schedulers, and with names of principals.
_WORDS = frozenset(
    {"message", "detail", "reason", "note", "nearest", "why", "waitsFor", "labels", "annotations", "reportedLabels",
     "taints", "owner", "createdBy", "author", "by", "facts", "waiting", "failing", "reasons", "rejected", "refused",
     "conditions", "failure", "warnings"}
)  # fmt: skip
#: Kinds of which a tenant sees only its own objects, not those of no tenant.
_OWN_ONLY = ("Grant", "Reservation", "Breach")
#: Refusals that reveal an owner: a tenant learns only that the object is not its own.
_WHOSE = (Code.WRONG_SCOPE, Code.NOT_OWNER)
#: Fields of commands that may name an object by its number.
_NUMBERS = ("hold", "uid", "node", "assignment", "workload")
_RUN = re.compile(r"[^\W_]+")
#: Largest number of runs of letters and digits in a tenant's name that is searched for in texts.
RUNS_MAX = 12


class Redaction:
    """What one caller sees of one state. To be created again after an `await`."""

    def __init__(self, caller: Caller, state: Any) -> None:
        self._caller = caller
        self._state = state
        #: The last batch of the state.
        self.seq: int = state.info.seq
        #: The tenant whose view is redacted; empty: no redaction.
        self.tenant = "" if sees_everything(caller) else caller.tenant()

    def shows(self, kind: ResourceKind, key: Any, row: Any) -> bool:
        """Whether the caller sees this object at all."""
        if kind.plural == "principals":
            return sees_principal(self._caller, row.meta.name)
        if kind.plural == "tokens":
            return sees_principal(self._caller, row.spec.principal)
        owner = tenant_of(kind, self._state, key, row)
        if not sees(self._caller, owner):
            return False
        if not self.tenant or owner:
            return True
        hidden = _HIDDEN.get(kind.name)
        return kind.name not in _OWN_ONLY and (hidden is None or not hidden(self._state, self.tenant, row))

    def tree(self, kind: ResourceKind, key: Any, row: Any) -> dict[str, Any]:
        """Return the object as the caller sees it."""
        found = view_of_row(kind, self._state, key, row)
        if not self.tenant:
            tree: dict[str, Any] = render(found)
            return tree
        part = _PARTS.get(kind.name)
        tree = render(found if part is None else part(found, self.tenant))
        if kind.name == "Workload":
            return tree | {"status": self.cleared(tree["status"])}
        cleared: dict[str, Any] = self.cleared(tree)
        return cleared

    def labels(self, row: Any) -> Mapping[str, str]:
        """Return the labels that the caller's selectors may match: those that it sees."""
        found = labels_of(self._state, row)
        if not self.tenant or isinstance(row, Workload | Slot):  # its own, as it was sent, or its replica's
            return found
        return {key: value for key, value in found.items() if not self._names_others(key, value)}

    def is_own(self, tenant: str | None) -> bool:
        """Whether an entry of this tenant, or of none, is for the caller: a tenant sees only its own."""
        return tenant == self.tenant if self.tenant else sees(self._caller, tenant or "")

    def cleared(self, tree: Any) -> Any:
        """Return the tree without texts that name other tenants."""
        if not self.tenant or not tree:
            return tree
        if isinstance(tree, dict):
            return {key: self._word(key, one) for key, one in tree.items()}
        return [self.cleared(one) for one in tree] if isinstance(tree, list) else tree

    def words(self, tree: Any) -> Any:
        """Return what a user sent, without any text that names other tenants."""
        return self._text(tree) if self.tenant else tree

    def refused(self, found: Refused, *, by_number: bool) -> Refused:
        """Return the refusal of the caller's command without information about others. An object that the command names
        `by_number` and that does not exist looks like another tenant's."""
        if not self.tenant:
            return found
        if found.code in _WHOSE or (found.code is Code.NOT_FOUND and by_number):
            text = f"{self._caller.actor} acts for tenant {self.tenant} only, and this is not that tenant's"
            return Refused(Code.WRONG_SCOPE, text, {"scope": self.tenant})
        if self._names_others(found.message, *map(str, found.facts.values())):
            return Refused(found.code, f"refused: {found.code.value}", {})
        return found

    def _word(self, key: str, value: Any) -> Any:
        if key == "taints" and isinstance(value, list):  # a plugin has that name, too; its version is text
            return [one for one in value if not self._names_others(*one.values())]
        return self._text(value) if key in _WORDS else self.cleared(value)

    def _text(self, value: Any) -> Any:
        """Remove texts that name other tenants, in a text, map or list."""
        if isinstance(value, str):
            return "" if self._names_others(value) else value
        if isinstance(value, dict):
            return {key: self._text(one) for key, one in value.items() if not self._names_others(key, one)}
        if isinstance(value, list):
            return [self._text(one) for one in value if not isinstance(one, str) or not self._names_others(one)]
        return value

    def _names_others(self, *texts: Any) -> bool:
        return any(isinstance(text, str) and self._names_another(text) for text in texts)

    def _names_another(self, text: str) -> bool:
        if " " not in text and principal_tenant(self._state, text) not in ("", self.tenant):
            return True
        runs = [one.span() for one in _RUN.finditer(text)]
        return any(
            self._is_another(text[begin:end])
            for place, (begin, _) in enumerate(runs)
            for _, end in runs[place : place + RUNS_MAX]
        )

    def _is_another(self, name: str) -> bool:
        return name != self.tenant and name in known_tenants(self._state)


#: By state: the batch of the last search, and the tenants found.
_known: WeakKeyDictionary[LedgerState, tuple[int, frozenset[str]]] = WeakKeyDictionary()


def known_tenants(state: Any) -> frozenset[str]:
    """Return the tenants' names in this ledger, as far as it has them; searched once after each batch."""
    seen = _known.get(state)
    if seen is None or seen[0] != state.info.seq:
        seen = _known[state] = (state.info.seq, frozenset(_tenants_in(state) - {"", "*"}))
    return seen[1]


def _tenants_in(state: Any) -> set[str]:
    if not is_region(state):
        return {name for name, _ in state.tenants.unordered()}
    found = {account_tenant(state, account) for account, _ in state.accepted_grants.unordered()}
    return found | {principal_tenant(state, name) for name, _ in state.principals.unordered()}


def by_number(command: Any) -> bool:
    """Whether a command names its object by a number, not by a name."""
    return not hasattr(command, "name") and any(isinstance(getattr(command, name, None), int) for name in _NUMBERS)


def _is_kept_for_others(_state: Any, tenant: str, row: Any) -> bool:
    return is_kept_from(row, tenant)


def _is_for_others(_state: Any, tenant: str, row: RecoveryBudget) -> bool:
    return bool(row.spec.tenants) and tenant not in row.spec.tenants


def _is_valid_for_others(state: Any, tenant: str, row: Any) -> bool:
    """Whether a policy is valid neither for this tenant nor everywhere."""
    if row.revision == BUILT_IN_POLICY.revision:
        return False
    if is_region(state):
        return row.revision not in (state.validities.get(tenant), state.validities.get(EVERYWHERE))
    valid = (one.scope for one in state.validities.values() if one.revision == row.revision)
    return not any(scope in (EVERYWHERE, tenant) for scope in valid)


#: By kind: whether an object of no tenant is hidden from a tenant.
_HIDDEN: dict[str, Callable[[Any, str, Any], bool]] = {
    "Node": _is_kept_for_others,
    "RecoveryBudget": _is_for_others,
    "SchedulerPolicy": _is_valid_for_others,
}

#: Kinds of which a tenant does not see all objects of no tenant.
HIDES = (*_HIDDEN, *_OWN_ONLY)


def _node(found: region_types.NodeView, tenant: str) -> region_types.NodeView:
    """Return the node without the use of others."""
    status = replace(
        found.status, firm=ZERO, taken=ZERO, held=ZERO, free=ZERO, replicas=0, reservations=0, waiting=0,
        load=region_types.NodeLoadView(), present=(), machine=region_types.MachineView(),
    )  # fmt: skip
    own = tuple(name for name in found.spec.tenancy if name == tenant)
    return replace(found, spec=replace(found.spec, tenancy=own), status=status)


def _budget(found: RecoveryBudget, tenant: str) -> RecoveryBudget:
    return replace(found, spec=replace(found.spec, tenants=tuple(one for one in found.spec.tenants if one == tenant)))


def _policy(found: s.SchedulerPolicyView, tenant: str) -> s.SchedulerPolicyView:
    valid = tuple(one for one in found.status.valid if one.tenant in (EVERYWHERE, tenant))
    return replace(found, status=replace(found.status, valid=valid, author=""))


def _region(found: reported_types.RegionView, _tenant: str) -> reported_types.RegionView:
    """Return the region without its summary, which sums up all tenants."""
    return replace(found, status=replace(found.status, summary=None))


#: By kind: the document without the parts about others.
def _replica(found: region_types.ReplicaView, tenant: str) -> region_types.ReplicaView:
    """Return the replica without the names of others that took its place, or whose place it took."""

    def cleared(one: region_types.PreemptionView) -> region_types.PreemptionView:
        names = (name if name.partition("/")[0] == tenant else "" for name in (one.successor, one.victim))
        successor, victim = names
        return replace(one, successor=successor, victim=victim)

    status = found.status
    preempted = cleared(status.preempted) if status.preempted is not None else None
    told = replace(status, preempted=preempted, preempts=tuple([cleared(one) for one in status.preempts]))
    return replace(found, status=told)


_PARTS: dict[str, Callable[[Any, str], Any]] = {
    "Node": _node,
    "RecoveryBudget": _budget,
    "SchedulerPolicy": _policy,
    "Region": _region,
    "Replica": _replica,
}
