"""The steps after an accepted proposal: reserve plugins decide, reserved slots are bound, post-bind plugins run.

bound at once ──────────────────────────────────▶ post-bind
reserved ──▶ reserve: yes ──▶ Bind ─────────────▶ post-bind
                    └─ no ──▶ Unreserve          no answer ──▶ the reservation expires
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.partial import RefusedPart, decode_refused_parts
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import Bind, Unreserve
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.scheduler import Proposal, Scheduler
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.region_client import RegionClient

#: A placed slot: its ask, its key, and its node.
Placed = tuple[SlotAsk, SlotKey, Revision]


class Binder:
    """Completes the placements of a scheduler."""

    def __init__(
        self, region: RegionClient, scheduler: Scheduler, plugins: Plugins, metrics: Metrics, logger: Logger
    ) -> None:
        self._region = region
        self._scheduler = scheduler
        self._plugins = plugins
        self._metrics = metrics
        self._logger = logger

    async def after(self, attempt: Proposal, unmet: Sequence[RefusedPart]) -> None:
        """Bind reserved slots and notify post-bind plugins. `Unavailable` if no answer arrives."""
        if attempt.command.bind and not self._plugins.post_binds:
            return
        placed = _placed(attempt, unmet)
        if not attempt.command.bind:
            refused = [one for one in placed if self._is_refused(one)]
            declined = tuple(slot for _, slot, _ in refused)
            if declined:
                self._scheduler.on_declined(attempt, declined)
                await self._region.submit(Unreserve(declined), attempt.view, attempt.policy, b"")
            placed = await self._bind(attempt, [one for one in placed if one not in refused], declined)
        for plugin in self._plugins.post_binds:
            for ask in dict.fromkeys(ask for ask, _, _ in placed):
                try:
                    plugin.on_bound(ask, tuple((slot, node) for other, slot, node in placed if other == ask))
                except Exception as error:
                    self._raised(plugin.name, error)

    def _is_refused(self, one: Placed) -> bool:
        """Whether a reserve plugin declines the slot. A plugin that raises declines it."""
        for plugin in self._plugins.reserves:
            try:
                why = plugin.refuses(*one)
            except Exception as error:
                self._raised(plugin.name, error)
                why = "the plugin failed"
            if why:
                self._metrics.count("scheduler_unreserved", plugin=plugin.name)
                return True
        return False

    def _raised(self, plugin: str, error: Exception) -> None:
        self._metrics.count("scheduler_plugin_errors", plugin=plugin)
        self._logger.error("plugin-raised", plugin=plugin, why=f"{type(error).__name__}: {error}")

    async def _bind(self, attempt: Proposal, wanted: list[Placed], declined: tuple[SlotKey, ...]) -> list[Placed]:
        """Bind the slots and return those that were bound. `declined` slots were declined before."""
        if not wanted:
            return []
        slots = tuple(slot for _, slot, _ in wanted)
        answer = await self._region.submit(Bind(slots), attempt.view, attempt.policy, b"")
        if isinstance(answer, Refused):
            self._metrics.count("scheduler_refused", len(wanted), code=answer.code.value)
            self._scheduler.on_declined(attempt, slots)
            return []
        lost = {one.index for one in decode_refused_parts(answer.answer)}
        self._scheduler.on_bound(attempt, (*declined, *(slot for number, slot in enumerate(slots) if number in lost)))
        return [one for number, one in enumerate(wanted) if number not in lost]


def _placed(attempt: Proposal, unmet: Sequence[RefusedPart]) -> list[Placed]:
    lost = {(one.group, one.index) for one in unmet}
    return [
        (ask, (workload, placement.ordinal), placement.node)
        for number, (group, ask, workload) in enumerate(
            zip(attempt.command.groups, attempt.asks, attempt.workloads, strict=True)
        )
        for index, placement in enumerate(group.placements)
        if (number, index) not in lost
    ]
