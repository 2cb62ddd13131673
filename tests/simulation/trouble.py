"""Random faults between an operator and the API server, each for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.faults import (
    Cut,
    Gone,
    Lag,
    Late,
    LostAnswer,
    LostRequest,
    Refusal,
    Refused,
    Rule,
    SlowAnswer,
)

if TYPE_CHECKING:
    import random

WATCHED = ("pods", "services", "rayclusters.ray.io")
WRITES = frozenset({"create", "update", "patch", "delete"})
READS = frozenset({"get", "list", "watch"})
LONGEST_LAG = 15.0

REFUSALS = (
    Refusal(409, "Conflict"),
    Refusal(409, "AlreadyExists"),
    Refusal(429, "TooManyRequests", retry_after=1),
    Refusal(500, "InternalError"),
    Refusal(503, "ServiceUnavailable"),
    Refusal(504, "Timeout"),
)


def random_rule(rng: random.Random) -> Rule:
    """A fault of any kind, most of them striking now and then."""
    sometimes = rng.choice([0.05, 0.2, 0.5])

    def maybe(_name: str) -> bool:
        return rng.random() < sometimes

    watched = rng.choice(WATCHED)
    lost = rng.choice([LostAnswer(), LostRequest()])
    seconds = rng.uniform(0.1, 20.0)
    slow = rng.choice([Late(seconds), SlowAnswer(seconds)])
    unread = rng.choice([*REFUSALS[2:], LostRequest()])
    return rng.choice(
        [
            Rule(Lag(rng.uniform(0.1, LONGEST_LAG)), watched),
            Rule(Lag(rng.uniform(0.1, LONGEST_LAG)), watched),
            Rule(Cut(cleanly=rng.random() < 0.5), rng.choice(["", watched]), name=maybe),
            Rule(Gone(), rng.choice(["", watched]), name=maybe),
            Rule(rng.choice(REFUSALS), verbs=WRITES, name=maybe),
            Rule(lost, rng.choice(["", "pods"]), WRITES, name=maybe),
            Rule(lost, rng.choice(["", "pods"]), WRITES, name=maybe),
            Rule(slow, rng.choice(["", watched]), WRITES | {"get"}, name=maybe),
            Rule(unread, verbs=READS, name=maybe),
            Rule(Refused()),
        ]
    )
