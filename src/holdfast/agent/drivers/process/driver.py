"""The driver of real processes: each under a guard of its own, with limits, as the user of its tenant.

Size: the whole port, with every step of a start beside what undoes it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.agent.drivers.driver import CannotStart, Capabilities, RunSpec, RunStatus, StartFault
from holdfast.agent.drivers.process.cgroups import Cgroups
from holdfast.agent.drivers.process.disk_usage import DiskWatch
from holdfast.agent.drivers.process.environment import environment_of
from holdfast.agent.drivers.process.guard_files import (
    GuardRecord,
    UnreadableGuardFile,
    boot_id,
    placeholder_record,
    read_record,
)
from holdfast.agent.drivers.process.guarded_run import FOLDER, GuardedRun
from holdfast.agent.drivers.process.launch import extension, fault, launch, order_of, record_of, why_no_namespaces
from holdfast.agent.drivers.process.leftovers import POLL_MS, kill_leftovers, retry_until_able
from holdfast.agent.drivers.process.preflight import capabilities_of, check_ports_free, run_user
from holdfast.agent.drivers.process.run_folders import RunFolders, run_name
from holdfast.agent.drivers.process.settings import ProcessSettings, limited
from holdfast.agent.drivers.process.tenant_users import TenantUser, TenantUsers
from holdfast.agent.guard import kernel
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.objects.workloads import DriverKind as Kind
from holdfast.core.model.values.settings import DEFAULT_TIMES, AgentTimes
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.blocking_calls import BlockingCalls, Hangs
from holdfast.host.runtime.telemetry import Logger

#: Kinds of blocking calls beside those to the agent's own folder.
CGROUPS, GUARDS, GONE = "cgroups", "guards that begin", "what was left by processes"
#: How often the driver checks that killed strays have ended, before the agent opens a session.
STRAY_LOOKS = 250
#: A guard checks the time four times a second, even if the machine stalls, and needs as long to end everything.
KILL_MARGIN_MIN_MS = 500


class ProcessDriver:
    """Real processes on this machine. It implements the port `holdfast.agent.drivers.driver.Driver`."""

    def __init__(self, settings: ProcessSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._calls = BlockingCalls(clock)
        self._logger = Logger("agent.process", folder=settings.folder)
        root = Path(settings.folder)
        self._folders = RunFolders(root, settings.logs_kept)
        self._cgroups = Cgroups(Path(settings.cgroup_root), root)
        self._tenants = TenantUsers(Path(settings.tenant_map), settings.tenant_users)
        self._held: dict[RunKey, GuardedRun] = {}
        self._starting: set[RunKey] = set()
        #: Runs whose guards are being connected.
        self._finding: set[GuardedRun] = set()
        self._disk = DiskWatch(settings.disk_ms, self._folders, clock, self._calls, self._logger)
        #: Set when folders were moved away that are to be removed.
        self._left = asyncio.Event()
        self._changed = asyncio.Event()
        #: The region's grace, which bounds that of leased work, and its kill margin: parts of the fence (RULES 4).
        self._times = DEFAULT_TIMES
        #: Why replicas have no own namespaces; empty: they have them.
        self._no_namespaces = "not tried yet"
        #: Background tasks: starts, which always run to their end, and the others, which end with the agent.
        self._starts: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Adopt the runs that an earlier agent started."""
        await self._calls.wait(FOLDER, self._folders.prepare)
        if self._settings.cgroups:
            await self._calls.wait(CGROUPS, self._cgroups.find)
        await self._calls.wait(GUARDS, self._try_namespaces)
        folders = await self._calls.wait(FOLDER, self._folders.found)
        await self._end_strays([folder.name for folder in folders])
        await asyncio.gather(*(self._adopt(folder) for folder in folders))
        await self._remember_users()
        await self._calls.wait(FOLDER, self._folders.move_strays_away)
        self._left.set()
        for task in (self._watch_guards(), self._disk.watch(self._held), self._remove_what_is_left()):
            self._begin(task, self._tasks)

    async def sweep(self) -> None:
        """Remove empty cgroups that killed agents of other folders of this machine left behind."""
        if self._settings.cgroups:
            await self._calls.wait(CGROUPS, self._cgroups.sweep)

    @property
    def kinds(self) -> Collection[Kind]:
        """Processes only; no simulated runs."""
        return (Kind.PROCESS,)

    def capabilities(self) -> Capabilities:
        """Return which limits and isolation are enforced here, how, and what is missing."""
        return capabilities_of(self._cgroups, self._no_namespaces)

    def runs(self) -> Sequence[RunStatus]:
        """Return all runs, by binding."""
        return [held.live for _, held in sorted(self._held.items())]

    async def start(self, work: RunSpec) -> None:
        """Start a run, or raise `CannotStart`. Cancelling the wait does not cancel the start."""
        await asyncio.shield(self._begin(self._start(work), self._starts))

    async def stop(self, slot: SlotKey, epoch: Revision, grace_ms: int) -> None:
        """Begin to end it."""
        held = self._held.get((slot, epoch))
        if held is not None and held.live.state is not ProcessState.ENDED:
            held.stop(grace_ms)

    async def exec(self, work: RunSpec, command: tuple[str, ...], limit_ms: int) -> int:
        """Run a command beside a process, under its guard."""
        held = self._held.get((work.slot, work.epoch))
        if held is None or held.live.state is ProcessState.ENDED:
            raise CannotStart(StartFault.DRIVER, f"{work.name} does not run")
        ran = await held.run(command, limit_ms, self._settings.answer_ms)
        if ran.failed:
            raise fault(ran.failed, command[0], work.folder)
        return ran.code

    def keep(self, times: AgentTimes) -> int:
        """Use these durations. Below a guard's minimum, the minimum counts."""
        self._times = times
        return times.grace + max(times.kill_margin, KILL_MARGIN_MIN_MS)

    def extend(self, deadline: int) -> None:
        """Send the deadline to the guards of all leased work, without waiting for them."""
        grace_ms = self._times.grace
        message, now = extension(deadline, grace_ms), self._clock.boot()
        for held in self._held.values():
            held.extend(message, deadline, grace_ms, now)

    async def forget(self, slot: SlotKey, epoch: Revision) -> None:
        """Remove the record, the result, the cgroup and the working folder of an ended run; retain its logs."""
        held = self._held.get((slot, epoch))
        if held is None:
            return
        assert held.live.state is ProcessState.ENDED, f"{held.live.name} has not ended"
        del self._held[slot, epoch]
        held.let_go()
        try:
            await self._calls.wait(FOLDER, lambda: self._clear_away(held.record))
            self._left.set()
        except OSError as error:  # it only blocks another start of the same binding
            self._logger.warning("not-cleared-away", name=held.live.name, why=error)

    async def changed(self) -> None:
        """Return when something has changed since this returned last."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Finish pending starts, and disconnect from guards. Runs continue."""
        if self._starts:  # the next agent adopts starts that hang
            await asyncio.wait(self._starts, timeout=self._settings.start_ms / 1_000)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for held in self._held.values():
            held.hang_up()
        self._held.clear()
        await self._calls.wait(CGROUPS, self._cgroups.leave)

    def _try_namespaces(self) -> None:
        if not self._settings.namespaces:
            self._no_namespaces = "the node's operator has disabled namespaces"
        elif os.geteuid() != 0:
            self._no_namespaces = "only an agent that runs as root can create namespaces"
        else:
            self._no_namespaces = why_no_namespaces(self._settings)

    async def _end_strays(self, known: Collection[str]) -> None:
        """End what runs in a cgroup of this driver without a folder: no run could be reported for it."""
        for groups in self._cgroups.strays(known):
            if kernel.members(groups):
                self._logger.warning("stray", groups=groups, then="its processes are killed")
            for _ in range(STRAY_LOOKS):  # a killed process that still exists then executes no code of its own
                if not kernel.members(groups):
                    break
                kernel.kill_members(groups)
                await self._clock.sleep(POLL_MS)
            await self._calls.wait(CGROUPS, lambda groups=groups: self._cgroups.remove(groups))  # type: ignore[misc]

    async def _adopt(self, folder: Path) -> None:
        """Adopt what an earlier agent left in this folder."""
        try:
            record = await self._begun_in(folder)
        except UnreadableGuardFile as error:
            self._logger.warning("record-unreadable", slot=folder.name, why=error, then="its processes are killed")
            record = self._made_up(folder)
            await self._hold(record, folder)
            await self.stop(*record.binding, 0)
            return
        if record is not None:
            await self._hold(record, folder)
        else:
            await self._remove(folder.name)

    async def _hold(self, record: GuardRecord, folder: Path) -> None:
        held = self._held[record.binding] = GuardedRun(record, folder, self._clock, self._calls, self._tell)
        await self._find(held)
        self._changed.set()

    async def _find(self, held: GuardedRun) -> None:
        self._finding.add(held)
        try:
            is_there = await retry_until_able(self._clock, lambda: held.find(self._settings.answer_ms))
        finally:
            self._finding.discard(held)
        if not is_there:
            self._logger.warning("guard-gone", name=held.live.name, guard=held.record.guard.pid)
            self._begin(retry_until_able(self._clock, held.clear), self._tasks)
        elif held.is_silent:
            self._logger.warning("guard-silent", name=held.live.name, guard=held.record.guard.pid)

    async def _start(self, work: RunSpec) -> None:
        work = limited(work, self._cgroups.controllers, self._settings)
        if work.leased and self._clock.boot() >= work.deadline:
            raise CannotStart(StartFault.DRIVER, "its lease has run out")
        binding = work.slot, work.epoch
        if binding in self._starting:
            raise CannotStart(StartFault.DRIVER, f"{work.name} is there already: its start is in progress")
        self._starting.add(binding)
        try:
            await self._start_alone(work, run_name(binding))
        finally:
            self._starting.discard(binding)

    async def _start_alone(self, work: RunSpec, name: str) -> None:
        stray = self._folders.of(name)
        if (work.slot, work.epoch) not in self._held and await self._calls.wait(FOLDER, stray.exists):
            await self._adopt(stray)  # an earlier agent may have started it since the last check
        folder, order = await self._prepare(work, name)
        try:
            await self._calls.wait(GUARDS, lambda: launch(order, folder, self._settings.start_ms))
            record = await self._calls.wait(FOLDER, lambda: read_record(folder))
            assert record is not None, f"{folder} has no record of what was begun"
        except asyncio.CancelledError:
            raise  # the agent stops: the next one adopts whatever was started
        except BaseException:
            await self._undo(name, folder)
            raise
        await self._hold(record, folder)

    async def _prepare(self, work: RunSpec, name: str) -> tuple[Path, dict[str, Any]]:
        """Prepare what a guard needs: its order, and folders that no other run uses."""
        if not work.command:
            raise CannotStart(StartFault.MISSING_BINARY, "the template has no command")
        if work.folder and not os.path.isabs(work.folder):
            raise CannotStart(StartFault.FOLDER, f"{work.folder}: not an absolute path")
        limit_ms, settings = self._settings.answer_ms, self._settings
        places = ", ".join(sorted({where for _, where in work.secrets}))
        try:
            user = await self._calls.ask(
                "looking up its user", limit_ms, lambda: run_user(work, settings, self._tenants)
            )
            own = self._folders.working(name, user.uid if user is not None else os.geteuid())
            working = work.folder or str(own.absolute())
            environment = await self._calls.ask(
                f"reading its secrets at {places}", limit_ms, lambda: environment_of(work, working, settings)
            )
        except Hangs as error:
            code = StartFault.SECRET if "secrets" in str(error) else StartFault.DRIVER
            raise CannotStart(
                code, f"{error}\nhint: check that the node's mounts and its user database respond"
            ) from None
        check_ports_free(work.ports)
        try:
            folder, groups = await self._calls.wait(FOLDER, lambda: self._make(work, name, user))
        except OSError as error:
            await self._remove(name)
            raise CannotStart(StartFault.DRIVER, f"{error.filename}: {error.strerror}") from error
        record = record_of(work, groups, boot_id(), self._times.grace, user)
        apart = not self._no_namespaces
        return folder, order_of(record, work, environment, working, user, self._cgroups, settings, apart)

    def _make(self, work: RunSpec, name: str, user: TenantUser | None) -> tuple[Path, list[str]]:
        folder = self._folders.make(name)
        if not work.folder:
            self._folders.make_working(name, user)
        return folder, self._cgroups.make(name, work)

    async def _undo(self, name: str, folder: Path) -> None:
        """Remove everything of a run that could not be started."""
        try:
            record = await retry_until_able(self._clock, lambda: self._begun_in(folder))
        except UnreadableGuardFile:
            record = self._made_up(folder)
        if record is not None:
            await retry_until_able(self._clock, lambda: kill_leftovers(record, self._clock))
        await self._calls.wait(CGROUPS, lambda: self._cgroups.remove(self._cgroups.named(name)))
        await self._remove(name)

    async def _remove(self, name: str) -> None:
        await self._calls.wait(FOLDER, lambda: self._folders.remove(name))
        self._left.set()

    def _made_up(self, folder: Path) -> GuardRecord:
        return placeholder_record(folder, self._folders.binding_of(folder), self._cgroups.named(folder.name))

    async def _begun_in(self, folder: Path) -> GuardRecord | None:
        """Return the record of the run in this folder; None: none began, and none will. A starting guard may write its
        record at any time, but once: either it is read here, or removing the folder prevents it."""
        for _ in range(3):
            record = await self._calls.wait(FOLDER, lambda: read_record(folder))
            if record is not None or await self._calls.wait(FOLDER, lambda: self._remove_unbegun(folder)):
                return record
        return None

    def _remove_unbegun(self, folder: Path) -> bool:
        self._cgroups.remove(self._cgroups.named(folder.name))
        return self._folders.remove_unbegun(folder)

    def _clear_away(self, record: GuardRecord) -> None:
        self._cgroups.remove(record.groups)
        self._folders.forget(run_name(record.binding))

    def _tell(self, held: GuardedRun, is_gone: bool) -> None:
        self._changed.set()
        if is_gone:
            self._begin(self._find(held), self._tasks)

    async def _watch_guards(self) -> None:
        """Check that guards work: one that hangs past a deadline is killed, and its process with it."""
        while True:
            patience_ms = max(self._times.kill_margin, KILL_MARGIN_MIN_MS) // 2
            await self._clock.sleep(patience_ms // 2)
            for held in list(self._held.values()):
                with suppress(OSError):  # without a free descriptor: try again next time
                    if held.hasten(self._clock.boot(), patience_ms):
                        self._logger.warning("guard-hung", name=held.live.name, guard=held.record.guard.pid)
                if held.is_out_of_reach and held not in self._finding:
                    self._begin(self._find(held), self._tasks)

    async def _remove_what_is_left(self) -> None:
        """Remove folders that were moved away; those that cannot be removed stay until the agent starts again."""
        while True:
            await self._left.wait()
            self._left.clear()
            for error in await self._calls.wait(GONE, self._folders.empty_gone):
                self._logger.warning("not-removed", why=error)

    async def _remember_users(self) -> None:
        """Record the users of adopted runs again, in case the machine's file was lost."""
        records = [held.record for held in self._held.values() if held.record.tenant]
        if not records:
            return
        try:
            clash = await self._calls.ask(
                "looking up the users of tenants",
                self._settings.answer_ms,
                lambda: self._tenants.remember((one.uid, one.tenant) for one in records),
            )
        except (CannotStart, Hangs) as error:
            self._logger.warning("users-unknown", why=error)
            return
        for record in records:
            if record.uid in clash:
                self._logger.warning("user-shared", name=record.name, user=record.uid, then="it is ended")
                await self.stop(*record.binding, 0)

    def _begin(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)
        task.add_done_callback(self._note)
        return task

    def _note(self, task: asyncio.Task[None]) -> None:
        """Log a failure that no caller waits for. A start that is refused is reported to its caller."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CannotStart):
            self._logger.error("task-failed", error)
