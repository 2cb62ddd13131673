"""A folder for each package in which it is mutated, so that nothing is left in the tree.

mutmut wants its configuration in the `pyproject.toml` of the folder in which it is used, and
copies the code and the tests below that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.mutation.packages import ROOT, Package

SOURCES = ("workqueue", "informers", "controller", "devcluster", "demos")
COPIED = ("benchmarks", "charts", "docs", "examples")
"""What tests read besides."""

_ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
"""Without a path to the code as it is."""


def prepare(package: Package, children: int, *, afresh: bool) -> None:
    """Mutate `package`; `afresh` forgets all earlier results."""
    folder = package.folder
    if afresh:
        shutil.rmtree(folder, ignore_errors=True)
    (folder / "mutants").mkdir(parents=True, exist_ok=True)
    for name in (*SOURCES, *COPIED, "tests"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    # Tests that are gone must not be found again; the mutants stay, and with them their results.
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)
    (folder / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text() + "\n" + _configuration(package)
    )
    subprocess.run(
        [sys.executable, "-m", "tests.mutation.generate", str(children)],
        cwd=folder,
        env=_ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _configuration(package: Package) -> str:
    values = {"source_paths": SOURCES, "only_mutate": [package.pattern], "also_copy": COPIED}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["[tool.mutmut]", *lines, ""])


def run(package: Package, mutants: list[str], children: int) -> Iterator[dict[str, int]]:
    """Try `mutants`, and yield what became of them, one function after the other.

    What the tests print is in `tests.log` of the folder.
    """
    command = [
        *(sys.executable, "-m", "tests.mutation.trial", str(children)),
        *("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin"),
        *("-m", "not slow"),
        *package.tests,
    ]
    names, log = package.folder / "names", package.folder / "tests.log"
    names.write_text("\n".join(mutants))
    with (
        names.open() as given,
        log.open("w") as said,
        subprocess.Popen(
            command,
            cwd=package.folder / "mutants",
            env=_ENVIRONMENT,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=said,
        ) as trial,
    ):
        yield from map(json.loads, trial.stdout or ())
    if trial.returncode:
        raise ValueError(f"the tests cannot be used:\n{log.read_text()[-4000:]}")
