"""On whose behalf objects were written: the ledger's index by owner (EXP-8, EXP-29).

An owner is one object with one uid. A namesake that comes later has an account of its own, and
when an owner is gone nothing of it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from informers import is_older

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controller.kube.resources import Resource
    from controller.runtime.expectations.overlay import Reference
    from controller.runtime.reconcile.kind import LogText
    from controller.runtime.reconcile.plan import LiveList, LogTail, Member


MOST_BEGUN: Final = 1024
"""Unfinished units remembered for one owner at most: more than any plan has in hand. What is left
of units that failed half-way is forgotten first."""

MOST_LOGS: Final = 8
"""Tails of logs that are kept for one owner; the oldest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf something is written, and which key of which controller then wakes."""

    uid: str
    key: str
    controller: str
    terminating: bool = False

    @property
    def namespace(self) -> str:
        """Namespace of the owner, empty if it is cluster-scoped."""
        return self.key.rpartition("/")[0]


@dataclass(slots=True)
class Account:
    """What is kept of one owner.

    Attributes:
        namespace: where it and its children live.
        owners: the same object as each controller knows it, by controller.
        entries: objects with entries in the ledger.
        revisions: newest revision observed of each resource.
        lists: live lists that were answered; nothing of their resource was made since.
        logs: tails of logs that were read.
        begun: units of which some members were made and not yet all, with their number.
    """

    namespace: str
    owners: dict[str, Owner] = field(default_factory=dict[str, Owner])
    entries: dict[Reference, None] = field(default_factory=dict["Reference", None])
    revisions: dict[Resource[Any], str] = field(default_factory=dict["Resource[Any]", str])
    lists: set[LiveList] = field(default_factory=set["LiveList"])
    logs: dict[LogTail, LogText] = field(default_factory=dict["LogTail", "LogText"])
    begun: dict[str, int] = field(default_factory=dict[str, int])

    def note_revision(self, resource: Resource[Any], revision: str) -> str:
        """The newest revision observed, this one included; it never goes back."""
        known = self.revisions.get(resource)
        if known is None or is_older(known, revision):
            self.revisions[resource] = known = revision
        return known

    def will_make(self, resource: Resource[Any]) -> None:
        """Something of `resource` is about to be made: what was listed live counts no more."""
        self.lists = {known for known in self.lists if known.resource is not resource}

    def keep_log(self, lookup: LogTail, text: LogText) -> None:
        """The answer to a lookup."""
        self.logs[lookup] = text
        if len(self.logs) > MOST_LOGS:
            del self.logs[next(iter(self.logs))]

    def has_made(self, member: Member) -> None:
        """A member of a unit exists; a complete unit need not be remembered."""
        self.begun.pop(member.unit, None)
        if member.position + 1 < member.size:
            self.begun[member.unit] = member.position + 1
        if len(self.begun) > MOST_BEGUN:
            del self.begun[next(iter(self.begun))]


class Accounts:
    """All owners for which the ledger has anything to keep."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Account] = {}
        self._uid_of: dict[tuple[str, str], str] = {}

    def enter(self, owner: Owner) -> list[Reference]:
        """Open the account of an owner.

        Returns:
            Objects of a namesake whose account was closed.
        """
        name = (owner.controller, owner.key)
        released: list[Reference] = []
        if self._uid_of.get(name, owner.uid) != owner.uid:
            released = self.leave(owner.controller, owner.key)
        self._uid_of[name] = owner.uid
        account = self._by_uid.setdefault(owner.uid, Account(owner.namespace))
        account.owners[owner.controller] = owner
        return released

    def leave(self, controller: str, key: str) -> list[Reference]:
        """Close the account of an owner that is gone, unless another controller knows it still.

        Returns:
            The objects that had entries for it.
        """
        uid = self._uid_of.pop((controller, key), "")
        account = self._by_uid.get(uid)
        if account is None:
            return []
        account.owners.pop(controller, None)
        if account.owners:
            return []
        del self._by_uid[uid]
        return list(account.entries)

    def get(self, uid: str) -> Account | None:
        """The account of the owner with that uid."""
        return self._by_uid.get(uid)

    def those(self, uids: Iterable[str]) -> list[Account]:
        """The accounts of those owners that still have one."""
        found = (self._by_uid.get(uid) for uid in uids)
        return [account for account in found if account is not None]

    def all(self) -> Collection[Account]:
        """All accounts."""
        return self._by_uid.values()
