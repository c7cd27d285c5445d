"""Words of other systems, and hints that name the right command."""

from __future__ import annotations

import pytest

from holdfast.api.kinds import find_kind
from holdfast.cli.app import COMMANDS
from holdfast.cli.targets import _FOREIGN_KINDS, FOREIGN_COMMANDS
from tests.support.api.command_line import CommandLine, problem


@pytest.mark.parametrize("word", FOREIGN_COMMANDS)
def test_a_command_of_another_system_is_answered_with_what_to_use_instead(word: str, holdfast: CommandLine) -> None:
    assert word not in COMMANDS
    done = holdfast(word)
    assert done.exit_code == 2
    assert f"No such command '{word}'. Instead: " in done.stderr


def test_a_mistyped_command_is_answered_with_a_similar_name(holdfast: CommandLine) -> None:
    assert "Did you mean 'describe'?" in holdfast("descibe").stderr


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("pods", "replicas: `holdfast get replicas"),
        ("Deployments", "workloads"),
        ("namespaces", "tenants"),
        ("events", "`holdfast decisions`"),
        ("allocations", "replicas"),
    ],
)
def test_a_kind_of_another_system_is_answered_with_the_one_here(word: str, instead: str, holdfast: CommandLine) -> None:
    done = holdfast("get", word)
    assert done.exit_code == 2
    assert f"there is no kind {word!r}; instead: {instead}" in done.stderr


def test_no_kind_is_foreign() -> None:
    assert [word for word in _FOREIGN_KINDS if find_kind(word) is not None] == []


def test_an_object_of_regions_is_answered_with_the_command_that_lists_them(holdfast: CommandLine) -> None:
    detail = "platform has no nodes: use --region NAME"
    holdfast.platform.answers["GET", "/v1/nodes"] = problem(404, "no-such-route", detail)
    done = holdfast("get", "nodes")
    assert "hint: `holdfast get regions` lists the regions" in done.stderr


def test_a_quota_in_use_is_answered_with_the_way_to_delete_it(holdfast: CommandLine) -> None:
    holdfast.platform.answers["DELETE", "/v1/quotas/shop"] = problem(409, "in-use", "regions have grants of it")
    done = holdfast("delete", "quota", "shop")
    assert "hint: apply it with `hard: {}`" in done.stderr
