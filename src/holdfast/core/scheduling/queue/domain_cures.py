"""Slots in domains that may cure a group that waits for nodes: counts to compare, scopes and rows to watch.

    a domain count changed ──▶ `domain_counts` differ      one more slot, proposed or not ──▶ `scopes_that_cure`
    a member on the node itself ──▶ `shared_rows`

Proposed slots count like placed ones, since the ledger decides later placements after them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

import numpy as np

from holdfast.core.model.records.domains import REGION_WIDE, domain_scopes, has_domain_rules
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.domain_rules import DomainKey, reach_of
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers
from holdfast.core.scheduling.pending_reasons import domains_that_hold
from holdfast.core.scheduling.queue.proposed_parts import ProposedPart


def domain_counts(
    state: RegionState, table: NodeTable, ask: SlotAsk, mine: Mapping[DomainKey, int], avoided: Collection[str]
) -> tuple[object, ...]:
    """Return the domains, those that count for spread rules, and all counts that an ask's rules depend on."""
    if not has_domain_rules(ask.template):
        return ()
    # Including the whole region: members count even where nothing may be placed.
    names = [(REGION_WIDE, ""), *(where for where, _ in state.domains.items())]
    found = [
        (state.domain_members.get((scope, key, name)) or 0) + mine.get((scope, key, name), 0)
        for scope, key in domain_scopes(ask.template, ask.workload, ask.tenant)
        for kind, name in names
        if kind == key
    ]
    reach = reach_of(state, ask, avoided, partial(domains_that_hold, table, ask, avoided))
    # By name: one domain may replace another, with equal counts.
    return (tuple(names), *reach.values(), *found)


def scopes_that_cure(ask: SlotAsk) -> tuple[str, ...]:
    """Return the scopes in which one more slot may make the ask feasible: groups it must be near, and its workload,
    whose emptiest domain may fill. One more slot opens no other gate."""
    near = {f"{ask.tenant}/{rule.group}": None for rule in ask.template.near if rule.required}
    return (*near, f"#{ask.workload}") if ask.template.spread else (*near,)


def may_cure(parts: Iterable[ProposedPart], ask: SlotAsk) -> bool:
    """Whether earlier placements may have made the ask feasible."""
    scopes = scopes_that_cure(ask)
    return any(scope in scopes for part in parts for scope, _, _ in part.stands)


def shared_rows(
    state: RegionState, table: NodeTable, ask: SlotAsk, rows: Numbers, mine: Mapping[DomainKey, int]
) -> Numbers:
    """Return the rows with a member with which the slot must share a node.

    Domain counts are too coarse: a member may move between nodes of one domain.
    """
    groups = [f"{ask.tenant}/{rule.group}" for rule in ask.template.near if rule.required and rule.key == "node"]
    found: list[int] = []
    for row in rows.tolist() if groups else ():
        at = [(group, "node", table.nodes[row].name) for group in groups]
        if any(state.domain_members.get(where) or mine.get(where) for where in at):
            found.append(row)
    return np.array(found, np.int64)
