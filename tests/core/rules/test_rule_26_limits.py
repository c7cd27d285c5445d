"""RULES 26: whatever may come in can leave. Every limit is taken to the limit, and ended."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast.core
from holdfast.bench.limits.case import InMemoryLedger, LimitCase
from holdfast.bench.limits.table import FOUNDED, TABLE
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.commit.definition import decide
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.values.limits import NODE_SLOTS_MAX, OVERRIDES_MAX, POLICY_NAMES_MAX
from holdfast.core.model.values.settings import DEFAULTS, FENCE_MAX, NUMBER_MAX
from holdfast.core.platform import commands as c
from holdfast.core.region.commands import OpenSlots, SlotPlacement
from tests.support.ledgers.platform import HOUR, ROOT, T0, a_region, a_tenant, a_world
from tests.support.ledgers.region import REPLICA, RegionBench, a_template

#: Tables in which something stays, and until when.
LASTING = {
    "answered": "the last answers of a session, a ring of fixed size",
    "keys": "idempotency keys, until their window is over",
    "keys_of": "idempotency keys, until their window is over",
    "policies": "the last revisions of each policy, and what is valid: one that is taken back makes room for another",
    "validities": "what is valid where, until the region or the tenant goes",
    "rooms": "what is taken of a node, also when that is nothing: until the node goes",
    "tombstones": "logs that never speak again: whoever retires a region attests one",
}

#: Most of something that is no state, or that is not for admission to take: why it is not in the table.
NOT_TAKEN = {
    "codec.COPY_BYTES_MAX": "the size of a record that is a copy: above that of any record which the platform takes",
    "codec.RECORD_BYTES_MAX": "the size of a record: each command of the table stays below it, or is refused",
    "codec.EVIDENCE_BYTES_MAX": "evidence is cut to it",
    "authorization.NAME_MAX": "a sender's name: nothing is stored of who is refused",
    "revision.INDEX_MAX": "events of a batch",
    "revision.SEQ_MAX": "batches of a log",
    "revision.DIGITS_MAX": "how a number is read",
    "override_effects._DIGITS_MAX": "how a number is read",
    "limits.MESSAGE_MAX": "words in reports, which are replaced by the next",
    "limits.GANG_MAX": "members of a gang: one proposal places them, and the largest proposal is taken",
    "limits.ACCOUNTS_MAX": "accounts in a report, which is replaced by the next",
    "limits.DENIALS_MAX": "denials are not folded",
    "resources.AMOUNT_MAX": "a value",
    "nodes.MACHINE_NAME_MAX": "names of a node's machine, which are replaced by the next",
    "reconciler.SCHEDULERS_MAX": "a value of the configuration of a server",
    "settings.NUMBER_MAX": "a value",
    "settings.FENCE_MAX": "a value",
    "principals.NAME_MAX": "how a token is read",
    "principals._SPOKEN_MAX": "how a token is read",
    "platform.PRIORITY_MAX": "a value",
    "platform.TENANT_WEIGHT_MAX": "a value",
    "platform.TOKEN_LIFE_MAX": "a value",
    "addresses._PORT_MAX": "how an address is read",
    "platform.WEIGHT_MAX": "a value",
    "platform.LOG_ID_MAX": "one text of a region",
    "platform.ADDRESS_MAX": "one text of a region",
    "platform.VERSION_MAX": "a value",
    "quota_report.NAMED_MAX": "how much is told",
    "region.DETAIL_MAX": "one text of a slot, which goes with it",
    "workload_report.CODES_MAX": "how much is told",
    "region.ATTEMPTS_MAX": "how often something is tried",
    "workload_report.NAMED_MAX": "how much is told",
    "workload_report.MESSAGE_MAX": "how much is told",
    "region.ORDINAL_MAX": "a value",
    "region_summary.KINDS_MAX": "how much is told",
    "region_summary.LARGEST_MAX": "how much is told",
    "region_summary.NAMES_MAX": "how much is told",
    "region_summary.MESSAGE_MAX": "how much is told",
}


def sizes(memory: InMemoryLedger) -> dict[str, int]:
    return {spec.name: len(memory.state.table(spec.name)) for spec in memory.state.TABLES}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_what_is_taken_to_its_limit_can_be_ended_and_leaves_nothing(case: LimitCase) -> None:
    definition, founded = FOUNDED[case.ledger]
    memory = InMemoryLedger(definition, T0)
    memory.tell(founded())
    before = sizes(memory)
    memory.tell(case.fill(memory.state))
    assert sizes(memory) != before
    memory.tell(case.end(memory.state))
    after = sizes(memory)
    left = {name: (count, after[name]) for name, count in before.items() if after[name] != count}
    assert {name: counts for name, counts in left.items() if name not in LASTING} == {}
    assert check(memory.state, definition.invariants) == []


def limits_of_ledgers() -> set[str]:
    """Every constant of the model and of both ledgers that is called a most, as `module.NAME`,
    and of what a ledger calls its limits as `ledger.NAME`."""
    root = Path(holdfast.core.__file__).parent
    found: set[str] = set()
    for path in sorted(
        path for part in ("model", "ledger", "platform", "region") for path in root.glob(f"{part}/**/*.py")
    ):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            where = path.parent.name if path.parent.name in ("platform", "region") else path.stem
            found.update(f"{where}.{name.id}" for name in names if name.id.endswith(("_MAX", "_MOST")))
    return found


def test_no_limit_is_missing_from_the_table() -> None:
    taken = {name for case in TABLE for name in case.covers}
    assert limits_of_ledgers() == taken | NOT_TAKEN.keys()
    assert not taken & NOT_TAKEN.keys()


def test_a_person_with_as_many_keys_as_may_be_waits_until_they_are_forgotten() -> None:
    bench = a_world()
    bench.checked = False
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, keys_per_actor=500)))
    while len(bench.state.idempotency_keys) < 500:
        bench.put(a_tenant("beta", "normal", most=bench.keys))
    bench.refuse(Code.TOO_MANY_KEYS, ROOT, c.Put(a_tenant("beta", "normal", most=bench.keys)))
    bench.later(DEFAULTS.retry_window + HOUR)
    bench.put(a_tenant("beta", "normal", most=bench.keys))
    assert len(bench.state.idempotency_keys) < 500


def test_one_region_too_many_is_refused_with_both_numbers() -> None:
    definition, founded = FOUNDED["platform"]
    memory = InMemoryLedger(definition, T0)
    memory.tell(founded())
    case = next(one for one in TABLE if one.name == "regions")
    story = case.fill(memory.state)
    while len(memory.state.regions) < 1_000:
        memory.commit(next(story))
    envelope = Envelope("person/bench", c.Put(a_region("one-more")), T0, key="another")
    refused = decide(definition, memory.state, envelope, T0)
    assert isinstance(refused, Refused)
    assert refused.message == "1001 regions, with this one; at most 1000 are accepted"


def test_one_policy_too_many_is_refused_until_one_is_taken_back() -> None:
    bench = a_world()
    bench.checked = False
    for number in range(POLICY_NAMES_MAX):
        bench.accept(ROOT, c.PublishPolicy(f"policy-{number}", PolicyDocument()))
    first, second, *_ = [revision for revision, _ in bench.state.policies.items()]
    refused = bench.refuse(Code.TOO_LARGE, ROOT, c.PublishPolicy("one-more", PolicyDocument()))
    what = "policies, with this one, none of which is rolled back"
    assert refused.facts == {"what": what, "size": POLICY_NAMES_MAX + 1, "most": POLICY_NAMES_MAX}
    packing = PolicyDocument(scores=(("packing", 2),))
    bench.accept(ROOT, c.PublishPolicy("policy-1", packing))
    bench.accept(ROOT, c.RollBackPolicy(second, 0, "one revision of it stands"))
    bench.refuse(Code.TOO_LARGE, ROOT, c.PublishPolicy("one-more", PolicyDocument()))
    bench.accept(ROOT, c.RollBackPolicy(first, 0, "nobody needs it"))
    bench.accept(ROOT, c.PublishPolicy("one-more", PolicyDocument()))
    assert first not in bench.state.policies
    assert second in bench.state.policies
    bench.verify()


def test_one_override_too_many_is_refused_until_one_has_ended() -> None:
    bench = a_world()
    bench.checked = False
    opened = [
        bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", f"zone-{number}", "a drill", bench.at + HOUR))
        for number in range(OVERRIDES_MAX)
    ]
    one_more = OpenOverride(OverrideAction.AVOID_ZONE, "eu", "one-more", "a drill", bench.at + HOUR)
    refused = bench.refuse(Code.TOO_LARGE, ROOT, one_more)
    assert refused.message == "201 overrides that have not ended, with this one; at most 200 are accepted"
    bench.accept(ROOT, EndOverride(opened[0], "over"))
    bench.accept(ROOT, one_more)


def test_a_node_that_has_as_many_replicas_as_it_takes_is_full_whatever_else_it_has() -> None:
    bench = RegionBench(checked=False)
    bench.a_scheduler()
    node = bench.a_node(cpu=10**9, memory=10**9, disk=10**9)
    bench.a_grant()
    work = bench.a_workload(a_template(1, 1), count=NODE_SLOTS_MAX + 1, ordinals=0)
    for first in range(0, NODE_SLOTS_MAX + 1, PARTS_MAX):
        some = tuple(range(first, min(NODE_SLOTS_MAX + 1, first + PARTS_MAX)))
        bench.accept(REPLICA, OpenSlots(work.uid, work.shares[0].template, some))
        if len(some) == PARTS_MAX:
            bench.place(work, *(SlotPlacement(ordinal, node) for ordinal in some))
    refused = bench.refuse_place(work, SlotPlacement(NODE_SLOTS_MAX, node))
    assert refused.code is Code.CAPACITY
    assert "10000 replicas are on it, and it takes at most 10000" in refused.message


@pytest.mark.parametrize("name", DEFAULTS.__struct_fields__)
def test_no_setting_makes_a_time_that_cannot_be_written_down(name: str) -> None:
    """What is added to the time of a command would be refused by the codec, and with it everybody's commands."""
    bench = RegionBench()
    refused = bench.refuse(ROOT, Configure(replace(DEFAULTS, **{name: NUMBER_MAX + 1})))
    assert f"{name} may be at most {NUMBER_MAX}" in refused.message


def test_with_the_largest_times_everything_is_still_judged_and_written() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=2)
    lives = {name: NUMBER_MAX for name in DEFAULTS.__struct_fields__ if name.endswith(("_life", "_deadline"))}
    bench.accept(ROOT, Configure(replace(DEFAULTS, **lives)))
    bench.place(work, SlotPlacement(0, node), bind=False)
    bench.place(work, SlotPlacement(1, node))
    bench.a_node(cpu=1)
    assert len(bench.state.breaches) == 1
    bench.accept(ROOT, Configure(DEFAULTS))


def test_a_fence_is_not_longer_than_a_day_for_it_cannot_be_shortened() -> None:
    bench = RegionBench()
    bench.accept(ROOT, Configure(replace(DEFAULTS, fence_time=FENCE_MAX)))
    refused = bench.refuse(ROOT, Configure(replace(DEFAULTS, fence_time=FENCE_MAX + 1)))
    assert refused.code is Code.CONTRADICTORY
