"""The probes of all runs: each run with a probe is probed periodically, and its last result is stored.

    startup, until it passes once ──▶ readiness and liveness, side by side
    `failures` failed attempts in a row ──▶ failed: startup and liveness end the run, readiness withdraws its endpoint

The first attempt is repeated after 50 ms, and then less and less often, until one period has passed: most processes
that become ready do so by then. Each run has one task, which ends with it. Probes go to the node's own address; whether
other machines can reach it is checked by the endpoint controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from holdfast.agent.prober import ProbeNotRun, Prober
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import NOT_PROBED, ProbeState
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Logger, Metrics

#: The first attempt is repeated after this time, and then whenever a quarter more time has passed.
SOON_MS = 50

_BEGINNING = ProbeState(started=False, ready=False, detail="its startup probe has not passed yet")


class ProbeManager:
    """All probes of a node. It probes the runs of the last call of `watch`."""

    def __init__(self, asking: Prober, clock: Clock, metrics: Metrics, wake: Callable[[], None]) -> None:
        self._prober = asking
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._logger = Logger("agent.probes")
        self._pulses: dict[RunKey, ProbeState] = {}
        self._tasks: dict[RunKey, asyncio.Task[None]] = {}

    def watch(
        self,
        bound: Iterable[BoundSlot],
        running: Iterable[RunKey],
        known: Iterable[RunKey],
        templates: Mapping[str, Template],
    ) -> None:
        """Probe the running ones, stop probing the others, and discard the results of unknown runs."""
        wanted = {(one.slot, one.epoch): one for one in bound}
        runs, stays = dict.fromkeys(running), set(known)
        for key in [key for key in self._tasks if key not in runs or key not in wanted]:
            self._tasks.pop(key).cancel()
        for key in [key for key in self._pulses if key not in stays]:
            del self._pulses[key]
        for key in runs:
            one = wanted.get(key)
            if one is not None and key not in self._tasks and is_probed(templates[one.template]):
                template = templates[one.template]
                self._pulses[key] = _first(template)
                self._tasks[key] = asyncio.create_task(self._ask(key, one, template))

    def pulses(self) -> Mapping[RunKey, ProbeState]:
        """Return the last result of each run that is or was probed."""
        return self._pulses

    def forget(self, key: RunKey) -> None:
        """Discard the results of the last process of this binding: it is started again."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        self._pulses.pop(key, None)

    async def close(self) -> None:
        """Stop all probes."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, key: RunKey, one: BoundSlot, template: Template) -> None:
        if template.startup is not None:
            await self._started(key, one, template, template.startup)
            if self._pulses[key].failed:
                return
        self._put(key, ProbeState(ready=template.readiness is None, detail="its readiness probe has not passed yet"))
        both = [
            asyncio.create_task(ask(key, one, template, probe))
            for ask, probe in ((self._ready, template.readiness), (self._alive, template.liveness))
            if probe is not None
        ]
        try:
            await asyncio.gather(*both)
        finally:
            for task in both:
                task.cancel()

    async def _started(self, key: RunKey, one: BoundSlot, template: Template, probe: Probe) -> None:
        """Probe until it passes, or has failed as often as it may."""
        failures, why = 0, await self._first(one, template, probe, "startup")
        while why:
            failures += 1
            if failures >= probe.failures:
                self._put(key, ProbeState(started=False, ready=False, failed=True, detail=f"startup: {why}"))
                return
            await self._clock.sleep(probe.period)
            why = await self._once(one, template, probe, "startup")

    async def _ready(self, key: RunKey, one: BoundSlot, template: Template, probe: Probe) -> None:
        failures, why = 0, await self._first(one, template, probe, "readiness")
        while True:
            failures = failures + 1 if why else 0
            pulse = self._pulses[key]
            ready = not why or (pulse.ready and failures < probe.failures)
            if pulse.failed:
                return  # its liveness probe failed, and the run is ended for that
            self._put(key, ProbeState(pulse.started, ready, detail=f"readiness: {why}" if why else pulse.detail))
            await self._clock.sleep(probe.period)
            why = await self._once(one, template, probe, "readiness")

    async def _alive(self, key: RunKey, one: BoundSlot, template: Template, probe: Probe) -> None:
        failures = 0
        await self._clock.sleep(probe.delay)
        while True:
            why = await self._once(one, template, probe, "liveness")
            failures = failures + 1 if why else 0
            if failures >= probe.failures:
                self._put(key, ProbeState(ready=False, failed=True, detail=f"liveness: {why}"))
                return
            await self._clock.sleep(probe.period)

    async def _first(self, one: BoundSlot, template: Template, probe: Probe, which: str) -> str:
        """Return why it did not pass within the first period; empty: it passed."""
        await self._clock.sleep(probe.delay)
        began = self._clock.boot()
        while True:
            why = await self._once(one, template, probe, which)
            spent = self._clock.boot() - began
            if not why or spent >= probe.period:
                return why
            await self._clock.sleep(min(max(SOON_MS, spent // 4), probe.period - spent))

    async def _once(self, one: BoundSlot, template: Template, probe: Probe, which: str) -> str:
        """Return why it did not pass; empty: it passed. If the agent itself could not probe, it repeats."""
        why = ""
        while True:
            try:
                why = await self._prober.probe(one, template, probe)
                break
            except ProbeNotRun as error:
                self._logger.warning("cannot-ask", slot=one.name, why=error)
                await self._clock.sleep(probe.period)
            except Exception as error:
                self._logger.error("asking-raised", error, slot=one.name)
                why = type(error).__name__
                break
        self._metrics.count("agent_probes", which=which, result="failed" if why else "passed")
        return why

    def _put(self, key: RunKey, pulse: ProbeState) -> None:
        before = self._pulses.get(key, NOT_PROBED)
        self._pulses[key] = pulse
        if (before.started, before.ready, before.failed) != (pulse.started, pulse.ready, pulse.failed):
            self._wake()


def is_probed(template: Template) -> bool:
    """Whether such a run has any probe."""
    return any(probe is not None for probe in (template.startup, template.readiness, template.liveness))


def _first(template: Template) -> ProbeState:
    if template.startup is not None:
        return _BEGINNING
    return ProbeState(ready=template.readiness is None, detail="its readiness probe has not passed yet")
