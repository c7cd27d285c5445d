"""The requirements of one slot, equal for all slots of a request and all requests of a group."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.values.structs import Revision

#: The values by which two slots are equal to a scheduler.
AskKind = tuple[str, str, bool, Revision, bool]


class SlotAsk(Struct, frozen=True):
    """Template, tenant and firmness of a slot. `workload` is 0 unless the template has spread rules.

    An `exclusive` slot needs an agent that ends its runs in time.
    """

    digest: str
    template: Template
    tenant: str
    firm: bool
    workload: Revision = 0
    exclusive: bool = False

    @property
    def kind(self) -> AskKind:
        """The values by which asks are compared."""
        return self.digest, self.tenant, self.firm, self.workload, self.exclusive


def ask_of(assignment: Assignment, digest: str, template: Template, *, firm: bool) -> SlotAsk:
    """Return the requirements of the slots of an assignment's request."""
    workload = assignment.workload if template.spread else 0
    return SlotAsk(digest, template, assignment.tenant, firm, workload, assignment.exclusive)
