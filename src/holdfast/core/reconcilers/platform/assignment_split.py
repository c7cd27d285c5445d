"""How replicas of a workload are split over regions: pure arithmetic.

    ideal ──▶ the counts of a fresh start: evenly, by weights, or all in the primary
    target ─▶ the counts to reach: the present ones, moved to the ideal only as far as there is a reason
    step ───▶ the next counts: more at once, less only as far as others replace them (make-before-break)

Raising and lowering stop at the ideal: half a move is never reversed. A region exceeds it only if others are full.

Size: one arithmetic, whose three steps are read together.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

NO_LIMIT = 1 << 40


class SplitRegion(Struct):
    """A region, as far as the split depends on it.

    It misses `rank` latency targets and has place `turn` in the workload's order. A healthy region `takes` more; a
    `shaky` one is suspect. A `strained` one has offered replicas back and takes at most `cap`. It may be lowered to
    `floor` at once. Of gangs, further ones are `partly` ready: they replace nothing, and are not given up as idle.
    """

    name: str
    have: int = 0
    ready: int = 0
    weight: int = 1
    rank: int = 0
    turn: int = 0
    takes: bool = True
    shaky: bool = False
    strained: bool = False
    cap: int = NO_LIMIT
    room: int = NO_LIMIT
    floor: int = NO_LIMIT
    partly: int = 0


def first_index(uid: int, count: int) -> int:
    """Return the index of the region that is first for this workload; the low bits of uids, often equal, are mixed."""
    return (uid * 0x9E3779B97F4A7C15 >> 29 & 0xFFFF_FFFF) % count if count else 0


def ideal_split(regions: Sequence[SplitRegion], replicas: int, primary: str = "") -> list[int]:
    """Return the ideal counts. If all caps are full, the rest is split as if there were none: it must be somewhere."""
    split = _first_come if primary else _ideal_by_weight
    hard = [NO_LIMIT if place.takes else place.have for place in regions]
    soft = [min(limit, place.cap) for limit, place in zip(hard, regions, strict=True)]
    found = split(regions, replicas, soft, primary)
    return found if sum(found) == replicas or soft == hard else split(regions, replicas, hard, primary)


def _first_come(regions: Sequence[SplitRegion], replicas: int, limits: list[int], primary: str) -> list[int]:
    """Fill the primary, then the others in order: lower rank first, then those that have replicas."""
    counts = [0] * len(regions)

    def order(index: int) -> tuple[bool, int, bool, str]:
        place = regions[index]
        return place.name != primary, place.rank, place.have == 0, place.name

    for index in sorted(range(len(regions)), key=order):
        counts[index] = min(limits[index], replicas)
        replicas -= counts[index]
    return counts


def _ideal_by_weight(regions: Sequence[SplitRegion], replicas: int, limits: list[int], _: str) -> list[int]:
    counts = [0] * len(regions)
    unfilled = [index for index, place in enumerate(regions) if place.weight and limits[index] > 0]
    while unfilled and replicas:
        parts = by_weight([regions[index] for index in unfilled], replicas)
        full = [index for index, part in zip(unfilled, parts, strict=True) if part > limits[index]]
        if not full:
            for index, part in zip(unfilled, parts, strict=True):
                counts[index] = part
            return counts
        for index in full:
            counts[index] = limits[index]
            replicas -= limits[index]
        unfilled = [index for index in unfilled if index not in full]
    return counts


def by_weight(regions: Sequence[SplitRegion], count: int) -> list[int]:
    """Split a count by weight. The remainder goes to the largest fraction, then to regions that have it, then by rank
    and turn."""
    whole = sum(place.weight for place in regions)
    parts = [count * place.weight // whole for place in regions]
    left = count - sum(parts)
    if left:

        def order(index: int) -> tuple[int, bool, int, int]:
            place = regions[index]
            return -(count * place.weight % whole), place.have <= parts[index], place.rank, place.turn

        for index in sorted(range(len(regions)), key=order)[:left]:
            parts[index] += 1
    return parts


def target_split(regions: Sequence[SplitRegion], replicas: int, primary: str = "", *, stays: bool = False) -> list[int]:
    """Return the target counts, given the present ones. They may be too few if no region takes more.

    If `stays`, replicas are not moved for balance alone.
    """
    goal = ideal_split(regions, replicas, primary)
    counts = [place.have for place in regions]
    missing = replicas - sum(counts)
    if missing > 0:
        counts = _more(regions, counts, goal, missing)
    elif missing < 0:
        waiting = _beyond(regions, counts, goal)
        first = min(-missing, sum(waiting))
        kept = _lowered(regions, counts, waiting, first)
        over = [count - due for count, due in zip(kept, goal, strict=True)]
        counts = _lowered(regions, kept, over, -missing - first)
    return _corrected(regions, counts, goal, strict=bool(primary), stays=stays)


def is_settled(regions: Sequence[SplitRegion], replicas: int, primary: str = "", *, stays: bool = False) -> bool:
    """Check whether nothing changes, whatever the free capacity."""
    counts = [place.have for place in regions]
    goal = counts if sum(counts) != replicas else ideal_split(regions, replicas, primary)
    return sum(counts) == replicas and _corrected(regions, counts, goal, strict=bool(primary), stays=stays) == counts


def _more(regions: Sequence[SplitRegion], counts: list[int], goal: list[int], missing: int) -> list[int]:
    """Raise regions with free capacity that lack most; if none has any, all as if they had."""
    counts, left = _raised(regions, counts, goal, missing, _room_left(regions, counts))
    return _raised(regions, counts, goal, left, [NO_LIMIT if one.takes and one.weight else 0 for one in regions])[0]


def _room_left(regions: Sequence[SplitRegion], counts: Sequence[int]) -> list[int]:
    """Return how many more each region takes, less what it has received since its summary."""
    return [
        max(0, min(place.room, place.cap - place.have) - (count - place.have)) if place.takes and place.weight else 0
        for place, count in zip(regions, counts, strict=True)
    ]


def _raised(
    regions: Sequence[SplitRegion], counts: list[int], goal: list[int], missing: int, limits: list[int]
) -> tuple[list[int], int]:
    """Raise by `missing` where most is lacking, within the limits; return the counts and what is left."""
    counts, limits = list(counts), list(limits)
    first = sorted(range(len(regions)), key=lambda index: (regions[index].rank, regions[index].turn))
    while missing:
        able = [index for index in first if limits[index] > 0]
        if not able:
            break
        taken = take_largest_first([goal[index] - counts[index] for index in able], range(len(able)), missing)
        for index, more in zip(able, taken, strict=True):
            given = min(more, limits[index])
            counts[index] += given
            limits[index] -= given
            missing -= given
    return counts, missing


def _corrected(
    regions: Sequence[SplitRegion], counts: list[int], goal: list[int], *, strict: bool, stays: bool
) -> list[int]:
    """Move counts nearer to the ideal if it is worth it: a region has none, is off by two, or has more than it takes.

    With a primary, any difference is. If `stays`, or while a region with replicas is suspect, only replicas beyond a
    cap move.
    """
    calm = not stays and not any(place.shaky and place.have for place in regions)
    gives, gets, worth = [0] * len(regions), [0] * len(regions), strict
    room = _room_left(regions, counts)
    for index, place in enumerate(regions):
        over = counts[index] - goal[index]
        if over > 0 and place.takes:
            beyond = max(0, counts[index] - place.cap)
            gives[index] = over if calm else min(over, beyond)
            worth = worth or over > 1 or beyond > 0
        elif over < 0 and place.takes and place.weight and not place.strained:
            gets[index] = min(-over, room[index])
            worth = worth or (gets[index] > 0 and (over < -1 or not counts[index]))
    moved = min(sum(gives), sum(gets)) if worth else 0
    if moved:
        first = sorted(range(len(regions)), key=lambda index: (regions[index].rank, regions[index].turn))
        more = take_largest_first(gets, first, moved)
        counts = [have + some for have, some in zip(_lowered(regions, counts, gives, moved), more, strict=True)]
    return _relieved(regions, counts, goal)


def _relieved(regions: Sequence[SplitRegion], counts: list[int], goal: list[int]) -> list[int]:
    """Move replicas beyond a cap to regions with free capacity, even above their ideal: otherwise they cannot run."""
    waiting = _beyond(regions, counts, goal)
    if not any(waiting):
        return counts
    room = [0 if place.strained else left for place, left in zip(regions, _room_left(regions, counts), strict=True)]
    raised, left = _raised(regions, counts, goal, sum(waiting), room)
    return _lowered(regions, raised, waiting, sum(waiting) - left)


def _beyond(regions: Sequence[SplitRegion], counts: Sequence[int], goal: Sequence[int]) -> list[int]:
    """Return how many replicas each region has beyond its cap and its goal."""
    rows = zip(regions, counts, goal, strict=True)
    return [max(0, min(count - place.cap, count - due)) if place.takes else 0 for place, count, due in rows]


def _lowered(regions: Sequence[SplitRegion], counts: Sequence[int], amounts: Sequence[int], count: int) -> list[int]:
    """Lower by `count` in all, from these amounts; for equal ones, the farthest and last region first."""
    last = sorted(range(len(regions)), key=lambda index: (-regions[index].rank, -regions[index].turn))
    taken = take_largest_first(amounts, last, count)
    return [have - less for have, less in zip(counts, taken, strict=True)]


def take_largest_first(amounts: Sequence[int], order: Sequence[int], count: int) -> list[int]:
    """Return how much is taken of each if `count` are taken one by one, always from the largest, then by the order."""
    low, high = min(amounts) - count, max(amounts)
    while low < high:
        middle = (low + high) // 2
        if sum(max(0, amount - middle) for amount in amounts) <= count:
            high = middle
        else:
            low = middle + 1
    taken = [max(0, amount - low) for amount in amounts]
    left = count - sum(taken)
    for index in order:
        if left and amounts[index] >= low:
            taken[index] += 1
            left -= 1
    return taken


def next_step(regions: Sequence[SplitRegion], targets: Sequence[int], replicas: int, unpaid: int = 0) -> list[int]:
    """Return the next counts: more at once; less by what is not ready, or by what is ready beyond `replicas`.

    Up to `unpaid` raised replicas wait for quota that the others hold, and may be missing.
    """
    ready = [
        min(place.ready + place.partly, place.have, place.floor) if goal < place.have else min(place.ready, place.have)
        for place, goal in zip(regions, targets, strict=True)
    ]
    spare = max(0, sum(ready) - max(0, replicas - unpaid))
    counts = list(targets)
    # Regions with target 0 come first: a rule is broken there.
    for index in sorted(range(len(regions)), key=lambda index: (targets[index] > 0, index)):
        place, goal = regions[index], targets[index]
        if goal < place.have:
            idle = min(place.have - goal, place.have - ready[index])
            given = min(place.have - goal - idle, spare)
            spare -= given
            counts[index] = place.have - idle - given
    return counts
