"""How the replicas of a workload are split over regions: pure arithmetic over what is known of each.

    ideal ──▶ what each would have, if all began anew: evenly, by weights, or all in the primary
    target ─▶ what each is to have: what it has, and of the ideal only as much as there is a reason for
    stepped ▶ what each is told now: more at once, less only as far as others stand in (make before break)

The one idea: what is on its way to a target has the same target. Raising goes up to the ideal where there is room for
it, and lowering goes down to it, so half a move is never turned round. Above the ideal only that is raised which has to
be somewhere and for which there is no room below it.
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
        waiting = _beyond(regions, counts, goal)
        first = min(-missing, sum(waiting))
        kept = _lowered(regions, counts, waiting, first)
        over = [count - due for count, due in zip(kept, goal, strict=True)]
        counts = _lowered(regions, kept, over, -missing - first)
    return _corrected(regions, counts, goal, strict=bool(primary), stays=stays)


def is_settled(regions: Sequence[SplitRegion], replicas: int, primary: str = "", *, stays: bool = False) -> bool:
    """Whether there is nothing to change, whatever room there may be."""
    counts = [place.have for place in regions]
    goal = counts if sum(counts) != replicas else ideal_split(regions, replicas, primary)
    return sum(counts) == replicas and _corrected(regions, counts, goal, strict=bool(primary), stays=stays) == counts


def _more(regions: Sequence[SplitRegion], counts: list[int], goal: list[int], missing: int) -> list[int]:
    """Where most is lacking, among those that have room; where nobody has, as if all had."""
    counts, left = _raised(regions, counts, goal, missing, _room_left(regions, counts))
    return _raised(regions, counts, goal, left, [NO_LIMIT if one.takes and one.weight else 0 for one in regions])[0]


def _room_left(regions: Sequence[SplitRegion], counts: Sequence[int]) -> list[int]:
    """How many more each takes, beside what it has been given since the room was told."""
    return [
        max(0, min(place.room, place.cap - place.have) - (count - place.have)) if place.takes and place.weight else 0
        for place, count in zip(regions, counts, strict=True)
    ]


def _raised(
    regions: Sequence[SplitRegion], counts: list[int], goal: list[int], missing: int, limits: list[int]
) -> tuple[list[int], int]:
    """So many more where most is lacking, each by its limit at most, and how many found no place."""
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
    """Nearer to the ideal, where that is worth a move: a region has none, is off by two, or has more than it takes.

    With a primary, any difference is. While a region that has some is silent, and of what is to stay where it is, only
    what cannot stay is moved.
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
    """What is beyond a cap still goes to whoever has room, though that one has its share: where it is it cannot run."""
    waiting = _beyond(regions, counts, goal)
    if not any(waiting):
        return counts
    room = [0 if place.strained else left for place, left in zip(regions, _room_left(regions, counts), strict=True)]
    raised, left = _raised(regions, counts, goal, sum(waiting), room)
    return _lowered(regions, raised, waiting, sum(waiting) - left)


def _beyond(regions: Sequence[SplitRegion], counts: Sequence[int], goal: Sequence[int]) -> list[int]:
    """How many each has that it says it has no place for, and that are to be elsewhere."""
    rows = zip(regions, counts, goal, strict=True)
    return [max(0, min(count - place.cap, count - due)) if place.takes else 0 for place, count, due in rows]


def _lowered(regions: Sequence[SplitRegion], counts: Sequence[int], amounts: Sequence[int], count: int) -> list[int]:
    """So many less, taken of these amounts; where they are equal, of the farthest and last first."""
    last = sorted(range(len(regions)), key=lambda index: (-regions[index].rank, -regions[index].turn))
    taken = take_largest_first(amounts, last, count)
    return [have - less for have, less in zip(counts, taken, strict=True)]


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
