"""How the replicas of a workload are split over regions: pure arithmetic over what is known of each.

    ideal ──▶ what each would have, if all began anew: evenly, by weights, or all in the primary
    target ─▶ what each is to have: what it has, and of the ideal only as much as there is a reason for
    stepped ▶ what each is told now: more at once, less only as far as others stand in (make before break)

The one idea: what is on its way to a target has the same target. Raising goes up to the ideal at most where there is
room for it, and lowering goes down to it, so half a move is never turned round.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

NO_LIMIT = 1 << 40


class SplitRegion(Struct):
    """One region, as far as it matters to how a workload is split.

    `rank` counts targets of latency that it misses, and `turn` is its place in the workload's own order. What is well
    `takes` more; `shaky` is one that has been silent for a moment. `strained`: it has offered replicas back, and takes
    at most `cap`. `floor`: down to there it may be lowered at once, whatever is ready.
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


def first_index(uid: int, count: int) -> int:
    """Who of so many is first for this workload. Uids end in many equal bits, so they are mixed."""
    return (uid * 0x9E3779B97F4A7C15 >> 29 & 0xFFFF_FFFF) % count if count else 0


def ideal_split(regions: Sequence[SplitRegion], replicas: int, primary: str = "") -> list[int]:
    """What each would have. What is beyond every cap is split as if there were none: it has to be somewhere."""
    split = _first_come if primary else _ideal_by_weight
    hard = [NO_LIMIT if place.takes else place.have for place in regions]
    soft = [min(limit, place.cap) for limit, place in zip(hard, regions, strict=True)]
    found = split(regions, replicas, soft, primary)
    return found if sum(found) == replicas or soft == hard else split(regions, replicas, hard, primary)


def _first_come(regions: Sequence[SplitRegion], replicas: int, limits: list[int], primary: str) -> list[int]:
    """As much as it takes in the primary, then in the best of the others: one that has some rather than another."""
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
    """So many, by weight. What does not divide goes by the largest remainder, then to who has it already, then by rank
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
    """What each is to have, given what it has. Where nobody takes more, it may be less than is wanted in all. `stays`:
    what is somewhere is not moved for the sake of balance alone."""
    goal = ideal_split(regions, replicas, primary)
    counts = [place.have for place in regions]
    missing = replicas - sum(counts)
    if missing > 0:
        counts = _more(regions, counts, goal, missing)
    elif missing < 0:
        last = sorted(range(len(regions)), key=lambda index: (-regions[index].rank, -regions[index].turn))
        taken = take_largest_first([have - due for have, due in zip(counts, goal, strict=True)], last, -missing)
        counts = [have - less for have, less in zip(counts, taken, strict=True)]
    return _corrected(regions, counts, goal, strict=bool(primary), stays=stays)


def is_settled(regions: Sequence[SplitRegion], replicas: int, primary: str = "", *, stays: bool = False) -> bool:
    """Whether there is nothing to change, whatever room there may be."""
    counts = [place.have for place in regions]
    goal = counts if sum(counts) != replicas else ideal_split(regions, replicas, primary)
    return sum(counts) == replicas and _corrected(regions, counts, goal, strict=bool(primary), stays=stays) == counts


def _more(regions: Sequence[SplitRegion], counts: list[int], goal: list[int], missing: int) -> list[int]:
    """Where most is lacking, among those that have room; where nobody has, as if all had."""
    counts = list(counts)
    first = sorted(range(len(regions)), key=lambda index: (regions[index].rank, regions[index].turn))
    limits = [min(p.room, p.cap - p.have) if p.takes and p.weight else 0 for p in regions]
    while missing:
        able = [index for index in first if limits[index] > 0]
        if not able:
            able = [index for index in first if regions[index].takes and regions[index].weight]
            limits = [NO_LIMIT for _ in regions]
        if not able:
            break
        taken = take_largest_first([goal[index] - counts[index] for index in able], range(len(able)), missing)
        for index, more in zip(able, taken, strict=True):
            given = min(more, limits[index])
            counts[index] += given
            limits[index] -= given
            missing -= given
    return counts


def _corrected(
    regions: Sequence[SplitRegion], counts: list[int], goal: list[int], *, strict: bool, stays: bool
) -> list[int]:
    """Nearer to the ideal, where that is worth a move: a region has none, is off by two, or has more than it takes.

    With a primary, any difference is. While a region that has some is silent, and of what is to stay where it is, only
    what cannot stay is moved.
    """
    calm = not stays and not any(place.shaky and place.have for place in regions)
    gives, gets, worth = [0] * len(regions), [0] * len(regions), strict
    for index, place in enumerate(regions):
        over = counts[index] - goal[index]
        if over > 0 and place.takes:
            beyond = max(0, counts[index] - place.cap)
            gives[index] = over if calm else min(over, beyond)
            worth = worth or over > 1 or beyond > 0
        elif over < 0 and place.takes and place.weight and not place.strained:
            room = min(place.room, place.cap - place.have) - (counts[index] - place.have)
            gets[index] = max(0, min(-over, room))
            worth = worth or (gets[index] > 0 and (over < -1 or not counts[index]))
    moved = min(sum(gives), sum(gets)) if worth else 0
    if not moved:
        return counts
    last = sorted(range(len(regions)), key=lambda index: (-regions[index].rank, -regions[index].turn))
    less, more = take_largest_first(gives, last, moved), take_largest_first(gets, last[::-1], moved)
    return [count - less[index] + more[index] for index, count in enumerate(counts)]


def take_largest_first(amounts: Sequence[int], order: Sequence[int], count: int) -> list[int]:
    """How much is taken of each when `count` are taken one by one, always where most is left, then by the order."""
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
    """What each is told now: more at once; less as far as it has some that are not ready, or more than `replicas` are
    ready in all. `unpaid`: so many that were raised wait for the quota which the others hold, and may be done without.
    """
    ready = [
        min(place.ready, place.have, place.floor if goal < place.have else NO_LIMIT)
        for place, goal in zip(regions, targets, strict=True)
    ]
    spare = max(0, sum(ready) - max(0, replicas - unpaid))
    counts = list(targets)
    # Where nothing is to be comes first: a rule is broken there.
    for index in sorted(range(len(regions)), key=lambda index: (targets[index] > 0, index)):
        place, goal = regions[index], targets[index]
        if goal < place.have:
            idle = min(place.have - goal, place.have - ready[index])
            given = min(place.have - goal - idle, spare)
            spare -= given
            counts[index] = place.have - idle - given
    return counts
