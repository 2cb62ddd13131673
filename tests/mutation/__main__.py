"""`make mutate`: changes the code in many small ways, and asks whether the tests notice."""

from __future__ import annotations

import argparse
import os
import sys

from tests.mutation import mutated_tree
from tests.mutation.mutant import Mutant, listed
from tests.mutation.packages import TESTS, Package, named
from tests.mutation.results import Progress, Results
from tests.mutation.score import WANTED, score


def main() -> int:
    """Mutate, test, and print the score; 1 if it is too low."""
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("package", nargs="*", default=list(TESTS), help="e.g. runtime/caches")
    parser.add_argument("--resume", action="store_true", help="go on with what was interrupted")
    parser.add_argument(
        "--again", action="store_true", help="only what survived or has changed since"
    )
    parser.add_argument("--only", default="", help="a module or a function, by its last name")
    parser.add_argument("--report", action="store_true", help="print the last results")
    parser.add_argument("--children", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    passed = True
    for name in arguments.package:
        each = named(name)
        if not arguments.report:
            _mutate(each, arguments)
        passed &= _report(each)
    return 0 if passed else 1


def _mutate(each: Package, arguments: argparse.Namespace) -> None:
    keep = arguments.again or arguments.resume or arguments.only
    mutated_tree.prepare(each, arguments.children, afresh=not keep)
    results = Results(each)
    chosen = [mutant.name for mutant in results.mutants() if _is_chosen(mutant, arguments)]
    results.record(dict.fromkeys(chosen))
    progress = Progress(each.path, len(chosen))
    for exit_codes in mutated_tree.run(each, chosen, arguments.children):
        if line := progress.count(results.record(exit_codes)):
            print(line, flush=True)


def _is_chosen(mutant: Mutant, arguments: argparse.Namespace) -> bool:
    if arguments.only:
        names = (mutant.module, mutant.function)
        return arguments.only in [name.rpartition(".")[2] for name in names]
    return mutant.untried or (arguments.again and not mutant.killed)


def _report(each: Package) -> bool:
    found = score(Results(each), listed())
    for mutant, change in found.survivors:
        print(f"\n{mutant.function} ({mutant.fate})\n- {change.before}\n+ {change.after}")
    print("", *found.wrong, *found.table(), sep="\n")
    if found.untried:
        print(f"{found.untried} mutants were not tried")
    verdict = "enough" if found.passed else "not enough"
    print(f"{each.path}: {found.share():.1%} of the mutants are killed: {verdict} ({WANTED:.0%})")
    return found.passed


if __name__ == "__main__":
    sys.exit(main())
