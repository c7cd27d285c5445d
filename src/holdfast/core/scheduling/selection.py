"""One pass: select the best rows for a number of equal slots.

    window ──▶ filters: passing rows, rejections by cause ──▶ scores ──▶ fill: rows in the order of their keys

A key is the score with the row's seeded tie rank below it, so keys are unique (RULES 17). Packing fills the best row,
then the next. Spreading puts one slot on each of the best rows, then starts over. If a sample does not hold all slots,
the pass examines all rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from holdfast.core.model.records.decisions import Candidate
from holdfast.core.scheduling import fill
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.fill import Ranked, Rejected, Worth, pack_nodes, spread_nodes, top_keys
from holdfast.core.scheduling.framework import PluginError, SchedulingProfile
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers, Truths
from holdfast.core.scheduling.nodes.tie_break import bits_for, tie_ranks
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows, sample_rows
from holdfast.core.scheduling.scores.evenness import EvennessScore
from holdfast.core.scheduling.scores.near import NearScore, part_of

#: Candidates listed in the evidence of a decision.
TOP = 3
#: Below every score.
_LOWEST = -(1 << 62)


class NodeSelection(Struct, frozen=True):
    """The result of a pass: a row per slot, in the order of proposal, and rejections by cause."""

    rows: list[int]
    examined: int
    rejected: Rejected
    candidates: tuple[Candidate, ...] = ()


class PassContext(Struct, frozen=True):
    """The constant inputs of a pass. Fewer than `least` slots are of no use: near rules choose a domain for so many."""

    table: NodeTable
    ask: SlotAsk
    rules: SchedulingProfile
    seed: int
    domains: DomainRules | None = None
    avoided: tuple[str, ...] = ()
    least: int = 1


def select_nodes(passing: PassContext, count: int) -> NodeSelection:
    """Select rows for up to `count` slots."""
    everything = all_rows(passing.table, passing.ask, passing.avoided, passing.domains)
    first = sample_rows(everything, count, passing.seed)
    choice = select_in(passing, first, count)
    if len(choice.rows) < count and not first[0].is_all:
        if passing.domains is not None:
            passing.domains.begin()
        choice = select_in(passing, (everything,), count)
    return choice


def select_in(passing: PassContext, windows: tuple[NodeWindow, ...], count: int) -> NodeSelection:
    """Select rows of these disjoint windows."""
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
        filling = fill.FillRule(count, pack, worth, passing.least)
        chosen = fill.fill_by_domain(ranked, filling, passing.domains, nodes, rejected)
    else:
        chosen = pack_nodes(ranked, count) if pack else spread_nodes(ranked, count)
    return NodeSelection(chosen, examined, rejected, _candidates(passing, scored, _top(keys)))


class RankedList(NamedTuple):
    """The best rows of a window for one slot, with the parts of their scores."""

    rows: list[int]
    candidates: tuple[Candidate, ...]
    examined: int
    rejected: Rejected


def ranked_list(passing: PassContext, most: int) -> RankedList:
    """Return up to `most` rows for one slot without domain rules."""
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
    """Passing rows, their total scores, and the parts in the order of the profile."""

    rows: Numbers
    total: Numbers
    parts: list[Numbers]


def _scored(passing: PassContext, window: NodeWindow, rejected: Rejected, *, alone: bool) -> _Scored | None:
    """Return the passing rows with scores; None if there are none. If `alone`, only the `TOP` best and ties."""
    passes = apply_filters(passing.rules, window, rejected)
    if not passes.any():
        return None
    window = window.that_pass(passes)
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
    """Indexes of the `TOP` highest scores that pass, and ties of the last."""
    left = np.where(passes, total, _LOWEST)
    found: list[Numbers] = []
    while sum(len(places) for places in found) < TOP:
        # A few searches for the maximum cost less than one partition.
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
    """Return the key values of a near rule that holds and of evenness."""
    weights = {one.score.name: one.weight << bits for one in passing.rules.weighed}
    template = passing.ask.template
    near = weights.get(NearScore.name, 0) * part_of(template) if template.near else 0
    return Worth(near, weights.get(EvennessScore.name, 0) if template.spread else 0)


def apply_filters(rules: SchedulingProfile, window: NodeWindow, rejected: Rejected) -> Truths:
    """Return the rows that pass every filter, and count rejections by requirement."""
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
    """How many slots each row can take."""
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
    """How many slots the free devices of each row can take: several on one device, or one on several."""
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
    """The candidates at these indexes, with the parts of their scores."""
    names = [one.score.name for one in passing.rules.weighed]
    parts = zip(*[part[best].tolist() for part in scored.parts], strict=True) if names else [()] * len(best)
    uids, totals = passing.table.uids[scored.rows[best]].tolist(), scored.total[best].tolist()
    return tuple(
        [
            Candidate(uid, total, tuple(zip(names, of, strict=True)))
            for uid, total, of in zip(uids, totals, parts, strict=True)
        ]
    )
