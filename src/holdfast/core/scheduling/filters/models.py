"""Filter: enough free devices of the node are of a model that the template accepts."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class ModelsFilter:
    """Accepts nodes with enough devices of an accepted model."""

    name, version, code = "models", "1", Code.DEVICE
    is_plain = is_cured_by_victims = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement, if the template lists models."""
        template = window.ask.template
        if template.gpus and template.gpu_models:
            free = window.table.devices.accepted(template, window.at, firm=window.ask.firm)
            yield "|".join(template.gpu_models), free.sum(axis=0) >= template.gpus
