"""Distribution of equal slots over ranked rows: packed, spread, or by domain.

With domain rules, each combination of domains is a lane of rows. A slot goes to the open lane whose next row is best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.nodes import Node
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import Numbers

#: Number of rejected rows by code and detail.
Rejected = dict[tuple[Code, str], int]


class Ranked(NamedTuple):
    """Passing rows, their unique keys, and how many slots each can take."""

    rows: Numbers
    keys: Numbers
    takes: Numbers


def top_keys(keys: Numbers, most: int) -> Numbers:
    """Return the indexes of the highest keys, highest first. Keys are unique, so every machine gets the same."""
    if 4 * most < len(keys):
        top = np.argpartition(keys, len(keys) - most)[len(keys) - most :]
        return top[np.argsort(keys[top])[::-1]]
    return np.argsort(keys)[::-1]


def pack_nodes(ranked: Ranked, count: int) -> list[int]:
    """Fill the best row, then the next."""
    if count == 1:
        return [int(ranked.rows[np.argmax(ranked.keys)])]
    order = top_keys(ranked.keys, min(count, len(ranked.keys)))
    taken = np.minimum(ranked.takes[order], count)
    before = np.cumsum(taken) - taken
    found: list[int] = np.repeat(ranked.rows[order], np.clip(count - before, 0, taken)).tolist()
    return found


def spread_nodes(ranked: Ranked, count: int) -> list[int]:
    """Put one slot on each of the best rows, then start over, until all are placed."""
    if count == 1:
        return [int(ranked.rows[np.argmax(ranked.keys)])]
    chosen: list[int] = []
    order = top_keys(ranked.keys, len(ranked.keys))
    rows, left = ranked.rows[order], ranked.takes[order].copy()
    while len(chosen) < count and len(rows):
        now = rows[: count - len(chosen)]
        chosen.extend(now.tolist())
        left[: len(now)] -= 1
        rows, left = rows[left > 0], left[left > 0]
    return chosen


class Worth(NamedTuple):
    """What choices of this pass add to keys: per near rule, and per part of evenness."""

    near: int = 0
    even: int = 0


NOTHING_CHANGES = Worth()


class FillRule(NamedTuple):
    """How many slots are placed, packed or spread. `worth` changes keys with each choice; fewer than `least` slots are
    of no use."""

    most: int
    pack: bool = True
    worth: Worth = NOTHING_CHANGES
    least: int = 1


class _Lane:
    """The rows of one combination of domains: this round's and the next one's."""

    #: Evenness of its domains when its rows were scored.
    evenness = 0

    def __init__(self) -> None:
        #: [key, row, free slots], best last.
        self.next: list[list[int]] = []
        self.later: list[list[int]] = []

    def take(self, *, pack: bool) -> int:
        """Return the row of the next slot."""
        entry = self.next[-1]
        entry[2] -= 1
        if not entry[2] or not pack:
            self.next.pop()
            if entry[2]:
                self.later.append(entry)
        if not self.next:
            self.next, self.later = self.later[::-1], []
        return entry[1]

    def __len__(self) -> int:
        return len(self.next) + len(self.later)


def fill_by_domain(
    ranked: Ranked, filling: FillRule, domains: DomainRules, nodes: list[Node], rejected: Rejected
) -> list[int]:
    """Choose rows slot by slot, in the ledger's order."""
    lanes, (count, pack, worth, least) = _lanes(ranked, domains, nodes, rejected), filling
    if worth.even:
        for where, lane in lanes.items():
            lane.evenness = domains.evenness_of(where)
    far = _drop_far(lanes, domains)
    if least > 1:
        _drop_small(lanes, domains, least)
    chosen: list[int] = []
    while len(chosen) < count:
        best = _best(lanes, domains, worth)
        if best is None:
            break
        row = lanes[best].take(pack=pack)
        chosen.append(row)
        domains.choose(nodes[row])
        if not lanes[best]:
            del lanes[best]
        if len(chosen) == 1:
            far += _drop_far(lanes, domains)
    if len(chosen) < count:
        for where, lane in lanes.items():
            shut = domains.closed_by(where)
            if shut is not None:
                code, key = shut
                kept_by = code, domains.name(where, key)
                rejected[kept_by] = rejected.get(kept_by, 0) + len(lane)
        if far:
            rejected[Code.NEAR, ", ".join(rule.group for rule in domains.binding)] = far
    return chosen


def _best(lanes: dict[tuple[str, ...], _Lane], domains: DomainRules, worth: Worth) -> tuple[str, ...] | None:
    """Return the open lane whose next row is best."""
    best, highest = None, 0
    for where, lane in lanes.items():
        key = lane.next[-1][0]
        if worth.near:
            key += worth.near * domains.nearer(where)
        if worth.even:
            key += worth.even * (domains.evenness_of(where) - lane.evenness)
        if (best is None or key > highest) and domains.closed_by(where) is None:
            best, highest = where, key
    return best


def _drop_far(lanes: dict[tuple[str, ...], _Lane], domains: DomainRules) -> int:
    """Drop the lanes that near rules close. No choice of this pass can open them."""
    shut = [(where, domains.closed_by(where)) for where in lanes] if domains.binding else []
    return sum(len(lanes.pop(where)) for where, found in shut if found is not None and found[0] is Code.NEAR)


def _drop_small(lanes: dict[tuple[str, ...], _Lane], domains: DomainRules, least: int) -> None:
    """Where the first slot decides the domain of all others, drop domains without capacity for enough of them."""
    for place in domains.decided_by_first():
        room: dict[str, int] = {}
        for where, lane in lanes.items():
            room[where[place]] = room.get(where[place], 0) + sum(row[2] for row in lane.next)
        if any(free >= least for free in room.values()):
            for where in [where for where in lanes if room[where[place]] < least]:
                del lanes[where]


def _lanes(ranked: Ranked, domains: DomainRules, nodes: list[Node], rejected: Rejected) -> dict[tuple[str, ...], _Lane]:
    lanes: dict[tuple[str, ...], _Lane] = {}
    order = top_keys(ranked.keys, len(ranked.keys))[::-1]
    columns = (ranked.rows[order].tolist(), ranked.keys[order].tolist(), ranked.takes[order].tolist())
    full = 0
    for row, key, takes in zip(*columns, strict=True):
        if takes > 0:
            lanes.setdefault(domains.lane(nodes[row]), _Lane()).next.append([key, row, takes])
        else:
            full += 1
    if full:
        rejected[Code.APART, "node"] = full
    return lanes
