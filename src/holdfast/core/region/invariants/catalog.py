"""List of a region's invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.core.ledger.state.invariants import Coordination, Invariant, InvariantKind
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_CAPACITY, REGION_RESIDENCY, REGION_RIGHT
from holdfast.core.region.invariants import accounts, slots
from holdfast.core.region.invariants.scan import RegionBatchScan, RegionFullScan, RegionScan
from holdfast.core.region.state.tables import RegionState

ALWAYS, AT_COMMIT = InvariantKind.ALWAYS, InvariantKind.AT_COMMIT


def _promise(
    name: str, sentence: str, kind: InvariantKind, needs: Coordination, look: Callable[[RegionScan], Iterator[str]]
) -> Invariant[RegionState]:
    def everywhere(state: RegionState) -> Iterator[str]:
        return look(RegionFullScan(state))

    return Invariant(name, sentence, kind, needs, everywhere, lambda change: look(change.scan(RegionBatchScan)))


INVARIANTS: tuple[Invariant[RegionState], ...] = (
    _promise("region.unique-binding", "A slot is on at most one node, and only its node lists it.", ALWAYS, Coordination.LEDGER, slots.unique_binding),
    _promise("region.device-ownership", "The slots on a device use at most its capacity.", ALWAYS, Coordination.LEDGER, slots.device_ownership),
    _promise("region.port-ownership", "A port of a node belongs to at most one slot.", ALWAYS, Coordination.LEDGER, slots.port_ownership),
    _promise("region.charges", "Every placed slot is charged exactly once, and charges are the sum of what slots and holds need.", ALWAYS, Coordination.LEDGER, accounts.charges_conserved),
    _promise("region.grants", "No account is charged more than its settled grant.", ALWAYS, Coordination.ESCROW, accounts.within_grants),
    _promise("region.rooms", "The usage of a node is the sum of its slots and holds.", ALWAYS, Coordination.LEDGER, accounts.rooms_conserved),
    _promise("region.epochs", "Uids and epochs are revisions of this log, and only grow.", ALWAYS, Coordination.LEDGER, slots.epochs_grow),
    _promise("region.references", "Every object that a slot, hold or report refers to exists.", ALWAYS, Coordination.LEDGER, slots.references_hold),
    _promise("region.pending", "A pending slot holds nothing but its charge, and no slot stays in released.", ALWAYS, Coordination.LEDGER, slots.pending_holds_nothing),
    _promise("region.finished", "A finished ordinal has no slot, and stays finished while its assignment has its template.", ALWAYS, Coordination.LEDGER, slots.finished_stays),
    _promise("region.lists", "The names of each part of a full list are stored until the list ends, and no longer.", ALWAYS, Coordination.LEDGER, slots.lists_kept),
    _promise("region.counts", "Every count and index agrees with its rows.", ALWAYS, Coordination.MERGEABLE, accounts.counts_agree),
    _promise(REGION_CAPACITY, "The usage of a node is at most its capacity.", AT_COMMIT, Coordination.LEDGER, accounts.within_capacity),
    _promise(REGION_ALLOWED, "No slot is on a node that evicts it by a taint, is reserved for other tenants, or isolates it less than required.", AT_COMMIT, Coordination.LEDGER, accounts.where_allowed),
    _promise(REGION_RESIDENCY, "No slot is placed outside the jurisdictions that its workload allows.", AT_COMMIT, Coordination.LEDGER, accounts.residency_kept),
    _promise(REGION_RIGHT, "An exclusive identity is placed only while this region has its right.", AT_COMMIT, Coordination.ESCROW, accounts.rights_held),
)  # fmt: skip
