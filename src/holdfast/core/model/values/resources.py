"""Resource vectors and their arithmetic.

Units: cpu in milli-cpu, memory and disk in MiB, gpu in milli-GPU (1000 is one device). Named extended resources are
sorted pairs. A missing resource is zero: a quota that does not name a resource grants none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.core.model.values.structs import Row

Extended = tuple[tuple[str, int], ...]

#: Limit of a single amount: sums of millions of them fit into 63 bits.
AMOUNT_MAX = 2**40
#: Names that no extended resource has: built-in ones, and the prefix by which a breach names one device of a node.
BUILT_IN = ("cpu", "memory", "disk", "gpu")
DEVICE = "device/"


class Resources(Row, frozen=True):
    """An amount of each resource."""

    cpu: int = 0
    memory: int = 0
    disk: int = 0
    gpu: int = 0
    extended: Extended = ()


ZERO = Resources()


def _merge(left: Extended, right: Extended, sign: int) -> Extended:
    amounts = dict(left)
    for name, amount in right:
        amounts[name] = amounts.get(name, 0) + sign * amount
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def add(left: Resources, right: Resources) -> Resources:
    """Return left + right."""
    extended = _merge(left.extended, right.extended, 1) if right.extended else left.extended
    return Resources(
        left.cpu + right.cpu, left.memory + right.memory, left.disk + right.disk, left.gpu + right.gpu, extended
    )


def subtract(left: Resources, right: Resources) -> Resources:
    """Return left - right, which may be negative."""
    extended = _merge(left.extended, right.extended, -1) if right.extended else left.extended
    return Resources(
        left.cpu - right.cpu, left.memory - right.memory, left.disk - right.disk, left.gpu - right.gpu, extended
    )


def times(one: Resources, count: int) -> Resources:
    """Return the amount multiplied by a count."""
    if count == 1:
        return one
    extended = tuple([(name, amount * count) for name, amount in one.extended]) if count and one.extended else ()
    return Resources(one.cpu * count, one.memory * count, one.disk * count, one.gpu * count, extended)


def total(amounts: Iterable[Resources]) -> Resources:
    """Return the sum of all amounts."""
    result = ZERO
    for amount in amounts:
        result = add(result, amount)
    return result


def elementwise_max(left: Resources, right: Resources) -> Resources:
    """Return the larger amount of each resource."""
    extended = left.extended
    if left.extended or right.extended:
        mine, other = dict(left.extended), dict(right.extended)
        extended = tuple((name, max(mine.get(name, 0), other.get(name, 0))) for name in sorted({**mine, **other}))
    return Resources(
        max(left.cpu, right.cpu),
        max(left.memory, right.memory),
        max(left.disk, right.disk),
        max(left.gpu, right.gpu),
        extended,
    )


def elementwise_min(left: Resources, right: Resources) -> Resources:
    """Return the smaller amount of each resource."""
    other = dict(right.extended)
    extended = tuple((name, min(amount, other[name])) for name, amount in left.extended if other.get(name))
    return Resources(
        min(left.cpu, right.cpu),
        min(left.memory, right.memory),
        min(left.disk, right.disk),
        min(left.gpu, right.gpu),
        extended,
    )


def clamp_zero(amounts: Resources) -> Resources:
    """Return the amounts with negative ones raised to zero."""
    extended = tuple((name, amount) for name, amount in amounts.extended if amount > 0)
    return Resources(max(amounts.cpu, 0), max(amounts.memory, 0), max(amounts.disk, 0), max(amounts.gpu, 0), extended)


def first_exceeded(use: Resources, limit: Resources) -> str:
    """Return the first resource of which `use` exceeds `limit`; empty if there is none."""
    if use.cpu > limit.cpu:
        return "cpu"
    if use.memory > limit.memory:
        return "memory"
    if use.disk > limit.disk:
        return "disk"
    if use.gpu > limit.gpu:
        return "gpu"
    if use.extended:
        allowed = dict(limit.extended)
        for name, amount in use.extended:
            if amount > allowed.get(name, 0):
                return name
    return ""


def first_lacking(need: Resources, use: Resources, limit: Resources) -> str:
    """Return the first needed resource of which less than the need is left; empty if there is none."""
    if need.cpu and use.cpu + need.cpu > limit.cpu:
        return "cpu"
    if need.memory and use.memory + need.memory > limit.memory:
        return "memory"
    if need.disk and use.disk + need.disk > limit.disk:
        return "disk"
    if need.gpu and use.gpu + need.gpu > limit.gpu:
        return "gpu"
    for name, amount in need.extended:
        if amount_of(use, name) + amount > amount_of(limit, name):
            return name
    return ""


def names_in(*amounts: Resources) -> list[str]:
    """Return the names of all resources in these amounts: the four built-in ones, then the extended ones."""
    extended = {name for amount in amounts for name, _ in amount.extended}
    return [*BUILT_IN, *sorted(extended)]


def from_amounts(amounts: Mapping[str, int]) -> Resources:
    """Return a vector of amounts by name; missing amounts are zero."""
    cpu, memory, disk, gpu = (amounts.get(name, 0) for name in BUILT_IN)
    rest = sorted((name, amount) for name, amount in amounts.items() if amount)
    extended = tuple(pair for pair in rest if pair[0] not in BUILT_IN)
    return Resources(cpu, memory, disk, gpu, extended)


def amount_of(amounts: Resources, name: str) -> int:
    if name in BUILT_IN:
        return int(getattr(amounts, name))
    return dict(amounts.extended).get(name, 0)


def amount_problem(amounts: Resources) -> str:
    """Return why this amount cannot be requested or declared; empty if it can."""
    for name, amount in _named(amounts):
        if not 0 <= amount <= AMOUNT_MAX:
            return f"{name} is {amount}; it must be between 0 and {AMOUNT_MAX}"
    names = [name for name, _ in amounts.extended]
    if names != sorted(set(names)) or not all(names) or not all(amount for _, amount in amounts.extended):
        return "extended resources must be named once each, in sorted order, with amounts above zero"
    taken = next((name for name in names if name in BUILT_IN or name.startswith(DEVICE)), "")
    return f"{taken} is reserved and cannot name an extended resource" if taken else ""


def _named(of: Resources) -> tuple[tuple[str, int], ...]:
    return ("cpu", of.cpu), ("memory", of.memory), ("disk", of.disk), ("gpu", of.gpu), *of.extended


def nonzero_amounts(of: Resources) -> Iterator[tuple[str, int]]:
    """Return every resource with a positive amount."""
    return ((name, amount) for name, amount in _named(of) if amount > 0)
