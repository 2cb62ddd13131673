"""Collects the tests of a package once, and forks for every mutant: `python -m`, in its folder.

Reads the names of mutants from its input, one a line. Writes what became of them, the mutants of
one function after the other: a line of JSON with an exit code for each name, as mutmut has them.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TextIO

import pytest

from tests.mutation import trampoline

SURVIVED, KILLED, SEGFAULT, NO_TESTS, TIMEOUT = 0, 1, -11, 33, 36

MEMORY = 4 << 30  # bytes: a mutant that appends for ever ends before the machine does


@dataclass(eq=False)
class Trial:
    """A plugin of pytest that runs the tests once as they are, and then for each mutant.

    Attributes:
        children: how many processes try mutants at once.
        seconds: the processor time that each test takes, by its name.
        tests: of each function the tests that call it.
    """

    mutants: list[str]
    children: int
    out: TextIO
    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _failed: bool = False
    _in_child: bool = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of pytest's loop."""
        if session.testsfailed:
            pytest.exit("tests cannot be collected", 1)
        self._items = {each.nodeid: each for each in session.items}
        for name in self._items:
            self._record(name)
        functions: dict[str, list[str]] = defaultdict(list)
        for mutant in self.mutants:
            functions[mutant.partition("__mutmut_")[0]].append(mutant)
        with get_context("fork").Pool(self.children, _trials.append, (self,)) as pool:
            for exit_codes in pool.imap_unordered(_try_all, functions.values()):
                print(json.dumps(exit_codes), file=self.out, flush=True)
        return True

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Notice a failure; nobody reads the report on one in a child.

        pytest's own plugin for unittest, which comes first, has put its failures into `call`.
        """
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            self._failed = True
            if self._in_child:
                os._exit(KILLED)

    def _record(self, name: str) -> None:
        """Measure a test and note what it calls."""
        trampoline.called.clear()
        began = time.process_time()
        self._run(name)
        if self._failed:
            pytest.exit(f"{name} fails without any mutant", 1)
        self.seconds[name] = time.process_time() - began
        for function in trampoline.names_called():
            self.tests[function].append(name)

    def _run(self, name: str) -> None:
        item = self._items[name]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def try_all(self, mutants: list[str]) -> dict[str, int]:
        """Try the mutants of one function; what has killed one is likely to kill others."""
        tests = self.tests[mutants[0].partition("__mutmut_")[0]]
        kills: Counter[str] = Counter()
        exit_codes: dict[str, int] = {}
        for mutant in mutants:
            tests.sort(key=lambda test: (-kills[test], self.seconds[test]))
            exit_codes[mutant], last = self._try(mutant, tests) if tests else (NO_TESTS, "")
            kills[last] += exit_codes[mutant] == KILLED
        return exit_codes

    def _try(self, mutant: str, tests: list[str]) -> tuple[int, str]:
        """Run `tests` in a child, and return how it ended and in which of them."""
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            self._be(mutant, tests, theirs)
        os.close(theirs)
        with os.fdopen(ours) as begun:
            last = begun.read().splitlines()[-1:]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code if code >= 0 or code == SEGFAULT else TIMEOUT, "".join(last)

    def _be(self, mutant: str, tests: list[str], begun: int) -> None:
        """End this process as `tests` say about `mutant`."""
        code = KILLED
        try:
            self._in_child = True
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            trampoline.switch_on(mutant)
            for test in tests:
                os.write(begun, f"{test}\n".encode())
                signal.setitimer(signal.ITIMER_PROF, 1 + 5 * self.seconds[test])
                signal.alarm(int(60 + 100 * self.seconds[test]))
                self._run(test)
            code = SURVIVED
        finally:
            os._exit(code)


_trials: list[Trial] = []
"""That of this process, which cannot be handed to it as an argument can."""


def _try_all(mutants: list[str]) -> dict[str, int]:
    return _trials[0].try_all(mutants)


def main() -> None:
    """Try the mutants; the exit status is pytest's."""
    children, *arguments = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    trampoline.install()
    mutants = sys.stdin.read().split()
    trial = Trial(mutants, int(children), out)
    sys.exit(pytest.main(["-s", "-q", "--tb=short", "-o", "timeout=0", *arguments], [trial]))


if __name__ == "__main__":
    main()
