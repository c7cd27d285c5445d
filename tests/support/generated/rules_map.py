"""docs/reference/rules-map.md: for each rule and each invariant, the code that keeps it and the tests that hold it.

Rules: the modules and tests that refer to them, and a few that do not by number. Invariants: the modules that keep them
are listed here; their checks and the tests that name them are looked up.

python -m tests.support.generated.rules_map    writes it anew
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from tests.architecture import test_rules
from tests.support.generated.markdown import FOLDER, page

ROOT = Path(__file__).parents[3]
PAGE = FOLDER / "rules-map.md"
#: Rules that code or tests keep without a reference by number.
BESIDES: Mapping[int, tuple[str, ...]] = {
    22: (
        "tests/host/runtime/test_gc_tuning.py",
        "tests/core/ledger/state/test_snapshot.py",
        "tests/host/rules/test_rule_20_snapshots.py",
    ),
    28: ("src/holdfast/core/model/values/reserved_names.py", "tests/architecture/test_promises.py"),
    29: (
        "src/holdfast/sim/runs/coverage.py",
        "src/holdfast/core/reconcilers/registry.py",
        "tests/sim/runs/test_planted_faults.py",
        "tests/sim/actors/test_production_wiring.py",
    ),
}
#: By invariant: the modules that keep it, under the ledger's folder, or under src/holdfast/core.
KEEPERS: Mapping[str, tuple[str, ...]] = {
    "platform.escrow": ("decide/grants.py", "decide/grant_settlement.py", "queries/accounts.py"),
    "platform.charge": ("decide/grants.py", "decide/grant_settlement.py"),
    "platform.identity": ("decide/rights.py", "decide/assignments.py", "queries/identities.py"),
    "platform.policy": ("decide/policies.py",),
    "platform.override": ("ledger/builtin/overrides.py",),
    "platform.references": ("decide/checks.py", "decide/objects.py", "state/evolve.py"),
    "platform.one-each": ("decide/assignments.py", "decide/workloads.py"),
    "platform.disruption": ("decide/assignments.py", "decide/assignment_stages.py"),
    "platform.residency": ("decide/assignments.py", "decide/breaches.py"),
    "platform.retired": ("decide/region_retirement.py", "decide/regions.py"),
    "platform.observed": ("decide/reports.py", "state/evolve_regions.py"),
    "platform.finalizers": ("decide/workload_deletion.py",),
    "platform.revisions": ("ledger/revision.py", "state/evolve.py"),
    "platform.breaches": ("decide/breaches.py",),
    "platform.derived": ("state/indexes.py", "state/rebuild.py"),
    "region.unique-binding": ("decide/proposals.py", "state/evolve_placements.py", "state/node_usage.py"),
    "region.device-ownership": ("queries/feasibility.py", "decide/proposals.py"),
    "region.port-ownership": ("queries/feasibility.py", "decide/proposals.py"),
    "region.charges": ("decide/proposals.py", "state/evolve_placements.py", "state/account_usage.py"),
    "region.grants": ("queries/accounts.py", "decide/proposal_terms.py"),
    "region.rooms": ("state/node_usage.py",),
    "region.epochs": ("state/evolve_placements.py", "state/evolve_slots.py", "decide/transitions.py"),
    "region.references": ("decide/shipments.py", "decide/nodes.py", "decide/proposals.py"),
    "region.pending": ("decide/reservations.py", "state/evolve_slots.py"),
    "region.finished": ("decide/slots.py", "state/evolve_slots.py"),
    "region.lists": ("decide/full_list.py",),
    "region.counts": ("state/indexes.py", "state/rebuild.py"),
    "region.capacity": ("queries/feasibility.py", "queries/breaches.py", "decide/breaches.py"),
    "region.allowed": ("queries/feasibility.py", "state/node_tenants.py", "decide/breaches.py"),
    "region.residency": ("queries/assignments.py", "queries/breaches.py", "decide/breaches.py"),
    "region.right": ("queries/assignments.py", "decide/proposals.py", "decide/breaches.py"),
}
#: Tests of every invariant at once: programs of random commands, against simple models.
EVERYWHERE = (
    "tests/properties/platform/test_platform_ledger.py",
    "tests/properties/region/test_region_ledger.py",
    "tests/properties/test_incremental_invariants.py",
)


class Entry(NamedTuple):
    """A promise: its heading, its sentence, and the files by what they do for it."""

    name: str
    sentence: str
    code: tuple[str, ...]
    checks: tuple[str, ...]
    tests: tuple[str, ...]


def rules() -> Iterator[Entry]:
    """In order: every rule, and the files that refer to it."""
    cited = test_rules.references()
    text = test_rules.PAGE.read_text(encoding="utf-8")
    for number, title in re.findall(r"^(\d+)\. \*\*([^*]+?)\.?\*\*", text, re.MULTILINE):
        files = {file for file, numbers in cited.items() if int(number) in numbers} | {*BESIDES.get(int(number), ())}
        code = sorted(one for one in files if one.startswith("src/") and not one.startswith("src/holdfast/sim/checks/"))
        checks = sorted(one for one in files if one.startswith("src/holdfast/sim/checks/"))
        tests = sorted(one for one in files if Path(one).name.startswith("test_"))
        yield Entry(f"{number}. {' '.join(title.split())}", "", tuple(code), tuple(checks), tuple(tests))


def invariants() -> Iterator[Entry]:
    """Of both ledgers, in the order of their catalogs."""
    for book in (PLATFORM, REGION):
        for one in book.invariants:
            code = tuple(_kept_in(book.name, path) for path in KEEPERS.get(one.id, ()))
            yield Entry(one.id, one.sentence, code, _checks(one), _tests_naming(one.id))


def _kept_in(ledger: str, path: str) -> str:
    own = f"src/holdfast/core/{ledger}/{path}"
    return own if (ROOT / own).is_file() else f"src/holdfast/core/{path}"


def _checks(invariant: Any) -> tuple[str, ...]:
    """The module of the predicate; of one that the catalog itself has, the module that it calls."""
    look = inspect.getclosurevars(invariant.violations).nonlocals["look"]
    called = [inspect.getfile(one) for one in inspect.getclosurevars(look).globals.values() if inspect.ismodule(one)]
    paths = called if look.__module__.endswith(".catalog") else [inspect.getfile(look)]
    return tuple(Path(one).relative_to(ROOT).as_posix() for one in paths)


def _tests_naming(word: str) -> tuple[str, ...]:
    return tuple(
        sorted(file for file, text in _test_texts().items() if re.search(rf"[\"']{re.escape(word)}[\"']", text))
    )


@cache
def _test_texts() -> dict[str, str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _lines(entry: Entry) -> list[str]:
    found = [f"### {entry.name}", "", *([entry.sentence, ""] if entry.sentence else [])]
    for title, files in (("code", entry.code), ("checked by", entry.checks), ("tests", entry.tests)):
        found += [f"- {title}:", *(f"  - {_link(file)}" for file in files)] if files else []
    return [*found, ""]


def _link(file: str) -> str:
    return f"[{file.removeprefix('src/holdfast/')}](../../{file})"


def written() -> str:
    every = [f"- {_link(file)}" for file in EVERYWHERE]
    intro = (
        "The code that keeps each [rule](../design/rules.md) and each [invariant](invariants.md), and the tests "
        "that hold it. Code and tests of a rule refer to it as `RULES n`."
    )
    lines = ["## Rules", "", *(line for entry in rules() for line in _lines(entry))]
    lines += ["## Invariants", "", "These tests hold all invariants, in every state that random commands reach:", ""]
    lines += [*every, "", *(line for entry in invariants() for line in _lines(entry))]
    return page("Map of rules and invariants", intro, lines)


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
