"""The pages of docs/use, typed as they stand by a tenant of `holdfast dev`, one page after the other.

The name is that of the pages: the Python client's guide has a test of its own.
"""

from __future__ import annotations

import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.api.serialization.yaml_documents import load_documents
from tests.support.processes.page_commands import PATIENCE, Terminal, Typed, commands, files, page, until
from tests.support.processes.real_cluster import free_ports

#: In the order in which they are read.
PAGES = (
    "workloads",
    "exclusive-workloads",
    "batch-and-deadlines",
    "gangs",
    "rollouts",
    "endpoints",
    "quota",
    "fair-shares",
    "why-is-it-waiting",
)
#: What an operator has made before.
GIVEN = """
{apiVersion: holdfast/v1, kind: PriorityClass, metadata: {name: ordinary}, spec: {priority: 300}}
---
{apiVersion: holdfast/v1, kind: Tenant, metadata: {name: shop}, spec: {priorityClasses: [ordinary]}}
---
{apiVersion: holdfast/v1, kind: Quota, metadata: {name: shop}, spec: {hard: {cpu: 4, memory: 4Gi}}}
---
{apiVersion: holdfast/v1, kind: Principal, metadata: {name: person/shop},
 spec: {rights: [read, write], scope: {tenant: shop}}}
"""
#: A tenant is not answered these today: what is kept of a decision is not cleared of other tenants' names
#: (`Redaction._word` takes the plugin `taints` for the taints of a node).
BY_THE_OPERATOR = re.compile(r"holdfast (decisions|explain \S+/\S+/)")
#: What ends otherwise than with 0.
CODES = {"holdfast diff -f web.yaml": (1,)}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """The terminal of a tenant's user; the context `dev` is the operator's."""
    folder = tmp_path_factory.mktemp("use")
    folder.chmod(0o755)
    (folder / "given.yaml").write_text(GIVEN, encoding="utf-8")
    port = free_ports(4)
    found = Terminal(folder, {"https://platform.example:7400": f"http://127.0.0.1:{port}"})
    words = ["dev", "--data", str(folder / "data"), "--port", str(port), "--agents", "1", "-f", "given.yaml"]
    out = folder / "out"
    with out.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli.main", *words],
            cwd=folder, env=found.environment, stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
    try:
        until(lambda: "Ctrl-C" in out.read_text() or process.poll() is not None, out.read_text())
        assert process.poll() is None, out.read_text()
        made = found.type(
            "(umask 077; holdfast --context dev token create --principal person/shop --ttl 1d > shop.token)"
        )
        assert made.code == 0, made
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()  # its parts end with it


def by(one: Typed) -> Typed:
    """The command as it is typed here."""
    if BY_THE_OPERATOR.match(one.command):
        return one._replace(command=f"{one.command} --context dev --tenant shop")
    return one


def test_every_command_of_the_pages_works_for_a_tenant(tenant: Terminal) -> None:
    typed = 0
    for name in PAGES:
        text = page(f"use/{name}.md")
        tenant.write(text)
        for one in commands(text):
            typed += 1
            if "--watch" in one.command:
                follows(tenant, one)
            else:
                tenant.run(by(one), CODES.get(one.command, (0,)))
    assert typed > 50


def follows(tenant: Terminal, one: Typed) -> None:
    """A command that goes on: it prints something, and ends as a user ends it."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {one.command}"],
        cwd=tenant.folder,
        env=tenant.environment,
        stdout=subprocess.PIPE,
        text=True,
        # A shell's background job ignores SIGINT, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert ready, "nothing was printed"
            assert '"phase"' in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()


@pytest.mark.parametrize("name", PAGES)
def test_every_file_of_the_pages_is_a_document(name: str) -> None:
    for file, text in files(page(f"use/{name}.md")).items():
        assert [one.tree["kind"] for one in load_documents(text, file)] == ["Workload"]
