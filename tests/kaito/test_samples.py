"""The manifests of Kaito's `examples/`: which are accepted, and what is said of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from controller.apimachinery.validation import Problem
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import InferenceSet, validate_inference_set
from controller.kaito.api.revisions import revision_hash
from controller.kaito.api.validation import validate_workspace
from controller.kaito.api.workspace import Workspace
from tests.kaito.examples import REFUSED, cases, need_samples, options_of

SCHEMAS = {
    (each["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
    for each in kaito_definitions()
    for version in each["spec"]["versions"]
}


@need_samples
@pytest.mark.parametrize(("file", "raw"), cases())
def test_kaitos_examples_are_accepted_or_refused_as_by_kaito(file: Path, raw: dict[str, Any]):
    version = raw["apiVersion"].partition("/")[2]
    jsonschema.validate(raw, SCHEMAS[raw["kind"], version])
    options = options_of(file, raw)
    if raw["kind"] == "Workspace":
        workspace = msgspec.convert(raw, Workspace)
        found = validate_workspace(workspace, options)
        assert len(revision_hash(workspace)) == 64
    else:
        found = validate_inference_set(msgspec.convert(raw, InferenceSet), options)
    message = found.message if isinstance(found, Problem) else ""
    words = REFUSED.get(raw["metadata"]["name"], "")
    assert words in message
    assert bool(words) is bool(message), message
