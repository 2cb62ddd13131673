"""A fault of a scenario as a rule of the transport between an operator and the API server."""

from __future__ import annotations

from controller.testing.faults import (
    Cut,
    DelayedRequest,
    DelayedResponse,
    ErrorResponse,
    EventFault,
    Gone,
    Lag,
    LostRequest,
    LostResponse,
    Refused,
    RequestFault,
    Rule,
)
from tests.simulation import scenario
from tests.simulation.scenario import Webhook

WRITES = frozenset({"create", "update", "patch", "delete"})
ANY = frozenset[str]()
READS = frozenset({"get", "list", "watch"})

REFUSALS = {
    "409": ErrorResponse(409, "Conflict"),
    "already exists": ErrorResponse(409, "AlreadyExists"),
    "429": ErrorResponse(429, "TooManyRequests", retry_after=1),
    "500": ErrorResponse(500, "InternalError"),
    "503": ErrorResponse(503, "ServiceUnavailable"),
    "504": ErrorResponse(504, "Timeout"),
}

WEBHOOK_TIMEOUT = 10.0
"""Seconds that the API server waits for a webhook that names no time limit."""

CALL = 'failed calling webhook "policy.example.com": Post "https://10.0.3.7:443/?round={n}"'
WEBHOOKS = {
    "refuses": ErrorResponse(
        403, "Forbidden", 'admission webhook "policy.example.com" denied the request: trace {n}'
    ),
    "fails": ErrorResponse(
        500, "InternalError", f"Internal error occurred: {CALL}: dial tcp: connection refused"
    ),
    "hangs": ErrorResponse(
        500, "InternalError", f"Internal error occurred: {CALL}: context deadline exceeded"
    ),
}


class EveryNth:
    """True each so-manieth time it is asked."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._asked = 0

    def __call__(self, _name: str) -> bool:
        self._asked += 1
        return self._asked % self._number == 0


def rules_for(fault: scenario.Fault | scenario.Webhook) -> list[Rule]:
    """The rules; none for what the wire does: see `wire.py`."""
    if isinstance(fault, Webhook):
        return _webhook(fault)
    if fault.kind in {"straggling", "rewound"}:
        return []
    if fault.kind == "lag":  # of a part of the events would be a lag of all behind them
        return [Rule(Lag(fault.seconds), fault.resource)]
    what, verbs = _what(fault)
    return [Rule(what, fault.resource, verbs, name=EveryNth(fault.every))]


def _webhook(webhook: Webhook) -> list[Rule]:
    """One that hangs is given up after `WEBHOOK_TIMEOUT`."""
    verbs = frozenset({webhook.verb}) if webhook.verb else WRITES
    faults: list[RequestFault] = [WEBHOOKS[webhook.how]]
    if webhook.how == "hangs":
        faults.insert(0, DelayedRequest(WEBHOOK_TIMEOUT))
    return [Rule(fault, webhook.resource, verbs) for fault in faults]


def _what(fault: scenario.Fault) -> tuple[RequestFault | EventFault, frozenset[str]]:
    """What strikes, and which verbs."""
    kinds: dict[str, tuple[RequestFault | EventFault, frozenset[str]]] = {
        "cut": (Cut(cleanly=True), ANY),
        "reset": (Cut(), ANY),
        "gone": (Gone(), ANY),
        "refused": (Refused(), ANY),
        "lost request": (LostRequest(), WRITES),
        "lost answer": (LostResponse(), WRITES),
        "late": (DelayedRequest(fault.seconds), WRITES | {"get"}),
        "slow": (DelayedResponse(fault.seconds), WRITES | {"get"}),
        "unreadable": (REFUSALS["503"], READS),
    }
    return kinds.get(fault.kind) or (REFUSALS[fault.kind], WRITES)
