"""The filter and the score of docs/operate/scheduler-plugins.md are taken by a scheduler and do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdfast.api.kinds import BY_NAME, public_name
from holdfast.api.resources.schemas import parse_object
from holdfast.api.resources.validation import validate_object
from holdfast.api.serialization.yaml_documents import load_documents
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins, profile_for
from holdfast.core.scheduling.nodes.table import BEST
from holdfast.core.scheduling.selection import PassContext, select_nodes
from tests.support.ledgers.region import RegionBench, a_template
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
