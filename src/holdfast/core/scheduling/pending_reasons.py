"""The reasons why a request waits, as a tree: rejected nodes per cause, most frequent first, and the nearest fit.

never-fits           no node can hold it, even an empty one: no end of other work cures it
node-unavailable     the region has no nodes, so feasibility is unknown: the first new node starts a pass
capacity 12          12 nodes lack a resource:
  cpu 9                9 lack cpu
  memory 3             3 lack memory
over-grant 4         the accounts cannot pay for 4 more
gang 8               of gangs, too few members fit together; below it, the rejected nodes
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import NO_OVERRIDES, ActiveOverrides
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.quantities import format_amount
from holdfast.core.region.queries.gates import refuse_node
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.fill import Rejected
from holdfast.core.scheduling.filters.isolation import IsolationFilter
from holdfast.core.scheduling.filters.labels import LabelsFilter
from holdfast.core.scheduling.filters.one_tenant import OneTenantFilter
from holdfast.core.scheduling.filters.taints import TaintsFilter
from holdfast.core.scheduling.filters.tenancy import TenancyFilter
from holdfast.core.scheduling.filters.zones import ZonesFilter
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers, Truths
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows

NEVER_FITS = "never-fits"
#: Details listed per code at most.
DETAILS_MAX = 8


def pending_reasons(
    rejected: Rejected, waiting: int, nearest: str = "", *, never: bool = False
) -> tuple[PendingReason, ...]:
    """Return reasons by code, most frequent first. The nearest fit is the first one's message."""
    by_code: dict[str, dict[str, int]] = {}
    for (kept_by, detail), count in rejected.items():
        by_code.setdefault(kept_by.value, {})[detail] = count
    found: list[PendingReason] = []
    for code, details in sorted(by_code.items(), key=lambda one: (-sum(one[1].values()), one[0])):
        most = sorted(details.items(), key=lambda one: (-one[1], one[0]))[:DETAILS_MAX]
        below = tuple(PendingReason(detail, count) for detail, count in most if detail)
        found.append(PendingReason(code, sum(details.values()), nearest if not found else "", below))
    if not found:
        found = [PendingReason(Code.NODE_UNAVAILABLE.value, waiting, "the region has no nodes")]
    if never:
        message = f"no node can hold it, even an empty one: {found[0].message or found[0].code}"
        return (PendingReason(NEVER_FITS, waiting, message, tuple(found)),)
    return tuple(found)


def never_fits(table: NodeTable, ask: SlotAsk) -> bool:
    """Whether no node of the region can hold the slot, even if empty and usable. False without nodes."""
    return table.count > 0 and not could_hold(all_rows(table, ask))


class GangMiss(NamedTuple):
    """A gang that could not be placed: of the members that must be placed together, how many fit."""

    number: int
    least: int
    fits: int


def node_reasons(
    table: NodeTable, ask: SlotAsk, rejected: Rejected, waiting: int, nearest: str, miss: GangMiss | None = None
) -> tuple[PendingReason, ...]:
    """Return why slots wait for nodes; of gangs: what fits, and below it the rejected nodes."""
    if miss is None or not table.count:
        return pending_reasons(rejected, waiting, nearest, never=never_fits(table, ask))
    found = pending_reasons(rejected, waiting, nearest, never=never_fits(table, ask)) if rejected else ()
    if found and found[0].code == NEVER_FITS:
        return found
    ever = _held_empty(table, ask)
    if ever < miss.least:
        message = f"empty nodes hold {ever} of the {miss.least} members that a gang needs together"
        return (PendingReason(NEVER_FITS, waiting, message, found),)
    message = f"{miss.fits} of {miss.least} members of gang {miss.number} fit together"
    return (PendingReason(Code.GANG.value, waiting, f"{message}; {nearest}" if nearest else message, found),)


def members_end(waiting: int) -> PendingReason:
    """Return why gangs wait of which too few members wait: the others have not ended, or are not open yet."""
    return PendingReason(Code.GANG.value, waiting, "other members of its gangs have not ended, or are not open yet")


def _held_empty(table: NodeTable, ask: SlotAsk) -> int:
    """Return how many slots the nodes hold together if they are empty: an upper bound."""
    window = all_rows(table, ask)
    takes: Numbers = np.where(_holding(window), 1 << 30, 0)
    for name, amount in table.amounts(ask.template.need):
        if name in table.resources:
            takes = np.minimum(takes, window.pick(table.capacity[table.resources[name]]) // amount)
    return int(takes.sum())


def could_hold(window: NodeWindow) -> bool:
    """Whether a node of the window can hold the slot if empty and usable."""
    return bool(_holding(window).any())


def domains_that_hold(table: NodeTable, ask: SlotAsk, avoided: Collection[str]) -> dict[str, list[str]]:
    """Return the domains that count for each spread rule: outside of avoided zones, with a usable node that can hold
    the slot when empty."""
    could = _holding(all_rows(table, ask)) & table.usable & _outside(table, ask, avoided)
    if ask.exclusive:
        could &= table.overrun <= table.overrun_most
    columns = [(rule.key, table.attributes.domains(rule.key)) for rule in ask.template.spread]
    return {key: [column.values[code] for code in np.unique(column.codes[could]).tolist()] for key, column in columns}


def _holding(window: NodeWindow) -> Truths:
    """Rows that can hold the slot if empty and usable."""
    table, template, could = window.table, window.ask.template, _admitting(window)
    for name, amount in table.amounts(template.need):
        number = table.resources.get(name)
        if number is None:
            return np.zeros(len(window), np.bool_)
        could &= window.pick(table.capacity[number]) >= amount
    if template.gpus or template.ports:
        could &= table.devices.there(template, window.at)
    return could


def _admitting(window: NodeWindow) -> Truths:
    """Rows whose labels, taints, tenancy and capabilities admit the slot, whatever runs there."""
    could: Truths = np.ones(len(window), np.bool_)
    for one in (TaintsFilter(), TenancyFilter(), IsolationFilter(), LabelsFilter()):
        for _, mask in one.passes(window):
            could &= mask
    return could


def _outside(table: NodeTable, ask: SlotAsk, avoided: Collection[str]) -> Truths:
    """Rows outside of the zones that an override avoids."""
    outside: Truths = np.ones(table.count, np.bool_)
    for _, mask in ZonesFilter().passes(all_rows(table, ask, tuple(sorted(avoided)))):
        outside &= mask
    return outside


def _unoccupied(table: NodeTable, ask: SlotAsk) -> Truths:
    """Rows without another tenant's work, where the node takes one tenant at a time."""
    return next((mask for _, mask in OneTenantFilter().passes(all_rows(table, ask))), np.ones(table.count, np.bool_))


def nearest_fit(
    table: NodeTable, ask: SlotAsk, overrides: ActiveOverrides = NO_OVERRIDES, domains: DomainRules | None = None
) -> str:
    """Return the usable node that lacks least, and what it lacks; empty if there is none.

    Nodes outside of avoided zones and closed domains are preferred.
    """
    open_ = table.usable & _outside(table, ask, overrides.zones)
    could = open_ & _admitting(all_rows(table, ask))
    rows = np.flatnonzero(could & _unoccupied(table, ask))
    if not len(rows):
        rows = np.flatnonzero(next((mask for mask in (could, open_) if mask.any()), table.usable))
        if not len(rows):
            return ""
        node = table.nodes[int(rows[0])]
        misfit = refuse_node(overrides, node, ask.template, ask.tenant, table.occupants.at(int(rows[0])))
        return f"nearest fit is {node.name}: {misfit.code} {misfit.detail}" if misfit is not None else ""
    within, shut = _within_rules(table, rows, domains)
    rows = within if len(within) else rows
    short: Numbers = np.zeros(len(rows), np.int64)
    for name, amount in table.amounts(ask.template.need):
        short += np.maximum(0, amount - _free(table, name, rows, ask)) * 1_000 // amount
    place = int(np.argmin(short))
    node = table.nodes[int(rows[place])]
    lacks = _lacks(table, rows[place : place + 1], ask)
    if not lacks:
        lacks = f"excluded only by its rules: {shut}" if not len(within) else _NO_PLACE
    return f"nearest fit is {node.name}: {lacks}"


_NO_PLACE = "has capacity, but not the devices, ports or domain that it requires"


def _within_rules(table: NodeTable, rows: Numbers, domains: DomainRules | None) -> tuple[Numbers, str]:
    """Return the rows in open domains, and the first closed domain as text. Rules per node do not separate rows."""
    if domains is None or not domains.keys or "node" in domains.keys:
        return rows, ""
    # Lanes are numbered: a closed lane is checked once, not once per row.
    columns = [table.attributes.domains(key) for key in domains.keys]
    size = [max(1, len(column.values)) for column in columns]
    at = np.ravel_multi_index([column.codes[rows] for column in columns], size)
    is_open: Truths = np.zeros(int(np.prod(size)), np.bool_)
    is_open[at] = True
    said = ""
    for number in np.flatnonzero(is_open).tolist():
        codes = np.unravel_index(number, size)
        lane = tuple(column.values[int(code)] for column, code in zip(columns, codes, strict=True))
        shut = domains.closed_by(lane)
        if shut is not None:
            is_open[number] = False
            said = said or f"{shut[0]} {domains.name(lane, shut[1])}"
    return rows[is_open[at]], said


def _free(table: NodeTable, name: str, rows: Numbers, ask: SlotAsk) -> Numbers:
    number = table.resources.get(name)
    if number is None:
        return np.zeros(len(rows), np.int64)
    free: Numbers = table.free_any[number, rows]
    return np.minimum(free, table.free_firm[number, rows]) if ask.firm else free


def _lacks(table: NodeTable, row: Numbers, ask: SlotAsk) -> str:
    """Return the resources that the row lacks; empty if none."""
    amounts = [
        (name, amount, int(_free(table, name, row, ask)[0])) for name, amount in table.amounts(ask.template.need)
    ]
    short = [
        f"{name} {format_amount(name, max(0, free))} of {format_amount(name, amount)}"
        for name, amount, free in amounts
        if free < amount
    ]
    return f"has {', '.join(short)}" if short else ""
