"""How a process is run and watched over: what cannot be meant is told with its field."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.probes import ExecProbe, HttpProbe, Probe, TcpProbe
from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import RestartPolicy, Template, WorkloadSpec, restarts_allowed

HEALTH = Probe(http=HttpProbe(path="/health"))


def told(*, batch: bool = False, **fields: Any) -> list[str]:
    spec = WorkloadSpec(template=Template(**fields), replicas=1, priority_class="normal", batch=batch)
    return workload_problems(spec)


@pytest.mark.parametrize(
    "fields",
    [
        {"ports": 2, "readiness": Probe(http=HttpProbe(path="/health?deep=1", port=1))},
        {"ports": 1, "startup": Probe(tcp=TcpProbe()), "liveness": Probe(exec=ExecProbe(command=("true",)))},
        {"secrets": (("TOKEN", "file:/run/token"), ("_KEY2", "env:KEY"), ("OWN", "file:db/password"))},
        {"user": "web", "folder": "/srv/web", "pids": 64, "grace": 60_000, "restart": RestartPolicy.NEVER},
        {"user": "1000", "uses": ("model-7", "python-3.11")},
    ],
    ids=str,
)
def test_what_can_be_meant_is_not_told(fields: dict[str, Any]) -> None:
    assert told(**fields) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"readiness": Probe()}, "readiness needs exactly one of http, tcp and exec, not none"),
        (
            {"ports": 1, "startup": Probe(http=HttpProbe(path="/"), tcp=TcpProbe())},
            "startup needs exactly one of http, tcp and exec, not http and tcp",
        ),
        ({"liveness": HEALTH}, "liveness.http.port is 0: it must be below ports, 0"),
        ({"ports": 2, "readiness": Probe(tcp=TcpProbe(port=2))}, "readiness.tcp.port is 2: it must be below ports, 2"),
        ({"ports": 2, "readiness": Probe(tcp=TcpProbe(port=-1))}, "readiness.tcp.port is -1"),
        ({"ports": 1, "readiness": Probe(http=HttpProbe(path=""))}, "readiness.http.path begins with /"),
        ({"ports": 1, "readiness": Probe(http=HttpProbe(path="/a b"))}, "readiness.http.path begins with /"),
        ({"ports": 1, "readiness": Probe(http=HttpProbe(path="/\r\nHost: x"))}, "readiness.http.path begins with /"),
        ({"liveness": Probe(exec=ExecProbe(command=()))}, "liveness.exec.command is empty"),
        ({"ports": 1, "startup": Probe(tcp=TcpProbe(), delay=-1)}, "startup.delay cannot be negative"),
        ({"ports": 1, "startup": Probe(tcp=TcpProbe(), period=99)}, "startup.period is at least 100ms"),
        ({"ports": 1, "startup": Probe(tcp=TcpProbe(), timeout=0)}, "startup.timeout is above zero"),
        ({"ports": 1, "startup": Probe(tcp=TcpProbe(), failures=0)}, "startup.failures is at least 1"),
        ({"ports": 1, "readiness": HEALTH, "batch": True}, "readiness is for services"),
        ({"user": "root"}, "user is root"),
        ({"user": "00"}, "user is root"),
        ({"folder": "srv"}, "folder must be an absolute path"),
        ({"pids": -1}, "pids cannot be negative"),
        ({"grace": -1}, "grace cannot be negative"),
        ({"restarts_max": -1}, "restartsMax cannot be negative"),
        ({"secrets": (("TOKEN", "hunter2"),)}, "secrets.TOKEN needs the source"),
        ({"secrets": (("TOKEN", "file:"),)}, "secrets.TOKEN needs the source"),
        ({"secrets": (("TOKEN", "env:A B"),)}, "secrets.TOKEN needs the source"),
        ({"secrets": (("A-B", "env:A"),)}, "secrets.A-B needs the source"),
        ({"secrets": (("A", "env:A"),), "environment": (("A", "1"),)}, "secrets.A is in environment, too"),
        ({"uses": ("a", "a")}, "uses has at most 32 names"),
        ({"uses": ("",)}, "uses has at most 32 names"),
        ({"uses": tuple(f"f{number}" for number in range(33))}, "uses has at most 32 names"),
        ({"uses": ("x" * 201,)}, "uses has at most 32 names"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_told_with_its_field(fields: dict[str, Any], why: str) -> None:
    [found] = told(**fields)
    assert found.startswith(why)


def test_a_secret_that_was_written_in_place_of_its_reference_is_not_repeated() -> None:
    assert "hunter2" not in str(told(secrets=(("TOKEN", "hunter2"),)))


def test_probes_ask_as_often_as_their_users_expect() -> None:
    assert (HEALTH.delay, HEALTH.period, HEALTH.timeout, HEALTH.failures) == (0, 10_000, 1_000, 3)


def test_how_it_is_watched_over_is_another_template() -> None:
    watched = Template(command=("run",), ports=1, readiness=HEALTH)
    assert template_digest(watched) != template_digest(Template(command=("run",), ports=1))


def test_what_is_never_to_be_restarted_has_no_restarts_to_spend() -> None:
    assert restarts_allowed(Template(restarts_max=5)) == 5
    assert restarts_allowed(Template(restarts_max=5, restart=RestartPolicy.ON_FAILURE)) == 5
    assert restarts_allowed(Template(restarts_max=5, restart=RestartPolicy.NEVER)) == 0
