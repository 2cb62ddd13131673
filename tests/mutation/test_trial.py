"""A trial runs the tests as they are, and then for each mutant those that call its function."""

from __future__ import annotations

import json
import subprocess
import sys
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

import pytest

from tests.mutation.packages import ROOT
from tests.mutation.progress import Progress
from tests.mutation.trampoline import ORIGINAL, decorator
from tests.mutation.trial import KILLED, NO_TESTS, SURVIVED, TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

MUTATED = """
import unittest
from tests.mutation.trampoline import decorator

def mutated(function, *variants):
    mutants = {}
    call = decorator(mutants)(function)
    named = {f"x_{function.__name__}__mutmut_{n}": each for n, each in enumerate(variants, 1)}
    function.__name__ = f"x_{function.__name__}__mutmut_orig"
    mutants.update(named, _mutmut_orig=function)
    return call

def half(n):
    return n // 2

def low(n):
    return n < 3

def wait():
    pass

def wait_for_ever():
    while True:
        pass

def unused():
    pass

half = mutated(half, lambda n: n / 2, lambda n: n / 3)
low = mutated(low, lambda n: n > 3)
wait = mutated(wait, wait_for_ever)
unused = mutated(unused, lambda: None)

def test_half():
    assert half(4) == 2

class TestLow(unittest.TestCase):
    def test_low(self):
        self.assertTrue(low(2))

def test_wait():
    wait()
"""

PROGRAM = """
import sys, pytest
from tests.mutation.trial import Trial
with open("results", "w") as out:
    trial = Trial(sys.argv[1:], 2, out)
    sys.exit(pytest.main(["-p", "no:cacheprovider", "--import-mode=importlib", "."], [trial]))
"""


def trial(folder: Path, tests: str, *mutants: str) -> dict[str, int]:
    (folder / "test_it.py").write_text(tests)
    (folder / "beside").mkdir()
    (folder / "beside" / "conftest.py").touch()  # pytest then compares plugins
    (folder / "beside" / "test_more.py").write_text("def test_more(): pass")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *(f"test_it.x_{each}" for each in mutants)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ValueError(done.stdout)
    found = [json.loads(line) for line in (folder / "results").read_text().splitlines()]
    return {name.removeprefix("test_it.x_"): code for each in found for name, code in each.items()}


@pytest.mark.slow
def test_mutants_die_of_failures_of_every_form_and_of_taking_too_long(tmp_path: Path):
    wanted = {
        "half__mutmut_1": SURVIVED,
        "half__mutmut_2": KILLED,
        "low__mutmut_1": KILLED,
        "wait__mutmut_1": TIMEOUT,
        "unused__mutmut_1": NO_TESTS,
    }
    assert trial(tmp_path, MUTATED, *wanted) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["def test_it():\n    assert 1 > 2", "import nothing_at_all"])
def test_tests_that_fail_without_a_mutant_end_the_trial(tmp_path: Path, broken: str):
    with pytest.raises(ValueError, match=r"fails without any mutant|cannot be collected"):
        trial(tmp_path, broken, "half__mutmut_1")


def test_progress_is_told_twenty_times():
    progress = Progress("informers", 100)
    assert progress.count(["killed"] * 4) is None
    assert progress.count(["survived"]) == (
        "informers: 5 of 100 tried in 0 min: 4 killed, 1 survived"
    )
    assert progress.count(["killed"]) is None


async def test_a_coroutine_function_stays_one():
    """Others ask: aiohttp refuses a handler that is none."""

    async def answer() -> int:
        return 42

    call = decorator({ORIGINAL: answer})(answer)
    assert iscoroutinefunction(call)
    assert await call() == 42
