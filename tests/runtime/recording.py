"""A client and expectations that note every call: tests of what exactly is sent and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from controller.kube.objects import KubeObject
from controller.runtime.plan import Target
from tests.runtime.kit import OWNER


class RecordingClient:
    """Gives one response after the other; each may be an error.

    A request is a verb, its arguments and, if there are any, its options.
    """

    field_manager = "manta"

    def __init__(self, *responses: Any) -> None:
        self.responses = [*responses]
        self.requests: list[tuple[Any, ...]] = []
        self.on_silence: Any = None

    def for_flow(self, flow: str, on_silence: Any = None) -> RecordingClient:
        assert flow == OWNER.uid, "every request belongs to the owner's flow"
        self.on_silence = on_silence
        return self

    def __getattr__(self, verb: str) -> Any:
        async def request(*arguments: Any, **options: Any) -> Any:
            self.requests.append((verb, *arguments, *([options] if options else [])))
            await asyncio.sleep(0)
            response = self.responses.pop(0)
            if isinstance(response, BaseException):
                raise response
            return response

        return request


class _Kept:
    """Notes what is kept in it."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tell(key, value)


class RecordingExpectations:
    """Notes what it is told on behalf of the owner; `known` are the objects that caches show."""

    def __init__(self, known: Mapping[Target, KubeObject] | None = None) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.known = known or {}
        self.refuted = False
        self.create_errors: dict[Any, Any] = {}

    def record(self, uid: str) -> RecordingExpectations:
        assert uid == OWNER.uid
        return self

    @property
    def lists(self) -> Any:
        return SimpleNamespace(add=partial(self._tell, "list"))

    @property
    def logs(self) -> Any:
        return _Kept(partial(self._tell, "logs"))

    @property
    def failed_creates(self) -> Any:
        return _Kept(partial(self._tell, "failed_creates"))

    def is_refuted(self, _write: Any) -> bool:
        return self.refuted

    def peek(self, target: Target) -> KubeObject | None:
        return self.known.get(target)

    def _tell(self, name: str, *arguments: Any, **options: Any) -> None:
        rest = arguments[1:] if arguments[0] is OWNER else arguments
        self.told.append((name, *rest, *options.values()))

    def __getattr__(self, name: str) -> Any:
        return partial(self._tell, name)
