"""Every metric that the code counts is in the table that the reference is written from, and the other way round."""

from __future__ import annotations

import ast

from holdfast.observe.catalog import METRICS
from tests.architecture.checkout import SOURCE, modules_under, parsed

METHODS = {"count": "count", "gauge": "gauge", "time": "time"}


def used() -> dict[str, set[tuple[str, tuple[str, ...]]]]:
    """Every metric in the code: how it is counted, and with which labels."""
    found: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for module in modules_under(SOURCE):
        for node in ast.walk(parsed(module)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = ast.unparse(node.func.value)
            if node.func.attr not in METHODS or not owner.endswith("metrics"):
                continue
            name = node.args[0]
            assert isinstance(name, ast.Constant), f"{module}:{node.lineno}: a metric's name is written out"
            labels = tuple(sorted(keyword.arg or "" for keyword in node.keywords))
            found.setdefault(str(name.value), set()).add((node.func.attr, labels))
    return found


def test_every_metric_is_in_the_table_with_its_kind_and_labels() -> None:
    table = {name: {(metric.kind.value, tuple(sorted(metric.labels)))} for name, metric in METRICS.items()}
    assert used() == table
