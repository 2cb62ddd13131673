"""What is mutated, and by which tests its mutants must be killed."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".mutation"
"""Not in Git: a folder for each package, with its mutants and what became of them."""


class Package(Struct, frozen=True):
    """A package, or a part of one, whose mutants are tried together.

    Attributes:
        path: of its folder or its module without suffix, from the root of the repository.
        tests: the tests of that package, which alone count.
    """

    path: str
    tests: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """What the files match that are mutated."""
        return f"{self.path}/*" if (ROOT / self.path).is_dir() else f"{self.path}.py"

    @property
    def folder(self) -> Path:
        """The folder in which it is mutated."""
        return FOLDER / self.path.replace("/", "-")


TESTS = {
    "workqueue": ("tests/workqueue", "tests/conformance/test_workqueue.py"),
    "informers": (
        "tests/informers",
        "tests/conformance/test_reflector.py",
        "tests/conformance/test_shared_informer.py",
        "tests/conformance/test_store.py",
        "tests/conformance/test_watchlist.py",
    ),
    "controller/runtime": (
        "tests/runtime",
        "tests/conformance/test_controller.py",
        "tests/conformance/test_events.py",
        "tests/conformance/test_expectations.py",
        "tests/conformance/test_health.py",
        "tests/conformance/test_leader_election.py",
        "tests/conformance/test_manager.py",
    ),
}
"""By package. Half of them stand in `tests/conformance`, which is numbered by rule."""


def named(name: str) -> Package:
    """Return the package of that name: `workqueue`, `runtime`, `runtime/caches`."""
    path = f"controller/{name}" if name.startswith("runtime") else name.rstrip("/")
    for above, tests in TESTS.items():
        inside = path == above or path.startswith(f"{above}/")
        if inside and ((ROOT / path).is_dir() or (ROOT / f"{path}.py").is_file()):
            return Package(path, tests)
    raise ValueError(f"{name} is not a part of {', '.join(TESTS)}")
