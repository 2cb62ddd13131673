"""The facts about a model that is not in the catalogue, read from Hugging Face.

The server is not trusted: redirects are followed within it only, so that no token goes elsewhere,
and answers are bounded. Proxy variables of the environment are ignored.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec
from yarl import URL

from controller.apimachinery.custom_object import mapping
from controller.kaito.api.status import cut
from controller.kaito.lookups.background import (
    BackgroundLookups,
    LookupFailed,
    LookupLimits,
    LookupState,
)
from controller.kaito.lookups.benchmark import BenchmarkLog, Measurement, read_benchmark
from controller.kaito.presets.models import (
    Model,
    NotServable,
    WeightFile,
    is_repository,
    model_from_files,
)
from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.kube.http import aiohttp, plain_session, read_body
from controller.kube.objects import secret_text
from controller.kube.resources import SECRETS
from controller.runtime.plan import ExternalCommand, Subscription
from informers import Clock

_MOST_REDIRECTS: Final = 3
UNAVAILABLE: Final = "ModelMetadataUnavailable"


class Document(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        body: empty unless the status is 200.
        retry_after: seconds to wait before the next request, as the server asked.
        is_part: whether the server has more than this page.
    """

    status: int
    body: bytes = b""
    retry_after: float = 0.0
    is_part: bool = False


class WebReader:
    """Reads documents of one server. To be used and closed in one running event loop."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._origin = URL(self._address).origin()
        self._tls = ssl.create_default_context()
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, *, token: str = "", limit: int) -> Document:
        """Read one document.

        Raises:
            LookupFailed: the server cannot be reached, sends too much, or redirects elsewhere.
        """
        url = URL(f"{self._address}{path}", encoded=True)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        for _ in range(1 + _MOST_REDIRECTS):
            found = await self._exchange(url, headers, limit)
            if isinstance(found, Document):
                return found
            url = found
        raise LookupFailed(UNAVAILABLE, f"{self._origin.host} redirects again and again")

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        self._session = self._session or plain_session(self._tls)
        return self._session

    async def _exchange(self, url: URL, headers: dict[str, str], limit: int) -> Document | URL:
        """Return the answer, or the address to which it redirects."""
        host = self._origin.host
        try:
            async with self._opened().get(url, headers=headers, allow_redirects=False) as answer:
                location = answer.headers.get("location", "")
                if 300 <= answer.status < 400 and location:
                    return self._redirected(url, location)
                body = await read_body(answer, limit) if answer.status == HTTPStatus.OK else b""
                if body is None:
                    raise LookupFailed(UNAVAILABLE, f"{host} sends more than {limit} bytes")
                return Document(
                    answer.status,
                    body,
                    _seconds(answer.headers.get("retry-after", "")),
                    is_part="next" in answer.links,
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            message = cut(f"{host} cannot be reached: {error or type(error).__name__}")
            raise LookupFailed(UNAVAILABLE, message) from None

    def _redirected(self, url: URL, location: str) -> URL:
        """Return the address of another path of the same server; refuse another server."""
        other = url.join(URL(location))
        if other.origin() != self._origin:
            raise LookupFailed(UNAVAILABLE, f"{self._origin.host} redirects to another server")
        return other


def _seconds(text: str) -> float:
    """Return the value of `Retry-After`; 0 if it is a date or anything else."""
    return float(text) if text.isdecimal() and len(text) < 7 else 0.0


# Source of addresses and keys: kaito-project/kaito at 056b8280,
# presets/workspace/generator/generator.go, presets/workspace/models/vllm_model.go.
_TOKEN_KEY: Final = "HF_TOKEN"  # noqa: S105  a key, not a token
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,512}")
_MOST_FILES: Final = 4 << 20
_MOST_CONFIG: Final = 2 << 20
"""Maximum bytes of the list of files, and of a configuration."""

_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
NOT_SERVABLE: Final = "ModelNotSupported"


@dataclass(frozen=True, slots=True)
class ModelMetadata(Subscription):
    """A model whose facts are wanted.

    Facts to which a Secret gives access are a question of their own, whose answer is shown only to
    Workspaces with that Secret.

    Attributes:
        model: its id in lower case.
        secret: name of the Secret with a token; empty without one.
    """

    model: str
    namespace: str = ""
    secret: str = ""


class HuggingFace:
    """Reads the facts about models. A token is read when it is needed and never stored."""

    def __init__(self, reader: WebReader, client: Client) -> None:
        self._reader = reader
        self._client = client

    async def __call__(self, wanted: ModelMetadata) -> Model:
        """Return the model.

        Raises:
            LookupFailed: it cannot be read, or cannot be served.
        """
        name = wanted.model
        if not is_repository(name):
            raise LookupFailed(NOT_SERVABLE, cut(f"{name} is no id of a model on Hugging Face"))
        token, doubt = await self._token(wanted) if wanted.secret else ("", "")
        try:
            files = _weight_files(await self._files(name, token))
            is_mistral = any("consolidated" in each.path for each in files)
            config = await self._config(name, token, is_mistral=is_mistral)
        except _Refused as error:
            raise LookupFailed(UNAVAILABLE, _refusal(name, error.status, wanted, doubt)) from None
        try:
            return model_from_files(name, files, config)
        except NotServable as error:
            raise LookupFailed(NOT_SERVABLE, cut(str(error))) from None

    async def _files(self, name: str, token: str) -> object:
        path = f"/api/models/{name}/tree/main?recursive=true"
        found = await self._reader.get(path, token=token, limit=_MOST_FILES)
        _check(found, f"the files of {name}")
        if found.is_part:
            raise LookupFailed(NOT_SERVABLE, f"{name} has more files than are listed at once")
        return _json(found.body, f"the list of files of {name}")

    async def _config(self, name: str, token: str, *, is_mistral: bool) -> dict[str, Any]:
        """Return `config.json`, or `params.json` of Mistral's own format if there is no other."""
        for file in ("config.json", "params.json"):
            path = f"/{name}/resolve/main/{file}"
            found = await self._reader.get(path, token=token, limit=_MOST_CONFIG)
            if found.status != HTTPStatus.NOT_FOUND or not is_mistral:
                break
        what = f"{file} of {name}"
        _check(found, what)
        config = mapping(_json(found.body, what))
        if not config:
            raise LookupFailed(NOT_SERVABLE, f"{what} describes no model")
        return config

    async def _token(self, wanted: ModelMetadata) -> tuple[str, str]:
        """Return the token, or why there is none; public models need none."""
        name = f"Secret {wanted.secret}"
        try:
            secret = await self._client.get_raw(SECRETS, wanted.namespace, wanted.secret)
        except KubeError as error:
            return "", cut(f"{name} cannot be read: {error}")
        token = secret_text(secret, _TOKEN_KEY)
        if _TOKEN.fullmatch(token):
            return token, ""
        return "", f"{name} has no token under the key {_TOKEN_KEY}"


class _Refused(Exception):  # noqa: N818  an answer
    """The server asks for a token, or for another one."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def _check(found: Document, what: str) -> None:
    """Raise `_Refused` if a token is asked for, `LookupFailed` without a document."""
    if found.status == HTTPStatus.OK:
        return
    if found.status in _REFUSED:
        raise _Refused(found.status)
    if found.status == HTTPStatus.NOT_FOUND:
        message = f"Hugging Face does not have {what}"
    else:
        message = f"Hugging Face answers with status {found.status} when asked for {what}"
    raise LookupFailed(UNAVAILABLE, cut(message), found.retry_after)


def _refusal(name: str, status: int, wanted: ModelMetadata, doubt: str) -> str:
    if doubt:
        remedy = doubt
    elif wanted.secret:
        remedy = f"accept its terms with the account whose token Secret {wanted.secret} holds"
    else:
        remedy = (
            "if it is gated, name a Secret with a token under the key HF_TOKEN in "
            "presetOptions.modelAccessSecret"
        )
    return f"Hugging Face refuses to show {name} (status {status}), or does not have it: {remedy}"


def _json(body: bytes, what: str) -> object:
    """Return the content of a document; numbers that JSON does not have count as missing."""
    try:
        return json.loads(body, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        raise LookupFailed(UNAVAILABLE, cut(f"{what}: the answer is not JSON")) from None


def _weight_files(listed: object) -> list[WeightFile]:
    """Return the files of a repository."""
    try:
        return msgspec.convert(listed, list[WeightFile])
    except msgspec.ValidationError:
        raise LookupFailed(UNAVAILABLE, "Hugging Face lists files in an unknown form") from None


class WorkspaceLookups:
    """Asks the questions that plans of Workspaces subscribe to; without a hub, of no model."""

    def __init__(self, client: Client, clock: Clock, hub: WebReader | None = None) -> None:
        self._hub = hub
        read = partial(read_benchmark, client)
        self._benchmarks = BackgroundLookups(read, clock, LookupLimits())
        ask = HuggingFace(hub, client) if hub is not None else _ask_nobody
        limits = LookupLimits(concurrency=4, longest_pause=600.0)
        self._models = BackgroundLookups(ask, clock, limits)

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` with each key whose answer is new."""
        self._benchmarks.start(enqueue)
        self._models.start(enqueue)

    def sync(self, key: str, subscriptions: tuple[BenchmarkLog | ModelMetadata, ...]) -> None:
        """Replace the questions of a key."""
        self._benchmarks.sync(key, (q for q in subscriptions if isinstance(q, BenchmarkLog)))
        self._models.sync(key, (q for q in subscriptions if isinstance(q, ModelMetadata)))

    def submit(self, key: str, commands: tuple[ExternalCommand, ...]) -> None:
        """Do nothing: there are no commands."""

    async def aclose(self) -> None:
        """Stop asking."""
        await self._benchmarks.aclose()
        await self._models.aclose()
        if self._hub is not None:
            await self._hub.aclose()

    def benchmark(self, log: BenchmarkLog) -> LookupState[Measurement] | None:
        """Return the measurement in a log; None before it was read."""
        return self._benchmarks.state(log)

    def model(self, wanted: ModelMetadata) -> LookupState[Model] | None:
        """Return the facts about a model; None before it was asked for."""
        return self._models.state(wanted)


async def _ask_nobody(_wanted: ModelMetadata) -> Model:
    raise LookupFailed(UNAVAILABLE, "Hugging Face is not asked")
