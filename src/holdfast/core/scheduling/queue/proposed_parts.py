"""One part of a proposal: the placements of one pass, and what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress

from msgspec import Struct

from holdfast.core.region.commands import SlotPlacement
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.claims import NodeClaim
from holdfast.core.scheduling.nodes.domain_rules import DomainKey
from holdfast.core.scheduling.queue.request_groups import QueuedRequest

_NOTHING: set[int] = set()


class ProposedPart(Struct, frozen=True):
    """The placements of one pass by request, with expected payers."""

    ask: SlotAsk
    placed: tuple[tuple[QueuedRequest, tuple[SlotPlacement, ...]], ...]
    paid: tuple[tuple[str, int], ...] = ()
    #: Domains under which its slots are counted. Stored, since nodes may leave or move.
    stands: tuple[DomainKey, ...] = ()
    #: By account that is owed protected capacity: slots that use it.
    owed: tuple[tuple[str, int], ...] = ()
    #: Its slots that are already charged, with their account.
    charged: Mapping[tuple[QueuedRequest, int], str] = {}
    #: For placements with takeovers: what each of them takes, in their order. Stored, since victims end.
    claims: tuple[NodeClaim, ...] = ()

    def placements(self) -> Iterator[SlotPlacement]:
        """All placements of its requests."""
        return (placement for _, placements in self.placed for placement in placements)

    @property
    def count(self) -> int:
        """Number of its placements."""
        return sum([len(placements) for _, placements in self.placed])

    def split(self, shown: Mapping[QueuedRequest, set[int]]) -> tuple[ProposedPart | None, ProposedPart | None]:
        """Split into slots that no longer wait by the view, and the rest. Either is None if empty."""
        known = [(shown.get(entry, _NOTHING), placements) for entry, placements in self.placed]
        if not any(ordinals for ordinals, _ in known):
            return None, self
        mine = [(ordinals, [one.ordinal for one in placements]) for ordinals, placements in known]
        if all(ordinals.issuperset(named) for ordinals, named in mine):
            return self, None
        if all(ordinals.isdisjoint(named) for ordinals, named in mine):
            return None, self
        slots = [(entry, placement) for entry, placements in self.placed for placement in placements]
        gone = [placement.ordinal in shown.get(entry, _NOTHING) for entry, placement in slots]
        return self._only(slots, gone), self._only(slots, [not one for one in gone])

    def _only(self, slots: list[tuple[QueuedRequest, SlotPlacement]], wanted: list[bool]) -> ProposedPart:
        """Return a part with the wanted ones of `slots`, which are all of this part."""
        payers = iter([account for account, count in self.paid for _ in range(count)])
        each = [self.charged.get((entry, placement.ordinal)) for entry, placement in slots]
        pays = [next(payers, "") if account is None else account for account in each]
        owing = {account for account, _ in self.owed}
        placed: dict[QueuedRequest, list[SlotPlacement]] = {}
        for entry, placement in compress(slots, wanted):
            placed.setdefault(entry, []).append(placement)
        width = len(self.stands) // len(slots)
        return ProposedPart(
            self.ask,
            tuple((entry, tuple(placements)) for entry, placements in placed.items()),
            _counted(account for account, known in compress(zip(pays, each, strict=True), wanted) if known is None),
            tuple(compress(self.stands, [one for one in wanted for _ in range(width)])),
            _counted(account for account in compress(pays, wanted) if account in owing),
            self.charged,
            tuple(compress(self.claims, wanted)),
        )


def _counted(accounts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple((account, count) for account, count in Counter(accounts).items() if account)
