"""`make simulate`: as many examples as wanted, in shards of their own seeds, one process a core.

Without a seed a new one is chosen and printed. The first failure is shrunk, told, and ends it.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import structlog

from tests.simulation.examples import LIVES, try_examples
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import play

SHARD = 25


def main() -> int:
    """Parse, play, and say what came of it; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seed", type=int, default=None, help="of the first shard")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--of", choices=LIVES, default="rays", help="what the lives are about")
    parser.add_argument("--scenario", default="", help="JSON, or @FILE: play just this one")
    arguments = parser.parse_args()
    _prepare()
    if arguments.scenario:
        return _play_one(arguments.scenario)
    first = random.randrange(1 << 30) if arguments.seed is None else arguments.seed
    print(f"seed {first}", flush=True)
    return _play_all(first, arguments.examples, arguments.of)


def _play_one(text: str) -> int:
    if text.startswith("@"):
        text = Path(text[1:]).read_text()
    result = play(Scenario.from_json(text))
    print(*result.story, *result.violations, sep="\n")
    print(f"{result.transitions} transitions, digest {result.digest}")
    return 1 if result.violations else 0


def _play_all(first: int, examples: int, of: str) -> int:
    shards = [(first + number, min(SHARD, examples - start))
              for number, start in enumerate(range(0, examples, SHARD))]  # fmt: skip
    began = time.monotonic()
    played, seconds = 0, 0.0
    with ProcessPoolExecutor(os.cpu_count(), initializer=_prepare) as pool:
        futures = {pool.submit(try_examples, *shard, of): shard for shard in shards}
        for future in as_completed(futures):
            try:
                figures = future.result()
                print(f"seed {futures[future][0]}: {figures}", flush=True)
                played, seconds = played + figures.examples, seconds + figures.seconds
            except AssertionError as failure:
                print(failure, flush=True)
                pool.shutdown(cancel_futures=True)
                return 1
    print(
        f"{played} examples, {seconds / max(played, 1):.2f} s each, nothing wrong, in "
        f"{time.monotonic() - began:.0f} s; again: make simulate SEED={first} EXAMPLES={examples} "
        f"ARGS='--of={of}'"
    )
    return 0


def _prepare() -> None:
    """What operators log is of no interest here, and little of what a life makes lives longer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
