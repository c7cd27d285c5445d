"""What a caller is shown: the one place that decides it, for lists, watches, decisions, queue, repairs and problems.

    sees all tenants            everything, as it is
    speaks for no tenant        what is nobody's as it is, and nothing that is a tenant's own
    speaks for one tenant       what is that tenant's; what is nobody's without what is others'

What is left out for a tenant: objects that are others' alone, a node that is kept for others among them; in objects
that are everybody's, the parts that are about others, and how much others use. Texts that people or schedulers wrote
may name anybody: one that names another tenant is left out as a whole. What a tenant itself has sent stays as it is.
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
from holdfast.api.resources.ownership import account_tenant, principal_tenant, tenant_of
from holdfast.api.resources.rendering import view_of_row
from holdfast.api.resources.tables import is_region, labels_of
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

#: What people, agents and schedulers write in their own words, and names of principals.
_WORDS = frozenset(
    {"message", "detail", "reason", "note", "nearest", "why", "waitsFor", "labels", "annotations", "reportedLabels",
     "taints", "owner", "createdBy", "author", "by", "facts", "waiting", "failing", "reasons", "rejected", "refused",
     "conditions", "failure", "warnings"}
)  # fmt: skip
#: Kinds of which a tenant is shown its own and nothing else, whatever is nobody's among them.
_OWN_ONLY = ("Grant", "Reservation", "Breach")
#: Refusals that say whose something is: a tenant is told that it is not its own, and no more.
_WHOSE = (Code.WRONG_SCOPE, Code.NOT_OWNER)
#: Fields of commands that may name an object by its number.
_NUMBERS = ("hold", "uid", "node", "assignment", "workload")
_RUN = re.compile(r"[^\W_]+")
#: A name of a tenant is made of so many runs of letters and digits at most, as far as it is looked for in texts.
RUNS_MAX = 12


class Redaction:
    """What one caller is shown of one state. To be made anew after an `await`."""

    def __init__(self, caller: Caller, state: Any) -> None:
        self._caller = caller
        self._state = state
        #: The last batch that the state holds.
        self.seq: int = state.info.seq
        #: The one tenant for which things are told differently; empty: nothing is left out of what is shown.
        self.tenant = "" if sees_everything(caller) else caller.tenant()

    def shows(self, kind: ResourceKind, key: Any, row: Any) -> bool:
        """Whether the caller is shown this object at all."""
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
        """The object as the caller sees it."""
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
        """The labels by which the caller may choose this object: those that it is shown."""
        found = labels_of(self._state, row)
        if not self.tenant or isinstance(row, Workload | Slot):  # its own, as it was sent, or what its replica is
            return found
        return {key: value for key, value in found.items() if not self._names_others(key, value)}

    def is_own(self, tenant: str | None) -> bool:
        """Whether what is told of one tenant, or of none, is told to the caller: a tenant is told of itself alone."""
        return tenant == self.tenant if self.tenant else sees(self._caller, tenant or "")

    def cleared(self, tree: Any) -> Any:
        """What is told, without the texts that name other tenants."""
        if not self.tenant or not tree:
            return tree
        if isinstance(tree, dict):
            return {key: self._word(key, one) for key, one in tree.items()}
        return [self.cleared(one) for one in tree] if isinstance(tree, list) else tree

    def words(self, tree: Any) -> Any:
        """What somebody sent, without the texts in it that name other tenants, wherever they are."""
        return self._text(tree) if self.tenant else tree

    def refused(self, found: Refused, *, by_number: bool) -> Refused:
        """Why a command of the caller was refused. A tenant is not told of others, nor whether something is theirs:
        what is named `by_number` and not there is as if it were another's."""
        if not self.tenant:
            return found
        if found.code in _WHOSE or (found.code is Code.NOT_FOUND and by_number):
            text = f"{self._caller.actor} acts for tenant {self.tenant} alone, and this is not that tenant's"
            return Refused(Code.WRONG_SCOPE, text, {"scope": self.tenant})
        if self._names_others(found.message, *map(str, found.facts.values())):
            return Refused(found.code, f"refused: {found.code.value}", {})
        return found

    def _word(self, key: str, value: Any) -> Any:
        if key == "taints":  # one that names others is none that this tenant could tolerate
            return [one for one in value if not self._names_others(*one.values())]
        return self._text(value) if key in _WORDS else self.cleared(value)

    def _text(self, value: Any) -> Any:
        """A text, or texts, that may name others: those that do are left out."""
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


#: By state: after which batch it was last seen whom it knows, and whom.
_known: WeakKeyDictionary[LedgerState, tuple[int, frozenset[str]]] = WeakKeyDictionary()


def known_tenants(state: Any) -> frozenset[str]:
    """The names of tenants, as far as this ledger knows them: looked for once after each batch, whoever asks."""
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
    """Whether a command names what it is about by a number, and not by its name."""
    return not hasattr(command, "name") and any(isinstance(getattr(command, name, None), int) for name in _NUMBERS)


def _is_kept_for_others(_state: Any, tenant: str, row: Any) -> bool:
    return is_kept_from(row, tenant)


def _is_for_others(_state: Any, tenant: str, row: RecoveryBudget) -> bool:
    return bool(row.spec.tenants) and tenant not in row.spec.tenants


def _is_valid_for_others(state: Any, tenant: str, row: Any) -> bool:
    """A policy that is valid neither for this tenant nor for everybody anywhere."""
    if row.revision == BUILT_IN_POLICY.revision:
        return False
    if is_region(state):
        return row.revision not in (state.validities.get(tenant), state.validities.get(EVERYWHERE))
    valid = (one.scope for one in state.validities.values() if one.revision == row.revision)
    return not any(scope in (EVERYWHERE, tenant) for scope in valid)


#: By kind: whether an object that is nobody's own is not shown to a tenant.
_HIDDEN: dict[str, Callable[[Any, str, Any], bool]] = {
    "Node": _is_kept_for_others,
    "RecoveryBudget": _is_for_others,
    "SchedulerPolicy": _is_valid_for_others,
}


#: Kinds of which a tenant is shown some and not others, though they are nobody's own.
HIDES = (*_HIDDEN, *_OWN_ONLY)


def _node(found: region_types.NodeView, tenant: str) -> region_types.NodeView:
    """Of a node: what it is and whether it takes work, and not what others have on it."""
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
    """Without what all tenants have there together."""
    return replace(found, status=replace(found.status, summary=None))


#: By kind: the document without the parts that are about others.
_PARTS: dict[str, Callable[[Any, str], Any]] = {
    "Node": _node,
    "RecoveryBudget": _budget,
    "SchedulerPolicy": _policy,
    "Region": _region,
}
