"""Why a request waits, as a tree: what kept it first, then how many nodes each question kept out, nearest fit first.

never-fits           no node would take it, even an empty one: nothing that ends will cure it
node-unavailable     there are no nodes, so nobody can tell: the first one that registers is looked at
capacity 12          12 nodes lack something, of which
  cpu 9                9 lack processor
  memory 3             3 lack memory
over-grant 4         who pays cannot pay for 4 more
"""

from __future__ import annotations

from collections.abc import Collection

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
#: So many details of one code are kept.
DETAILS_MAX = 8


def pending_reasons(
    rejected: Rejected, waiting: int, nearest: str = "", *, never: bool = False
) -> tuple[PendingReason, ...]:
    """Reasons by code, the one that kept most out first; the nearest fit is told with the first of them."""
    by_code: dict[str, dict[str, int]] = {}
    for (kept_by, detail), count in rejected.items():
        by_code.setdefault(kept_by.value, {})[detail] = count
    found: list[PendingReason] = []
    for code, details in sorted(by_code.items(), key=lambda one: (-sum(one[1].values()), one[0])):
        most = sorted(details.items(), key=lambda one: (-one[1], one[0]))[:DETAILS_MAX]
        below = tuple(PendingReason(detail, count) for detail, count in most if detail)
        found.append(PendingReason(code, sum(details.values()), nearest if not found else "", below))
    if not found:
        found = [PendingReason(Code.NODE_UNAVAILABLE.value, waiting, "there are no nodes")]
    if never:
        message = f"no node would take it, even an empty one: {found[0].message or found[0].code}"
        return (PendingReason(NEVER_FITS, waiting, message, tuple(found)),)
    return tuple(found)


def never_fits(table: NodeTable, ask: SlotAsk) -> bool:
    """Whether no node that there is would take it, were it empty and in use. Where there is none, nobody can tell."""
    return table.count > 0 and not could_hold(all_rows(table, ask))


def could_hold(window: NodeWindow) -> bool:
    """Whether a node of the window would take what is asked for, were it empty and in use."""
    return bool(_holding(window).any())


def domains_that_hold(table: NodeTable, ask: SlotAsk, avoided: Collection[str]) -> dict[str, list[str]]:
    """By key of its spread rules: the domains outside of avoided zones with a usable node that would take what is asked
    for, were it empty."""
    could = _holding(all_rows(table, ask)) & table.usable & _outside(table, ask, avoided)
    if ask.exclusive:
        could &= table.overrun <= table.overrun_most
    columns = [(rule.key, table.attributes.domains(rule.key)) for rule in ask.template.spread]
    return {key: [column.values[code] for code in np.unique(column.codes[could]).tolist()] for key, column in columns}


def _holding(window: NodeWindow) -> Truths:
    """Rows that would take what is asked for, were they empty and in use."""
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
    """Rows whose labels, taints, tenancy and capabilities let it in, once nobody is there."""
    could: Truths = np.ones(len(window), np.bool_)
    for one in (TaintsFilter(), TenancyFilter(), IsolationFilter(), LabelsFilter()):
        for _, mask in one.passes(window):
            could &= mask
    return could


def _outside(table: NodeTable, ask: SlotAsk, avoided: Collection[str]) -> Truths:
    """Rows outside of zones that an override says to avoid."""
    outside: Truths = np.ones(table.count, np.bool_)
    for _, mask in ZonesFilter().passes(all_rows(table, ask, tuple(sorted(avoided)))):
        outside &= mask
    return outside


def _unoccupied(table: NodeTable, ask: SlotAsk) -> Truths:
    """Rows on which nobody is beside whom it may not be."""
    return next((mask for _, mask in OneTenantFilter().passes(all_rows(table, ask))), np.ones(table.count, np.bool_))


def nearest_fit(
    table: NodeTable, ask: SlotAsk, overrides: ActiveOverrides = NO_OVERRIDES, domains: DomainRules | None = None
) -> str:
    """The usable node that lacks least, and what it lacks, in words; empty when there is none.

    Where there is one, it is outside of avoided zones, and of domains that rules shut.
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
        lacks = f"has room, but not by its rules: {shut}" if not len(within) else _NO_PLACE
    return f"nearest fit is {node.name}: {lacks}"


_NO_PLACE = "has room, but not the devices, ports or place that its rules ask for"


def _within_rules(table: NodeTable, rows: Numbers, domains: DomainRules | None) -> tuple[Numbers, str]:
    """Which rows rules over domains leave open, and what shuts the first that is shut. Nodes are not told apart by
    rules that count each node by itself."""
    if domains is None or not domains.keys or "node" in domains.keys:
        return rows, ""
    # One number for each lane, of which there are few: what is shut is asked once for each, and looked up for the rows.
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
    """What a row has less of than is needed; empty: nothing."""
    amounts = [
        (name, amount, int(_free(table, name, row, ask)[0])) for name, amount in table.amounts(ask.template.need)
    ]
    short = [
        f"{name} {format_amount(name, max(0, free))} of {format_amount(name, amount)}"
        for name, amount, free in amounts
        if free < amount
    ]
    return f"has {', '.join(short)}" if short else ""
