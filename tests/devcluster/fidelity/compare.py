"""Compares two servers on one sequence, and makes a failing sequence short."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tests.devcluster.fidelity.known import KNOWN
from tests.devcluster.fidelity.run import Player, Seen
from tests.devcluster.fidelity.steps import Step

MAX_REPLAYS = 40


class Difference(Struct, frozen=True):
    """One step that two servers answered differently."""

    steps: Sequence[Step]
    index: int
    embedded: Seen
    real: Seen

    @property
    def step(self) -> Step:
        return self.steps[self.index]

    def __str__(self) -> str:
        before = "\n".join(f"    {step}" for step in self.steps[: self.index])
        lines = [f"after\n{before}", f"  {self.step}", "  embedded | real"]
        for name in ("status", "headers", "body", "events"):
            one, other = getattr(self.embedded, name), getattr(self.real, name)
            if one != other:
                lines += [f"  {name}: {line}" for line in side_by_side(one, other)]
        return "\n".join(lines)


def side_by_side(one: Any, other: Any, path: str = "") -> list[str]:
    """The places at which two JSON values differ, each with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = list(one) + [name for name in other if name not in one]
        lines = [side_by_side(one.get(k), other.get(k), f"{path}.{k}") for k in names]
        return [line for found in lines for line in found]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        lines = [side_by_side(left, right, f"{path}[{at}]") for at, (left, right) in pairs]
        return [line for found in lines for line in found]
    if one == other:
        return []
    return [f"{path}: {json.dumps(one)}", f"{' ' * len(path)}| {json.dumps(other)}"]


async def differences(
    steps: Sequence[Step], embedded: Player, real: Player, fired: Counter[str]
) -> list[Difference]:
    """All unknown differences between two servers on one sequence."""
    namespace = f"f-{uuid.uuid4().hex[:10]}"
    expected = await embedded.play(steps, namespace)
    found = await real.play(steps, namespace, expected)
    result: list[Difference] = []
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one == other:
            continue
        known = [known.name for known in KNOWN if known.holds(steps[index], one, other)]
        fired.update(known)
        if not known:
            result.append(Difference(steps, index, one, other))
    return result


async def shortened(
    difference: Difference, embedded: Player, real: Player, fired: Counter[str]
) -> Difference:
    """The same difference with as few steps before it as can be found quickly."""
    replays = 0
    index = 0
    while index < difference.index and replays < MAX_REPLAYS:
        steps = [*difference.steps[:index], *difference.steps[index + 1 : difference.index + 1]]
        replays += 1
        again = await differences(steps, embedded, real, fired)
        last = [one for one in again if one.index == len(steps) - 1]
        if last:
            difference = last[0]
        else:
            index += 1
    return difference
