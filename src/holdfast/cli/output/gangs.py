"""The table of a workload's gangs, from the replicas that its regions list.

A gang is placed as far as its members are on nodes and do not end. Members whose result is stored have no replica any
more: a region lists those that wait, run or end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.cli.output import field_path, printer

#: Gangs shown, those with the fewest placed members first.
GANGS_SHOWN = 20
_WAITING, _ENDING = ("pending",), "terminating"
_READY = ("ready", "serving")

Document = Mapping[str, Any]


def gang_lines(workload: str, gang: Document, replicas: Iterable[Document]) -> list[str]:
    """Return the lines of the table; none without replicas."""
    size = int(gang["size"])
    found: dict[tuple[str, int], list[str]] = {}
    for one in replicas:
        if field_path.value_at(one, "spec.workload") == workload:
            spec = one["spec"]
            phases = found.setdefault((str(spec["region"]), int(spec["ordinal"]) // size), [])
            phases.append(str(one["status"]["phase"]))
    rows = sorted((_placed(phases), *key) for key, phases in found.items())
    table = [
        [region, str(number), f"{placed} of {gang.get('min') or size}", _count(found[region, number], _READY),
         _phases(found[region, number])]
        for placed, region, number in rows[:GANGS_SHOWN]
    ]  # fmt: skip
    if not table:
        return []
    lines = printer.table(["REGION", "GANG", "PLACED", "READY", "MEMBERS"], table).splitlines()
    left = len(rows) - len(table)
    return [*lines, f"and {left} gangs with as many placed members or more"] if left else lines


def _placed(phases: Sequence[str]) -> int:
    return sum(phase not in (*_WAITING, _ENDING) for phase in phases)


def _count(phases: Sequence[str], wanted: Sequence[str]) -> str:
    return str(sum(phase in wanted for phase in phases))


def _phases(phases: Sequence[str]) -> str:
    return ", ".join(f"{phases.count(phase)} {phase}" for phase in sorted(set(phases)))
