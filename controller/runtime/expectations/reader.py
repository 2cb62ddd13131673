"""What `observe` gets: the caches, overlaid with what this process did (`kind.Reads`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from controller.kube.objects import KubeObject
from controller.runtime.expectations.overlay import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.resources import Resource
    from controller.runtime.expectations.create_errors import Refusals
    from controller.runtime.expectations.overlay import Entry, Overlays
    from controller.runtime.expectations.owners import Accounts
    from controller.runtime.reconcile.kind import LogText, Refusal
    from controller.runtime.reconcile.plan import LiveList, LogTail

T = TypeVar("T", bound=KubeObject)


class OverlaidReads:
    """Implements `kind.Reads` over the ledger's overlays.

    An observation costs O(objects read + entries of the owner).
    """

    def __init__(self, overlays: Overlays, accounts: Accounts, refusals: Refusals) -> None:
        self._overlays = overlays
        self._accounts = accounts
        self._refusals = refusals

    def get(self, resource: Resource[T], key: str) -> T | None:
        """The newest object known under `key`.

        Raises:
            NotCached: nobody watches it.
        """
        return self._overlays.of(resource).get(key)

    def serves(self, resource: Resource[Any]) -> bool:
        """Whether anybody watches it: what is not served cannot be watched."""
        return self._overlays.of(resource).watched

    def by_index(self, resource: Resource[T], index: str, value: str) -> list[T]:
        """All newest objects whose index function gives `value`, in no particular order.

        Raises:
            NotCached: nobody watches it.
            KeyError: there is no such index.
        """
        return self._overlays.of(resource).by_index(index, value)

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        """Newest revision observed, of the store or of an answer; it never comes back.

        After a reset of the server's revisions it carries the number of the reset in front.
        """
        overlay = self._overlays.of(resource)
        account = self._accounts.get(owner_uid)
        newest = overlay.cache_of(account.namespace if account else "").resource_version
        if account is not None:
            newest = account.note_revision(resource, newest)
        return f"{overlay.era}.{newest}" if overlay.era else newest

    def unsettled_scopes(self, owner_uid: str) -> frozenset[str]:
        """Scopes of this owner with a write of unknown outcome or a blocking doubt."""
        return frozenset(entry.scope for entry in self._unsettled(owner_uid))

    def unsettled_resources(self, owner_uid: str) -> frozenset[Resource[Any]]:
        """Resources of the writes that `unsettled_scopes` is about."""
        return frozenset(entry.reference.resource for entry in self._unsettled(owner_uid))

    def is_taken(self, resource: Resource[Any], key: str) -> bool:
        """Whether a create met somebody else's object of this name."""
        entry = self._overlays.of(resource).entry(key)
        return entry is not None and entry.taken

    def refusal(self, resource: Resource[Any], key: str) -> Refusal | None:
        """The last refusal to create an object of this name, until one succeeds."""
        return self._refusals.get(Reference(resource, key))

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        """Whether a lookup found nothing under this name."""
        entry = self._overlays.of(resource).entry(key)
        return entry is not None and entry.absent

    def has_listed(self, lookup: LiveList, owner_uid: str) -> bool:
        """Whether that list was answered and nothing of its resource was made since."""
        account = self._accounts.get(owner_uid)
        return account is not None and lookup in account.lists

    def log_tail(self, lookup: LogTail, owner_uid: str) -> LogText | None:
        """The answer to that lookup, None as long as it was not made."""
        account = self._accounts.get(owner_uid)
        return account.logs.get(lookup) if account is not None else None

    def begun_units(self, owner_uid: str) -> Mapping[str, int]:
        """Units that this process is making, with the number of members made so far."""
        account = self._accounts.get(owner_uid)
        return dict(account.begun) if account is not None else {}

    def unreadable(self, resource: Resource[Any], namespace: str) -> dict[str, str]:
        """Names of objects that exist and do not fit their type, with the reasons."""
        return self._overlays.of(resource).unreadable(namespace)

    def doubts(self, owner_uid: str) -> tuple[str, ...]:
        """Sentences about this owner's objects that are not as they should be, sorted."""
        sentences: list[str] = []
        for entry in self._entries(owner_uid):
            if entry.kept:
                sentences.append(f"{entry.reference} exists but is not in the watched selection")
            if entry.doubt:
                sentences.append(entry.doubt)
        return tuple(sorted(sentences))

    def _entries(self, owner_uid: str) -> list[Entry[Any]]:
        account = self._accounts.get(owner_uid)
        references = account.entries if account is not None else ()
        found = (self._overlays.entry(reference) for reference in references)
        return [entry for entry in found if entry is not None]

    def _unsettled(self, owner_uid: str) -> list[Entry[Any]]:
        return [
            entry
            for entry in self._entries(owner_uid)
            if entry.writer == owner_uid and (entry.write is not None or entry.blocking)
        ]
