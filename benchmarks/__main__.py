"""`make bench`: run every benchmark of this folder and print its figures.

Each `bench_*.py` has `run() -> dict[str, float]`; names say the unit. Ratios are taken inside
one run, so they hold on a noisy machine. Arguments choose benchmarks by a part of their name.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main(chosen: list[str]) -> int:
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    for name in names:
        if chosen and not any(part in name for part in chosen):
            continue
        print(f"\n{name.removeprefix('bench_').replace('_', ' ')}", flush=True)
        figures: dict[str, float] = importlib.import_module(f"benchmarks.{name}").run()
        for label, value in figures.items():
            print(f"  {label:<58}{value:>14,.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
