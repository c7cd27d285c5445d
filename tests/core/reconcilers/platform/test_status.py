"""What regions together say of a workload, and why not all of it runs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.region_reports import (
    Failing,
    Nodes,
    RegionSummary,
    TemplateCounts,
    Waiting,
    WorkloadReport,
)
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, PLATFORM, STATUS
from holdfast.core.platform.watch import WATCH_KEYS
from holdfast.core.reconcilers.platform.status import (
    FRESH_MS,
    PATIENCE_MS,
    PLACED_SOON_MS,
    StatusReconciler,
)
from holdfast.core.reconcilers.platform.status_conditions import conditions_of
from holdfast.core.reconcilers.platform.status_progress import RegionWaiting, WorkloadProgress
from holdfast.core.reconcilers.platform.status_reasons import MESSAGE_MAX, reason_of, short
from tests.support.ledgers.platform import (
    ACME,
    DIGEST,
    T0,
    PlatformBench,
    a_template,
    a_workload,
    a_world,
    an_exclusive,
    cpu,
)


class Story:
    """A workload of the world, what regions say of it, and what the controller does about it."""

    def __init__(self, **fields: Any) -> None:
        self.bench: PlatformBench = a_world()
        self.web = self.bench.put(a_workload(**fields))
        self.position = 0

    def says(self, region: str, bound: int = 0, ready: int = 0, serving: int = 0, **fields: Any) -> None:
        """A region speaks of the workload, acting on the newest generation it was assigned."""
        self.position += 1
        digest = template_digest(self.bench.state.workloads[self.web].spec.template)
        generation = fields.pop("generation", max(a.generation for a in self.bench.assignments(self.web)))
        counts = (TemplateCounts(digest, bound, ready, serving),) if bound else ()
        seen = WorkloadReport(self.web, generation, counts, fields.pop("waiting", ()), fields.pop("failing", ()))
        self.bench.accept(f"region/{region}", c.Report(region, self.position, (seen,)))

    def tells(self, region: str, milli: int) -> None:
        self.position += 1
        size = cpu(milli)
        row = Nodes("small", (), (), (), (), 1, size, size, (size,), (size,))
        self.bench.accept(f"region/{region}", c.Report(region, self.position, (), RegionSummary(nodes=(row,))))

    def look(self, at: int = 0) -> ReconcileResult:
        return StatusReconciler().reconcile(self.bench.state, self.web, at or self.bench.at)

    def report(self) -> c.ReportStatus:
        """What is sent; the ledger takes it, and then there is nothing more to say."""
        (wanted,) = self.look().commands
        self.bench.accept(STATUS, wanted.command)
        assert self.look().commands == ()
        assert isinstance(wanted.command, c.ReportStatus)
        return wanted.command

    def conditions(self) -> dict[str, Condition]:
        return {one.type: one for one in self.bench.state.workloads[self.web].status.conditions}

    def says_of(self, type: str) -> tuple[ConditionStatus, ConditionReason, str]:
        found = self.conditions()[type]
        return found.status, found.reason, found.message


def serving(**fields: Any) -> Story:
    """Three wanted, all in eu, all of them serving."""
    story = Story(**fields)
    story.bench.assign(story.web, "eu", 3)
    story.says("eu", 3, 3, 3)
    return story


def test_what_is_as_desired_is_said_once() -> None:
    story = serving()
    report = story.report()
    assert (report.observed_generation, report.bound, report.ready, report.serving) == (1, 3, 3, 3)
    assert {name: one.status for name, one in story.conditions().items()} == {
        "Assigned": ConditionStatus.TRUE,
        "Available": ConditionStatus.TRUE,
        "Fits": ConditionStatus.UNKNOWN,
        "Placed": ConditionStatus.TRUE,
    }


def test_counts_of_regions_add_up() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.says("eu", 2, 1, 1)
    story.says("us", 1, 1, 0)
    report = story.report()
    assert (report.bound, report.ready, report.serving) == (3, 2, 1)


# Silence


def test_of_a_fresh_workload_nothing_is_said_before_a_region_has_spoken() -> None:
    story = Story()
    assert story.look() == ReconcileResult((), story.bench.at + PATIENCE_MS)
    story.bench.assign(story.web, "eu", 3)
    assert story.look() == ReconcileResult((), story.bench.at + PATIENCE_MS)
    story.says("eu")
    assert story.look() == ReconcileResult((), story.bench.at + PLACED_SOON_MS)
    story.bench.later(PLACED_SOON_MS)
    assert story.look().commands


def test_of_a_fresh_workload_that_stands_nowhere_it_is_said_why_once_every_region_has_looked() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    long, soon = story.bench.at + PATIENCE_MS, story.bench.at + PLACED_SOON_MS
    story.says("eu", waiting=(Waiting("capacity", 2, T0),))
    assert story.look() == ReconcileResult((), long), "us has not spoken yet"
    story.says("us", waiting=(Waiting("not-yet-examined", 1, T0),))
    assert story.look() == ReconcileResult((), long), "what us says will be said anew in a moment"
    story.says("us", waiting=(Waiting("capacity", 1, T0),))
    assert story.look() == ReconcileResult((), soon)
    story.bench.later(PLACED_SOON_MS)
    story.report()
    assert story.says_of("Placed")[2] == "eu: 2 wait; us: 1 wait: capacity"


def test_of_a_fresh_workload_that_stands_nowhere_it_is_said_after_long_that_regions_have_not_looked() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 3)
    story.says("eu", waiting=(Waiting("not-yet-examined", 3, T0),))
    story.bench.later(PATIENCE_MS)
    story.report()
    assert story.says_of("Placed")[1] is ConditionReason.NOT_YET_EXAMINED


def test_of_a_fresh_workload_the_words_of_late_regions_are_told_together() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.bench.later(PATIENCE_MS)
    story.report()
    said = story.bench.at
    story.says("eu", waiting=(Waiting("capacity", 2, T0),))
    assert story.look() == ReconcileResult((), said + PATIENCE_MS), "us has not spoken yet"
    story.bench.later(PATIENCE_MS // 2)
    story.says("us", waiting=(Waiting("capacity", 1, T0),))
    story.report()
    assert story.says_of("Placed")[2] == "eu: 2 wait; us: 1 wait: capacity"


def test_a_region_that_stays_silent_holds_nothing_up_for_longer_than_a_workload_is_fresh() -> None:
    story = Story()
    created = story.bench.at
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    while story.bench.at < created + FRESH_MS:
        story.bench.later(PATIENCE_MS)
        if story.look().commands:
            story.report()
    story.says("eu", waiting=(Waiting("capacity", 2, story.bench.at),))
    assert story.look().commands


def test_a_workload_that_stood_and_stands_no_more_is_said_so_at_once() -> None:
    story = serving()
    story.bench.assign(story.web, "us", 1)
    story.report()
    story.says("eu", 0, waiting=(Waiting("capacity", 3, story.bench.at),))
    assert story.report().bound == 0


def test_of_a_fresh_workload_that_stands_somewhere_it_is_said_at_once() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 3)
    story.says("eu", 1)
    assert story.look().commands


def test_a_workload_that_nobody_speaks_of_for_long_says_why() -> None:
    story = Story()
    story.bench.later(PATIENCE_MS)
    report = story.report()
    assert (report.observed_generation, report.bound) == (0, 0)
    assert story.says_of("Assigned") == (
        ConditionStatus.FALSE,
        ConditionReason.WAITING_FOR_REGION,
        "0 of 3 are assigned",
    )
    assert story.says_of("Placed")[1] is ConditionReason.WAITING_FOR_REGION


def test_time_alone_changes_nothing_that_was_said() -> None:
    story = serving()
    story.report()
    story.bench.later(3_600_000)
    assert story.look().commands == ()


def test_what_is_gone_and_what_never_was_is_not_spoken_of() -> None:
    assert StatusReconciler().reconcile(a_world().state, 99, T0) == NO_CHANGES


# Templates


def changing(**fields: Any) -> Story:
    """Two in eu and one in us serve and are reported, and now another template is wanted."""
    story = Story(**fields)
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.says("eu", 2, 2, 2)
    story.says("us", 1, 1, 1)
    story.report()
    workload = story.bench.state.workloads[story.web]
    story.bench.put(replace(workload, spec=replace(workload.spec, template=a_template(command="v2"))))
    return story


def mixed(story: Story, region: str, old: int, new: int, *waiting: Waiting) -> None:
    """A region that acts on the newest generation says how many run the template of before, and of now."""
    story.bench.send(ASSIGNMENT, story.bench.assignment(story.web, region, {"eu": 2, "us": 1}[region]))
    digest = template_digest(story.bench.state.workloads[story.web].spec.template)
    counts = tuple(TemplateCounts(name, n, n, n) for name, n in (("before", old), (digest, new)) if n)
    story.position += 1
    seen = WorkloadReport(story.web, 2, counts, waiting)
    story.bench.accept(f"region/{region}", c.Report(region, story.position, (seen,)))


def test_of_a_workload_that_was_never_changed_it_is_not_said_that_it_is_updated() -> None:
    story = serving()
    assert "Updated" not in [one.type for one in story.report().conditions]


def test_a_change_of_template_is_unfinished_while_some_run_an_older_one_and_says_where() -> None:
    story = changing()
    story.report()
    older = "of 3, still on an older template: 2 in eu, 1 in us"
    assert story.says_of("Updated") == (ConditionStatus.FALSE, ConditionReason.PROGRESSING, older)
    mixed(story, "us", 0, 1)
    mixed(story, "eu", 1, 2)
    story.report()
    assert story.says_of("Updated") == (
        ConditionStatus.FALSE,
        ConditionReason.PROGRESSING,
        "of 4, still on an older template: 1 in eu",
    )
    mixed(story, "eu", 0, 2)
    story.report()
    assert story.says_of("Updated") == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED, "")
    assert story.conditions()["Updated"].observed_generation == 2


def test_a_change_of_template_that_waits_for_room_says_so_though_all_are_placed() -> None:
    story = changing(disruption_max=0)
    mixed(story, "us", 0, 1, Waiting("capacity", 1, 0, "other"))
    mixed(story, "eu", 2, 0, Waiting("capacity", 1, 0, "4 nodes lack cpu"))
    story.report()
    assert story.says_of("Placed")[0] is ConditionStatus.TRUE
    message = "of 3, still on an older template: 2 in eu; eu: 1 wait: 4 nodes lack cpu"
    assert story.says_of("Updated") == (ConditionStatus.FALSE, ConditionReason.WAITING_FOR_ROOM, message)
    mixed(story, "eu", 2, 0, Waiting("not-yet-examined", 1, 0))
    story.report()
    assert story.says_of("Updated")[1] is ConditionReason.PROGRESSING, "it is looked at soon"


def test_a_change_of_template_waits_for_a_silent_region_and_does_without_a_lost_one() -> None:
    story = changing()
    mixed(story, "eu", 0, 2)
    story.bench.judge("us", RegionHealth.SUSPECT)
    story.report()
    message = "of 3, still on an older template: 1 in us; us is suspect"
    assert story.says_of("Updated") == (ConditionStatus.FALSE, ConditionReason.WAITING_FOR_REGION, message)
    story.bench.judge("us", RegionHealth.LOST)
    story.report()
    assert story.says_of("Updated") == (
        ConditionStatus.TRUE,
        ConditionReason.AS_DESIRED,
        "us is lost, 1 there are not counted",
    )


def test_identities_that_may_not_be_disrupted_say_why_they_keep_their_template() -> None:
    story = serving(disruption_max=0)
    story.report()
    workload = an_exclusive("db", disruption_max=0)
    workload = replace(workload, meta=replace(workload.meta, generation=2))
    progress = WorkloadProgress(2, 1, 1, 1, 1, 1, (), (), (("eu", 1),))
    found = {one.type: one for one in conditions_of(story.bench.state, workload, progress, T0)}["Updated"]
    said = "disruptionMax is 0; of 1, still on an older template: 1 in eu"
    assert (found.status, found.reason, found.message) == (ConditionStatus.FALSE, ConditionReason.MAY_NOT_DISRUPT, said)


# Generations


def test_a_generation_counts_as_observed_once_every_region_acts_on_it() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.says("eu", 2)
    assert story.report().observed_generation == 0
    story.says("us", 1)
    assert story.report().observed_generation == 1
    story.bench.put(a_workload(template=a_template(command="v2")))
    for region, count in (("eu", 2), ("us", 1)):
        story.bench.assign(story.web, region, count)
    story.says("eu", 2, generation=2)
    story.says("us", 1, generation=1)
    assert story.look().commands == ()
    story.says("us", 1, generation=2)
    assert story.report().observed_generation == 2


def test_an_assignment_of_an_older_generation_holds_it_back_whatever_the_region_says() -> None:
    story = serving()
    story.report()
    story.bench.put(a_workload(replicas=4))
    story.says("eu", 3, 3, 3, generation=2)
    assert story.report().observed_generation == 1


def test_what_was_observed_stays_observed_when_another_region_comes() -> None:
    story = serving()
    story.report()
    story.bench.assign(story.web, "us", 1)
    assert story.report().observed_generation == 1


def test_an_ended_assignment_holds_nothing_back() -> None:
    story = Story()
    old = story.bench.assign(story.web, "us", 1)
    story.bench.assign(story.web, "eu", 3)
    story.bench.accept("controller/assignment", c.EndAssignment(old))
    story.says("eu", 3)
    assert story.report().observed_generation == 1


def test_where_none_is_wanted_there_is_nothing_to_wait_for() -> None:
    story = Story(replicas=0)
    story.bench.later(PATIENCE_MS)
    assert story.report().observed_generation == 1
    assert {one.status for name, one in story.conditions().items() if name != "Fits"} == {ConditionStatus.TRUE}


# Assigned


def test_too_few_assigned_wait_for_a_region_and_name_those_that_are_not_well() -> None:
    story = Story(regions=("eu",))
    story.bench.assign(story.web, "eu", 2)
    story.says("eu", 2, 2, 2)
    story.bench.judge("eu", RegionHealth.SUSPECT)
    story.report()
    assert story.says_of("Assigned") == (
        ConditionStatus.FALSE,
        ConditionReason.WAITING_FOR_REGION,
        "2 of 3 are assigned: eu is suspect",
    )


def test_what_never_fits_is_not_said_to_wait_for_a_region() -> None:
    story = Story(template=a_template(64_000), regions=("eu",))
    story.tells("eu", 32_000)
    story.bench.later(PATIENCE_MS)
    story.report()
    why = "needs 64 cpu; the largest node of eu has 32"
    assert story.says_of("Fits") == (ConditionStatus.FALSE, ConditionReason.NEVER_FITS, why)
    assert story.says_of("Assigned") == (
        ConditionStatus.FALSE,
        ConditionReason.NEVER_FITS,
        f"0 of 3 are assigned: {why}",
    )
    assert story.says_of("Placed")[1] is ConditionReason.NEVER_FITS
    assert story.says_of("Available")[1] is ConditionReason.NEVER_FITS


def test_what_was_offered_back_waits_for_room() -> None:
    story = serving()
    (assignment,) = story.bench.assignments(story.web)
    story.bench.accept("region/eu", c.OfferBack(assignment.uid, 1))
    story.bench.assign(story.web, "eu", 2)
    story.report()
    assert story.says_of("Assigned") == (
        ConditionStatus.FALSE,
        ConditionReason.WAITING_FOR_ROOM,
        "2 of 3 are assigned: no capacity left in eu",
    )
    story.bench.later(story.bench.state.info.settings.offer_life)
    story.bench.put(a_workload("other"))  # of what happened last the ledger knows the time
    story.report()
    assert story.says_of("Assigned")[1] is ConditionReason.WAITING_FOR_REGION, "its offer has just ended"


def test_more_than_wanted_is_on_its_way_down() -> None:
    story = serving()
    story.bench.put(a_workload(replicas=1))
    story.report()
    assert story.says_of("Assigned") == (ConditionStatus.FALSE, ConditionReason.PROGRESSING, "3 are assigned, 1 wanted")


def test_recovery_that_stands_by_is_not_counted_as_assigned() -> None:
    story = serving(budget="reserve")
    story.bench.assign(story.web, "us", 3, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    story.says("us")
    story.report()
    assert story.says_of("Assigned")[0] is ConditionStatus.TRUE


# Placed


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("over-grant", ConditionReason.WAITING_FOR_QUOTA),
        ("grant-ended", ConditionReason.WAITING_FOR_QUOTA),
        *(
            (code, ConditionReason.WAITING_FOR_ROOM)
            for code in ("capacity", "device", "port", "spread", "apart", "protected")
        ),
        *((code, ConditionReason.WAITING_FOR_ROOM) for code in ("labels", "taint", "tenancy", "node-unavailable")),
        ("paused", ConditionReason.OVERRIDDEN),
        ("policy", ConditionReason.STALE_VIEW),
        ("stale", ConditionReason.STALE_VIEW),
        ("not-yet-examined", ConditionReason.NOT_YET_EXAMINED),
        ("crashed", ConditionReason.CRASHED),
        ("exit", ConditionReason.CRASHED),
        ("gone", ConditionReason.CRASHED),
        ("cannot-start", ConditionReason.CANNOT_START),
        ("declined", ConditionReason.CANNOT_START),
        ("over-limit", ConditionReason.OVER_LIMIT),
        ("probe-failed", ConditionReason.PROBE_FAILED),
        ("probe-not-passed", ConditionReason.PROBE_NOT_PASSED),
        ("starting-slowly", ConditionReason.STARTING_SLOWLY),
        ("session-ended", ConditionReason.SESSION_ENDED),
        ("something-new", ConditionReason.PROGRESSING),
    ],
)
def test_reasons_from_below_have_their_names_here(code: str, reason: ConditionReason) -> None:
    assert reason_of(code) is reason


def test_the_gravest_reason_from_below_is_told_with_its_region_and_count() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.says("eu", 1, waiting=(Waiting("stale", 1, T0), Waiting("capacity", 1, T0, "2 nodes lack cpu")))
    story.says("us", waiting=(Waiting("over-grant", 1, T0, "quota/acme has 100m left"),))
    story.report()
    said = "us: 1 wait: quota/acme has 100m left; eu: 1 wait: capacity"
    assert story.says_of("Placed") == (ConditionStatus.FALSE, ConditionReason.WAITING_FOR_QUOTA, said)
    story.says("us", 1)
    story.report()
    assert story.says_of("Placed") == (
        ConditionStatus.FALSE,
        ConditionReason.WAITING_FOR_ROOM,
        "eu: 1 wait: 2 nodes lack cpu",
    )
    assert story.says_of("Available")[1] is ConditionReason.WAITING_FOR_ROOM


def placed(*waiting: tuple[str, str, int], words: str = "too little cpu") -> str:
    """What `Placed` says of a workload that waits in these regions, for these codes, so many each."""
    story = Story()
    held = tuple(RegionWaiting(region, Waiting(code, count, T0, words)) for region, code, count in waiting)
    progress = WorkloadProgress(1, 9, 0, 0, 0, 0, (), held, ())
    found = conditions_of(story.bench.state, a_workload(replicas=9), progress, T0)
    return next(one.message for one in found if one.type == "Placed")


def test_every_region_where_some_wait_is_named_with_its_gravest_reason() -> None:
    waiting = (("eu", "stale", 5), ("eu", "capacity", 1), ("us", "capacity", 2), ("us2", "over-grant", 1))
    said = "us2: 1 wait: too little cpu; us: 2 wait: capacity; eu: 1 wait: capacity"
    assert placed(*waiting) == said
    assert placed(*reversed(waiting)) == said, "in whatever order they are told"


def test_of_many_regions_the_gravest_are_named_and_the_others_counted() -> None:
    waiting = [(f"r{number}", "capacity", number) for number in range(1, 6)]
    assert placed(*waiting) == "r5: 5 wait: too little cpu; r4: 4 wait: capacity; r3: 3 wait: capacity; and 2 more"


def test_however_much_regions_say_the_message_is_bounded_and_names_the_next_ones() -> None:
    waiting = [(name * 100, "capacity", 1) for name in "abc"]
    assert len(placed(*waiting, words="x" * 500)) == 2 * MESSAGE_MAX + 2
    said = placed(("eu", "capacity", 2), ("us", "capacity", 1), words="x" * 500)
    assert said.endswith("x...; us: 1 wait: capacity")


def test_what_is_on_its_way_progresses() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 3)
    story.says("eu", 1)
    story.report()
    assert story.says_of("Placed") == (ConditionStatus.FALSE, ConditionReason.PROGRESSING, "1 of 3 have a node")


def test_a_long_message_from_below_is_cut() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 3)
    story.says("eu", 0, waiting=(Waiting("capacity", 3, T0, "x" * 500),))
    story.bench.later(PLACED_SOON_MS)
    story.report()
    assert len(story.says_of("Placed")[2]) == MESSAGE_MAX


# Available


def test_the_disruption_budget_may_be_missing_and_no_more() -> None:
    story = serving()
    story.says("eu", 3, 2, 2)
    story.report()
    assert story.says_of("Available") == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED, "")
    story.says("eu", 3, 1, 1)
    story.report()
    assert story.says_of("Available") == (ConditionStatus.FALSE, ConditionReason.PROGRESSING, "1 of 3 serve")


def test_of_a_single_replica_one_must_serve_whatever_the_budget() -> None:
    story = Story(replicas=1)
    story.bench.assign(story.web, "eu", 1)
    story.says("eu", 1)
    story.report()
    assert story.says_of("Available")[0] is ConditionStatus.FALSE


def test_work_that_completes_is_not_there_to_be_available() -> None:
    story = serving(batch=True)
    story.report()
    assert "Available" not in story.conditions()


# Healthy


EXIT = Failing("exit", 1, "n1", "exit code 3")


def test_what_fails_is_told_with_region_node_and_detail_and_that_it_is_over_too() -> None:
    story = serving()
    story.report()
    assert "Healthy" not in story.conditions()
    story.says("eu", 3, 2, 2, failing=(EXIT,))
    story.report()
    assert story.says_of("Healthy") == (ConditionStatus.FALSE, ConditionReason.CRASHED, "eu: 1 on n1: exit code 3")
    assert story.says_of("Available")[0] is ConditionStatus.TRUE
    story.says("eu", 3, 3, 3)
    story.report()
    assert story.says_of("Healthy") == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED, "")


def test_what_serves_too_few_for_its_failures_says_so() -> None:
    story = serving()
    story.says("eu", 3, 0, 0, failing=(replace(EXIT, count=3), Failing("probe-not-passed", 1, "n2")))
    story.report()
    told = "0 of 3 serve; eu: 3, one on n1: exit code 3"
    assert story.says_of("Available") == (ConditionStatus.FALSE, ConditionReason.CRASHED, told)
    assert story.says_of("Placed")[0] is ConditionStatus.TRUE


def test_the_gravest_failure_is_told_and_one_without_words_by_its_code() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.says("eu", 2, failing=(replace(EXIT, count=2),))
    story.says("us", 1, failing=(Failing("cannot-start", 1, "m1"),))
    story.report()
    assert story.says_of("Healthy") == (
        ConditionStatus.FALSE,
        ConditionReason.CANNOT_START,
        "us: 1 on m1: cannot-start",
    )


def test_what_was_given_up_and_is_about_to_be_placed_anew_still_fails() -> None:
    story = serving()
    story.says("eu", 0, waiting=(Waiting("not-yet-examined", 3, T0),), failing=(replace(EXIT, count=3, node=""),))
    story.report()
    assert story.says_of("Available") == (
        ConditionStatus.FALSE,
        ConditionReason.CRASHED,
        "0 of 3 serve; eu: 3: exit code 3",
    )
    assert story.says_of("Placed")[1] is ConditionReason.NOT_YET_EXAMINED


def test_replicas_whose_agent_is_silent_have_no_node_for_that_reason() -> None:
    story = serving()
    story.says("eu", 2, 2, 2, failing=(Failing("session-ended", 1, "n1"),))
    story.report()
    told = "2 of 3 have a node; eu: 1 on n1: session-ended"
    assert story.says_of("Placed") == (ConditionStatus.FALSE, ConditionReason.SESSION_ENDED, told)


def test_what_fails_is_not_why_others_have_no_node() -> None:
    story = serving()
    story.says("eu", 2, 1, 1, failing=(EXIT,))
    story.report()
    assert story.says_of("Placed") == (ConditionStatus.FALSE, ConditionReason.PROGRESSING, "2 of 3 have a node")
    assert story.says_of("Available") == (
        ConditionStatus.FALSE,
        ConditionReason.CRASHED,
        "1 of 3 serve; eu: 1 on n1: exit code 3",
    )


def test_batch_work_that_fails_says_so() -> None:
    story = serving(batch=True)
    story.says("eu", 3, failing=(EXIT,))
    story.report()
    assert story.says_of("Healthy")[1] is ConditionReason.CRASHED


# Regions that nobody hears


def test_the_last_word_of_a_lost_region_counts_as_bound_and_no_more_as_serving() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 2)
    story.bench.assign(story.web, "us", 1)
    story.says("eu", 2, 2, 2)
    story.says("us", 1, 1, 1)
    story.report()
    story.bench.judge("eu", RegionHealth.SUSPECT)
    assert story.look().commands == ()
    story.bench.judge("eu", RegionHealth.LOST)
    report = story.report()
    assert (report.bound, report.ready, report.serving) == (3, 1, 1)
    lost = "eu is lost, 2 there are not counted"
    assert story.says_of("Available") == (ConditionStatus.FALSE, ConditionReason.LOST, f"1 of 3 serve; {lost}")
    assert story.says_of("Placed") == (ConditionStatus.FALSE, ConditionReason.LOST, f"1 of 3 have a node; {lost}")


def test_work_that_serves_without_a_lost_region_says_that_it_is_not_counted() -> None:
    story = Story()
    story.bench.assign(story.web, "eu", 1)
    story.bench.assign(story.web, "us", 2)
    story.says("eu", 1, 1, 1)
    story.says("us", 2, 2, 2)
    story.bench.lose("eu")
    story.report()
    assert story.says_of("Available") == (
        ConditionStatus.TRUE,
        ConditionReason.AS_DESIRED,
        "eu is lost, 1 there are not counted",
    )


def test_a_lost_region_that_is_heard_again_counts_again() -> None:
    story = serving()
    story.report()
    story.bench.lose("eu")
    story.report()
    story.bench.later(10)
    story.bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 9, 0, DIGEST))
    story.bench.judge("eu", RegionHealth.HEALTHY)
    assert story.report().serving == 3


# Deletion


def test_of_what_is_being_deleted_only_its_end_is_told() -> None:
    story = serving()
    story.report()
    story.bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    story.says("eu", 1)
    report = story.report()
    assert (report.bound, [one.type for one in report.conditions]) == (1, ["Available"])
    assert story.says_of("Available") == (ConditionStatus.FALSE, ConditionReason.PROGRESSING, "it is being deleted")


# Waking


def test_workloads_and_what_is_said_of_them_wake_themselves() -> None:
    statuses, state = StatusReconciler(), a_world().state
    assert list(statuses.wake(state, ("workload", 5))) == [5]
    assert list(statuses.wake(state, ("observed", 5))) == [5]


def test_a_change_of_a_regions_health_wakes_what_is_there() -> None:
    story = serving()
    mail = story.bench.put(a_workload("mail"))
    story.bench.assign(mail, "us", 1)
    statuses = StatusReconciler()
    assert list(statuses.wake(story.bench.state, ("standing", "eu"))) == [story.web]
    assert list(statuses.wake(story.bench.state, ("standing", "us2"))) == []
    assert list(statuses.keys(story.bench.state)) == [story.web, mail]


def test_a_change_of_a_regions_health_wakes_what_waits_for_a_region_though_nothing_of_it_is_there() -> None:
    story = serving()
    mail = story.bench.put(a_workload("mail", replicas=2))
    story.bench.assign(mail, "us", 1)
    story.bench.at += PATIENCE_MS
    (said,) = StatusReconciler().reconcile(story.bench.state, mail, story.bench.at).commands
    story.bench.accept(STATUS, said.command)
    story.bench.judge("eu", RegionHealth.SUSPECT)
    assert StatusReconciler().reconcile(story.bench.state, mail, story.bench.at).commands, (
        "what is said of it names that region"
    )
    assert mail in StatusReconciler().wake(story.bench.state, ("standing", "eu"))


def touched(bench: PlatformBench) -> list[str]:
    """The kinds of what the last batch touched."""
    raw, digest = bench.log[-1]
    batch = PLATFORM.batches.read(raw, bench.log[-2][1], digest)
    return [
        kind for record in batch.records for event in record.events for kind, _ in WATCH_KEYS[type(event)](event, 1)
    ]


def test_a_regions_acknowledgements_wake_nobody() -> None:
    bench, watched = serving().bench, StatusReconciler.watches
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 50, 0, DIGEST))
    assert not any(kind in watched for kind in touched(bench))
    bench.judge("eu", RegionHealth.SUSPECT)
    assert any(kind in watched for kind in touched(bench))
    bench.retire("us2")
    assert any(kind in watched for kind in touched(bench))


def test_of_a_fresh_workload_that_is_deleted_or_changed_it_is_said_at_once() -> None:
    fresh, deleted, changed = Story(), Story(), Story()
    assert fresh.look().commands == ()
    for story in (deleted, changed):
        story.bench.assign(story.web, "eu", 3)
    deleted.bench.accept(ACME, c.DeleteWorkload("acme", "web", deleted.web))
    changed.bench.put(a_workload(replicas=4))
    assert deleted.look().commands
    assert changed.look().commands


@pytest.mark.parametrize(("length", "is_whole"), [(MESSAGE_MAX, True), (MESSAGE_MAX + 1, False)])
def test_a_message_is_told_whole_up_to_its_greatest_length(length: int, is_whole: bool) -> None:
    told = short("x" * length)
    assert len(told) == MESSAGE_MAX
    assert told.endswith("...") is not is_whole
