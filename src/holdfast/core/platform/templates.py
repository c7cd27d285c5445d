"""Who names a template, and when one is forgotten.

A template is stored once under its digest, however many workloads name it. A workload keeps the one that it names,
those that its assignments name, and of the others the last few that it has named: an old one may be assigned again,
which is how a rollout goes back. A region that still runs one which is forgotten here keeps its own copy until it does
not.

    PutWorkload of another template ──▶ the workload keeps the last ten ──▶ what nobody keeps is forgotten ──▶ regions
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.model.limits import TEMPLATES_MAX
from holdfast.core.model.shapes import Revision
from holdfast.core.platform.events import TemplatesDropped, TemplatesForgotten, WorkloadOf
from holdfast.core.platform.state import PlatformState, assignments_of


def is_known_to(state: PlatformState, tenant: str, digest: str) -> bool:
    """Whether a workload of this tenant names the template, or has named it."""
    return any(name == tenant for name, _ in state.template_uses.get(digest) or ())


def forgotten(state: PlatformState, workloads: Iterable[Revision]) -> tuple[TemplatesForgotten, ...]:
    """The templates that nobody names once these workloads are gone."""
    going: dict[str, int] = {}
    for uid in workloads:
        for digest in state.templates_of.get(uid) or ():
            going[digest] = going.get(digest, 0) + 1
    gone = sorted(digest for digest, count in going.items() if count == _workloads_naming(state, digest))
    return (TemplatesForgotten(tuple(gone)),) if gone else ()


def dropped(
    state: PlatformState, workload: WorkloadOf, newest: str
) -> tuple[TemplatesDropped | TemplatesForgotten, ...]:
    """What a workload that names this template now keeps no longer, and what of that nobody else names."""
    if state.facts.level < TemplatesDropped.SINCE:
        return ()
    named = [*(one for one in state.templates_of.get(workload.workload) or () if one != newest), newest]
    assigned = {share.template for one in assignments_of(state, workload.workload) for share in one.shares}
    going = sorted(one for one in named[:-TEMPLATES_MAX] if one not in assigned)
    if not going:
        return ()
    gone = tuple(digest for digest in going if _workloads_naming(state, digest) == 1)
    return (
        TemplatesDropped(workload.workload, workload.tenant, tuple(going)),
        *((TemplatesForgotten(gone),) if gone else ()),
    )


def of_kept(state: PlatformState, workload: Revision, done: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """What was done, of templates that the workload keeps: of others nobody asks any more."""
    if state.facts.level < TemplatesDropped.SINCE:
        return done
    kept = state.templates_of.get(workload) or ()
    return tuple(row for row in done if row[0] in kept)


def _workloads_naming(state: PlatformState, digest: str) -> int:
    return sum(count for _, count in state.template_uses.get(digest) or ())
