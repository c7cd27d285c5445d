"""One pass: so many equal slots, on the rows that are best for them.

    window ──▶ filters: which rows, and why not the others ──▶ scores ──▶ fill: rows in the order of their keys

A key is the score with the row's rank in a seeded mixing below it, so no two rows have one (RULES 17). Where nodes are
packed, the best row is filled, then the next; where work is spread, each of the best rows gets one and all are scored
again. If a sample of the rows does not hold all slots, all rows are looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from holdfast.core.model.records.decisions import Candidate
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.fill import Ranked, Rejected, Worth, fill_by_domain, pack_nodes, spread_nodes, top_keys
from holdfast.core.scheduling.framework import PluginError, SchedulingProfile
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers, Truths
from holdfast.core.scheduling.nodes.tie_break import bits_for, tie_ranks
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows, sample_rows
from holdfast.core.scheduling.scores.evenness import EvennessScore
from holdfast.core.scheduling.scores.near import NearScore, part_of

#: So many candidates are kept of a decision.
TOP = 3
#: Below every score.
_LOWEST = -(1 << 62)


class NodeSelection(Struct, frozen=True):
    """What a pass chose: the row of each slot, in the order in which they are to be judged; and why not others."""

    rows: list[int]
    examined: int
    rejected: Rejected
    candidates: tuple[Candidate, ...] = ()


class PassContext(Struct, frozen=True):
    """What does not change within a pass."""

    table: NodeTable
    ask: SlotAsk
    rules: SchedulingProfile
    seed: int
    domains: DomainRules | None = None
    avoided: tuple[str, ...] = ()


def select_nodes(passing: PassContext, count: int) -> NodeSelection:
    """Rows for up to so many slots."""
    everything = all_rows(passing.table, passing.ask, passing.avoided, passing.domains)
    first = sample_rows(everything, count, passing.seed)
    choice = select_in(passing, first, count)
    if len(choice.rows) < count and not first[0].is_all:
        if passing.domains is not None:
            passing.domains.begin()
        choice = select_in(passing, (everything,), count)
    return choice


def select_in(passing: PassContext, windows: tuple[NodeWindow, ...], count: int) -> NodeSelection:
    """Rows of these windows, which have none in common, for up to so many slots."""
    rejected: Rejected = {}
    examined = sum(len(window) for window in windows)
    alone = count == 1 and passing.domains is None
    found = [one for one in (_scored(passing, window, rejected, alone=alone) for window in windows) if one is not None]
    if not found:
        return NodeSelection([], examined, rejected)
    scored = _together(found)
    rows = scored.rows
    bits = bits_for(passing.table.count)
    keys = (scored.total << bits) | tie_ranks(rows.copy(), passing.seed, bits)
    if alone:
        return NodeSelection([int(rows[np.argmax(keys)])], examined, rejected, _candidates(passing, scored, _top(keys)))
    ranked, pack = Ranked(rows, keys, _slots_per_node(passing, rows)), passing.rules.pack
    if passing.domains is not None:
        nodes, worth = passing.table.nodes, _worth(passing, bits)
        chosen = fill_by_domain(ranked, count, passing.domains, nodes, rejected, pack=pack, worth=worth)
    else:
        chosen = pack_nodes(ranked, count) if pack else spread_nodes(ranked, count)
    return NodeSelection(chosen, examined, rejected, _candidates(passing, scored, _top(keys)))


class RankedList(NamedTuple):
    """The best rows of a stretch for one slot, best first, with the parts of their scores."""

    rows: list[int]
    candidates: tuple[Candidate, ...]
    examined: int
    rejected: Rejected


def ranked_list(passing: PassContext, most: int) -> RankedList:
    """Up to so many rows for one slot, which is not counted over domains."""
    windows = sample_rows(all_rows(passing.table, passing.ask, passing.avoided), 1, passing.seed)
    rejected: Rejected = {}
    examined = sum(len(window) for window in windows)
    found = [one for one in (_scored(passing, window, rejected, alone=False) for window in windows) if one is not None]
    if not found:
        return RankedList([], (), examined, rejected)
    scored, bits = _together(found), bits_for(passing.table.count)
    keys = (scored.total << bits) | tie_ranks(scored.rows.copy(), passing.seed, bits)
    best = top_keys(keys, min(most, len(keys)))[:most]
    return RankedList(scored.rows[best].tolist(), _candidates(passing, scored, best), examined, rejected)


class _Scored(NamedTuple):
    """Rows that pass, their scores, and the parts of those, in the order of the rulebook."""

    rows: Numbers
    total: Numbers
    parts: list[Numbers]


def _scored(passing: PassContext, window: NodeWindow, rejected: Rejected, *, alone: bool) -> _Scored | None:
    """The rows of a window that pass, with their scores; None: there are none. For a slot `alone` those that are best
    by their score, as many as are kept of a decision and all that are equal to the last of them."""
    passes = apply_filters(passing.rules, window, rejected)
    if not passes.any():
        return None
    total: Numbers = np.zeros(len(window), np.int64)
    scores: list[Numbers | None] = []
    for one in passing.rules.weighed:
        try:
            score = one.score.score(window)
            if score is not None:
                if score.shape != (len(window),) or score.dtype != np.int64:
                    raise TypeError(f"{score.dtype} {score.shape}, not int64 ({len(window)},)")
                total += one.weight * score
        except Exception as error:
            raise PluginError(one.score.name, error) from error
        scores.append(score)
    at = _highest(total, passes) if alone else np.flatnonzero(passes)
    rows: Numbers = at + window.at.start if isinstance(window.at, slice) else window.at[at]
    nothing: Numbers = np.zeros(len(at), np.int64)
    weighed = zip(passing.rules.weighed, scores, strict=True)
    parts = [nothing if score is None else one.weight * score[at] for one, score in weighed]
    return _Scored(rows, total[at], parts)


def _highest(total: Numbers, passes: Truths) -> Numbers:
    """Places of the highest scores of what passes: `TOP` of them, and all that are equal to the last."""
    left = np.where(passes, total, _LOWEST)
    found: list[Numbers] = []
    while sum(len(places) for places in found) < TOP:
        # A few looks for the highest cost less than one partition.
        highest = left.max()
        if highest == _LOWEST:
            break
        found.append(np.flatnonzero(left == highest))
        left[found[-1]] = _LOWEST
    return np.concatenate(found)


def _together(found: list[_Scored]) -> _Scored:
    if len(found) == 1:
        return found[0]
    return _Scored(
        np.concatenate([one.rows for one in found]),
        np.concatenate([one.total for one in found]),
        [np.concatenate(parts) for parts in zip(*(one.parts for one in found), strict=True)],
    )


def _worth(passing: PassContext, bits: int) -> Worth:
    """What a near rule that holds and a part of evenness add to the keys of rows."""
    weights = {one.score.name: one.weight << bits for one in passing.rules.weighed}
    template = passing.ask.template
    near = weights.get(NearScore.name, 0) * part_of(template) if template.near else 0
    return Worth(near, weights.get(EvennessScore.name, 0) if template.spread else 0)


def apply_filters(rules: SchedulingProfile, window: NodeWindow, rejected: Rejected) -> Truths:
    """Which rows pass every filter; for each question, how many of those that were left it kept out."""
    passes: Truths = np.ones(len(window), np.bool_)
    left = len(passes)
    for one in rules.filters:
        try:
            for detail, mask in one.passes(window):
                passes &= mask
                still = int(np.count_nonzero(passes))
                if still < left:
                    rejected[one.code, detail] = rejected.get((one.code, detail), 0) + left - still
                    left = still
        except Exception as error:
            raise PluginError(one.name, error) from error
    return passes


def _slots_per_node(passing: PassContext, rows: Numbers) -> Numbers:
    """How many of the slots each row has room for."""
    table, ask = passing.table, passing.ask
    takes: Numbers = np.full(len(rows), 1 << 30, np.int64)
    for name, amount in table.amounts(ask.template.need):
        number = table.resources[name]
        free = table.free_any[number, rows]
        if ask.firm:
            free = np.minimum(free, table.free_firm[number, rows])
        takes = np.minimum(takes, free // amount)
    template = ask.template
    if template.gpus:
        takes = np.minimum(takes, _device_takes(passing, rows))
    if template.ports:
        takes = np.minimum(takes, table.devices.ports[rows] // template.ports)
    if passing.domains is not None:
        takes = np.minimum(takes, [passing.domains.takes(table.nodes[row]) for row in rows.tolist()])
    return takes


def _device_takes(passing: PassContext, rows: Numbers) -> Numbers:
    """How many slots the free devices of each row hold: several on one, or one on several."""
    template, firm, devices = passing.ask.template, passing.ask.firm, passing.table.devices
    accepted = devices.accepted(template, rows, firm=firm)
    if template.gpus > 1:
        found: Numbers = accepted.sum(axis=0) // template.gpus
        return found
    free = devices.free_any[:, rows]
    if firm:
        free = np.minimum(free, devices.free_firm[:, rows])
    shared: Numbers = (free * accepted // template.gpu_milli).sum(axis=0)
    return shared


def _top(keys: Numbers) -> Numbers:
    return top_keys(keys, min(TOP, len(keys)))[:TOP]


def _candidates(passing: PassContext, scored: _Scored, best: Numbers) -> tuple[Candidate, ...]:
    """The rows at these places, with the parts of their scores."""
    names = [one.score.name for one in passing.rules.weighed]
    parts = zip(*[part[best].tolist() for part in scored.parts], strict=True) if names else [()] * len(best)
    uids, totals = passing.table.uids[scored.rows[best]].tolist(), scored.total[best].tolist()
    return tuple(
        [
            Candidate(uid, total, tuple(zip(names, of, strict=True)))
            for uid, total, of in zip(uids, totals, parts, strict=True)
        ]
    )
