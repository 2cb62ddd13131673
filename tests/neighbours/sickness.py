"""The rows: what a sickness is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TypeAlias

from msgspec import Struct

from controller.ray.settings import CERT_MANAGER
from tests.neighbours.kinds import Column
from tests.neighbours.neighbourhood import Tenant

Course: TypeAlias = Callable[
    [Tenant], AbstractAsyncContextManager[None] | AbstractContextManager[None]
]


REQUESTS = 60
"""Requests for each key in ten minutes of any failure, at most."""

UPGRADES, FLEETS = frozenset({"RollingUpdate"}), frozenset({"RayClusterFleet"})
WORKSPACES = frozenset({"Workspace"})
POOLS = frozenset({"NodePool"})
KAITO = WORKSPACES | {"InferenceSet"}
"""Kinds without pods of Ray."""


def unless_it_serves(named: str) -> Mapping[str, str]:
    """What every kind must say but RayServices: their head is there, and serves alone."""
    return dict.fromkeys(("RayCluster", "RayClusterFleet", "RayJob", "RayCronJob"), named)


_REASON = re.compile(r"^[A-Z][A-Za-z]+\.\*")


class Sickness(Struct, frozen=True, kw_only=True):
    """One row of the table.

    Attributes:
        course: makes the tenant sick, and ends it when it is left.
        named: regular expression for what a condition, status or event must say, cause and
            remedy; by kind if kinds differ. Empty: nothing has to be said.
        only: kinds or columns that can have it; all, if empty.
        spares: columns that cannot have it.
        late: whether it befalls what was well before, instead of what is created in it.
        everywhere: the reason why it concerns everybody: the operator may be unready, and the
            healthy tenant is looked at only when it has ended.
        lingers: seconds for which it has an effect after its end: requests that still hang.
        crowd: how many objects the sick tenant has.
        requests: requests for each key at most, besides those that build the object.
        slow: whether its cells are left to `make test-all`.
        mtls_issuer: who issues certificates of clusters with mTLS.
    """

    name: str
    course: Course
    named: str | Mapping[str, str] = ""
    only: frozenset[str] = frozenset()
    spares: frozenset[str] = frozenset()
    late: bool = False
    everywhere: str = ""
    lasts: float = 600.0
    lingers: float = 0.0
    crowd: int = 1
    requests: int = REQUESTS
    slow: bool = False
    mtls_issuer: str = CERT_MANAGER

    def concerns(self, column: Column) -> bool:
        """Whether this kind can have it."""
        names = {str(column), column.resource.kind}
        return not names & self.spares and (not self.only or bool(names & self.only))

    def is_named_in(self, texts: list[str], column: Column) -> bool:
        """Whether one of the texts says what must be said."""
        pattern = self.pattern(column)
        return not pattern or any(re.search(pattern, text, re.DOTALL) for text in texts)

    def pattern(self, column: Column) -> str:
        """What must be said about this kind."""
        named = self.named
        if not isinstance(named, str):
            named = named.get(str(column), named.get(column.resource.kind, ""))
        return named if column.has_own_reasons else _REASON.sub("", named)
