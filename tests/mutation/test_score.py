"""What `make mutate` counts, without mutmut."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutation.equivalent import Equivalent, listed
from tests.mutation.mutant import Change, Mutant
from tests.mutation.packages import ROOT, named
from tests.mutation.score import score

HEAP = Path("workqueue/heaps.py")
POP = "workqueue.heaps.KeyHeap.pop"
LESS, MORE = Change("return 1", "return 0"), Change("return 1", "return 2")


@dataclass
class Tried:
    """Results of mutants of `KeyHeap.pop`: the fate and the change of each."""

    found: list[tuple[str, Change]]

    def mutants(self) -> list[Mutant]:
        return [
            Mutant(f"workqueue.heaps.xǁKeyHeapǁpop__mutmut_{number}", HEAP, fate)
            for number, (fate, _) in enumerate(self.found, start=1)
        ]

    def change(self, mutant: Mutant) -> Change:
        return self.found[int(mutant.name.rpartition("_")[2]) - 1][1]


def test_a_mutant_tells_its_function_with_module_and_class():
    method = Mutant("workqueue.heaps.xǁKeyHeapǁpop__mutmut_1", HEAP, "killed")
    function = Mutant("informers.x__table__mutmut_2", Path("informers/__init__.py"), "")
    assert (method.module, method.function) == ("workqueue.heaps", POP)
    assert (function.module, function.function) == ("informers", "informers._table")


def test_a_change_has_neither_indentation_nor_line_numbers():
    diff = "--- a\n+++ a\n@@ -1,3 +1,2 @@\n def f():\n-    return f(\n-        1)\n+    return f(2)"
    assert Change.of_diff(diff) == Change("return f( 1)", "return f(2)")


def test_mutants_that_run_for_ever_are_killed_and_those_that_no_test_runs_survive():
    found = score(Tried([("timeout", LESS), ("no tests", MORE), ("killed", LESS)]), [])
    assert [change for _, change in found.survivors] == [MORE]
    assert found.share() == pytest.approx(2 / 3)
    assert not found.passed


def test_equivalent_mutants_do_not_count():
    found = score(Tried([("killed", LESS), ("survived", MORE)]), [Equivalent(POP, MORE, "why")])
    assert found.passed
    assert found.share() == 1
    assert found.table()[1].split() == ["workqueue.heaps", "2", "1", "0", "100.0%"]


@pytest.mark.parametrize("after", ['cast("XXTXX", x)', "cast(None, x)"])
def test_types_of_casts_need_no_entry(after: str):
    change = Change('return cast("T", x)', f"return {after}")
    assert score(Tried([("survived", change)]), []).passed
    assert not score(Tried([("survived", Change(change.before, "return y"))]), []).passed


@pytest.mark.parametrize(
    ("after", "counts"),
    [('say("key", "XXsome wordsXX")', False), ('say("XXkeyXX", "some words")', True)],
)
def test_a_text_of_several_words_does_not_count_and_a_key_does(after: str, *, counts: bool):
    change = Change('say("key", "some words")', after)
    assert score(Tried([("survived", change)]), []).passed is not counts


def test_mutants_that_were_not_tried_do_not_count_and_are_told():
    for entries in [], [Equivalent(POP, MORE, "why")]:
        found = score(Tried([("killed", LESS), ("not checked", MORE)]), entries)
        assert found.passed
        assert (found.share(), found.untried) == (1, 1)


@pytest.mark.parametrize(
    ("tried", "complaint"),
    [
        (("killed", LESS), f"killed, but listed as equivalent: {POP}: return 1 -> return 0"),
        (("killed", MORE), f"listed as equivalent, but no mutant: {POP}: return 1 -> return 0"),
    ],
)
def test_a_list_that_is_wrong_fails_the_run(tried: tuple[str, Change], complaint: str):
    found = score(Tried([tried]), [Equivalent(POP, LESS, "why")])
    assert found.wrong == [complaint]
    assert not found.passed


def test_entries_of_other_packages_do_not_matter():
    other = Equivalent("informers.store.Store.get", LESS, "why")
    assert score(Tried([("killed", LESS)]), [other]).passed


def test_a_table_may_list_several_lines_that_a_line_becomes(tmp_path: Path):
    path = tmp_path / "list.toml"
    path.write_text(f'[["{POP}"]]\nreason = "why"\nbefore = "a"\nafter = ["b", "c"]\n')
    assert listed(path) == [Equivalent(POP, Change("a", after), "why") for after in ("b", "c")]


def test_every_line_with_equivalent_mutants_stands_in_its_function():
    for entry in listed():
        assert entry.change.before in _source_of(entry.function), entry
        assert entry.change.before != entry.change.after, entry
        assert entry.reason, entry


@pytest.mark.parametrize(
    ("function", "line", "stands"),
    [
        ("workqueue.heaps.KeyHeap.push", "self._pushed += 1", True),
        ("workqueue.heaps.KeyHeap.pop", "self._pushed += 1", False),
        ("workqueue.heaps.KeyHeap.gone", "", False),
        ("workqueue.heaps.Gone.push", "", False),
        ("workqueue.gone.KeyHeap.push", "", False),
    ],
)
def test_a_line_is_looked_for_in_the_function_of_that_class(
    function: str, line: str, *, stands: bool
):
    source = _source_of(function)
    assert (source != "" and line in source) is stands


def test_a_part_of_a_package_is_killed_by_the_tests_of_the_whole():
    assert named("runtime/caches").tests == named("runtime").tests
    assert named("runtime/health").pattern == "controller/runtime/health.py"
    assert named("workqueue").pattern == "workqueue/*"
    with pytest.raises(ValueError, match="elsewhere is not a part of"):
        named("elsewhere")


def _source_of(function: str) -> str:
    """Return the lines of a function as a change shows them, empty if it does not exist."""
    parts = function.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = ROOT.joinpath(*parts[:end])
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.is_file():
                source = path.read_text()
                lines = source.splitlines()[_lines_of(ast.parse(source), parts[end:])]
                return " ".join(line.strip() for line in lines)
    return ""


def _lines_of(tree: ast.AST, names: list[str]) -> slice:
    """Return which lines are those of the class or function with these names; none without it."""
    for name in names:
        found = (each for each in ast.iter_child_nodes(tree) if getattr(each, "name", "") == name)
        tree = next(found, ast.Pass(lineno=1, end_lineno=0))
    return slice(tree.lineno - 1, tree.end_lineno)  # type: ignore[attr-defined]
