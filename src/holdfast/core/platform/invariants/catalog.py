"""The list of the platform's invariants."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.ledger.state.invariants import Coordination, Invariant, InvariantKind
from holdfast.core.platform.invariants import grants, objects, regions
from holdfast.core.platform.invariants.scan import PlatformBatchScan, PlatformFullScan, PlatformScan
from holdfast.core.platform.state.tables import PlatformState

_ALWAYS, _AT_COMMIT, _LEDGER, _ESCROW = (
    InvariantKind.ALWAYS,
    InvariantKind.AT_COMMIT,
    Coordination.LEDGER,
    Coordination.ESCROW,
)


def escrow(at: PlatformScan) -> objects.Found:
    return grants.escrow(at.state, at.charged())


def charge(at: PlatformScan) -> objects.Found:
    return grants.charge(at.rows("grants"))


def _promise(
    name: str, sentence: str, kind: InvariantKind, needs: Coordination, look: Callable[[PlatformScan], objects.Found]
) -> Invariant[PlatformState]:
    def everywhere(state: PlatformState) -> objects.Found:
        return look(PlatformFullScan(state))

    return Invariant(name, sentence, kind, needs, everywhere, lambda change: look(change.scan(PlatformBatchScan)))


INVARIANTS: tuple[Invariant[PlatformState], ...] = (
    _promise("platform.escrow",
             "An account is charged at most its limit; a lowered quota or a region's claim may leave a breach.",
             _AT_COMMIT, _ESCROW, escrow),
    _promise("platform.charge", "A grant is charged at the largest value that its region may act on.",
             _ALWAYS, _ESCROW, charge),
    _promise("platform.identity",
             "At most one region holds the right to an exclusive identity, and only its assignment lists it.",
             _ALWAYS, _LEDGER, regions.identity),
    _promise("platform.policy",
             "Exactly one policy is valid for a region and scope; it exists and was not rolled back.",
             _ALWAYS, _LEDGER, objects.policy),
    _promise("platform.override", "An override has a reason, an owner and an end.",
             _ALWAYS, _LEDGER, objects.override),
    _promise("platform.references", "A named object exists, and every template is named by a workload.",
             _ALWAYS, _LEDGER, objects.references),
    _promise("platform.one-each",
             "One assignment for each workload, region and purpose; one live workload for each name.",
             _ALWAYS, _LEDGER, objects.one_each),
    _promise("platform.disruption", "The regions' shares of a disruption budget add up to no more than the budget.",
             _AT_COMMIT, _LEDGER, objects.disruption),
    _promise("platform.residency", "Replicas are assigned only to regions where their workload may be.",
             _AT_COMMIT, _LEDGER, objects.residency),
    _promise("platform.retired", "A retired region holds nothing once all is released, and no region uses its log.",
             _ALWAYS, _LEDGER, regions.retired),
    _promise("platform.observed",
             "Reports are stored only of existing regions, and of workloads that they have assignments of.",
             _ALWAYS, Coordination.HINT, regions.observed),
    _promise("platform.finalizers", "An object has finalizers exactly while it is being deleted.",
             _ALWAYS, _LEDGER, objects.finalizers),
    _promise("platform.revisions", "Uids and revisions are positions in the log, and generations count from 1.",
             _ALWAYS, _LEDGER, objects.revisions),
    _promise("platform.breaches", "A breach has an owner, a size and a deadline.",
             _ALWAYS, _LEDGER, objects.breaches),
    _promise("platform.derived", "Derived tables equal their rebuild from the stored ones.",
             _ALWAYS, Coordination.MERGEABLE, objects.derived),
)  # fmt: skip
