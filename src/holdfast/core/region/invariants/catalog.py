"""The list of a region's invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.core.ledger.state.invariants import Coordination, Invariant, InvariantKind
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_CAPACITY, REGION_RESIDENCY, REGION_RIGHT
from holdfast.core.region.invariants.accounts import (
    charges_conserved,
    counts_agree,
    residency_kept,
    rights_held,
    rooms_conserved,
    where_allowed,
    within_capacity,
    within_grants,
)
from holdfast.core.region.invariants.scan import RegionBatchScan, RegionFullScan, RegionScan
from holdfast.core.region.invariants.slots import (
    device_ownership,
    epochs_grow,
    finished_stays,
    lists_kept,
    pending_holds_nothing,
    port_ownership,
    references_hold,
    unique_binding,
)
from holdfast.core.region.state.tables import RegionState

ALWAYS, AT_COMMIT = InvariantKind.ALWAYS, InvariantKind.AT_COMMIT


def _promise(
    name: str, sentence: str, kind: InvariantKind, needs: Coordination, look: Callable[[RegionScan], Iterator[str]]
) -> Invariant[RegionState]:
    def everywhere(state: RegionState) -> Iterator[str]:
        return look(RegionFullScan(state))

    return Invariant(name, sentence, kind, needs, everywhere, lambda change: look(change.scan(RegionBatchScan)))


INVARIANTS: tuple[Invariant[RegionState], ...] = (
    _promise("region.unique-binding", "A slot stands on at most one node, and only its node lists it.", ALWAYS, Coordination.LEDGER, unique_binding),
    _promise("region.device-ownership", "A device gives no more than it is to those that use it.", ALWAYS, Coordination.LEDGER, device_ownership),
    _promise("region.port-ownership", "A port of a node is given to one slot.", ALWAYS, Coordination.LEDGER, port_ownership),
    _promise("region.charges", "Every placed slot is charged exactly once, and charges are what slots and holds need.", ALWAYS, Coordination.LEDGER, charges_conserved),
    _promise("region.grants", "No account is charged more than this region settled on.", ALWAYS, Coordination.ESCROW, within_grants),
    _promise("region.rooms", "What is taken of a node is the sum of what stands there.", ALWAYS, Coordination.LEDGER, rooms_conserved),
    _promise("region.epochs", "Uids and epochs are revisions of this log and only grow.", ALWAYS, Coordination.LEDGER, epochs_grow),
    _promise("region.references", "What a slot, hold or report refers to exists.", ALWAYS, Coordination.LEDGER, references_hold),
    _promise("region.pending", "What waits holds nothing but its charge, and nothing rests in released.", ALWAYS, Coordination.LEDGER, pending_holds_nothing),
    _promise("region.finished", "What is done, or has failed for good, has no slot, and is kept while it is asked for.", ALWAYS, Coordination.LEDGER, finished_stays),
    _promise("region.lists", "What each part of a full list has named is known until the list ends, and no longer.", ALWAYS, Coordination.LEDGER, lists_kept),
    _promise("region.counts", "Every count and index is what its rows add up to.", ALWAYS, Coordination.MERGEABLE, counts_agree),
    _promise(REGION_CAPACITY, "What stands on a node is no more than the node has.", AT_COMMIT, Coordination.LEDGER, within_capacity),
    _promise(REGION_ALLOWED, "Nothing stands where a taint evicts it, the node is kept for others, or tenants are not as far apart as they have to be.", AT_COMMIT, Coordination.LEDGER, where_allowed),
    _promise(REGION_RESIDENCY, "Nothing stands outside the jurisdictions that its workload allows.", AT_COMMIT, Coordination.LEDGER, residency_kept),
    _promise(REGION_RIGHT, "An exclusive identity stands only where this region holds its right.", AT_COMMIT, Coordination.ESCROW, rights_held),
)  # fmt: skip
