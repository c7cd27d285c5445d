"""The mutator itself, and in `make soak` a sample of mutants of each part."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.mutants import mutation_score as hunting
from tests.mutants.fork_server import Came, Order, Plugin, Switches
from tests.mutants.mutation import SWITCH, mutants, switched
from tests.mutants.nearby_tests import PARTS

PROGRAM = '''
def free(nodes, need):
    """How much is left, at most `need`; 1 < 2."""
    assert need > 0, "a mistake"
    left = sum(node.room - node.used for node in nodes if node.ready and not node.cordoned)
    if nodes:
        return min(left, need)
    return 0 if need == 1 else -1
'''
#: More, unused, a loop that never ends when it is turned, and two that are used while the module is loaded.
SUMS = """def more(a, b):
    return a > b

def unused(a, b):
    return a < b

def down(n):
    while n != 0: n -= 1
    return n

LARGE = 5 + 2
OTHER = 5 * 2
"""
TEST_SUMS = """import sums

def test_more():
    assert not sums.more(1, 1)

def test_down():
    assert sums.down(3) == 0

def test_large():
    assert sums.LARGE == 7
"""
CHANGES = ["Sub -> Add", "And -> Or", "condition turned", "min -> max", "Eq -> NotEq"]


def test_each_comparison_operator_and_condition_is_a_mutant_and_no_assertion_is() -> None:
    assert [one.change for one in mutants("m.py", PROGRAM)] == CHANGES


class Node(NamedTuple):
    """What the program asks of a node."""

    room: int = 4
    used: int = 1
    ready: bool = True
    cordoned: bool = False


@pytest.mark.parametrize(
    ("on", "left", "answer"),
    [(None, 9, 3), (0, 9, 5), (1, 9, 3), (2, 9, -1), (3, 9, 9), (4, 9, 3), (None, 1, 1)],
)
def test_a_mutant_that_is_on_changes_one_place_and_one_that_is_off_nothing(
    on: int | None, left: int, answer: int
) -> None:
    program: dict[str, Any] = {SWITCH: lambda number: number == on}
    exec(compile(switched(PROGRAM, range(len(CHANGES))), "m.py", "exec"), program)
    assert program["free"]([Node()], left) == answer


def test_only_the_mutants_that_are_asked_for_have_a_switch() -> None:
    assert SWITCH not in ast.unparse(switched(PROGRAM, ()))
    assert ast.unparse(switched(PROGRAM, (1, 3))).count(SWITCH) == 2


def test_a_step_and_each_comparison_of_a_chain_can_be_turned() -> None:
    source = "def f(a, b):\n    a += 1\n    return 0 < a < b\n"
    answers = []
    for on in range(3):
        program: dict[str, Any] = {SWITCH: lambda number, on=on: number == on}
        exec(compile(switched(source, range(3)), "m.py", "exec"), program)
        answers.append([program["f"](a, 3) for a in (-1, 1, 2)])
    assert answers == [[False, False, True], [True, True, False], [False, True, True]]


def test_texts_that_are_joined_and_names_of_types_are_no_mutants() -> None:
    assert mutants("m.py", 'from x import A, B\nKey = A | B\ndef f(a: A | B) -> str:\n    return "x" + f"{a}"\n') == []


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_modules_mutants_and_tests(part: str) -> None:
    modules = PARTS[part].modules(hunting.CHECKOUT)
    assert len(modules) >= 3
    assert [test for test in PARTS[part].tests + PARTS[part].further if not (hunting.CHECKOUT / test).exists()] == []
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


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout, whose tests start quickly: with no plugin but the one that ends what hangs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sums.py").write_text(SUMS)
    return tmp_path


def test_a_planted_mutant_is_found_by_the_tests_near_it_and_one_that_changes_nothing_is_not(small: Path) -> None:
    """On a small ground of its own: the way there and back is what is tested, not this project."""
    (small / "test_sums.py").write_text(TEST_SUMS)
    tried = list(hunting.try_all(small, ("test_sums.py",), mutants("src/sums.py", SUMS), patience_seconds=1))
    assert [(one.mutant.line, one.is_found, one.tests) for one in tried] == [
        (2, True, 1), (5, False, 0), (8, True, 1), (8, True, 1), (11, True, -1), (12, False, -1),
    ]  # fmt: skip
    assert (small / "src" / "sums.py").read_text() == SUMS


def test_tests_that_fail_by_themselves_find_nothing(small: Path) -> None:
    (small / "test_sums.py").write_text("def test_wrong():\n    assert False\n")
    with pytest.raises(RuntimeError, match="test_wrong fails without any mutant"):
        list(hunting.try_all(small, ("test_sums.py",), mutants("src/sums.py", SUMS)))


def test_tests_that_need_others_before_them_find_nothing(small: Path) -> None:
    """The quick one would fail before the slow one, whatever is turned."""
    (small / "test_sums.py").write_text(
        "import sums, time\n\n"
        "def test_slow():\n    time.sleep(0.2)\n    sums.READY = not sums.more(1, 1)\n\n"
        "def test_quick():\n    assert sums.READY and not sums.more(1, 1)\n"
    )
    with pytest.raises(RuntimeError, match="test_quick fails without any mutant, after others"):
        list(hunting.try_all(small, ("test_sums.py",), mutants("src/sums.py", SUMS)[:1]))


@pytest.mark.parametrize(("most_seconds", "many"), [(None, 3), (6.0, 3), (5.9, 2), (1.0, 1), (0.5, 0)])
def test_with_little_time_a_mutant_is_tried_with_the_first_and_quickest_tests_alone(
    most_seconds: float | None, many: int
) -> None:
    items: Any = [SimpleNamespace(nodeid=name) for name in "abc"]
    came = {name: Came(seconds, []) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
    plugin = Plugin(Order("", (), (), 1, most_seconds), Switches(), 1)
    assert plugin._many(items, came) == many


def test_both_figures_are_told() -> None:
    mutant = mutants("m.py", PROGRAM)[0]
    tried = [
        hunting.Hunted(mutant, True, 3, 1.0),
        hunting.Hunted(mutant, True, 2, 2.0, is_further=True),
        hunting.Hunted(mutant, False, 2, 3.0, is_further=True),
    ]
    said = "region: 1 of 3 found by the tests near them, 2 with those further away, 2.0 s each"
    assert hunting.told("region", tried) == said


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_nearly_every_mutant_of_a_new_draw_is_found() -> None:
    """Each time other ones: what was drawn once has been looked into, and says nothing of the rest."""
    seed = random.SystemRandom().randrange(1_000_000)
    tried = [one for part in PARTS for one in hunting.hunt(part, count=40, seed=seed)]
    survivors = [hunting.named(one.mutant) for one in tried if not one.is_found]
    assert len(survivors) <= (1 - hunting.WANTED) * len(tried), (seed, survivors)
