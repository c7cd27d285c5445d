"""The trace that `holdfast bench schedule` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bench.openb import machines, shapes
from holdfast.bench.report import Unmeasured
from holdfast.core.model.resources import Resources

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
    plain, with_devices = machines(tmp_path)
    assert plain.capacity == Resources(32_000, 131_072)
    assert (with_devices.capacity.gpu, [one.model for one in with_devices.devices]) == (2_000, ["T4", "T4"])
    small, share = shapes(tmp_path, (("arch", "x86"),), ())
    assert (small.need, small.gpus, small.require) == (Resources(1_000, 2_048), 0, (("arch", "x86"),))
    assert (share.need.gpu, share.gpus, share.gpu_milli, share.gpu_models) == (500, 1, 500, ("P100", "T4"))


def test_without_the_trace_it_says_which_option_names_it(tmp_path: Path) -> None:
    with pytest.raises(Unmeasured, match=r"the trace is not there: .* say --traces FOLDER"):
        machines(tmp_path)
