"""The metrics of one process at `GET /metrics`, in the text format of Prometheus.

Names are those of the table (`catalog`), behind `holdfast_`; timings are histograms of milliseconds. The output is
bounded: label values come from closed lists, and if there are too many all the same, the rest is counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.host.ports.transport import Reply, Request, RequestHandler
from holdfast.host.protocol.problem import problem_reply
from holdfast.host.runtime.telemetry import BUCKETS, Histogram, Labels, Metrics
from holdfast.observe.catalog import METRICS, MetricKind

METRICS_PATH = "/metrics"
MEDIA = ("content-type", "text/plain; version=0.0.4; charset=utf-8")
#: Largest number of series; a metric with one set of labels is one of them.
SERIES_MAX = 2_000
_KINDS = {MetricKind.COUNT: "counter", MetricKind.GAUGE: "gauge", MetricKind.TIME: "histogram"}


def metrics_handler(metrics: Metrics) -> RequestHandler:
    """Return a handler that serves the metrics and nothing else."""

    async def answer(request: Request) -> Reply:
        if request.path != METRICS_PATH:
            return problem_reply(404, "no-such-route", f"no route {request.path[:200]}, only {METRICS_PATH}")
        if request.verb != "GET":
            return problem_reply(405, "wrong-verb", f"{METRICS_PATH} accepts GET only")
        return Reply(200, (MEDIA,), render_metrics(metrics).encode())

    return answer


def render_metrics(metrics: Metrics) -> str:
    """Return all metrics, by name and labels; those never counted are absent."""
    kept: dict[tuple[str, Labels], float | Histogram] = {**metrics.counts, **metrics.gauges, **metrics.timings}
    by_name: dict[str, list[tuple[Labels, float | Histogram]]] = {}
    for name, labels in sorted(kept):
        by_name.setdefault(name, []).append((labels, kept[name, labels]))
    lines: list[str] = []
    left = SERIES_MAX
    for name, series in by_name.items():
        metric = METRICS[name]
        lines += [f"# HELP holdfast_{name} {metric.sentence}", f"# TYPE holdfast_{name} {_KINDS[metric.kind]}"]
        for labels, value in series[:left]:
            lines += _lines(f"holdfast_{name}", labels, value)
        left -= min(left, len(series))
    if len(kept) > SERIES_MAX:
        lines += ["# TYPE holdfast_series_left_out gauge", f"holdfast_series_left_out {len(kept) - SERIES_MAX}"]
    return "\n".join([*lines, ""])


def _lines(name: str, labels: Labels, value: float | Histogram) -> Iterator[str]:
    if not isinstance(value, Histogram):
        yield f"{name}{_shown(labels)} {value}"
        return
    total = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], value.counts, strict=True):
        total += count
        yield f"{name}_bucket{_shown((*labels, ('le', bound)))} {total}"
    yield f"{name}_sum{_shown(labels)} {value.total}"
    yield f"{name}_count{_shown(labels)} {total}"


def _shown(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
