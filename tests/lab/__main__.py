"""`make test-real [ARGS=TESTS]`: run tests on real control planes.

Without arguments these are the tests marked `vital`, which CI runs; paths, `-k` and `-m` choose
others. Other arguments are handed to pytest. The programs are those of the lab, built if need be,
or of `KUBEBUILDER_ASSETS`. Nodes are simulated: there is no container runtime.

Tests wait for real seconds most of the time, so several processes run them, each on a control plane
of its own; `MANTA_TEST_SERVERS` says how many (6 by default).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.build import BuildError, build
from tests.lab.control_plane import SERVERS
from tests.lab.programs import ASSETS, MODULES, VITAL, why_missing
from tests.lab.session import PLANES

TESTS = (
    "tests/integration",
    "tests/devcluster/apiserver",
    "tests/devcluster/fidelity",
    "tests/lab",
)
PROCESSES = 6


def main(arguments: Sequence[str]) -> int:
    chosen = [] if any(_chooses(each) for each in arguments) else ["-m", "vital"]
    if why_missing(*SERVERS) and not os.environ.get(ASSETS):
        try:
            build(modules=VITAL if chosen else MODULES)
        except BuildError as failure:
            sys.stderr.write(f"make test-real: {failure}\n")
            return 1
    if missing := why_missing(*SERVERS):
        sys.stdout.write(f"SKIP SKIP SKIP: {missing}; NOTHING WAS TESTED on a real control plane\n")
        return 0
    count = os.environ.get("MANTA_TEST_SERVERS") or str(PROCESSES)
    options = ["-o", f"testpaths={' '.join(TESTS)}", "-n", count, "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", *options, *chosen, *arguments]
    folder = tempfile.mkdtemp(prefix="manta-real-")
    return os.execve(sys.executable, command, os.environ | {PLANES: folder})


def _chooses(argument: str) -> bool:
    """Whether an argument of pytest says which tests to run."""
    return argument.startswith(("-k", "-m")) or Path(argument.partition("::")[0]).exists()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
