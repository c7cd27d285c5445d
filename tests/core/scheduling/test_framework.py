"""A policy over the plugins that there are: what it weighs, what it does not, and who is named."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.core.model.objects.policies import SCORES, PlacementStrategy, PolicyDocument
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import WEIGHTS, WITH_DEVICES, PluginError, Plugins, profile_for
from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.selection import PassContext, select_nodes
from tests.support.ledgers.region import a_template
from tests.support.node_windows import a_bench, an_ask, table_of


class Green:
    """A score of somebody else's."""

    name, version = "acme/green", "7"

    def score(self, window: NodeWindow) -> Numbers:
        return np.ones(len(window), np.int64)


class Broken(Green):
    def score(self, window: NodeWindow) -> Numbers:
        raise ZeroDivisionError("no nodes")


def weights(document: PolicyDocument, plugins: Plugins = BUILT_IN) -> dict[str, int]:
    return {one.score.name: one.weight for one in profile_for(plugins, document).weighed}


def test_the_platform_knows_the_scores_that_there_are_and_that_have_weights() -> None:
    assert tuple(sorted(one.name for one in BUILT_IN.scores)) == SCORES
    defaults = (*WEIGHTS.values(), *WITH_DEVICES.values())
    assert {name for of_strategy in defaults for name in of_strategy} == {*SCORES}


def test_names_of_plugins_are_their_own() -> None:
    names = [*(one.name for one in BUILT_IN.filters), *(one.name for one in BUILT_IN.scores)]
    assert len(set(names)) == len(names)


#: What ranks nodes by what their agents say counts the same in every strategy.
HINTS = {"warm": 2, "load": 1}
POLICIES: list[tuple[PolicyDocument, dict[str, int]]] = [
    (PolicyDocument(), {"packing": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 1, **HINTS}),
    (
        PolicyDocument(PlacementStrategy.SPREAD),
        {"emptiness": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 2, **HINTS},
    ),
    (
        PolicyDocument(scores=(("balance", 0), ("packing", 9))),
        {"packing": 9, "near": 4, "cost": 1, "evenness": 1, **HINTS},
    ),
    (PolicyDocument(scores=tuple((name, 0) for name in SCORES)), {}),
    (
        PolicyDocument(scores=(("emptiness", 2),)),
        {"packing": 3, "emptiness": 2, "balance": 1, "near": 4, "cost": 1, "evenness": 1, **HINTS},
    ),
]


@pytest.mark.parametrize(("document", "weighed"), POLICIES, ids=str)
def test_a_score_counts_what_the_policy_says_and_otherwise_what_its_strategy_has(
    document: PolicyDocument, weighed: dict[str, int]
) -> None:
    assert weights(document) == weighed


def test_filters_are_asked_whatever_a_policy_says() -> None:
    nothing = PolicyDocument(scores=tuple((name, 0) for name in SCORES))
    assert profile_for(BUILT_IN, nothing).filters == BUILT_IN.filters


def test_a_score_of_a_plugin_counts_where_a_policy_weighs_it() -> None:
    with_green = Plugins(BUILT_IN.filters, (*BUILT_IN.scores, Green()))
    assert "acme/green" not in weights(PolicyDocument(), with_green)
    assert weights(PolicyDocument(scores=(("acme/green", 5),)), with_green)["acme/green"] == 5
    assert "acme/green" not in weights(PolicyDocument(scores=(("acme/green", 5),)))


def test_a_decision_names_every_filter_and_the_scores_that_count_with_their_versions() -> None:
    document = PolicyDocument(scores=(*((name, 0) for name in SCORES), ("acme/green", 5)))
    named = profile_for(Plugins(BUILT_IN.filters, (*BUILT_IN.scores, Green())), document).plugins
    assert named == (*((one.name, one.version) for one in BUILT_IN.filters), ("acme/green", "7"))


def test_a_plugin_that_raises_is_named() -> None:
    bench = a_bench()
    bench.a_node("n1")
    rules = profile_for(Plugins(BUILT_IN.filters, (Broken(),)), PolicyDocument(scores=(("acme/green", 1),)))
    with pytest.raises(PluginError, match="acme/green: ZeroDivisionError: no nodes"):
        select_nodes(PassContext(table_of(bench), an_ask(a_template()), rules, 0), 1)
