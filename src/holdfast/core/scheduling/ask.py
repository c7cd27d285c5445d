"""The requirements of one slot, equal for all slots of a request and all requests of a group."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.values.structs import Revision

#: The values by which two slots are equal to a scheduler.
AskKind = tuple[str, str, bool, Revision, bool, int, int]


class SlotAsk(Struct, frozen=True):
    """Template, tenant and firmness of a slot. `workload` is 0 unless it has spread rules or gangs.

    An `exclusive` slot needs an agent that ends its runs in time. A slot of a `gang` is placed with others of it.
    """

    digest: str
    template: Template
    tenant: str
    firm: bool
    workload: Revision = 0
    exclusive: bool = False
    gang: Gang | None = None

    @property
    def kind(self) -> AskKind:
        """The values by which asks are compared."""
        size, needed = (self.gang.size, self.gang.needed) if self.gang is not None else (0, 0)
        return self.digest, self.tenant, self.firm, self.workload, self.exclusive, size, needed

    @property
    def searched_as(self) -> tuple[str, str, bool]:
        """The ledger walks over the nodes once per such key in a proposal."""
        return self.digest, self.tenant, self.exclusive


def ask_of(assignment: Assignment, digest: str, template: Template, *, firm: bool) -> SlotAsk:
    """Return the requirements of the slots of an assignment's request."""
    gang = assignment.gang
    workload = assignment.workload if template.spread or gang is not None else 0
    return SlotAsk(digest, template, assignment.tenant, firm, workload, assignment.exclusive, gang)
