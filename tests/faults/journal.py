"""Records what passed a faulty transport: requests with their outcomes, and events."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.attributes import Attributes, EventAttributes, attributes_of_event


@dataclass(slots=True)
class JournalEntry:
    """One request and its outcome.

    Attributes:
        number: position in the journal, from 0.
        attributes: verb, resource, namespace and name.
        outcome: the status as text; `pending`, `refused`, `lost request`, `lost answer`,
            `failed` (the inner transport raised) or `severed`.
        forwarded: whether it reached the inner transport.
        body: of the request.
    """

    number: int
    attributes: Attributes
    outcome: str = "pending"
    forwarded: bool = False
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DeliveredEvent:
    """One line of a watch that reached the client."""

    resource: str
    line: bytes

    @property
    def event(self) -> EventAttributes:
        """Its attributes; few tests ask for them."""
        return attributes_of_event(self.line)


@dataclass
class Journal:
    """Every request and every event that arrived, in order."""

    entries: list[JournalEntry] = field(default_factory=list[JournalEntry])
    events: list[DeliveredEvent] = field(default_factory=list[DeliveredEvent])

    @property
    def writes(self) -> list[JournalEntry]:
        """The requests that change something, in order."""
        return [entry for entry in self.entries if entry.attributes.writes]
