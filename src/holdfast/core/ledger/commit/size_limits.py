"""Size limits of commands: every text and every list in a command has a limit (RULES 26).

    command ──▶ by its type: each text, each list, each text in a list ──▶ in its limit, or refused with both numbers

A field without an entry here has the common limit, so a field that is added later is limited too. A handler may set a
lower limit and says why; it never receives more. Objects shipped to a region are copies of what the platform accepted.
The record's size is their limit, so lowering a limit never stops a link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from msgspec import inspect

from holdfast.core.ledger.answers import Code, Refused, too_large
from holdfast.core.model.values import limits

#: The limit by struct and field. `[]` stands for the texts in a list.
FIELD_LIMITS: dict[str, int] = {
    "AdministerNode.labels": limits.MARKS_MAX,
    "AdministerNode.note": limits.REASON_MAX,
    "AdministerNode.taints": limits.MARKS_MAX,
    "AdministerNode.tenancy": limits.MARKS_MAX,
    "Assign.ordinals": limits.IDENTITIES_MAX,
    "AttestRight.reason": limits.REASON_MAX,
    "BelieveRegion.reason": limits.REASON_MAX,
    "CloseBreach.key": limits.MESSAGE_MAX,
    "Condition.message": limits.MESSAGE_MAX,
    "DeclareLost.reason": limits.REASON_MAX,
    "EndOverride.reason": limits.REASON_MAX,
    "EndSession.reason": limits.REASON_MAX,
    "RecordDenials.denials": limits.DENIALS_MAX,
    "ExecProbe.command[]": limits.ARGUMENT_MAX,
    "Failing.detail": limits.MESSAGE_MAX,
    "GrantRight.ordinals": limits.RIGHTS_MAX,
    "HttpProbe.path": limits.PATH_MAX,
    "JoinRegion.address": limits.PATH_MAX,
    "JudgeRegion.reason": limits.REASON_MAX,
    "Meta.annotations": limits.MARKS_MAX,
    "Meta.annotations[]": limits.ANNOTATION_MAX,
    "Meta.labels": limits.MARKS_MAX,
    "OfferBack.message": limits.MESSAGE_MAX,
    "OpenOverride.facts": limits.MARKS_MAX,
    "OpenOverride.reason": limits.REASON_MAX,
    "PendingReason.message": limits.MESSAGE_MAX,
    "SlotPlacement.waits_for": limits.NODE_SLOTS_MAX,
    "RegionStatus.address": limits.PATH_MAX,
    "RegisterNode.devices": limits.DEVICES_MAX,
    "RegisterNode.labels": limits.MARKS_MAX,
    "ReleaseRights.ordinals": limits.RIGHTS_MAX,
    "RetireRegion.reason": limits.REASON_MAX,
    "RollBackPolicy.reason": limits.REASON_MAX,
    "StandDown.reason": limits.REASON_MAX,
    "RegionSummary.uses": limits.ACCOUNTS_MAX,
    "Template.apart": limits.MARKS_MAX,
    "Template.command[]": limits.ARGUMENT_MAX,
    "Template.environment[]": limits.ARGUMENT_MAX,
    "Template.folder": limits.PATH_MAX,
    "Template.gpu_models": limits.MARKS_MAX,
    "Template.near": limits.MARKS_MAX,
    "Template.require": limits.MARKS_MAX,
    "Template.secrets[]": limits.PATH_MAX,
    "Template.spread": limits.MARKS_MAX,
    "Template.tolerate": limits.MARKS_MAX,
    "Trouble.message": limits.MESSAGE_MAX,
    "Waiting.message": limits.MESSAGE_MAX,
}  # fmt: skip

#: Lists of copies: the handler limits their number, the record limits their size.
SHIPPED_COPIES = frozenset({"Ship.puts", "Ship.gone"})


class Excess(NamedTuple):
    """One excess: the field in the command, its size, the limit and the unit."""

    field: str
    size: int
    most: int
    unit: str


#: Checks the values that a command has in one place.
Check = Callable[[Sequence[Any], int], Excess | None]


def refuse_excess(command: Any) -> Refused | None:
    """Refuse a command with a text that is too long or a list with too many entries, at any depth."""
    found = find_excess(command)
    if found is None:
        return None
    refused = too_large(f"{found.unit} in {found.field}", found.size, found.most)
    return refused if found.unit != "characters" else Refused(Code.MALFORMED, refused.message, refused.facts)


def find_excess(value: Any) -> Excess | None:
    """Return the first excess in a command or a part of one."""
    struct: type = type(value)
    check = check_of(struct)
    return check((value,), 0) if check is not None else None


@cache
def check_of(struct: type) -> Check | None:
    return _Checks().of(inspect.type_info(struct), "")


class _Checks:
    """Makes checks from types. A recursive struct is made once, and checked to a depth."""

    def __init__(self) -> None:
        self._structs: dict[type, _Struct] = {}

    def of(self, info: inspect.Type, name: str) -> Check | None:
        """Return the check of values of this type in the named field; None: no value can exceed a limit."""
        match info:
            case inspect.Metadata(type=marked):
                return self.of(marked, name)
            case inspect.StrType() | inspect.BytesType():
                return _sized(FIELD_LIMITS.get(name, limits.TEXT_MAX), "characters", None)
            case inspect.VarTupleType(item_type=item):
                inner = None if name in SHIPPED_COPIES else self.of(item, f"{name.removesuffix('[]')}[]")
                most = RECORD_ENTRIES if name in SHIPPED_COPIES else FIELD_LIMITS.get(name, limits.ENTRIES_MAX)
                return _sized(most, "entries", inner)
            case inspect.TupleType(item_types=items):
                return _places([self.of(item, name) for item in items])
            case inspect.UnionType(types=types):
                return self._union(types, name)
            case inspect.StructType(cls=struct):
                return self._struct(info, struct)
        return None

    def _union(self, types: tuple[inspect.Type, ...], name: str) -> Check | None:
        others = [info for info in types if not isinstance(info, inspect.NoneType | inspect.IntType)]
        if not all(isinstance(info, inspect.StructType) for info in others):
            (only,) = others
            return _present(self.of(only, name))
        checks = {info.cls: self.of(info, name) for info in others if isinstance(info, inspect.StructType)}
        return _by_type({struct: check for struct, check in checks.items() if check is not None})

    def _struct(self, info: inspect.StructType, struct: type) -> Check:
        known = self._structs.get(struct)
        if known is None:
            known = self._structs[struct] = _Struct()
            for field in info.fields:
                check = self.of(field.type, f"{struct.__name__}.{field.name}")
                if check is not None:
                    known.fields.append((field.encode_name, attrgetter(field.name), check))
        return known


#: No record has space for more copies.
RECORD_ENTRIES = 1 << 20


class _Struct:
    """Checks every limited field of a struct."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, Callable[[Any], Any], Check]] = []

    def __call__(self, values: Sequence[Any], depth: int) -> Excess | None:
        if depth > limits.DEPTH_MAX:
            return Excess("", depth, limits.DEPTH_MAX, "levels") if values else None
        for name, get, check in self.fields:
            found = check(list(map(get, values)), depth + 1)
            if found is not None:
                return found._replace(field=f"{name}.{found.field}" if found.field else name)
        return None


def _sized(most: int, unit: str, inner: Check | None) -> Check:
    """Check the size of each value, then the values in them."""

    def check(values: Sequence[Any], depth: int) -> Excess | None:
        size = max(map(len, values), default=0)
        if size > most:
            return Excess("", size, most, unit)
        return inner(list(chain.from_iterable(values)), depth) if inner is not None and size else None

    return check


def _places(checks: list[Check | None]) -> Check | None:
    """Check each position of fixed-length tuples."""
    found = [(itemgetter(place), check) for place, check in enumerate(checks) if check is not None]
    if not found:
        return None

    def check(values: Sequence[Any], depth: int) -> Excess | None:
        return next((one for get, look in found if (one := look(list(map(get, values)), depth)) is not None), None)

    return check


def _present(inner: Check | None) -> Check | None:
    """Check the values that are neither None nor a plain number."""
    if inner is None:
        return None
    return lambda values, depth: inner([one for one in values if one is not None and type(one) is not int], depth)


def _by_type(checks: dict[type, Check]) -> Check | None:
    """Check the values of each type."""
    if not checks:
        return None

    def check(values: Sequence[Any], depth: int) -> Excess | None:
        for struct, look in checks.items():
            found = look([one for one in values if type(one) is struct], depth)
            if found is not None:
                return found
        return None

    return check
