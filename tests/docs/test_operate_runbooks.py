"""The runbooks, typed as they stand against a cluster that has that very fault.

A platform, one region, one node and a scheduler, as real processes. One incident follows the other; what a runbook
tells an operator to do with machines, and not with a command, the story of its incident does.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from operator import gt
from pathlib import Path

import pytest

from holdfast.wiring.config.private_files import read_private
from holdfast.wiring.dev.data_folder import address, token_file
from holdfast.wiring.dev.documents import document
from holdfast.wiring.process import ExitCode
from tests.support.api.api_cluster import a_workload
from tests.support.processes.page_commands import DOCS, Terminal, commands, page
from tests.support.processes.real_cluster import PLACE, RealCluster, free_ports

#: Short leases and deadlines, so that losses are noticed soon; a long fence, so that nothing is fenced while we look.
TIMES = "sessionLease=4s,grace=3s,fenceTime=60s"
DEADLINES = "lostAfter=600s,suspectAfter=2s,finalizerDeadline=5s,breachDeadline=5s,grantLife=3600s"
NEED = {"cpu": "100m", "memory": "32Mi"}
#: One that pays for `web` and `db`, and for nothing beside them.
QUOTA = "{apiVersion: holdfast/v1, kind: Quota, metadata: {name: shop}, spec: {hard: {cpu: 400m, memory: 2Gi}}}\n"
STALL = """\
apiVersion: holdfast/v1
kind: Workload
metadata: {name: stall, tenant: shop}
spec:
  replicas: 1
  priorityClass: standard
  template:
    command: [sh, -c, "false && exec sleep 1000"]
    need: {memory: 32Mi}
"""

pytestmark = pytest.mark.timeout(600)


class Incidents(RealCluster):
    """A cluster in which things go wrong, and the terminal of its operator."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.roles: dict[str, subprocess.Popen[bytes]] = {}
        where = {"/var/lib/holdfast": str(folder)}
        self.operator = Terminal(folder, where)
        self.flags: dict[str, tuple[str, ...]] = {}

    def server(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        self.flags[name] = flags
        self.roles[name] = super().server(name, *flags)
        return self.roles[name]

    def begin(self) -> None:
        """Everything but a scheduler."""
        self.open("--ledger", TIMES, "--scheduler", "none", platform=("--ledger", f"{TIMES},{DEADLINES}"))
        self.operator.environment["HOLDFAST_SERVER"] = address("platform", self.port)
        self.operator.environment["HOLDFAST_TOKEN"] = read_private(self.folder / "platform" / "operator.token") or ""
        for name, text in (("quota.yaml", QUOTA), ("stall.yaml", STALL)):
            (self.folder / name).write_text(text, encoding="utf-8")
        self.type("holdfast apply -f quota.yaml")
        ports = free_ports(20)
        self.roles["web-1"] = self.start(
            "web-1", "holdfast.cli.main", "agent", f"--server={address(PLACE, self.port)}", "--node=web-1",
            f"--data={self.folder / 'web-1'}", "--cpu=4", "--memory=4Gi", "--disk=10Gi",
            f"--ports={ports}-{ports + 19}",
            f"--token-file={token_file(self.folder)}", f"--tenant-map={self.folder / 'users.json'}",
        )  # fmt: skip
        template = {"command": ["sleep", "1000"], "need": NEED}
        self.tell(
            a_workload("web", replicas=2, template=template),
            a_workload("db", replicas=2, template=template, exclusive=True, failover="acknowledged"),
        )

    def type(self, command: str) -> str:
        found = self.operator.type(command)
        assert found.code == 0, (command, found.out)
        return found.out

    def schedule(self) -> None:
        words = ("--server", address(PLACE, self.port), "--name", "main")
        token = ("--token-file", str(self.folder / "schedulers.token"))
        self.roles["main"] = self.start("main", "holdfast.cli.main", "scheduler", *words, *token)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        self.roles[name].send_signal(number)
        self.roles[name].wait(60)

    def restart(self, name: str) -> None:
        """Start a server that an incident has ended; one that runs stays as it is."""
        if self.roles[name].poll() is not None:
            self.server(name, *self.flags[name])

    def copy(self, name: str, to: str) -> None:
        """A copy of a server's data folder, which is stopped."""
        shutil.rmtree(self.folder / to, ignore_errors=True)
        shutil.copytree(self.folder / name, self.folder / to)

    def older_copy_of(self, name: str) -> None:
        """Stop a server, let it write more, and put the older copy of its store in the place of the newest."""
        self.kill(name, signal.SIGTERM)
        self.copy(name, "older")
        self.restart(name)
        self.until_healthy()
        self.until(lambda: all(self.exchanged()), "the region has not applied and told anything")
        before = self.exchanged()
        self.tell(document("PriorityClass", f"after-{name}", {"priority": 1}))  # every region is sent it
        self.until(lambda: all(map(gt, self.exchanged(), before)), "the region does not follow")
        self.kill(name, signal.SIGTERM)
        self.copy(name, "newest")
        self.copy("older", name)

    def newest_copy_of(self, name: str) -> None:
        """What the runbooks say: put the newest store back, and start the server."""
        self.copy("newest", name)
        self.restart(name)

    def until_healthy(self) -> None:
        self.until(lambda: "healthy" in self.type(f"holdfast get region {PLACE}"), "the region is not healthy")

    def exchanged(self) -> list[int]:
        """How far the region has applied the platform's log, and how far the platform has acknowledged the region's."""
        with self.client() as client:
            status = client.get("regions", PLACE)["status"]
        return [int(str(status[key] or 0).partition(".")[0]) for key in ("cursor", "position")]


@pytest.fixture(scope="module")
def incidents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incidents]:
    folder = tmp_path_factory.mktemp("incidents")
    folder.chmod(0o755)
    found = Incidents(folder)
    try:
        found.begin()
        yield found
    finally:
        for process in found.processes:
            process.send_signal(signal.SIGCONT)
        found.end()


def walk(here: Incidents, name: str, **turns: Callable[[], object]) -> None:
    """Type a runbook. `turns` is what happens before the commands of a part: the fault, and what is done with hands."""
    typed = 0
    for part in ("Confirm", "Act", "Verify", "Afterwards"):
        turns.pop(part.lower(), lambda: None)()
        for one in commands(page(f"operate/runbooks/{name}.md")):
            if one.heading == part:
                here.operator.run(one)
                typed += 1
    assert not turns
    assert typed >= 2


def test_no_scheduler(incidents: Incidents) -> None:
    walk(incidents, "no-scheduler", act=incidents.schedule)


def test_replicas_not_serving(incidents: Incidents) -> None:
    walk(incidents, "replicas-not-serving", confirm=lambda: incidents.type("holdfast apply -f stall.yaml"))


def test_waiting_for_quota(incidents: Incidents) -> None:
    burst = a_workload("burst", replicas=2, template={"command": ["sleep", "1000"], "need": NEED})
    walk(incidents, "waiting-for-quota", confirm=lambda: incidents.tell(burst))


def test_nodes_silent(incidents: Incidents) -> None:
    agent = incidents.roles["web-1"]
    walk(
        incidents,
        "nodes-silent",
        confirm=lambda: agent.send_signal(signal.SIGSTOP),
        act=lambda: agent.send_signal(signal.SIGCONT),
    )


def test_leader_flapping(incidents: Incidents) -> None:
    def another_term() -> None:
        incidents.kill(PLACE)
        incidents.restart(PLACE)
        incidents.until_healthy()

    walk(incidents, "leader-flapping", confirm=another_term)


def test_store_full(incidents: Incidents) -> None:
    """What its commands print where there is room; that a store fills, and what a server then does, others test."""
    walk(incidents, "store-full")


def test_region_store_went_backwards(incidents: Incidents) -> None:
    def older() -> None:
        incidents.older_copy_of(PLACE)
        incidents.restart(PLACE)

    def newest() -> None:
        incidents.kill(PLACE, signal.SIGTERM)
        incidents.newest_copy_of(PLACE)

    walk(incidents, "region-store-went-backwards", confirm=older, act=newest)
    assert "went-back" in incidents.log(PLACE)


def test_platform_store_went_backwards(incidents: Incidents) -> None:
    incidents.older_copy_of("platform")
    words = ("server", "--data", str(incidents.folder / "platform"))
    listen = address("platform", incidents.port).removeprefix("http://")
    stopped = incidents.start("older", "holdfast.cli.main", *words, "--listen", listen, *incidents.flags["platform"])
    assert stopped.wait(120) == ExitCode.STOPPED
    assert "StoreWentBackwards" in incidents.log("older")
    incidents.newest_copy_of("platform")
    walk(incidents, "platform-store-went-backwards")


def test_deletion_stuck(incidents: Incidents) -> None:
    incidents.until_healthy()

    def stuck() -> None:
        incidents.kill(PLACE)
        incidents.type("holdfast delete workload shop/web")

    def lost() -> None:
        incidents.until(lambda: "suspect" in incidents.type("holdfast get regions"), "the region is not suspect")
        incidents.type(f"holdfast region declare-lost {PLACE} --reason test")

    walk(incidents, "deletion-stuck", confirm=stuck, act=lost)


def test_region_lost(incidents: Incidents) -> None:
    incidents.restart(PLACE)
    incidents.until_healthy()
    walk(incidents, "region-lost", confirm=lambda: incidents.kill(PLACE))


@pytest.mark.parametrize("path", sorted((DOCS / "operate" / "runbooks").glob("*.md")), ids=lambda path: path.stem)
def test_every_runbook_has_the_form_and_an_incident(path: Path) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == ["Symptom", "Do not", "Confirm", "Act", "Verify", "Afterwards"]
    assert f"test_{path.stem.replace('-', '_')}" in globals()
