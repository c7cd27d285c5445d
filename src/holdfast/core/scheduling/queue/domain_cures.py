"""What of the slots that stand in domains may cure a group that waits for nodes: numbers to compare, and where to look.

    another number in a domain ──▶ `domain_counts` differ      one more slot, proposed or not ──▶ `scopes_that_cure`
    a member on the node itself ──▶ `shared_rows`

A slot that this scheduler has proposed counts like one that stands: whoever is looked at next is judged beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import numpy as np

from holdfast.core.model.records.domains import REGION_WIDE, domain_scopes, has_domain_rules
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.domain_rules import DomainKey, reach_of
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers
from holdfast.core.scheduling.pending_reasons import domains_that_hold


def domain_counts(
    state: RegionState, table: NodeTable, ask: SlotAsk, mine: Mapping[DomainKey, int], avoided: Collection[str]
) -> tuple[object, ...]:
    """What an ask's rules count over domains, over which, and which of them count for spread rules."""
    if not has_domain_rules(ask.template):
        return ()
    # With all of the region: a member counts that stands where nothing may be placed.
    names = [(REGION_WIDE, ""), *(where for where, _ in state.domains.items())]
    found = [
        (state.domain_members.get((scope, key, name)) or 0) + mine.get((scope, key, name), 0)
        for scope, key in domain_scopes(ask.template, ask.workload, ask.tenant)
        for kind, name in names
        if kind == key
    ]
    reach = reach_of(state, ask, avoided, partial(domains_that_hold, table, ask, avoided))
    # By name: one domain may have come for another, so that the same numbers are of others.
    return (tuple(names), *reach.values(), *found)


def scopes_that_cure(ask: SlotAsk) -> tuple[str, ...]:
    """Under what a slot is counted that may let one of these come by standing somewhere: a member that it must be near,
    or a replica in the emptiest domain. One more slot takes from others, and opens no other gate."""
    near = {f"{ask.tenant}/{rule.group}": None for rule in ask.template.near if rule.required}
    return (*near, f"#{ask.workload}") if ask.template.spread else (*near,)


def shared_rows(
    state: RegionState, table: NodeTable, ask: SlotAsk, rows: Numbers, mine: Mapping[DomainKey, int]
) -> Numbers:
    """Which of the rows have a member that such a slot must share a node with.

    Domains are too coarse for that: a member that went from one node to another may be in the same ones.
    """
    groups = [f"{ask.tenant}/{rule.group}" for rule in ask.template.near if rule.required and rule.key == "node"]
    found: list[int] = []
    for row in rows.tolist() if groups else ():
        at = [(group, "node", table.nodes[row].name) for group in groups]
        if any(state.domain_members.get(where) or mine.get(where) for where in at):
            found.append(row)
    return np.array(found, np.int64)
