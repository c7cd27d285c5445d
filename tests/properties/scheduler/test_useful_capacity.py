"""What typical requests lose, against a slow reference in exact fractions; and stored losses against fresh ones."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.resources import Resources
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.claims import device_claim
from holdfast.core.scheduling.nodes.table import BEST, NodeTable
from holdfast.core.scheduling.nodes.typical_shapes import TypicalShape
from holdfast.core.scheduling.nodes.useful_capacity import RowRoom, UsefulCapacity
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows
from holdfast.core.scheduling.scores.fragmentation import FragmentationScore
from tests.support.ledgers.region import a_template
from tests.support.node_windows import a_bench, table_of

MODELS = ("a10", "p100", "t4")
MILLI = (160, 230, 470, 500, 810, 1_000)


def _shape(chance: Random) -> TypicalShape:
    gpus = chance.choice((1, 1, 1, 2, 4))
    models = tuple(sorted(chance.sample(MODELS, 2))) if chance.random() < 0.3 else ()
    milli = 1_000 if gpus > 1 else chance.choice(MILLI)
    cpu, memory = chance.choice((0, 500, 3_152, 12_000)), chance.choice((0, 512, 16_384))
    return TypicalShape(cpu, memory, gpus, milli, models, chance.randint(1, 600))


def _template(chance: Random) -> Template:
    gpus = chance.choice((0, 1, 1, 2))
    milli = 1_000 if gpus != 1 else chance.choice(MILLI)
    need = Resources(chance.choice((0, 700, 6_000)), chance.choice((0, 900, 8_000)), 0, gpus * milli)
    return Template(("work",), need=need, gpus=gpus, gpu_milli=milli)


def _useful(shapes: tuple[TypicalShape, ...], cpu: int, memory: int, parts: list[int], model: str) -> Fraction:
    """What typical requests can use of a node, without rounding."""
    total = Fraction(0)
    for one in shapes:
        if one.models and model not in one.models:
            continue
        entire = sum(part // one.milli for part in parts)
        if one.gpus > 1:
            entire = sum(part == 1_000 for part in parts) // one.gpus
        slots = Fraction(entire)
        for has, needs in ((cpu, one.cpu), (memory, one.memory)):
            if needs:
                slots = min(slots, Fraction(max(has, 0), needs))
        total += slots * one.gpus * one.milli * one.weight
    return total


def _after(shapes: tuple[TypicalShape, ...], template: Template, parts: list[int], model: str) -> list[int]:
    """The free parts of devices once the slot has taken those that cost single requests of any model least."""
    left = list(parts)
    for _ in range(template.gpus):
        milli = template.gpu_milli

        def cost(index: int, milli: int = milli) -> tuple[int, int, int]:
            lost = sum(
                one.weight * one.milli * (left[index] // one.milli - (left[index] - milli) // one.milli)
                for one in shapes
                if one.gpus == 1
            )
            return lost, left[index], index

        chosen = min((index for index, part in enumerate(left) if part >= milli), key=cost)
        left[chosen] -= milli
    return left


@pytest.mark.parametrize("seed", range(300))
def test_the_loss_is_that_of_exact_fractions(seed: int) -> None:
    chance = Random(seed)
    shapes = tuple(_shape(chance) for _ in range(chance.randint(1, 6)))
    useful, template = UsefulCapacity(), _template(chance)
    useful.learn(shapes, {name: code for code, name in enumerate(MODELS, 1)})
    for _ in range(10):
        model, parts = chance.randrange(3), [chance.choice((0, 190, 530, 840, 1_000, 1_000)) for _ in range(4)]
        cpu, memory = (
            template.need.cpu + chance.choice((0, 900, 30_000)),
            template.need.memory + chance.randrange(40_000),
        )
        if sum(part >= template.gpu_milli for part in parts) < template.gpus:
            continue
        devices = np.array([parts], np.int64).T
        room = RowRoom(np.array([cpu]), np.array([memory]), devices, np.full_like(devices, model + 1))
        accepted = devices >= template.gpu_milli if template.gpus else None
        found = int(useful.loss(useful.use_of(room), room, template, accepted)[0])
        left = _after(shapes, template, parts, MODELS[model])
        need = template.need
        before = _useful(shapes, cpu, memory, parts, MODELS[model])
        after = _useful(shapes, cpu - need.cpu, memory - need.memory, left, MODELS[model])
        # A point of the score is 8,192. Rates of cpu and memory are rounded down once, and each sum once.
        assert abs(found - (before - after)) <= 2 * len(shapes), (shapes, template, parts)


def _scores(table: NodeTable, template: Template) -> list[int]:
    window = all_rows(table, SlotAsk("digest", template, "acme", True))
    passes = np.ones(len(window), np.bool_)
    if template.gpus:
        passes = table.devices.accepted(template, slice(0, table.count), firm=True).sum(axis=0) >= template.gpus
    found = FragmentationScore().score(NodeWindow(table, window.ask, window.at).that_pass(passes))
    assert found is not None
    assert found.min() >= 0
    assert found.max() <= BEST
    return [value if fits else -1 for value, fits in zip(found.tolist(), passes.tolist(), strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_stored_losses_are_those_of_a_table_that_stores_none(seed: int) -> None:
    chance, bench = Random(seed), a_bench()
    for number in range(9):
        gpus = (chance.choice(MODELS),) * chance.choice((0, 1, 4))
        bench.a_node(f"n{number}", cpu=40_000, memory=40_000, gpus=gpus or (("t4",) if not number else ()))
    table = table_of(bench)
    shapes = tuple(_shape(chance) for _ in range(4))
    templates = [_template(chance) for _ in range(3)]
    for _ in range(25):
        row, template = chance.randrange(table.count), chance.choice(templates)
        picked = table.devices.pick(row, template, firm=True) if template.gpus else ()
        if len(picked) == template.gpus and chance.random() < 0.9:
            claim = device_claim(picked, template.gpu_milli, (), firm=True)
            table.devices.take(row, int(table.uids[row]), claim)
            table.take_one(row, template.need, firm=True)
        elif chance.random() < 0.3:
            shapes = tuple(_shape(chance) for _ in range(4))
        else:
            bench.a_node(f"more-{bench.state.info.seq}", cpu=9_000, memory=9_000, gpus=("a10",))
            table.refresh(bench.state, [uid for uid, _ in bench.state.nodes.items()], table.revision)
        table.useful.learn(shapes, table.devices.models)
        stored = [_scores(table, one) for one in templates]
        table.useful.forget()
        assert stored == [_scores(table, one) for one in templates]


def test_templates_of_the_builder_are_what_the_reference_reads() -> None:
    """The reference counts milli-GPU of all devices, as the ledger does."""
    assert a_template(gpus=2).need.gpu == 2_000
