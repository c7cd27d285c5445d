"""What works, and yet somebody should look at it: told by `status`, each in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.core.model.addresses import origin
from holdfast.core.model.topology import Region, RegionHealth


def warnings(state: Any) -> list[str]:
    """What this ledger's operators should look at, region by region."""
    regions = state.regions.values() if hasattr(state, "regions") else ()
    return [said for region in regions for said in _of_region(region)]


def _of_region(region: Region) -> Iterator[str]:
    name, written, reported = region.meta.name, region.spec.address, region.status.address
    if region.status.health is RegionHealth.RETIRED or not reported:
        return
    if not written:
        yield f"region {name} reports the address {reported}, and its spec has none: nothing is sent there"
    elif origin(written) != origin(reported):
        yield f"region {name} reports the address {reported}, and its spec says {written}: requests go to the latter"
