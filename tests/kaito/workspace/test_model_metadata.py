"""Workspaces whose model is not in the catalogue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.kaito.api import labels
from controller.kaito.api.options import KaitoOptions
from controller.kaito.lookups.background import Answered, LookupState, Unanswered
from controller.kaito.lookups.huggingface import ModelMetadata
from controller.kaito.presets.models import Model, write_model
from controller.kaito.workspace.kind import WorkspaceKind
from tests.kaito.support import inference, tuning, workspace
from tests.kaito.workspace.given import Given, server, writes

NAME = "somebody/Some-Model"
MODEL = Model(
    name=NAME.lower(),
    weights="2.00Gi",
    architectures=("LlamaForCausalLM",),
    token_limit=4096,
    hidden_size=2048,
    layers=22,
    heads=32,
    kv_heads=4,
)
KNOWN = {labels.MODEL: write_model(MODEL)}
DOWN = Unanswered("ModelMetadataUnavailable", "huggingface.co cannot be reached")
OFFLINE = KaitoOptions(hugging_face="")


class Known:
    """What is known of questions: the same of each model."""

    def __init__(self, found: LookupState[Model] | None) -> None:
        self.found = found

    def model(self, wanted: ModelMetadata) -> LookupState[Model] | None:
        return self.found

    def benchmark(self, log: Any) -> None:
        return None


def given(
    found: LookupState[Model] | None = None,
    settings: KaitoOptions | None = None,
    **changes: Any,
) -> Given:
    made = Given(workspace(**{"inference": inference(NAME), **changes}), settings)
    made.kind = WorkspaceKind(settings, lookups=Known(found))  # type: ignore[arg-type]
    return made


def committed(made: Given) -> dict[str, str]:
    commit = made.plan().commit
    assert commit is not None
    return commit.patch["metadata"].get("annotations", {})  # type: ignore[union-attr, return-value]


def test_a_secret_is_asked_with_in_its_own_namespace():
    preset = {"name": NAME, "presetOptions": {"modelAccessSecret": "hf"}}
    made = given(inference={"preset": preset})
    assert made.plan().subscriptions == (
        ModelMetadata("somebody/some-model", namespace="default", secret="hf"),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"inference": inference("phi-4-mini-instruct")},
        {"inference": {"template": {"spec": {"containers": [{"name": "x"}]}}}},
        {"inference": inference("no-such-model")},
        {"tuning": tuning(), "inference": None},
        {"annotations": KNOWN},
    ],
    ids=["in the catalogue", "template", "invalid", "tuning", "known"],
)
def test_what_needs_no_look_up_is_not_asked_for(changes: dict[str, Any]):
    assert given(**changes).plan().subscriptions == ()


def test_the_facts_are_committed_before_anything_is_claimed():
    made = given(Answered(MODEL))
    assert committed(made) == KNOWN
    assert made.creates(made.plan(), "NodeClaim") == []


def test_a_failure_is_said_with_its_remedy():
    status, reason, message = given(DOWN).condition("ResourceReady")
    assert (status, reason) == ("False", "ModelMetadataUnavailable")
    assert message.startswith(
        "model somebody/Some-Model is not in the catalogue, and huggingface.co cannot be reached; "
        "the operator tries again; "
    )
    assert "annotation manta.dev/model" in message
    assert given(DOWN).plan().subscriptions != ()


def test_where_no_hub_may_be_asked_the_model_is_refused_with_the_remedy():
    made = given(settings=OFFLINE)
    status, reason, message = made.condition("ResourceReady")
    assert (status, reason) == ("False", "ModelMetadataOffline")
    assert "annotation manta.dev/model" in message
    assert made.plan().subscriptions == ()
    assert writes(made.plan())[0].target.resource.kind == "ControllerRevision"


def test_where_no_hub_may_be_asked_a_user_may_give_the_facts():
    facts = json.dumps({"name": NAME, "weights": "2Gi", "layers": 22, "heads": 32})
    made = given(settings=OFFLINE, annotations={labels.MODEL: facts})
    assert len(made.creates(made.plan(), "NodeClaim")) == 1


@pytest.mark.parametrize("text", ["", "{", "null", write_model(MODEL).replace("some-", "other-")])
def test_facts_of_another_model_are_looked_up_anew(text: str):
    made = given(Answered(MODEL), annotations={labels.MODEL: text})
    assert made.plan().subscriptions != ()
    assert committed(made) == KNOWN


# a Workspace that serves already


def test_while_nothing_is_known_of_a_model_its_claims_and_its_server_stay():
    made = given(DOWN, status={"targetNodeCount": 1, "state": "Ready"})
    made.with_nodes().with_revision().with_services().with_server(server())
    plan = made.plan()
    assert writes(plan) == []
    assert labels.NODE_CLAIMS not in committed(made)
    assert made.state == "Ready"
    assert made.condition("ResourceReady")[0] == "True"


def test_a_server_that_is_not_there_waits_for_the_facts():
    made = given(DOWN, status={"targetNodeCount": 1}).with_nodes().with_revision()
    assert made.creates(made.plan(), "StatefulSet") == []
    assert made.condition("InferenceReady")[1] == "ModelMetadataUnavailable"


def test_what_the_runtime_cannot_serve_is_refused_once_the_model_is_known():
    annotations = {**KNOWN, labels.RUNTIME: "transformers"}
    message = given(annotations=annotations).condition("ResourceReady")[2]
    assert "does not support inference with Huggingface Transformers runtime" in message
