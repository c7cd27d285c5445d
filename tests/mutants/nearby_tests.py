"""Which tests are near which modules: those that are run with a mutant of them, the quickest first.

The second ring, for what the first one leaves, is what else a change of the module has to pass: the properties of the
ledgers and of what acts on them with the examples of CI, contracts, and a simulated world of each scenario.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SRC = "src/holdfast"
#: What only names, lists or stores, and decides nothing.
LEFT_OUT = {"__init__.py", "commands.py", "events.py", "definition.py", "errors.py", "limits.py", "registry.py"}


class Part(NamedTuple):
    """Modules, by globs below the checkout, the tests near them, and those further away for what these leave."""

    globs: tuple[str, ...]
    tests: tuple[str, ...]
    further: tuple[str, ...]

    def modules(self, checkout: Path) -> list[str]:
        """Paths from the checkout, sorted."""
        found = {path for glob in self.globs for path in checkout.glob(glob) if path.name not in LEFT_OUT}
        return sorted(str(path.relative_to(checkout)) for path in found)


RULES, PROPERTIES, WORLDS = "tests/core/rules", "tests/properties", "tests/mutants/scenario_runs.py"
PARTS = {
    "region": Part(
        (f"{SRC}/core/region/**/*.py",),
        ("tests/core/region", RULES, "tests/core/reconcilers", "tests/core/scheduling"),
        (
            f"{PROPERTIES}/region/test_region_ledger.py",
            f"{PROPERTIES}/region/test_proposals_in_a_row.py",
            f"{PROPERTIES}/test_incremental_invariants.py",
            f"{PROPERTIES}/test_keys.py",
            f"{PROPERTIES}/scheduler/test_filters_agree_with_gates.py",
            f"{PROPERTIES}/scheduler/test_placement_oracle.py",
            "tests/host/ledger/test_ledger.py",
            WORLDS,
        ),
    ),
    "platform": Part(
        (f"{SRC}/core/platform/**/*.py",),
        ("tests/core/platform", RULES, "tests/core/reconcilers"),
        (
            f"{PROPERTIES}/platform/test_platform_programs.py",
            f"{PROPERTIES}/platform/test_platform_ledger.py",
            f"{PROPERTIES}/across_ledgers/test_platform_escrow.py",
            f"{PROPERTIES}/test_incremental_invariants.py",
            f"{PROPERTIES}/test_keys.py",
            f"{PROPERTIES}/across_ledgers/test_assignment.py",
            f"{PROPERTIES}/across_ledgers/test_grants_between_ledgers.py",
            f"{PROPERTIES}/across_ledgers/test_reports_merge.py",
            "tests/contract/test_api.py",
            WORLDS,
        ),
    ),
    "ledger": Part(
        (f"{SRC}/core/ledger/**/*.py",),
        ("tests/core/ledger", RULES),
        (
            f"{PROPERTIES}/test_levels.py",
            f"{PROPERTIES}/region/test_region_ledger.py",
            f"{PROPERTIES}/platform/test_platform_programs.py",
            f"{PROPERTIES}/test_incremental_invariants.py",
            f"{PROPERTIES}/test_keys.py",
            "tests/host/ledger/test_ledger.py",
            "tests/contract/test_api.py",
            WORLDS,
        ),
    ),
    "scheduling": Part(
        (f"{SRC}/core/scheduling/**/*.py",),
        ("tests/core/scheduling", "tests/host/scheduler/test_loop.py"),
        (
            f"{PROPERTIES}/scheduler/test_scheduler.py",
            f"{PROPERTIES}/scheduler/test_filters_agree_with_gates.py",
            f"{PROPERTIES}/scheduler/test_scheduler_replay.py",
            f"{PROPERTIES}/scheduler/test_placement_oracle.py",
            "tests/host/scheduler/test_standalone.py",
            WORLDS,
        ),
    ),
    "reconcilers": Part(
        (f"{SRC}/core/reconcilers/**/*.py",),
        ("tests/core/reconcilers", "tests/core/platform", RULES),
        (
            f"{PROPERTIES}/across_ledgers/test_assignment.py",
            f"{PROPERTIES}/across_ledgers/test_grants_between_ledgers.py",
            f"{PROPERTIES}/across_ledgers/test_one_right.py",
            f"{PROPERTIES}/region/test_replicas_and_rollout.py",
            "tests/host/controllers/test_leader_controllers.py",
            WORLDS,
        ),
    ),
    "agent plan": Part(
        (f"{SRC}/core/agent/*.py",),
        ("tests/core/agent", f"{RULES}/test_rule_15_successors.py", f"{RULES}/test_rule_23_machines.py"),
        ("tests/agent/test_agent.py", "tests/agent/rules/test_rule_24_times.py", WORLDS),
    ),
    "leader": Part(
        (
            f"{SRC}/host/leader/leader.py",
            f"{SRC}/host/leader/term.py",
            f"{SRC}/host/leader/append.py",
            f"{SRC}/host/leader/group_commit.py",
            f"{SRC}/host/leader/session_monitor.py",
            f"{SRC}/host/ledger/ledger.py",
            f"{SRC}/host/ledger/follower.py",
            f"{SRC}/host/leader/lanes.py",
            f"{SRC}/host/leader/term.py",
            f"{SRC}/host/leader/term.py",
            f"{SRC}/host/ledger/reads.py",
            f"{SRC}/host/storage/snapshots.py",
        ),
        (
            "tests/host/ledger/test_ledger.py",
            "tests/host/leader/test_session_monitor.py",
            "tests/host/leader/test_session_ends.py",
            "tests/host/leader/test_append_due.py",
            "tests/host/rules",
            "tests/host/ledger/test_health.py",
            "tests/host/ledger/test_server_admission.py",
        ),
        (
            f"{PROPERTIES}/test_ledger_servers.py",
            f"{PROPERTIES}/test_watch.py",
            "tests/contract/test_api.py",
            "tests/sim/runs/test_planted_faults.py",
            WORLDS,
        ),
    ),
    "link": Part(
        (f"{SRC}/host/link/**/*.py",),
        ("tests/host/link", "tests/host/rules"),
        (
            f"{PROPERTIES}/across_ledgers/test_reports_merge.py",
            f"{PROPERTIES}/across_ledgers/test_grants_between_ledgers.py",
            "tests/contract/test_api.py",
            "tests/sim/runs/test_planted_faults.py",
            WORLDS,
        ),
    ),
}
