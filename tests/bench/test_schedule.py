"""The trace that `holdfast bench schedule` reads, and that it counts nothing that was not done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.bench.fixtures.live_region import LiveRegion, live_region
from holdfast.bench.fixtures.openb_trace import node_shapes, workload_shapes
from holdfast.bench.report import Unmeasured
from holdfast.bench.schedule import growth
from holdfast.bench.schedule.suite import PLAIN, _trace
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import OpenSlots, Propose
from holdfast.core.scheduling import scheduler
from holdfast.core.scheduling.selection import NodeSelection
from holdfast.host.scheduler.binder import Binder

NODES = """sn,cpu_milli,memory_mib,gpu,model
n1,32000,131072,0,
n2,64000,262144,2,T4
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p1,1000,2048,0,0,
p2,500,1024,1,500,T4|P100
"""


def test_nodes_and_pods_of_a_trace_become_machines_and_shapes(tmp_path: Path) -> None:
    folder = tmp_path / "openb"
    folder.mkdir()
    (folder / "openb_node_list_gpu_node.csv").write_text(NODES, encoding="utf-8")
    (folder / "openb_pod_list_default.csv").write_text(PODS, encoding="utf-8")
    plain, with_devices = node_shapes(tmp_path)
    assert plain.capacity == Resources(32_000, 131_072)
    assert (with_devices.capacity.gpu, [one.model for one in with_devices.devices]) == (2_000, ["T4", "T4"])
    small, share = workload_shapes(tmp_path, (("arch", "x86"),), ())
    assert (small.need, small.gpus, small.require) == (Resources(1_000, 2_048), 0, (("arch", "x86"),))
    assert (share.need.gpu, share.gpus, share.gpu_milli, share.gpu_models) == (500, 1, 500, ("P100", "T4"))


def test_without_the_trace_it_says_which_option_names_it(tmp_path: Path) -> None:
    with pytest.raises(Unmeasured, match=r"the trace is missing: .* pass --traces FOLDER"):
        node_shapes(tmp_path)


async def _scheduled(yard: LiveRegion, slots: int) -> None:
    await yard.open([(PLAIN, slots)])
    await yard.schedule()


def test_slots_that_are_only_reserved_are_not_counted_as_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reserve(groups: Any, valid_until: int, *, bind: bool) -> Propose:
        del bind
        return Propose(groups, valid_until, bind=False)

    async def bind_nothing(_self: Any, _attempt: Any, _wanted: Any, _declined: Any) -> list[Any]:
        return []

    async def measure() -> None:
        async with live_region(tmp_path, 4) as yard:
            await _scheduled(yard, 10)
            with pytest.raises(Unmeasured, match="0 of 10 slots are bound"):
                yard.must_be_bound()

    monkeypatch.setattr(scheduler, "Propose", reserve)
    monkeypatch.setattr(Binder, "_bind", bind_nothing)
    asyncio.run(measure())


def test_slots_that_were_never_opened_are_not_counted_as_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send = LiveRegion._send

    async def opens_nothing(self: LiveRegion, actor: str, command: object) -> None:
        if not isinstance(command, OpenSlots):
            await send(self, actor, command)

    async def measure() -> None:
        async with live_region(tmp_path, 4) as yard:
            await _scheduled(yard, 10)
            yard.must_be_bound()
            monkeypatch.setattr(LiveRegion, "_send", opens_nothing)
            await _scheduled(yard, 10)
            with pytest.raises(Unmeasured, match="10 of 20 slots are bound"):
                yard.must_be_bound()

    asyncio.run(measure())


def test_whoever_chooses_nothing_has_no_figure_of_how_quick_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "select_nodes", lambda _passing, _count: NodeSelection([], 0, {}))
    real, asked = _trace(Path(), small=True)
    with pytest.raises(Unmeasured, match=r"0 of .* feasible requests were placed"):
        growth.measure_growth(asked, real, small=True)
