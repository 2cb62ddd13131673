"""The facts about a model, read from what stands in for Hugging Face."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from controller.kaito.lookups.background import Answered, LookupFailed, Unanswered
from controller.kaito.lookups.huggingface import (
    Document,
    HuggingFace,
    ModelMetadata,
    WorkspaceLookups,
)
from controller.kube.client import Client
from controller.kube.errors import NotSent
from controller.kube.resources import Resource
from tests.kaito.lookups.hub import TREE, FakeHub, document

PUBLIC = ModelMetadata("some/model")
GATED = ModelMetadata("a/b", "default", "token")
TOKEN = "hf_0123456789abcdef"
OTHER = "hf_of-another-namespace"


class Secrets:
    """A client that reads Secrets: their data by `namespace/name`, None for one that is missing."""

    def __init__(self, **tokens: str | None) -> None:
        self.tokens = {name.replace("_", "/"): token for name, token in tokens.items()}
        self.read: list[str] = []

    async def get_raw(self, resource: Resource[Any], namespace: str, name: str) -> dict[str, Any]:
        assert resource.plural == "secrets"
        self.read.append(f"{namespace}/{name}")
        token = self.tokens.get(f"{namespace}/{name}")
        if token is None:
            raise NotSent("no connection")
        return {"data": {"HF_TOKEN": base64.b64encode(token.encode()).decode()}}


def hugging_face(hub: FakeHub, secrets: Secrets | None = None) -> HuggingFace:
    client: Client = secrets or Secrets()  # type: ignore[assignment]
    return HuggingFace(hub, client)  # type: ignore[arg-type]


async def refusal(
    hub: FakeHub, wanted: ModelMetadata = PUBLIC, **tokens: str | None
) -> LookupFailed:
    with pytest.raises(LookupFailed) as raised:
        await hugging_face(hub, Secrets(**tokens))(wanted)
    return raised.value


async def test_a_model_is_read_with_two_requests_and_no_token():
    hub = FakeHub()
    model = await hugging_face(hub)(PUBLIC)
    assert (model.name, model.weights, model.layers) == ("some/model", "2.00Gi", 22)
    assert hub.asked == [
        ("/api/models/some/model/tree/main?recursive=true", ""),
        ("/some/model/resolve/main/config.json", ""),
    ]


async def test_mistrals_own_format_has_another_configuration():
    params = {"dim": 4096, "n_layers": 32, "n_heads": 32}
    tree = [{"path": "consolidated.safetensors", "size": 1 << 30}]
    hub = FakeHub({"tree/main": document(tree), "params.json": document(params)})
    model = await hugging_face(hub)(PUBLIC)
    assert (model.hidden_size, model.load_format) == (4096, "mistral")
    hub = FakeHub({"tree/main": document(TREE), "params.json": document(params)})
    assert "does not have config.json" in str(await refusal(hub))


@pytest.mark.parametrize("name", ["../secret", "a/b/../../c", "a/b?x=y", "a/b%2e", "no-slash"])
async def test_what_is_no_id_is_never_asked_for(name: str):
    hub = FakeHub()
    error = await refusal(hub, ModelMetadata(name, "default", "token"), default_token=TOKEN)
    assert error.reason == "ModelNotSupported"
    assert hub.asked == []


@pytest.mark.parametrize(
    ("where", "answer", "reason", "message"),
    [
        ("tree", Document(404), "ModelMetadataUnavailable", "does not have the files of some/mod"),
        ("config", Document(404), "ModelMetadataUnavailable", "does not have config.json"),
        ("tree", Document(500), "ModelMetadataUnavailable", "status 500"),
        ("tree", Document(200, b"<html>sign in</html>"), "ModelMetadataUnavailable", "not JSON"),
        ("config", Document(200, b"\xff\xfe"), "ModelMetadataUnavailable", "not JSON"),
        ("config", Document(200, b"[" * 500_000), "ModelMetadataUnavailable", "not JSON"),
        ("config", Document(200, b"1" * 5000), "ModelMetadataUnavailable", "not JSON"),
        ("tree", Document(200, b""), "ModelMetadataUnavailable", "not JSON"),
        ("tree", document({"error": "x"}), "ModelMetadataUnavailable", "in an unknown form"),
        ("tree", document([{"path": 5}]), "ModelMetadataUnavailable", "in an unknown form"),
        ("tree", document([]), "ModelNotSupported", "weights of 0.00Gi"),
        ("tree", Document(200, b"[]", is_part=True), "ModelNotSupported", "more files"),
        ("config", document([]), "ModelNotSupported", "describes no model"),
        ("config", document({"architectures": ["X"]}), "ModelNotSupported", "unsupported model"),
    ],
)
async def test_what_is_no_answer_is_said(where: str, answer: Document, reason: str, message: str):
    hub = FakeHub(fault=lambda path, _token: answer if where in path else None)
    error = await refusal(hub)
    assert error.reason == reason
    assert message in str(error)
    assert len(str(error)) < 400


async def test_a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks_for():
    hub = FakeHub(fault=lambda _path, _token: Document(429, retry_after=300.0))
    error = await refusal(hub)
    assert error.retry_after == 300
    assert "status 429" in str(error)


# tokens


@pytest.mark.parametrize(
    ("wanted", "tokens", "message"),
    [
        (PUBLIC, {}, "name a Secret with a token under the key HF_TOKEN"),
        (GATED, {"default_token": TOKEN}, "accept its terms"),
        (
            ModelMetadata("a/b", "default", "token"),
            {},
            "Secret token cannot be read: no connection",
        ),
        (GATED, {"default_token": " "}, "has no token under"),
    ],
)
async def test_a_refusal_says_what_to_do_and_no_token(
    wanted: ModelMetadata, tokens: dict[str, str], message: str
):
    for status in (401, 403):
        hub = FakeHub(fault=lambda _path, _token, status=status: Document(status))  # type: ignore[misc]
        error = await refusal(hub, wanted, **tokens)
        assert message in str(error)
        assert TOKEN not in str(error)


@pytest.mark.parametrize("odd", ["a\r\nx-other: y", "a b", "tökén", "x" * 5000])
async def test_what_is_no_token_gets_into_no_header(odd: str):
    hub = FakeHub()
    await hugging_face(hub, Secrets(default_token=odd))(ModelMetadata("a/b", "default", "token"))
    assert {token for _, token in hub.asked} == {""}


async def test_what_a_token_opens_is_shown_to_no_other():
    hub = FakeHub(fault=lambda _path, token: None if token == TOKEN else Document(403))
    secrets = Secrets(mine_token=TOKEN, theirs_token=OTHER)
    lookups = WorkspaceLookups(secrets, asyncio.get_running_loop(), hub)  # type: ignore[arg-type]
    mine, theirs = (ModelMetadata("a/b", each, "token") for each in ("mine", "theirs"))
    lookups.sync("mine/a", (mine,))
    await asyncio.sleep(3)
    lookups.sync("theirs/a", (theirs,))
    lookups.sync("mine/b", (ModelMetadata("a/b"),))
    await asyncio.sleep(3)
    assert isinstance(lookups.model(mine), Answered)
    assert isinstance(lookups.model(theirs), Unanswered)
    assert isinstance(lookups.model(ModelMetadata("a/b")), Unanswered)
    await lookups.aclose()
    assert hub.closed


async def test_the_token_is_read_again_for_each_attempt():
    hub = FakeHub(fault=lambda _path, token: None if token == TOKEN else Document(403))
    secrets = Secrets(mine_token="hf_expired")
    lookups = WorkspaceLookups(secrets, asyncio.get_running_loop(), hub)  # type: ignore[arg-type]
    mine = ModelMetadata("a/b", "mine", "token")
    lookups.sync("mine/a", (mine,))
    await asyncio.sleep(5)
    secrets.tokens["mine/token"] = TOKEN
    await asyncio.sleep(20)
    assert isinstance(lookups.model(mine), Answered)
    assert secrets.read == ["mine/token"] * 2
    await lookups.aclose()
