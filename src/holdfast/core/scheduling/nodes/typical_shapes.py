"""The requests with devices that are typical of a region: what its slots need, placed and waiting, by frequency.

Nothing is configured. The shapes follow from the state alone, so a scheduler that starts later sees the same ones.
Frequencies count in powers of two: the shapes change a few times while their number doubles, and stay between.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.region.state.tables import RegionState

#: Shapes at most. More cost more and improve little.
SHAPES_MAX = 24
#: Sum of all weights, or a little less.
WEIGHT_BITS = 10


#: Cpu, memory, devices, milli-GPU of each, and accepted models.
_Shape = tuple[int, int, int, int, tuple[str, ...]]
_UNKNOWN: _Shape = (0, 0, 0, 0, ())
#: Shapes of templates that are no longer used, before they are forgotten.
KNOWN_MIN = 256


class TypicalShape(NamedTuple):
    """What a frequent kind of slot needs, and its weight among all typical shapes."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]
    weight: int


class ShapeCounts:
    """Finds the typical shapes of states. What it stores saves time and changes no result."""

    def __init__(self) -> None:
        #: Shape by template; None for one without devices.
        self._shape_of: dict[str, _Shape | None] = {}
        self._bits: dict[_Shape, int] = {}
        self._found: tuple[TypicalShape, ...] = ()

    def of(self, state: RegionState) -> tuple[TypicalShape, ...]:
        """Return the shapes that need most of a region's devices, each weighted by its number of slots."""
        known, counts = self._shape_of, dict[_Shape, int]()
        if len(known) > 2 * len(state.template_uses) + KNOWN_MIN:
            known.clear()
        for digest, count in state.template_uses.unordered():
            shape = known.get(digest, _UNKNOWN)
            if shape is _UNKNOWN:
                shape = known[digest] = _shape_of(state, digest)
            if shape is not None:
                counts[shape] = counts.get(shape, 0) + count
        bits = {shape: count.bit_length() for shape, count in counts.items()}
        if bits != self._bits:
            self._bits, self._found = bits, _most_needed(bits)
        return self._found


def _shape_of(state: RegionState, digest: str) -> _Shape | None:
    template = state.templates.get(digest)
    if template is None or not template.gpus:
        return None
    need = template.need
    return need.cpu, need.memory, template.gpus, template.gpu_milli, template.gpu_models


def _most_needed(bits: dict[_Shape, int]) -> tuple[TypicalShape, ...]:
    # Number squared, times devices: by number alone, requests of many devices were left out; by devices alone, shares.
    found = sorted([((1 << 2 * number) * shape[2] * shape[3], shape) for shape, number in bits.items()], reverse=True)
    chosen = [shape for _, shape in found[:SHAPES_MAX]]
    total = sum(1 << bits[shape] for shape in chosen)
    return tuple([TypicalShape(*shape, (1 << bits[shape] + WEIGHT_BITS) // total) for shape in chosen])
