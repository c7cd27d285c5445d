"""What one slot asks of a node. Equal for all slots of a request, and for all requests of one kind."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.model.allotment import Assignment
from holdfast.core.model.shapes import Revision
from holdfast.core.model.workload import Template

#: What makes two slots equal to a scheduler.
Kind = tuple[str, str, bool, Revision]


class Ask(Struct, frozen=True):
    """A template, for whom, and whether it stays. `workload` is 0 unless its replicas are counted over domains."""

    digest: str
    template: Template
    tenant: str
    firm: bool
    workload: Revision = 0

    @property
    def kind(self) -> Kind:
        """What it is equal by."""
        return self.digest, self.tenant, self.firm, self.workload


def ask_of(assignment: Assignment, digest: str, template: Template, *, firm: bool) -> Ask:
    """What the slots of an assignment's request ask for."""
    return Ask(digest, template, assignment.tenant, firm, assignment.workload if template.spread else 0)
