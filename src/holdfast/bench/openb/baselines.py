"""Published scores, as plugins of a benchmark: what packing is compared with."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow

#: Largest cpu in thousandths of a core, and devices in milli-GPU, of a node of the trace.
_CPU_MOST, _GPU_MOST = 128_000, 8_000


class BestFitScore:
    """Nodes with the least cpu and devices left first: `100 - 50 x cpu / most - 50 x devices / most`, in entire
    points."""

    name, version = "bench/best-fit", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """The published points, times ten."""
        need = window.ask.template.need
        cpu, gpu = window.free_any("cpu") - need.cpu, window.free_any("gpu") - need.gpu
        left = cpu * 50 * _GPU_MOST + gpu * 50 * _CPU_MOST
        points = 100 - -(-left // (_CPU_MOST * _GPU_MOST))
        found: Numbers = np.clip(points * (BEST // 100), 0, BEST)
        return found
