"""The plugins of docs/operate/scheduler-plugins.md are taken by a scheduler and do what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.api.kinds import BY_NAME, public_name
from holdfast.api.resources.schemas import parse_object
from holdfast.api.resources.validation import validate_object
from holdfast.api.serialization.yaml_documents import load_documents
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins, profile_for
from holdfast.core.scheduling.nodes.table import BEST
from holdfast.core.scheduling.selection import PassContext, select_nodes
from holdfast.host.runtime.telemetry import Logger
from holdfast.wiring.scheduler import BINDS, FILTERS, POST_BINDS, RESERVES, SCORES, VICTIMS, plugins
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower
from tests.support.ledgers.scheduler_world import a_region as region_of_a_scheduler
from tests.support.node_windows import a_bench, an_ask, passing, scored, seen, table_of

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "scheduler-plugins.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def the_plugins() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in blocks("python"):
        exec(block, found)
    return found


def a_region() -> RegionBench:
    bench = a_bench()
    bench.a_node("full", memory=1100, pool="grey-1")
    bench.a_node("grey", memory=4096, pool="grey-1")
    bench.a_node("green", memory=4096, pool="green-1")
    return bench


def test_the_filter_keeps_out_what_it_says() -> None:
    assert passing(the_plugins()["Roomy"](), seen(a_region(), a_template(memory=1024))) == "green grey"


def test_the_score_prefers_what_it_says() -> None:
    found = scored(the_plugins()["Green"](), seen(a_region(), a_template()))
    assert found == {"full": 0, "green": BEST, "grey": 0}


def test_the_policy_makes_the_score_count() -> None:
    [document] = load_documents(blocks("yaml")[0], "plugins.md")
    policy = parse_object(document.tree)
    assert validate_object(policy) == []
    made = the_plugins()
    every = Plugins((*BUILT_IN.filters, made["Roomy"]()), (*BUILT_IN.scores, made["Green"]()))
    bench = a_region()
    table = table_of(bench)
    choice = select_nodes(PassContext(table, an_ask(a_template(memory=1024)), profile_for(every, policy.spec), 0), 1)
    assert [table.nodes[row].name for row in choice.rows] == ["green"]
    assert BY_NAME[public_name(type(policy))].writable


def test_every_point_is_found_by_its_entry_point() -> None:
    table = tomllib.loads(blocks("toml")[0])["project"]["entry-points"]
    assert {*table} == {FILTERS, SCORES, VICTIMS, RESERVES, BINDS, POST_BINDS}
    made = the_plugins()

    class Point:
        def __init__(self, name: str, value: str) -> None:
            self.name, self.value = name, value

        def load(self) -> Any:
            return made[self.value.partition(":")[2]]

    found = plugins(Logger("test"), lambda group: [Point(*one) for one in table[group].items()])  # type: ignore[misc]
    each: tuple[Any, ...] = (*found.victims, *found.binds, *found.reserves, *found.post_binds)
    assert [one.name for one in each] == ["acme/masters", "acme/large", "acme/licenses", "acme/report"]


def test_the_victim_plugin_spares_what_it_says() -> None:
    bench, follower = a_full_region(plugins=replace(BUILT_IN, victims=(the_plugins()["Masters"](),)))
    bench.a_workload(a_template(cpu=1_000), count=4, priority_class="critical")
    follower.work()
    stopped = [key for key, slot in bench.state.slots.items() if slot.phase is Phase.TERMINATING]
    assert stopped == [(3, 1), (3, 2), (3, 3)]


def a_full_region(plugins: Plugins) -> tuple[RegionBench, Follower]:
    bench, follower = region_of_a_scheduler(nodes=1, plugins=plugins, cpu=4_000)
    bench.a_workload(a_template(cpu=1_000), uid=300, workload=3, count=4, priority_class="best-effort")
    follower.work()
    return bench, follower


def test_the_bind_plugin_makes_large_slots_wait_and_the_reserve_plugin_declines_the_sixth_license() -> None:
    made = the_plugins()
    large, licenses = made["Large"](), made["Licenses"]()
    assert [large.waits(an_ask(a_template(cpu=cpu))) for cpu in (15_999, 16_000)] == [False, True]
    licensed = an_ask(a_template(environment=(("license", "x"),)))
    assert [licenses.refuses(licensed, (1, ordinal), 1) for ordinal in range(6)] == [""] * 5 + [
        "all licenses are in use"
    ]
    assert licenses.refuses(an_ask(a_template()), (1, 0), 1) == ""


def test_the_post_bind_plugin_counts_what_was_bound() -> None:
    report, ask = the_plugins()["Report"](), an_ask(a_template())
    for _ in range(2):
        report.on_bound(ask, (((1, 0), 5), ((1, 1), 5)))
    assert report.bound == {ask.tenant: 4}
