"""Every promise has a keeper: what stands in a table is sent and read by production code, or listed as not sent yet."""

from __future__ import annotations

import ast
from enum import StrEnum
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.api.resources.schemas import rules
from holdfast.cli.output.conditions import BAD_WHEN_TRUE, CONDITION_HINTS, REMEDIES
from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import ActiveOverrides
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandLane, CommandRule
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.lifecycle import EDGES, STOPPABLE, Phase, PhaseEdge
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.reserved_names import RESERVED_NAMES
from holdfast.core.model.values.settings import Settings
from holdfast.core.model.values.structs import Row
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.reconcilers import registry
from holdfast.core.reconcilers.platform.status_reasons import REASONS
from holdfast.core.region.definition import REGION
from holdfast.wiring.config.server_settings import ServerSettings
from tests.architecture.checkout import ROOT
from tests.architecture.promises import (
    Gap,
    Module,
    Production,
    Senders,
    condition_types,
    unread_overrides,
    unread_settings,
    unsent_causes,
    unsent_commands,
    unsent_members,
    unsent_principals,
)

BOOKS: tuple[LedgerDefinition[Any], ...] = (PLATFORM, REGION)
#: Ledgers refuse, and an API does for them; everybody else reads what was refused.
CODES = Senders(("holdfast.core.ledger", "holdfast.core.platform", "holdfast.core.region", "holdfast.api.server"))
#: The platform and hosts name them, and a region those of its nodes; regions, schedulers and agents say the word, which
#: the platform then calls so.
REASON_SENDERS = Senders(
    ("holdfast.core.platform", "holdfast.core.reconcilers", "holdfast.core.scheduling", "holdfast.host",
     "holdfast.core.region.queries.node_conditions"),
    ("holdfast.core.region.queries.workload_report", "holdfast.core.scheduling", "holdfast.host.scheduler.loop",
     "holdfast.core.agent", "holdfast.agent"),
)  # fmt: skip
RIGHTS = Senders(("holdfast.core", "holdfast.api.server"))
#: By kind of override, what gates and controllers ask of what is in force.
OVERRIDES = {
    OverrideAction.PAUSE_SCHEDULING: "pause_of",
    OverrideAction.PAUSE_AUTOSCALER: "autoscaler",
    OverrideAction.PAUSE_REPAIR: "repair",
    OverrideAction.AVOID_ZONE: "zones",
    OverrideAction.EMERGENCY_QUOTA: "emergencies",
    OverrideAction.DECLARE_LOST: "loss_of",
}
#: What was not sent when the list was begun. Nothing is added here: a new promise comes with its keeper.
AT_FIRST = {
    "command": {"platform Activate", "platform Adopt", "region AdoptSlots"},
    "controller": {f"controller/{name}" for name in ("drain", "evacuation", "failback", "failover", "provisional",
                                                     "rebalance", "sessions")},
    "cause": {"drain", "evacuated", "failed-back", "provisional-ended", "rebalanced", "repaired", "suspended"},
    "reason": {"cordoned", "draining", "no-longer-allowed", "not-covered", "overcommitted", "retired", "suspect"},
    "override": {"pause-autoscaler"},
    "setting": {"suspect_after"},
}  # fmt: skip


@cache
def production() -> Production:
    return Production.of_checkout()


def sent_by_people() -> set[type]:
    return {rule.command for ledger in ("platform", "region") for rule in rules(ledger).values()}


def running() -> set[str]:
    names = [*(one.name for one in registry.of_platform()), *(one.name for one in registry.of_region())]
    return {f"controller/{name}" for name in names}


def gaps(code: Production, *books: LedgerDefinition[Any]) -> set[Gap]:
    """All names in all tables that nobody sends or reads."""
    found: list[Gap] = []
    for definition in books:
        found += unsent_commands(code, definition, sent_by_people())
    found += unsent_principals(code, books, running())
    found += unsent_causes(code, EDGES)
    found += unsent_members(code, "code", Code, CODES)
    found += unsent_members(code, "reason", ConditionReason, REASON_SENDERS)
    found += unsent_members(code, "right", Permission, RIGHTS)
    found += unread_overrides(code, OVERRIDES)
    found += unread_settings(code, "setting", Settings.__struct_fields__, ("holdfast.wiring",))
    own = (
        "holdfast.wiring.config.server_settings",
        "holdfast.wiring.config.sources",
        "holdfast.wiring.dev.simulated_nodes",
    )
    found += unread_settings(code, "server setting", ServerSettings.__struct_fields__, own)
    found += unread_settings(code, "process setting", ProcessSettings.__struct_fields__, ("holdfast.wiring",))
    return set(found)


def test_what_stands_in_a_table_has_a_keeper_or_is_listed_with_who_will_be_it() -> None:
    listed = {(one.table, one.name) for one in RESERVED_NAMES}
    found = {(gap.table, gap.name) for gap in gaps(production(), *BOOKS)}
    assert found - listed == set(), "nobody keeps these, and they are not listed"
    assert listed - found == set(), "these have a keeper: take them off the list"


def test_the_list_of_what_is_not_sent_yet_only_becomes_shorter() -> None:
    assert len({(one.table, one.name) for one in RESERVED_NAMES}) == len(RESERVED_NAMES)
    assert [one for one in RESERVED_NAMES if one.name not in AT_FIRST.get(one.table, set())] == []
    assert all(one.keeper for one in RESERVED_NAMES)


def test_every_kind_of_override_is_looked_for() -> None:
    assert set(OVERRIDES) == set(OverrideAction)
    assert all(hasattr(ActiveOverrides, name) for name in OVERRIDES.values())


def test_people_are_told_what_to_do_about_every_reason() -> None:
    assert {reason.value for reason in ConditionReason} - set(CONDITION_HINTS) == {ConditionReason.AS_DESIRED.value}
    assert set(CONDITION_HINTS) <= {reason.value for reason in ConditionReason}


def test_whatever_a_scheduler_says_of_what_waits_has_a_reason_at_the_platform() -> None:
    schedulers = [one for one in production().modules if one.name.startswith("holdfast.core.scheduling")]
    said = {code.value for code in Code if any(("Code", code.name) in one.members for one in schedulers)}
    assert said
    assert said - set(REASONS) == set()
    assert said - set(REMEDIES) == set()


def test_every_condition_is_written_down_for_people_and_none_is_judged_that_nobody_says() -> None:
    types = condition_types(production())
    assert {"Fits", "OnTime", "Available", "Failed", "Writable"} <= types
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    assert [one for one in sorted(types) if f"`{one}`" not in text] == []
    assert {one.lower() for one in types} >= BAD_WHEN_TRUE


def test_what_is_not_sent_yet_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "reserved-names.md").read_text(encoding="utf-8")
    assert [one.name for one in RESERVED_NAMES if f"`{one.name}`" not in text] == []


def test_servers_run_the_controllers_of_the_registry() -> None:
    tree = ast.parse((ROOT / "src" / "holdfast" / "wiring" / "server.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    taken = {alias.name for node in imports if "core.reconcilers" in (node.module or "") for alias in node.names}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert taken == {"registry"}
    assert {"of_platform", "of_region"} <= called


# The walker finds what is planted


class Planted(Row, frozen=True, tag="planted"):
    """A command that nobody sends."""


class Said(StrEnum):
    LOUD = "loud"
    SILENT = "silent"


def planted(text: str, name: str = "holdfast.host.planted") -> Production:
    return Production([Module(name, text)])


@pytest.mark.parametrize(
    ("module", "table", "name"),
    [
        ("holdfast.core.reconcilers.region.repair_breaches", "command", "region CloseBreach"),
        ("holdfast.core.reconcilers.region.repair_breaches", "cause", "not-allowed"),
        ("holdfast.core.reconcilers.region.expiry", "cause", "grant-ended"),
        ("holdfast.core.reconcilers.platform.region_health", "command", "platform JudgeRegion"),
        ("holdfast.core.reconcilers.platform.region_health", "setting", "lost_after"),
        ("holdfast.api.server.visibility", "right", "see-other-tenants"),
        ("holdfast.core.platform.queries.accounts", "override", "emergency-quota"),
        ("holdfast.core.platform.decide.regions", "override", "declare-lost"),
    ],
)
def test_without_the_module_that_keeps_it_each_is_found(module: str, table: str, name: str) -> None:
    found = {(gap.table, gap.name) for gap in gaps(production().without(module), *BOOKS)}
    assert (table, name) in found
    assert (table, name) not in {(gap.table, gap.name) for gap in gaps(production(), *BOOKS)}


def test_a_planted_command_and_its_planted_owner_are_found() -> None:
    rule: CommandRule[Any] = CommandRule(
        Planted,
        lambda *_: None,  # type: ignore[arg-type]
        ("controller/planter",),
        CommandLane.RECONCILERS,
        "",
        "",
    )
    definition = replace(REGION, rules={**REGION.rules, Planted: rule})
    found = gaps(production(), PLATFORM, definition) - gaps(production(), *BOOKS)
    assert {(gap.table, gap.name) for gap in found} == {
        ("command", "region Planted"),
        ("controller", "controller/planter"),
    }


def test_a_planted_cause_is_found_also_where_only_others_say_its_word() -> None:
    edge = PhaseEdge(STOPPABLE[0], Phase.TERMINATING, "wordless", "controller/planter", "")
    assert [*unsent_causes(planted("x = 'wordless'", "holdfast.core.region.decide.stops"), [edge])]
    assert not [*unsent_causes(planted("x = 'wordless'"), [edge])]


def test_a_planted_setting_is_found_also_where_a_docstring_or_another_object_has_its_name() -> None:
    text = '"""settings.deaf"""\ndef f(template, settings):\n    return template.deaf + settings.heard\n'
    assert [gap.name for gap in unread_settings(planted(text), "setting", ["deaf", "heard"], ())] == ["deaf"]


def test_a_planted_member_is_found_also_where_a_table_lists_it() -> None:
    text = "GRAVITY = (Said.LOUD, Said.SILENT)\ndef f():\n    return Said.LOUD\n"
    found = unsent_members(planted(text), "said", Said, Senders(("holdfast.host",)))
    assert [gap.name for gap in found] == ["silent"]
