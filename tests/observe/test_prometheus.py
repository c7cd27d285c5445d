"""Numbers of a process as they are told to whoever collects them."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.host.ports.transport import Reply, Request, first_value
from holdfast.host.runtime.telemetry import Metrics
from holdfast.observe import prometheus
from holdfast.observe.prometheus import metrics_handler, render_metrics


def test_every_number_is_told_with_its_kind_its_meaning_and_its_labels() -> None:
    metrics = Metrics()
    metrics.count("scheduler_refused", 2, code="capacity")
    metrics.count("scheduler_refused", code="apart")
    metrics.gauge("mirror_streams", 3)
    assert render_metrics(metrics).splitlines() == [
        "# HELP holdfast_mirror_streams mirrors that this server streams its log to",
        "# TYPE holdfast_mirror_streams gauge",
        "holdfast_mirror_streams 3",
        "# HELP holdfast_scheduler_refused slots of proposals that the ledger refused",
        "# TYPE holdfast_scheduler_refused counter",
        'holdfast_scheduler_refused{code="apart"} 1',
        'holdfast_scheduler_refused{code="capacity"} 2',
    ]


def test_a_timing_is_told_as_a_distribution_that_adds_up() -> None:
    metrics = Metrics()
    for took_ms in (1, 30, 40, 99_999):
        metrics.time("commit_ms", took_ms)
    lines = render_metrics(metrics).splitlines()
    assert "# TYPE holdfast_commit_ms histogram" in lines
    told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert [told[f'holdfast_commit_ms_bucket{{le="{bound}"}}'] for bound in (1, 25, 50, 10_000, "+Inf")] == list(
        "11334"
    )
    assert (told["holdfast_commit_ms_count"], float(told["holdfast_commit_ms_sum"])) == ("4", 100_070)


def test_what_a_label_says_breaks_no_line() -> None:
    metrics = Metrics()
    metrics.count("scheduler_plugin_errors", plugin='a"b\\c\nd')
    assert render_metrics(metrics).splitlines()[-1] == r'holdfast_scheduler_plugin_errors{plugin="a\"b\\c\nd"} 1'


def test_too_many_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "SERIES_MAX", 3)
    metrics = Metrics()
    metrics.gauge("mirror_streams", 1)
    for number in range(5):
        metrics.count("scheduler_plugin_errors", plugin=f"p{number}")
    lines = [line for line in render_metrics(metrics).splitlines() if not line.startswith("#")]
    assert len(lines) == 4
    assert lines[-1] == "holdfast_series_left_out 3"


@pytest.mark.parametrize(
    ("verb", "path", "status"), [("GET", "/metrics", 200), ("POST", "/metrics", 405), ("GET", "/v1/log", 404)]
)
def test_numbers_are_told_and_nothing_else(verb: str, path: str, status: int) -> None:
    found = asyncio.run(asyncio.wait_for(_asked(verb, path), 5))
    assert found.status == status
    if status == 200:
        assert first_value(found.headers, "content-type").startswith("text/plain; version=0.0.4")


async def _asked(verb: str, path: str) -> Reply:
    found = await metrics_handler(Metrics())(Request(verb, path))
    assert isinstance(found, Reply)
    return found
