"""Spread, apart and near rules within a pass: which domains accept one more slot, counted as slots are chosen.

The ledger decides each placement after those before it (`region.queries.domains`). A pass counts alike in advance, from
the state and the proposals in flight.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.workloads import Apart, Near, Spread
from holdfast.core.model.records.domains import REGION_WIDE, domain_of, domain_scopes
from holdfast.core.model.records.nodes import Node
from holdfast.core.region.queries.domains import DomainSearch, DomainSubject, ReachableDomains, reachable_domains
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk

#: A cell in which slots are counted: (scope, topology key, domain).
DomainKey = tuple[str, str, str]
#: Largest number of slots per node if no rule limits it.
UNLIMITED = 1 << 30
#: The evenness of the emptiest domain.
EVENEST = 1_000


class DomainRules:
    """The rules of one ask over a region's domains. `mine` is in flight; `avoided` are excluded zones."""

    def __init__(
        self,
        state: RegionState,
        ask: SlotAsk,
        mine: Mapping[DomainKey, int],
        avoided: Container[str] = frozenset(),
        search: DomainSearch | None = None,
    ) -> None:
        self._ask = ask
        self._known = state.domain_members.get
        self._mine = mine
        self._chosen: dict[DomainKey, int] = {}
        self._scopes = domain_scopes(ask.template, ask.workload, ask.tenant)
        reach = reach_of(state, ask, avoided, search)
        #: For each spread rule: replicas per domain that counts.
        self._tallies = [_Tally(rule, f"#{ask.workload}", reach[rule.key]) for rule in ask.template.spread]
        self._recount()
        #: Near rules that close domains.
        self.binding = tuple(rule for rule in ask.template.near if rule.required)
        #: Keys that define lanes. Apart rules per node count separately; with a required near rule per node, each node
        #: is a lane.
        rules: tuple[Spread | Apart | Near, ...] = (*ask.template.spread, *ask.template.apart, *ask.template.near)
        shared = [rule.key for rule in rules if rule.key != "node" or rule in self.binding]
        self.keys = tuple(dict.fromkeys(shared))

    def begin(self) -> None:
        """Start over without choices."""
        self._chosen.clear()
        self._recount()

    def lane(self, node: Node) -> tuple[str, ...]:
        """Return the domains of a node that define its lane."""
        return tuple([domain_of(node, key) for key in self.keys])

    def takes(self, node: Node) -> int:
        """Return how many slots the node accepts by rules that count per node."""
        most = UNLIMITED
        for rule in self._ask.template.apart:
            if rule.key == "node":
                most = min(most, rule.most - self._count(self._group(rule, node.name)))
        return max(0, most)

    def closed_by(self, lane: tuple[str, ...]) -> tuple[Code, str] | None:
        """Return the rule that closes a lane for the next slot, and its key; None if the lane is open."""
        at = dict(zip(self.keys, lane, strict=True))
        for tally in self._tallies:
            # The state may be newer than the rows: a domain that no longer counts is closed.
            if tally.there.get(at[tally.key], UNLIMITED) >= tally.most_allowed:
                return Code.SPREAD, tally.key
        for one in self._ask.template.apart:
            if one.key != "node" and self._count(self._group(one, at[one.key])) >= one.most:
                return Code.APART, one.key
        for near in self.binding:
            if self._is_far(near, at[near.key]):
                return Code.NEAR, near.key
        return None

    def decided_by_first(self) -> list[int]:
        """Return the places in a lane of the domains that the first slot decides for all others: of required near rules
        whose group has no member yet."""
        groups = [(rule, f"{self._ask.tenant}/{rule.group}") for rule in self.binding]
        return [self.keys.index(rule.key) for rule, group in groups if not self._count((group, REGION_WIDE, ""))]

    def name(self, lane: tuple[str, ...], key: str) -> str:
        """A domain of a lane as text: `zone a`."""
        return f"{key} {lane[self.keys.index(key)]}"

    def nearer(self, lane: tuple[str, ...]) -> int:
        """Return how many near rules hold in a lane only by choices of this pass."""
        at = dict(zip(self.keys, lane, strict=True))
        return sum(
            self._chosen.get(where, 0) > 0 and self._count(where) == self._chosen[where]
            for where in [self._group(rule, at[rule.key]) for rule in self._ask.template.near if rule.key in at]
        )

    def members(self, rule: Near, name: str) -> int:
        """Return how many members of the rule's group a domain has."""
        return self._count(self._group(rule, name))

    def replicas(self, rule: Spread, name: str) -> int:
        """Return how many replicas of the workload a domain has, for plugins with another measure of evenness."""
        return self._count((f"#{self._ask.workload}", rule.key, name))

    def evenness(self, rule: int, name: str) -> int:
        """Return how empty a domain of a spread rule is: `EVENEST` in the emptiest, 0 in the fullest."""
        return self._tallies[rule].evenness(name)

    def evenness_of(self, lane: tuple[str, ...]) -> int:
        """Mean evenness over the spread rules."""
        total = 0
        for tally in self._tallies:
            total += tally.evenness(lane[self.keys.index(tally.key)])
        return total // len(self._tallies)

    def choose(self, node: Node) -> None:
        """Count one more slot in the domains of a node."""
        for scope, key in self._scopes:
            where = (scope, key, domain_of(node, key))
            self._chosen[where] = self._chosen.get(where, 0) + 1
        for tally in self._tallies:
            tally.there[domain_of(node, tally.key)] += 1
            tally.settle()

    def _recount(self) -> None:
        for tally in self._tallies:
            for name in tally.there:
                tally.there[name] = self._count((tally.scope, tally.key, name))
            tally.settle()

    def _is_far(self, rule: Near, name: str) -> bool:
        """Whether the group has members in the region, but none in this domain."""
        group, _, _ = where = self._group(rule, name)
        return not self._count(where) and self._count((group, REGION_WIDE, "")) > 0

    def _group(self, rule: Apart | Near, name: str) -> DomainKey:
        return f"{self._ask.tenant}/{rule.group}", rule.key, name

    def _count(self, where: DomainKey) -> int:
        return (self._known(where) or 0) + self._mine.get(where, 0) + self._chosen.get(where, 0)


class _Tally:
    """Replicas of the workload in each domain that counts for a spread rule."""

    def __init__(self, rule: Spread, scope: str, names: tuple[str, ...]) -> None:
        self.key, self.scope = rule.key, scope
        self._skew = rule.max_skew
        self.there = dict.fromkeys(names, 0)

    def settle(self) -> None:
        """Update the minimum and the maximum."""
        counts = self.there.values()
        fewest, self._most = min(counts, default=0), max(counts, default=0)
        #: A domain with this many accepts no more.
        self.most_allowed = fewest + self._skew
        self._range = max(1, self._most - fewest)

    def evenness(self, name: str) -> int:
        there = self.there.get(name)
        return (self._most - there) * EVENEST // self._range if there is not None else 0


def reach_of(
    state: RegionState, ask: SlotAsk, avoided: Container[str], search: DomainSearch | None = None
) -> ReachableDomains:
    """Return the domains that count for the spread rules of an ask, by the ledger's query."""
    if not ask.template.spread:
        return {}
    return reachable_domains(
        state, DomainSubject(ask.template, ask.workload, ask.tenant, ask.exclusive), avoided, search
    )


def standing_in(ask: SlotAsk, node: Node) -> list[DomainKey]:
    """Return all cells in which a slot on this node is counted."""
    found = domain_scopes(ask.template, ask.workload, ask.tenant)
    return [(scope, key, domain_of(node, key)) for scope, key in found]
