"""Replicas that are spread, on a platform and a region in processes of their own, with declared nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api.api_cluster import a_workload
from tests.support.processes.real_cluster import PLACE, RealCluster

pytestmark = pytest.mark.timeout(300)

#: Six replicas on nodes with a label, as even over zones as can be.
SPREAD = {
    "command": ["serve"],
    "need": {"cpu": "100m", "memory": "10Mi"},
    "require": {"disk": "ssd"},
    "spread": [{"key": "zone", "maxSkew": 1}],
}


class Zones(RealCluster):
    """A region with two declared nodes in each of three zones."""

    def nodes(self) -> dict[str, str]:
        """By name of a node: its zone."""
        with self.client() as client:
            found = client.region(PLACE).list("nodes").items
        return {one["metadata"]["name"]: one["status"]["zone"] for one in found}

    def label(self, names: list[str], **labels: str) -> None:
        def labelled(document: dict[str, Any]) -> dict[str, Any]:
            return {**document, "spec": {**document["spec"], "labels": labels}}

        with self.client() as client:
            for name in names:
                client.region(PLACE).edit("nodes", name, labelled)

    def bound(self) -> Counter[str]:
        """By zone: how many replicas have a node there."""
        zones = self.nodes()
        found = [one["status"] for one in self.replicas()]
        return Counter(zones[one["node"]] for one in found if one["phase"] != "pending")


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    one = Zones(tmp_path)
    try:
        one.open()
        one.start("nodes", "holdfast.wiring.dev.simulated_nodes", str(one.folder), str(one.port), "6")
        one.until(lambda: len(one.nodes()) == 6, "not all nodes came", 120)
        yield one
    finally:
        one.end()


def test_six_replicas_are_spread_three_and_three_where_a_third_zone_lacks_a_label(zones: Zones) -> None:
    names = zones.nodes()
    zones.label([name for name, zone in names.items() if not zone.endswith("-c")], disk="ssd")
    zones.tell(a_workload(template=SPREAD, replicas=6))
    zones.until(lambda: zones.bound().total() == 6, "not everything was bound", 120)
    assert zones.bound() == {f"{PLACE}-a": 3, f"{PLACE}-b": 3}
