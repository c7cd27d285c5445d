"""Nodes and shapes of a real cluster: the Alibaba GPU trace of 2023, read from a folder that somebody names.

The trace itself is not part of this project. `holdfast bench schedule --traces FOLDER` says where it lies.
"""

from __future__ import annotations

import csv
from pathlib import Path

from holdfast.bench.region import Machine
from holdfast.bench.report import Unmeasured
from holdfast.core.model.resources import Resources
from holdfast.core.model.topology import Device, Toleration
from holdfast.core.model.workload import Template


def machines(folder: Path) -> list[Machine]:
    """Every node of the trace."""
    found = []
    for row in _rows(folder, "openb_node_list_gpu_node.csv"):
        devices = tuple(Device(row["model"]) for _ in range(int(row["gpu"])))
        found.append(Machine(Resources(int(row["cpu_milli"]), int(row["memory_mib"]), 0, 1000 * len(devices)), devices))
    return found


def shapes(folder: Path, requires: tuple[tuple[str, str], ...], tolerates: tuple[Toleration, ...]) -> list[Template]:
    """What each pod of the trace asks for, in its order, with labels that it requires and taints that it tolerates."""
    found = []
    for row in _rows(folder, "openb_pod_list_default.csv"):
        gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"]) or 1000
        need = Resources(int(row["cpu_milli"]), int(row["memory_mib"]), 0, gpus * milli)
        models = tuple(sorted(model for model in row["gpu_spec"].split("|") if model)) if gpus else ()
        found.append(
            Template(
                command=("work",),
                need=need,
                gpus=gpus,
                gpu_milli=milli,
                gpu_models=models,
                require=requires,
                tolerate=tolerates,
            )
        )
    return found


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    path = folder / "openb" / name
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise Unmeasured(f"the trace is not there: {path} ({error.strerror}); say --traces FOLDER") from error
