"""What an operator can be held to know: its view of the pods never falls behind this.

It may be late. But it holds all that was there before it started, all that it has itself been told
by the answer to a write, and it never goes back in time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from controller.kube.objects import Pod
from controller.testing.faults import JournalEntry

NOTICED = 210.0
"""Seconds after a restore of the database until every operator knows of it."""

SUCCESS = frozenset({"200", "201"})


class Truth:
    """When each pod came and went, as the store has it, by name.

    Operators never use a name twice. `replaced` are those that a user has used again, or a create
    that arrived late, after its repetition: what is known by such a name is held against nobody.
    `known` are the names of pods of which an operator has ever heard: the create of another may be
    repeated when that pod has come and gone.
    """

    def __init__(self) -> None:
        self.replaced: set[str] = set()
        self.known: set[str] = set()
        self.came: dict[str, float] = {}
        self.went: dict[str, float] = {}

    def restored(self, names: Collection[str], now: float) -> None:
        """From now on the pods of these names are there again, and no others."""
        for name in self.came.keys() - names:
            self.went.setdefault(name, now)
        for name in names:
            self.went.pop(name, None)
        self.known.clear()


class Memory:
    """Of one operator process.

    Args:
        truth: as above.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, truth: Truth) -> None:
        self._loop = loop
        self._truth = truth
        self._started = loop.time()
        self._confused_until = 0.0
        self._told: dict[str, dict[str, float]] = {"create": {}, "delete": {}}
        self._shown: defaultdict[str, set[str]] = defaultdict(set)
        self._vanished: defaultdict[str, set[str]] = defaultdict(set)

    def begin(self) -> None:
        """It begins to lead: from now on it holds all that was there before."""
        self._started = self._loop.time()

    def forget(self) -> None:
        """Hold it to nothing of the past, which has not been, until it must have noticed that."""
        self._confused_until = self._loop.time() + NOTICED
        self._clear()

    def is_confused(self) -> bool:
        """Whether what it sees may be late and of either history, and so proves nothing later."""
        if self._loop.time() >= self._confused_until:
            return False
        self._clear()
        return True

    def _clear(self) -> None:
        self._started = float("-inf")
        for known in (*self._told.values(), self._shown, self._vanished):
            known.clear()

    def answered(self, entry: JournalEntry) -> None:
        about = entry.attributes
        if about.resource == "pods" and about.verb in self._told and entry.outcome in SUCCESS:
            self._told[about.verb].setdefault(about.name, self._loop.time())
            self._truth.known.add(about.name)

    def lapses(
        self, owner: str, present: Mapping[str, str], view: Mapping[str, Pod]
    ) -> Iterator[str]:
        """Sentences about what it ought to know of a cluster with these pods, and does not.

        Args:
            owner: uid of the cluster.
            present: owners of all pods that there are, by their names.
            view: the cluster's pods as the operator sees them, by name.
        """
        before = self._loop.time()
        self._truth.known |= view.keys()
        for name in present.keys() - view.keys() - self._truth.replaced:
            if present[name] != owner:
                continue
            if self._truth.came[name] < self._started:
                yield f"has never seen {name}, which is older than itself"
            elif self._told["create"].get(name, before) < before:
                yield f"does not see {name}, which it has made"
        for name, pod in view.items():
            if name in self._truth.replaced:
                continue
            if self._truth.went.get(name, before) < self._started:
                yield f"sees {name}, which had gone before it started"
            told = self._told["delete"].get(name, before) < before
            if told and not pod.metadata.terminating:
                yield f"does not know that it has deleted {name}"
            if name in self._vanished[owner]:
                yield f"sees {name} again, which it knew to have gone"
        self._vanished[owner] |= self._shown[owner] - view.keys()
        self._shown[owner] = set(view)
