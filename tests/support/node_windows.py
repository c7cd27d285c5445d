"""Nodes of a bench as a filter or a score sees them, and what it says of each by its name."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.framework import FilterPlugin, ScorePlugin
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows
from tests.support.ledgers.region import RegionBench


def a_bench(*, checked: bool = True) -> RegionBench:
    """A region with a scheduler and a grant, and no nodes."""
    bench = RegionBench(checked=checked)
    bench.a_scheduler()
    bench.a_grant()
    return bench


def table_of(bench: RegionBench) -> NodeTable:
    table = NodeTable()
    table.refresh(
        bench.state, [uid for uid, _ in bench.state.nodes.items()], pack_revision(bench.state.info.seq, INDEX_MAX)
    )
    return table


def an_ask(
    template: Template, *, tenant: str = "acme", firm: bool = True, workload: int = 1, exclusive: bool = False
) -> SlotAsk:
    return SlotAsk(template_digest(template), template, tenant, firm, workload if template.spread else 0, exclusive)


def seen(bench: RegionBench, template: Template, *, avoided: tuple[str, ...] = (), **asked: Any) -> NodeWindow:
    """All nodes, as a slot of the template sees them."""
    ask = an_ask(template, **asked)
    domains = DomainRules(bench.state, ask, {}) if has_domain_rules(template) else None
    return all_rows(table_of(bench), ask, avoided, domains)


def passing(one: FilterPlugin, window: NodeWindow) -> str:
    """The names of the nodes that pass, sorted, with blanks between them."""
    names = {node.name for node in window.table.nodes}
    for _, mask in one.passes(window):
        names &= {node.name for node, passes in zip(window.table.nodes, mask.tolist(), strict=True) if passes}
    return " ".join(sorted(names))


def scored(one: ScorePlugin, window: NodeWindow) -> dict[str, int]:
    """By the name of the node: how good it would be; nothing where it makes no difference."""
    values = one.score(window)
    if values is None:
        return {}
    assert values.dtype == "int64"
    return dict(sorted(zip([node.name for node in window.table.nodes], values.tolist(), strict=True)))
