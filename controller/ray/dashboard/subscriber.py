"""Subscribers, which subscribe to probes and submit commands."""

from __future__ import annotations

from typing import NamedTuple


class Subscriber(NamedTuple):
    """One object of one controller.

    Attributes:
        controller: name of the controller.
        key: `namespace/name` of the object. Objects of two kinds may have the same key.
    """

    controller: str
    key: str
