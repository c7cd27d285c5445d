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
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.fill import Ranked, Rejected, Worth, best_first, fill, fill_lanes, level
from holdfast.core.scheduling.framework import PluginError, Rulebook
from holdfast.core.scheduling.nodes.domain_rules import Domains
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers, Truths
from holdfast.core.scheduling.nodes.tie_break import bits_for, ranks
from holdfast.core.scheduling.nodes.window import Window, sample, whole
from holdfast.core.scheduling.scores.evenness import Evenness
from holdfast.core.scheduling.scores.near import Near, part_of

#: So many candidates are kept of a decision.
TOP = 3
#: Below every score.
_LOWEST = -(1 << 62)


class Choice(Struct, frozen=True):
    """What a pass chose: the row of each slot, in the order in which they are to be judged; and why not others."""

    rows: list[int]
    examined: int
    rejected: Rejected
    candidates: tuple[Candidate, ...] = ()


class Passing(Struct, frozen=True):
    """What does not change within a pass."""

    table: NodeTable
    ask: Ask
    rules: Rulebook
    seed: int
    domains: Domains | None = None
    avoided: tuple[str, ...] = ()


def choose(passing: Passing, count: int) -> Choice:
    """Rows for up to so many slots."""
    everything = whole(passing.table, passing.ask, passing.avoided, passing.domains)
    first = sample(everything, count, passing.seed)
    choice = choose_in(passing, first, count)
    if len(choice.rows) < count and not first[0].is_all:
        if passing.domains is not None:
            passing.domains.begin()
        choice = choose_in(passing, (everything,), count)
    return choice


def choose_in(passing: Passing, windows: tuple[Window, ...], count: int) -> Choice:
    """Rows of these windows, which have none in common, for up to so many slots."""
    rejected: Rejected = {}
    examined = sum(len(window) for window in windows)
    alone = count == 1 and passing.domains is None
    found = [one for one in (_scored(passing, window, rejected, alone=alone) for window in windows) if one is not None]
    if not found:
        return Choice([], examined, rejected)
    scored = _together(found)
    rows = scored.rows
    bits = bits_for(passing.table.count)
    keys = (scored.total << bits) | ranks(rows.copy(), passing.seed, bits)
    if alone:
        return Choice([int(rows[np.argmax(keys)])], examined, rejected, _candidates(passing, scored, _top(keys)))
    ranked, pack = Ranked(rows, keys, _takes(passing, rows)), passing.rules.pack
    if passing.domains is not None:
        nodes, worth = passing.table.nodes, _worth(passing, bits)
        chosen = fill_lanes(ranked, count, passing.domains, nodes, rejected, pack=pack, worth=worth)
    else:
        chosen = fill(ranked, count) if pack else level(ranked, count)
    return Choice(chosen, examined, rejected, _candidates(passing, scored, _top(keys)))


class Listed(NamedTuple):
    """The best rows of a stretch for one slot, best first, with the parts of their scores."""

    rows: list[int]
    candidates: tuple[Candidate, ...]
    examined: int
    rejected: Rejected


def listed(passing: Passing, most: int) -> Listed:
    """Up to so many rows for one slot, which is not counted over domains."""
    windows = sample(whole(passing.table, passing.ask, passing.avoided), 1, passing.seed)
    rejected: Rejected = {}
    examined = sum(len(window) for window in windows)
    found = [one for one in (_scored(passing, window, rejected, alone=False) for window in windows) if one is not None]
    if not found:
        return Listed([], (), examined, rejected)
    scored, bits = _together(found), bits_for(passing.table.count)
    keys = (scored.total << bits) | ranks(scored.rows.copy(), passing.seed, bits)
    best = best_first(keys, min(most, len(keys)))[:most]
    return Listed(scored.rows[best].tolist(), _candidates(passing, scored, best), examined, rejected)


class _Scored(NamedTuple):
    """Rows that pass, their scores, and the parts of those, in the order of the rulebook."""

    rows: Numbers
    total: Numbers
    parts: list[Numbers]


def _scored(passing: Passing, window: Window, rejected: Rejected, *, alone: bool) -> _Scored | None:
    """The rows of a window that pass, with their scores; None: there are none. For a slot `alone` those that are best
    by their score, as many as are kept of a decision and all that are equal to the last of them."""
    passes = filtered(passing.rules, window, rejected)
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


def _worth(passing: Passing, bits: int) -> Worth:
    """What a near rule that holds and a part of evenness add to the keys of rows."""
    weights = {one.score.name: one.weight << bits for one in passing.rules.weighed}
    template = passing.ask.template
    near = weights.get(Near.name, 0) * part_of(template) if template.near else 0
    return Worth(near, weights.get(Evenness.name, 0) if template.spread else 0)


def filtered(rules: Rulebook, window: Window, rejected: Rejected) -> Truths:
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


def _takes(passing: Passing, rows: Numbers) -> Numbers:
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


def _device_takes(passing: Passing, rows: Numbers) -> Numbers:
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
    return best_first(keys, min(TOP, len(keys)))[:TOP]


def _candidates(passing: Passing, scored: _Scored, best: Numbers) -> tuple[Candidate, ...]:
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
