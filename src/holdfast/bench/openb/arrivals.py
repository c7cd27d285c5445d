"""The pods of one run in their order of arrival, as published: shuffled, then drawn again up to 1.3 times the capacity.

"Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from holdfast.core.model.objects.workloads import Template

#: Arrivals in percent of the capacity in devices.
DEMAND_PERCENT = 130


def arrivals(pods: Sequence[Template], capacity_milli: int, seed: int) -> list[Template]:
    """Return the pods of a run. Sums of the resampling count one device per pod, as published."""
    chance, found = Random(seed), list(pods)
    chance.shuffle(found)
    most = capacity_milli * DEMAND_PERCENT // 100
    total = sum(_part(one) for one in found)
    while total > most:
        total -= _part(found.pop(chance.randrange(len(found))))
    while True:
        extra = chance.choice(pods)
        if total + _part(extra) > most:
            return found
        found.append(extra)
        total += _part(extra)


def asked_milli(pod: Template) -> int:
    """Return what a pod asks of all its devices."""
    return pod.gpus * pod.gpu_milli if pod.gpus else 0


def _part(pod: Template) -> int:
    return pod.gpu_milli if pod.gpus else 0
