"""The mutator itself, and in `make soak` a sample of mutants of each part."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import hunt as hunting
from tests.mutants.mutation import mutants, mutated
from tests.mutants.near import PARTS

PROGRAM = '''
def free(nodes, need):
    """How much is left, at most `need`; 1 < 2."""
    assert need > 0, "a mistake"
    left = sum(node.room - node.used for node in nodes if node.ready and not node.cordoned)
    if nodes:
        return min(left, need)
    return 0 if need == 1 else -1
'''
CHANGES = ["Sub -> Add", "And -> Or", "condition turned", "min -> max", "Eq -> NotEq"]


def test_each_comparison_operator_and_condition_is_a_mutant_and_no_assertion_is() -> None:
    assert [one.change for one in mutants("m.py", PROGRAM)] == CHANGES


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_mutant_differs_from_the_original_in_one_place(number: int) -> None:
    before, after = ast.unparse(ast.parse(PROGRAM)).splitlines(), mutated(PROGRAM, number).splitlines()
    assert len(before) == len(after)
    assert len([1 for one, other in zip(before, after, strict=True) if one != other]) == 1


def test_texts_that_are_joined_and_names_of_types_are_no_mutants() -> None:
    assert mutants("m.py", 'from x import A, B\nKey = A | B\ndef f(a: A | B) -> str:\n    return "x" + f"{a}"\n') == []


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_modules_mutants_and_tests(part: str) -> None:
    modules = PARTS[part].modules(hunting.CHECKOUT)
    assert len(modules) >= 4
    assert [test for test in PARTS[part].tests if not (hunting.CHECKOUT / test).exists()] == []
    assert len(hunting.drawn(part, 20, seed=1)) == 20
    assert hunting.drawn(part, 20, seed=1) == hunting.drawn(part, 20, seed=1) != hunting.drawn(part, 20, seed=2)


def test_what_is_called_equivalent_is_a_mutant_that_there_is() -> None:
    modules = {path for part in PARTS.values() for path in part.modules(hunting.CHECKOUT)}
    named = {line.partition(":")[0] for line in hunting.known()}
    assert named <= modules
    every = {hunting.named(one) for path in sorted(named) for one in hunting.of(path)}
    assert hunting.known() - every == set()
    lines = [line for line in hunting.EQUIVALENT.read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if " # " not in line] == [], "each has its reason"


def test_a_planted_mutant_is_found_by_the_tests_near_it_and_one_that_changes_nothing_is_not(tmp_path: Path) -> None:
    """On a small ground of its own: the way there and back is what is tested, not this project."""
    ground = hunting.Ground.__new__(hunting.Ground)
    ground.folder = tmp_path
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sums.py").write_text(
        "def more(a, b):\n    return a > b\n\ndef unused(a, b):\n    return a < b\n"
    )
    (tmp_path / "test_sums.py").write_text("from sums import more\n\ndef test_more():\n    assert not more(1, 1)\n")
    both = mutants("src/sums.py", (tmp_path / "src" / "sums.py").read_text())
    assert [ground.try_one(one, ("test_sums.py",)).is_found for one in both] == [True, False]
    assert "a > b" in (tmp_path / "src" / "sums.py").read_text(), "the original is back"


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", PARTS)
def test_nearly_every_mutant_is_found(part: str) -> None:
    tried = hunting.hunt(part, count=40, seed=1)
    survivors = [hunting.named(one.mutant) for one in tried if not one.is_found]
    assert len(survivors) <= 0.05 * len(tried), survivors
