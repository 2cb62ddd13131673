"""A client of a model server: OpenAI's `/v1/models` and `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.command.development.demos.steps import StepFailed
from controller.kube.errors import StatusError
from controller.kube.resources import SERVICES

if TYPE_CHECKING:
    from controller.kube.client import Client

_PORT: Final = 80
_PAUSE: Final = 0.2  # seconds until a service whose pods are not known yet is asked again


class ChatFailed(StepFailed):
    """The server refused a request, or said something unexpected."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Message(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class ChatClient:
    """Asks the server behind a service, through the API server.

    Args:
        user: who asks.
        namespace: namespace of the service.
        service: its name.
    """

    def __init__(self, user: Client, namespace: str, service: str) -> None:
        self._user = user
        self._namespace = namespace
        self._service = service

    async def models(self) -> list[str]:
        """Return the names of the served models, as soon as the service leads to a ready pod.

        Raises:
            ChatFailed: the answer is not a list of models.
        """
        while True:
            try:
                body = await self._send("GET", "/v1/models")
            except StatusError:
                await asyncio.sleep(_PAUSE)
            else:
                break
        if served := [each.id for each in _decoded(body, _Models).data]:
            return served
        raise ChatFailed("the model server serves no model")

    async def ask(self, model: str, question: str) -> str:
        """Return the answer of a model.

        Raises:
            ChatFailed: there is none.
            controller.kube.errors.KubeError: the server cannot be reached.
        """
        request = {"model": model, "messages": [{"role": "user", "content": question}]}
        body = await self._send("POST", "/v1/chat/completions", request)
        choices = _decoded(body, _Completion).choices
        if not choices:
            raise ChatFailed("the model server gave no answer")
        return choices[0].message.content

    async def _send(self, method: str, path: str, body: Any = None) -> bytes:
        answer = await self._user.proxy(
            SERVICES,
            self._namespace,
            f"{self._service}:{_PORT}",
            method,
            path,
            headers={"content-type": "application/json"},
            body=msgspec.json.encode(body) if body is not None else None,
        )
        if not answer.ok:
            raise ChatFailed(f"{path} was answered with {answer.status}: {answer.body[:200]!r}")
        return answer.body


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ChatFailed(f"the model server answered {body[:200]!r}: {error}") from error
