"""Gangs: groups of replicas that run together.

    ordinals of an assignment   0 1 2 3 | 4 5 6 7 | ...       size 4: gang 0, gang 1, ...
    waiting ──▶ at least `min` members placed in one commit ──▶ runs, further members may follow
       ▲                                                          │ fewer than `min` for `replaceWithin`
       └──────────── all members are stopped ◀────────────────────┘

One number decides all cases of a loss. A spec with a word for "end" and one for "replace" would need a rule for both.
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.model.values.structs import Document, Duration


class Gang(Document, frozen=True):
    """Groups of `size` replicas that start together in one region: at least `min` of them in one commit.

    `min` of 0 is `size`. A gang that has lost members, and has fewer than `min` for `replaceWithin`, is stopped as a
    whole and waits again as a whole. With 0 it is stopped at once.
    """

    SINCE: ClassVar[int] = 3

    size: int
    min: int = 0
    replace_within: Duration = 300_000

    @property
    def needed(self) -> int:
        """The number of members with which a gang may start and run."""
        return self.min or self.size
