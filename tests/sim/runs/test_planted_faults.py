"""The planted faults of RULES that concern ledgers, hosts and what stands beside them, each in a whole world.

Each is a plan of its own instead of one drawn from a seed. That the fault really happened is part of the test.
"""

from __future__ import annotations

from holdfast.replay.recording import PlannedAction, PlannedFault, RunPlan
from holdfast.sim.runs.run import RunReport, RunVerdicts, run
from holdfast.sim.scenario import Scenario, parse

SCENARIO = """
name: planted
says: One fault in a world that is otherwise well.
workloads:
  risk-api: {replicas: 4, priority: critical}
  billing-db: {replicas: 4, exclusive: true}
least: {commands: 1, acknowledged: 1, faults: 1, refused: 0}
"""
SECOND = 1_000


def planted(
    *faults: PlannedFault, acts: tuple[PlannedAction, ...] = (), text: str = SCENARIO, seed: int = 1
) -> RunReport:
    """A run with these faults and nothing else, in which every promise held."""
    scenario: Scenario = parse(text, "in a test")
    end = max(fault.at + fault.lasts for fault in faults) + 2 * SECOND
    report = run(scenario, seed, RunPlan(end, tuple(sorted(faults, key=lambda one: one.at)), acts))
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
    for fault in faults:
        assert report.counts[f"fault.{fault.what}"] > 0
    return report


def test_a_deposed_leader_that_agents_still_reach_renews_nothing_for_long() -> None:
    report = planted(PlannedFault(15 * SECOND, "depose", "eu", 70 * SECOND))
    assert report.counts["meter.stepped_down"] >= 1
    assert report.counts["command.start-term"] >= 4, "somebody else leads"


def test_the_end_of_a_session_that_hangs_in_the_store_while_the_network_heals_is_an_end() -> None:
    silent = PlannedFault(12 * SECOND, "isolate", "eu-n1", 15 * SECOND)
    hung = [PlannedFault(21 * SECOND, "hang-store", name, 30 * SECOND) for name in ("eu-1", "eu-2")]
    report = planted(silent, *hung)
    assert report.counts["command.open-session"] > 10, "the agent came back in a new one"


def test_an_agent_that_is_killed_and_returns_in_time_finds_its_processes_again() -> None:
    report = planted(*(PlannedFault(30 * SECOND, "crash", f"eu-n{number}", 5 * SECOND) for number in (1, 2, 3, 4)))
    assert report.counts["moved.found-again"] >= 1
    assert "moved.fenced" not in report.counts


def test_an_agent_that_is_killed_with_its_process_alive_is_fenced_before_another_one_starts() -> None:
    report = planted(*(PlannedFault(30 * SECOND, "crash", f"eu-n{number}", 60 * SECOND) for number in (1, 2, 3, 4)))
    assert report.counts["moved.fenced"] >= 1
    assert report.counts["moved.session-ended"] >= 1


def test_a_workload_is_deleted_and_recreated_while_a_region_is_cut_off() -> None:
    report = planted(
        PlannedFault(12 * SECOND, "cut-link", "eu", 30 * SECOND), acts=(PlannedAction(14 * SECOND, "recreate", 3),)
    )
    assert report.counts["command.delete-workload"] == 1
    assert report.counts["command.remove-assignment"] >= 1


def test_a_node_flaps() -> None:
    report = planted(*(PlannedFault(at * SECOND, "lose-node", "eu-n1", 3 * SECOND) for at in (12, 18, 24, 30, 36)))
    assert report.counts["fault.lose-node"] == 5


def test_mass_silence_is_doubted_once_before_anybody_is_given_up() -> None:
    silent = [PlannedFault(20 * SECOND, "isolate", f"eu-n{number}", 12 * SECOND) for number in (1, 2, 3, 4)]
    report = planted(*silent, acts=(PlannedAction(22 * SECOND, "scale", 3),))
    assert report.counts.get("command.end-session", 0) == 0


def test_leaders_that_are_paused_for_thirty_seconds_declare_nobody_dead() -> None:
    report = planted(
        PlannedFault(15 * SECOND, "pause", "eu-1", 30 * SECOND), PlannedFault(50 * SECOND, "pause", "eu-2", 30 * SECOND)
    )
    assert "moved.fenced" not in report.counts


def test_watch_events_that_are_late_repeated_or_skipped_are_made_up_for() -> None:
    acts = tuple(PlannedAction((12 + 4 * number) * SECOND, "scale", number) for number in range(8))
    deaf = [PlannedFault(11 * SECOND, "deafen", name, 40 * SECOND) for name in ("platform", "eu", "us")]
    reports = [planted(*deaf, acts=acts, seed=seed) for seed in range(1, 5)]
    for report in reports:
        assert min(report.counts[f"watch.{fate}"] for fate in ("skipped", "repeated", "stale")) > 0
    # Most of what was not heard of is seen to by whatever is heard next; of some nothing is.
    assert sum(report.counts.get("meter.reconcile_caught", 0) for report in reports) > 0


def test_hosts_are_clogged_one_after_another_and_come_back_in_another_order() -> None:
    planted(
        *(
            PlannedFault((12 + 15 * number) * SECOND, "swizzle", name, 4 * SECOND, number)
            for number, name in enumerate(("eu", "platform", "us"))
        )
    )


def test_a_reader_one_format_level_behind_stops_and_disturbs_nobody() -> None:
    text = SCENARIO + "topology: {behind: [eu, platform]}\n"
    planted(PlannedFault(12 * SECOND, "crash", "eu-1", 5 * SECOND), text=text)
