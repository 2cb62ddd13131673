"""What no plan of a rolling update may do, judged by the pods as the operator sees them.

Its view may be late. But what operators have taken is never available, whatever the view shows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from tests.simulation.rolling_wish import says_its_version
from tests.simulation.wishes import GroupWish, Wish


class Worker(Struct, frozen=True):
    """A worker in one view, and what the plan does to it.

    Attributes:
        unit: its multi-host replica, or its own name.
        edition: of the template that it was made from.
        taken: an operator has begun to drain it, or deleted it, whether the view shows it or not.
        drains: the plan begins to drain it.
        goes: the plan deletes it, and nothing but an update calls for that.
        lost: it has ended, or something else than an update calls for its end.
    """

    name: str
    unit: str
    edition: str
    ready: bool = True
    draining: bool = False
    terminating: bool = False
    taken: bool = False
    drains: bool = False
    goes: bool = False
    lost: bool = False

    @property
    def stays(self) -> bool:
        return not (self.draining or self.terminating or self.taken or self.drains or self.goes)

    @property
    def is_touched(self) -> bool:
        """Whether this plan begins to replace it."""
        return self.drains or (self.goes and not self.draining)


def lapses(
    wishes: Sequence[Wish], workers: Mapping[str, Sequence[Worker]], head_edition: str
) -> Iterator[str]:
    """Sentences about a plan.

    Args:
        wishes: of the generation that the operator sees, and all later ones.
        workers: by group.
        head_edition: of the head that runs, empty if there is none.
    """
    for group, members in workers.items():
        if any(worker.drains or worker.goes for worker in members):
            yield from _wrongly_touched(wishes, group, members)
            yield from _too_few_left(wishes, group, members)
            yield from _not_tried(wishes, group, members, head_edition)
    yield from _too_many_groups(wishes, workers)


def head_lapses(wishes: Sequence[Wish], workers: Mapping[str, Sequence[Worker]]) -> Iterator[str]:
    """Sentences about a plan that replaces an outdated head: it has to be the last.

    No update waits for a worker that an autoscaler has named, say.
    """
    for group, members in workers.items():
        if any(w.suspended or w.pods(group) == 0 for w in wishes):
            continue
        editions, staying = _editions(wishes, group), (w for w in members if w.stays and not w.lost)
        if old := [w.name for w in staying if w.edition not in editions]:
            yield f"the head goes before {old[0]}"


def _wrongly_touched(
    wishes: Sequence[Wish], group: str, members: Sequence[Worker]
) -> Iterator[str]:
    """Only outdated pods are replaced, and none while the update is paused."""
    rolls = [w for w in wishes if w.rolling and not w.rolling.paused and group in w.groups]
    least = min(_replicas(wish, group) for wish in wishes)
    new = {w.unit for w in members if w.stays and w.edition in _editions(wishes, group)}
    for worker in members:
        called_for = any(wish.edition(group) != worker.edition for wish in rolls)
        if worker.drains and not called_for:
            yield f"{worker.name} is drained, and nobody asked for that"
        is_new = all(wish.edition(group) == worker.edition for wish in wishes)
        chosen = worker.goes and not worker.draining and all(w.rolling for w in wishes)
        if chosen and is_new and len(new) < least:
            yield f"{worker.name} is up to date and goes, which leaves {len(new)} of {least}"


def _too_few_left(wishes: Sequence[Wish], group: str, members: Sequence[Worker]) -> Iterator[str]:
    """Nothing available is taken unless enough others are available."""
    least = min(_least(wish, group) for wish in wishes)
    whole = _whole_units(wishes, group, members)
    left = sum(all(worker.stays for worker in unit) for unit in whole)
    touched = [
        worker.name
        for unit in whole
        for worker in unit
        if worker.is_touched and not any(w.terminating or w.draining for w in unit)
    ]
    if touched and left < least:
        yield f"{touched[0]} is taken, which leaves {left} of {least} available"


def _not_tried(
    wishes: Sequence[Wish], group: str, members: Sequence[Worker], head_edition: str
) -> Iterator[str]:
    """Of an image whose version nobody knows, one pod has to show first that it can join.

    A scale-down takes what is beyond it, tried or not, and what lacks a host is of no use.
    """
    if any(
        group not in wish.groups
        or says_its_version(wish.edition(group))
        or _image(wish.edition(group)) == _image(head_edition)
        or _replicas(wish, group) == 0
        for wish in wishes
    ):
        return
    editions = _editions(wishes, group)
    # what has joined may have been lost since
    tried = any(w.edition in editions for w in members if w.ready)
    whole = itertools.chain.from_iterable(_whole_units(wishes, group, members))
    old = [worker for worker in whole if worker.edition not in editions]
    # a replica that drains goes whole, although not all of its hosts say so
    taken = {w.unit for w in old if w.is_touched} - {w.unit for w in old if w.draining}
    surplus = len({w.unit for w in old if w.stays} | taken) - min(
        _replicas(wish, group) for wish in wishes
    )
    in_place = max(wish.rolling is None or not _surge(wish, group) for wish in wishes)
    if not tried and len(taken) > max(surplus, in_place):
        yield f"{min(taken)} of {group} is taken before a pod of the new image has joined"


def _too_many_groups(
    wishes: Sequence[Wish], workers: Mapping[str, Sequence[Worker]]
) -> Iterator[str]:
    """Groups are replaced one after the other, or as many at a time as the settings say."""
    most = max(wish.rolling.parallel if wish.rolling else 0 for wish in wishes)
    leaving = {
        group
        for group, members in workers.items()
        if any(map(_is_leaving, _units(members).values()))
    }
    begun = {group for group, members in workers.items() if any(w.drains for w in members)}
    if begun and len(begun | leaving) > max(most, len(leaving)):
        yield f"groups {sorted(begun | leaving)} are replaced at a time, not {most}"


def _whole_units(
    wishes: Sequence[Wish], group: str, members: Sequence[Worker]
) -> list[list[Worker]]:
    """The units all of whose hosts are ready."""
    hosts = min(w.groups[group].hosts for w in wishes if group in w.groups)
    units = _units(members).values()
    return [u for u in units if len(u) >= hosts and all(w.ready for w in u)]


def _units(members: Sequence[Worker]) -> Mapping[str, list[Worker]]:
    units: defaultdict[str, list[Worker]] = defaultdict(list)
    for worker in members:
        units[worker.unit].append(worker)
    return units


def _is_leaving(unit: Sequence[Worker]) -> bool:
    """Whether it is being drained; when one host goes, all of it does."""
    return any(w.draining for w in unit) and not any(w.terminating or w.lost for w in unit)


def _editions(wishes: Sequence[Wish], group: str) -> set[str]:
    return {wish.edition(group) for wish in wishes}


def _image(edition: str) -> str:
    return edition.partition(" ")[0]


def _wanted(wish: Wish, group: str) -> GroupWish | None:
    """The group, if it should have any pods."""
    return wish.groups[group] if wish.pods(group) else None


def _replicas(wish: Wish, group: str) -> int:
    wanted = _wanted(wish, group)
    return wanted.replicas if wanted else 0


def _surge(wish: Wish, group: str) -> int:
    wanted = _wanted(wish, group)
    return wish.rolling.surge_of(wanted.replicas) if wish.rolling and wanted else 0


def _least(wish: Wish, group: str) -> int:
    """How many units have to be available."""
    wanted = _wanted(wish, group)
    if wish.rolling is None or wanted is None:
        return 0
    return wanted.replicas - wish.rolling.unavailable_of(wanted.replicas)
