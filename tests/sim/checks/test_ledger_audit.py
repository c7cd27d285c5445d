"""The observer finds what must not be in a log, and nothing in one that is as it should be."""

from __future__ import annotations

from holdfast.core.ledger.builtin.log import RecordDigest, StartTerm
from holdfast.core.ledger.codec import Header, chain, encode_batch
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.values.resources import Resources, add
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.store import Head, StoredBatch, WriteOk
from holdfast.sim.checks.ledger_audit import LedgerAudit
from holdfast.sim.world.virtual_loop import run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import an_override, start_log
from tests.support.ledgers.region import ROOT, T0
from tests.support.wrong_events import planted


class Scribe:
    """Writes what it is told to, right or wrong."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.state = RegionState()
        self.head = Head()

    async def write(self, *envelopes: Envelope[object]) -> list[Committed]:
        draft = BatchDraft(REGION, self.state)
        answers = [draft.add(envelope, T0) for envelope in envelopes]
        landed = [answer for answer in answers if isinstance(answer, Committed)]
        assert len(landed) == len(answers), answers
        raw, digest = draft.seal()
        draft.commit()
        await self.append(raw, digest)
        return landed

    async def append(self, raw: bytes, digest: bytes) -> None:
        outcome = await self.store.append(self.head, StoredBatch("log-eu", self.head.seq + 1, digest, raw))
        assert isinstance(outcome, WriteOk), outcome
        self.head = outcome.head


def named(key: str) -> Envelope[object]:
    return Envelope(ROOT, an_override(T0, key), T0, key=key)


async def a_log() -> tuple[Scribe, LedgerAudit[RegionState]]:
    scribe = Scribe(MemoryStore())
    await scribe.write(Envelope("ledger", start_log(), T0), Envelope("ledger", StartTerm(1, "s1"), T0))
    return scribe, LedgerAudit(REGION, scribe.store)


def test_nothing_is_found_in_a_log_that_is_as_it_should_be() -> None:
    async def story() -> None:
        scribe, audit = await a_log()
        for number in range(190):
            envelope = named(f"k{number}")
            (landed,) = await scribe.write(envelope)
            audit.acknowledged(envelope, landed)
            asked = audit.asks()
            audit.reads(asked, scribe.state.info.seq)
        assert await audit.finish() == []
        judged = {"acknowledged": 190, "linear": 190, "at-least": 0, "listed": 0}
        assert audit.counts == {"batches": 191, "commands": 192, **judged}

    run_virtual(story())


def test_an_acknowledgement_of_what_is_not_in_the_log_is_found() -> None:
    async def story() -> None:
        _, audit = await a_log()
        audit.acknowledged(named("lost"), Committed(5 << 20, b""))
        (finding,) = await audit.finish()
        assert finding.promise == "acknowledged-is-durable"
        assert "nowhere" in finding.detail

    run_virtual(story())


def test_a_command_that_is_in_the_log_twice_is_found() -> None:
    """A writer that does not remember what it accepted."""

    async def story() -> None:
        scribe, audit = await a_log()
        await scribe.write(named("a"))
        scribe.state.idempotency_keys.drop(next(key for key, _ in scribe.state.idempotency_keys.unordered()))
        scribe.state.idempotency_keys_by_actor.drop(named("a").actor)
        await scribe.write(named("a"))
        assert [finding.promise for finding in await audit.finish()] == ["once"]

    run_virtual(story())


def test_two_answers_to_one_command_are_found() -> None:
    async def story() -> None:
        scribe, audit = await a_log()
        (landed,) = await scribe.write(named("a"))
        audit.acknowledged(named("a"), landed)
        audit.acknowledged(named("a"), Committed(landed.revision + 1, b""))
        assert "one-answer" in [finding.promise for finding in await audit.finish()]

    run_virtual(story())


def test_a_read_that_misses_what_was_acknowledged_before_it_is_found() -> None:
    async def story() -> None:
        scribe, audit = await a_log()
        (landed,) = await scribe.write(named("a"))
        early = audit.asks()
        audit.acknowledged(named("a"), landed)
        audit.reads(early, 1)
        late = audit.asks()
        audit.reads(late, 1)
        assert [finding.promise for finding in await audit.finish()] == ["linear"]

    run_virtual(story())


def test_a_state_that_breaks_a_promise_is_found() -> None:
    async def story() -> None:
        _, audit = await a_log()
        await audit.catch_up()
        audit.state.node_names.put("a node that nobody registered", 7)
        found = await audit.finish()
        assert found
        assert all("after batch 1" in finding.detail for finding in found)

    run_virtual(story())


def digested(seq: int) -> Envelope[object]:
    return Envelope("ledger", RecordDigest(seq, b"\0" * 16), T0)


def test_what_a_batch_breaks_is_found_with_that_batch_and_before_any_look_at_everything() -> None:
    def lose_the_place(state: RegionState) -> None:
        state.node_names.put("a node that nobody registered", 7)

    async def story() -> None:
        scribe, _ = await a_log()
        audit = LedgerAudit(planted(REGION, lose_the_place), scribe.store)
        await scribe.write(named("before"))
        await scribe.write(digested(2))
        await scribe.write(named("after"))
        await audit.catch_up()
        (finding,) = audit.findings
        assert finding.promise == "region.counts"
        assert finding.detail.startswith("after batch 3: node_names a node that nobody registered 7 changed by 1")

    run_virtual(story())


def test_what_is_broken_again_by_every_batch_is_told_once() -> None:
    def charge_nobodys_account(state: RegionState) -> None:
        use = state.account_usage.get("quota/acme") or AccountUsage()
        state.account_usage.put("quota/acme", AccountUsage(add(use.charged, Resources(1)), use.placed))

    async def story() -> None:
        scribe, _ = await a_log()
        audit = LedgerAudit(planted(REGION, charge_nobodys_account), scribe.store)
        for seq in range(1, 6):
            await scribe.write(digested(seq))
        found = await audit.finish()
        first = [finding.detail for finding in found if finding.promise == "region.grants"]
        assert first == ["after batch 2: quota/acme is charged more cpu than its settled grant"]

    run_virtual(story())


def test_a_term_that_goes_back_is_found() -> None:
    async def story() -> None:
        scribe, audit = await a_log()
        facts = scribe.state.info
        raw = encode_batch(Header(facts.log_id, facts.seq + 1, 0, facts.level, facts.digest), [], [])
        await scribe.append(raw, chain(facts.digest, raw))
        assert [finding.promise for finding in await audit.finish()] == ["terms-grow"]

    run_virtual(story())


def test_everything_is_judged_once_after_a_batch_however_often_it_is_asked_for() -> None:
    async def story() -> None:
        scribe, audit = await a_log()
        await audit.catch_up(in_full=True)
        planted_in = audit.state.overlay()
        planted_in.account_usage.put("quota/web", AccountUsage(charged=Resources(cpu=1)))
        audit.state.merge(planted_in)
        audit.check_in_full()
        assert audit.findings == [], "no batch has come since"
        await scribe.write(named("k"))
        await audit.catch_up(in_full=True)
        assert audit.findings

    run_virtual(story())
