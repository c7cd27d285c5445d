"""What one slot asks of a node. Equal for all slots of a request, and for all requests of one kind."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.values.structs import Revision

#: What makes two slots equal to a scheduler.
AskKind = tuple[str, str, bool, Revision, bool]


class SlotAsk(Struct, frozen=True):
    """A template, for whom, and whether it stays. `workload` is 0 unless its replicas are counted over domains.

    What is `exclusive` needs an agent that ends it in time.
    """

    digest: str
    template: Template
    tenant: str
    firm: bool
    workload: Revision = 0
    exclusive: bool = False

    @property
    def kind(self) -> AskKind:
        """What it is equal by."""
        return self.digest, self.tenant, self.firm, self.workload, self.exclusive


def ask_of(assignment: Assignment, digest: str, template: Template, *, firm: bool) -> SlotAsk:
    """What the slots of an assignment's request ask for."""
    workload = assignment.workload if template.spread else 0
    return SlotAsk(digest, template, assignment.tenant, firm, workload, assignment.exclusive)
