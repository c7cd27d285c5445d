"""No unit is sold twice, whatever is delayed, doubled, overtaken or lost between the platform and its regions.

The regions here are as simple as can be: a limit, what is charged, a queue of offers that are on their way, and
acknowledgements that arrive in any order, several times or never. What must hold is said about the regions themselves,
not about the platform's books: what they may spend together is never more than what the platform charges for it.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import GRANT, REGION_HEALTH
from tests.support.ledgers.platform import DIGEST, HOUR, ROOT, PlatformBench, a_quota, a_world, cpu

REGIONS = st.sampled_from(["eu", "us", "us2"])
AMOUNTS = st.integers(0, 20)


class SimpleRegion:
    """What a region does with a grant: settle at max(target, charged), and charge within the limit."""

    def __init__(self) -> None:
        self.version, self.target, self.limit, self.charged = 0, 0, 0, 0
        self.offers: list[tuple[int, int]] = []
        self.acknowledgements: list[tuple[int, int]] = []

    def settle(self) -> None:
        self.limit = max(self.target, self.charged)
        self.acknowledgements.append((self.version, self.limit))


class Escrow(RuleBasedStateMachine):
    """Offers, charges and acknowledgements in any order."""

    @initialize(hard=AMOUNTS)
    def begin(self, hard: int) -> None:
        self.bench: PlatformBench = a_world()
        self.bench.checked = False
        self.regions = {name: SimpleRegion() for name in ("eu", "us", "us2")}
        self.logs = {name: f"log-{name}" for name in self.regions}
        self.hard = -1
        self.quota(hard)

    @rule(hard=AMOUNTS)
    def quota(self, hard: int) -> None:
        if hard != self.hard:
            self.bench.put(a_quota("acme", cpu(hard)))
            self.hard = hard

    @rule(name=REGIONS, amount=AMOUNTS)
    def offer(self, name: str, amount: int) -> None:
        self.bench.later(1)
        command = c.OfferGrant("quota/acme", name, cpu(amount), self.bench.at + HOUR)
        answer = self.bench.send(GRANT, command)
        if isinstance(answer, Refused):
            assert answer.code in (Code.OVER_QUOTA, Code.REGION_UNAVAILABLE, Code.TOO_MANY_IN_FLIGHT), answer
        else:
            self.regions[name].offers.append((self.bench.grant(name).version, amount))

    @rule(name=REGIONS)
    def receive(self, name: str) -> None:
        region = self.regions[name]
        if region.offers:
            region.version, region.target = region.offers.pop(0)
            region.settle()

    @rule(name=REGIONS, amount=AMOUNTS)
    def charge(self, name: str, amount: int) -> None:
        region = self.regions[name]
        region.charged = min(region.limit, region.charged + amount)

    @rule(name=REGIONS, amount=AMOUNTS)
    def free(self, name: str, amount: int) -> None:
        region = self.regions[name]
        region.charged = max(0, region.charged - amount)

    @rule(name=REGIONS)
    def settle_lower(self, name: str) -> None:
        if self.regions[name].version:
            self.regions[name].settle()

    @rule(name=REGIONS, which=st.integers(0, 9), kept=st.booleans())
    def deliver(self, name: str, which: int, kept: bool) -> None:
        flight = self.regions[name].acknowledgements
        if not flight:
            return
        version, limit = flight[which % len(flight)] if kept else flight.pop(which % len(flight))
        answer = self.bench.send(f"region/{name}", c.AcknowledgeGrant("quota/acme", version, cpu(limit)))
        if isinstance(answer, Refused):
            assert answer.code is Code.ALREADY, answer

    @rule(name=REGIONS)
    def lose(self, name: str) -> None:
        if self.bench.state.regions[name].status.health is RegionHealth.HEALTHY:
            self.bench.lose(name)

    @rule(name=REGIONS)
    def hear(self, name: str) -> None:
        status = self.bench.state.regions[name].status
        if status.health is RegionHealth.LOST:
            self.bench.later(1)
            actor, position = f"region/{name}", status.position + 1
            self.bench.accept(actor, c.Acknowledge(name, self.logs[name], position, status.cursor, DIGEST))
            self.bench.accept(REGION_HEALTH, c.JudgeRegion(name, RegionHealth.HEALTHY, "heard"))

    @rule(name=REGIONS)
    def retire(self, name: str) -> None:
        """True to its attestation: nothing runs there, and what comes after is another log."""
        self.bench.accept(ROOT, c.RetireRegion(name, "switched off"))
        self.regions[name] = SimpleRegion()
        self.bench.open_session(name)
        self.logs[name] = f"log-{name}-{len(self.bench.log)}"
        self.bench.accept(f"region/{name}", c.JoinRegion(name, self.logs[name]))

    @invariant()
    def what_a_region_may_spend_is_charged(self) -> None:
        if not hasattr(self, "regions"):
            return
        for name, region in self.regions.items():
            key = f"{name}|quota/acme"
            offered = self.bench.state.grants[key].offered.cpu if key in self.bench.state.grants else 0
            assert max(region.limit, region.charged) <= offered
            assert all(target <= offered for _, target in region.offers)

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.verify()


TestEscrow = Escrow.TestCase
