"""The examples that a tenant can copy are valid, and fit the platform of `holdfast dev`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.api.resources.schemas import parse_object
from holdfast.core.model.objects.tenants import Tenant
from holdfast.core.model.objects.topology import Region
from holdfast.core.model.objects.workloads import Workload
from holdfast.wiring.dev.data_folder import documents_in

FOLDER = Path(__file__).parents[2] / "examples"
FILES = sorted((FOLDER / "workloads").glob("*.yaml"))


def test_there_is_one_for_each_sort_of_work() -> None:
    assert [path.stem for path in FILES] == ["batch", "exclusive", "gang", "gpu", "service"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_validate_takes_it(path: Path) -> None:
    words = [sys.executable, "-m", "holdfast.cli.main", "validate", "-f", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_names_what_the_example_platform_has(path: Path) -> None:
    (workload,) = (parse_object(tree) for tree in documents_in(path))
    assert isinstance(workload, Workload)
    platform = [parse_object(tree) for tree in documents_in(FOLDER / "platform.yaml")]
    (tenant,) = (one for one in platform if isinstance(one, Tenant) and one.meta.name == workload.meta.tenant)
    assert workload.spec.priority_class in tenant.spec.priority_classes
    assert set(workload.spec.placement.regions) <= {one.meta.name for one in platform if isinstance(one, Region)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_first_lines_say_how_to_apply_it(path: Path) -> None:
    said = re.findall(r"^#   holdfast (\w+) -f (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert ("apply", f"examples/workloads/{path.name}") in said
