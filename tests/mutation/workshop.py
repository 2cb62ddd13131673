"""Runs mutmut in a folder of its own, so that it leaves nothing in the tree.

mutmut wants its configuration in the `pyproject.toml` of the folder in which it is started, and
copies the code and the tests below that.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.packages import LEFT_OUT, ROOT

if TYPE_CHECKING:
    from tests.mutation.packages import Package

SOURCES = ("workqueue", "informers", "controller")
COPIED = ("benchmarks", "charts", "docs", "examples")
"""What tests read besides."""

MEMORY = 4 << 30  # bytes: a mutant that appends for ever ends before the machine does


def prepare(package: Package, *, afresh: bool) -> None:
    """Make the folder in which `package` is mutated; `afresh` forgets earlier results."""
    folder = package.workshop
    if afresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*SOURCES, *COPIED, "tests"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    # Tests that are gone must not be found again; the mutants stay, and with them their results.
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)
    (folder / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text() + "\n" + _configuration(package)
    )


def _configuration(package: Package) -> str:
    values = {
        "source_paths": list(SOURCES),
        "only_mutate": [package.pattern],
        "also_copy": list(COPIED),
        "pytest_add_cli_args_test_selection": list(package.tests),
        "pytest_add_cli_args": [
            *("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin"),
            *("-m", "not slow"),
            *(f"--deselect={test}" for test in LEFT_OUT),
        ],
        # Durations are measured while mutmut traces calls, which makes them several times as long.
        "timeout_multiplier": 3.0,
        "timeout_constant": 10.0,
        "on_dependency_change": "ignore",
        "use_git_change_detection": False,
        "track_dependencies": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["[tool.mutmut]", *lines, ""])


def run(package: Package, mutants: list[str], children: int) -> None:
    """Try those of `mutants` (names, or patterns of names; all if empty) whose result is unknown.

    Raises:
        subprocess.CalledProcessError: mutmut failed, for example because a test fails without
            any mutant.
    """
    command = [str(Path(sys.executable).parent / "mutmut"), "run"]
    subprocess.run(
        [*command, f"--max-children={children}", *mutants],
        cwd=package.workshop,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        check=True,
    )
