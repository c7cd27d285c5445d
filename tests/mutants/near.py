"""Which tests are near which modules: those that are run with a mutant of them, the quickest first.

The second ring, for what the first one leaves, is what else a change of the module has to pass: the properties of the
ledgers and of what acts on them with the examples of CI, contracts, and a simulated world of each scenario.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SRC = "src/holdfast"
#: What only names, lists or stores, and decides nothing.
LEFT_OUT = {"__init__.py", "commands.py", "events.py", "book.py", "errors.py", "store.py", "transport.py", "clock.py"}


class Part(NamedTuple):
    """Modules, by globs below the checkout, the tests near them, and those further away for what these leave."""

    globs: tuple[str, ...]
    tests: tuple[str, ...]
    further: tuple[str, ...]

    def modules(self, checkout: Path) -> list[str]:
        """Paths from the checkout, sorted."""
        found = {path for glob in self.globs for path in checkout.glob(glob) if path.name not in LEFT_OUT}
        return sorted(str(path.relative_to(checkout)) for path in found)


RULES, PROPERTIES, WORLDS = "tests/core/rules", "tests/properties", "tests/mutants/worlds.py"
PARTS = {
    "region": Part(
        (f"{SRC}/core/region/*.py",),
        ("tests/core/region", RULES, "tests/core/reconcilers", "tests/core/scheduling"),
        (f"{PROPERTIES}/test_region_ledger.py", f"{PROPERTIES}/test_in_a_row.py", f"{PROPERTIES}/test_near.py",
         f"{PROPERTIES}/test_keys.py", f"{PROPERTIES}/test_scheduler_agrees.py",
         f"{PROPERTIES}/test_placement_oracle.py", "tests/host/test_ledger.py", WORLDS),
    ),
    "platform": Part(
        (f"{SRC}/core/platform/*.py",),
        ("tests/core/platform", RULES, "tests/core/reconcilers"),
        (f"{PROPERTIES}/test_platform_programs.py", f"{PROPERTIES}/test_platform_ledger.py",
         f"{PROPERTIES}/test_platform_escrow.py", f"{PROPERTIES}/test_near.py", f"{PROPERTIES}/test_keys.py",
         f"{PROPERTIES}/test_assigning.py", f"{PROPERTIES}/test_grants_between_ledgers.py",
         f"{PROPERTIES}/test_reports_merge.py", "tests/contract/test_api.py", WORLDS),
    ),
    "ledger": Part(
        (f"{SRC}/core/ledger/*.py",),
        ("tests/core/ledger", RULES),
        (f"{PROPERTIES}/test_levels.py", f"{PROPERTIES}/test_region_ledger.py",
         f"{PROPERTIES}/test_platform_programs.py", f"{PROPERTIES}/test_near.py", f"{PROPERTIES}/test_keys.py",
         "tests/host/test_ledger.py", "tests/contract/test_api.py", WORLDS),
    ),
    "scheduling": Part(
        (f"{SRC}/core/scheduling/**/*.py",),
        ("tests/core/scheduling", "tests/host/test_scheduling.py"),
        (f"{PROPERTIES}/test_scheduler.py", f"{PROPERTIES}/test_scheduler_agrees.py",
         f"{PROPERTIES}/test_scheduler_replay.py", f"{PROPERTIES}/test_placement_oracle.py",
         "tests/host/test_scheduling_apart.py", WORLDS),
    ),
    "reconcilers": Part(
        (f"{SRC}/core/reconcilers/*.py",),
        ("tests/core/reconcilers", "tests/core/platform", RULES),
        (f"{PROPERTIES}/test_assigning.py", f"{PROPERTIES}/test_grants_between_ledgers.py",
         f"{PROPERTIES}/test_one_right.py", f"{PROPERTIES}/test_scaling.py", "tests/host/test_controllers.py", WORLDS),
    ),
    "agent plan": Part(
        (f"{SRC}/core/agent/*.py",),
        ("tests/core/agent", f"{RULES}/test_rule_15_successors.py", f"{RULES}/test_rule_23_machines.py"),
        ("tests/agent/test_lives.py", "tests/agent/test_rule_24_times.py", WORLDS),
    ),
    "leader": Part(
        (f"{SRC}/host/leader.py", f"{SRC}/host/term.py", f"{SRC}/host/commit.py", f"{SRC}/host/group_commit.py",
         f"{SRC}/host/sessions.py", f"{SRC}/host/ledger.py", f"{SRC}/host/follower.py", f"{SRC}/host/lanes.py",
         f"{SRC}/host/proof.py", f"{SRC}/host/ledger_time.py", f"{SRC}/host/reads.py", f"{SRC}/host/snapshots.py"),
        ("tests/host/test_ledger.py", "tests/host/test_sessions.py", "tests/host/test_ends_of_sessions.py",
         "tests/host/test_due.py", "tests/host/rules", "tests/host/test_health.py", "tests/host/test_servers.py"),
        (f"{PROPERTIES}/test_host.py", f"{PROPERTIES}/test_watch.py", "tests/contract/test_api.py",
         "tests/sim/test_planted_faults.py", WORLDS),
    ),
    "link": Part(
        (f"{SRC}/host/link/*.py",),
        ("tests/host/link", "tests/host/rules"),
        (f"{PROPERTIES}/test_reports_merge.py", f"{PROPERTIES}/test_grants_between_ledgers.py",
         "tests/contract/test_api.py", "tests/sim/test_planted_faults.py", WORLDS),
    ),
}  # fmt: skip
