"""Options of a tuning, and references of the images that it pulls and pushes."""

from __future__ import annotations

import pytest
import yaml

from controller.kaito.api.config_maps import training_config_errors
from controller.kaito.api.workspace import TuningSpec
from controller.kaito.workloads.pods import complete_reference
from controller.kaito.workloads.tuning import config_name, default_config_map, results_folder

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("method", "config", "name"),
    [
        ("lora", "", "lora-params-template"),
        ("qlora", "", "qlora-params-template"),
        ("QLoRA", "", "qlora-params-template"),
        ("qlora", "own", "own"),
    ],
)
def test_the_options_are_the_users_or_those_of_the_method(method: str, config: str, name: str):
    assert config_name(TuningSpec(method=method, config=config)) == name


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_the_default_options_are_valid(method: str):
    body = default_config_map(TuningSpec(method=method), "default")
    assert body["metadata"] == {"name": f"{method}-params-template", "namespace": "default"}
    errors = training_config_errors(body["metadata"]["name"], "default", body["data"], method)
    assert not list(errors)
    assert results_folder(body["data"]) == "/mnt/results"


@pytest.mark.parametrize(
    ("folder", "results"),
    [
        ("/mnt/results", "/mnt/results"),
        ("results", "/mnt/results"),
        ("results/a/../b", "/mnt/results/b"),
        ("/results", "/mnt/results"),
        ("/mnt/a/", "/mnt/a"),
        ("", "/mnt/output"),
        (None, "/mnt/output"),
        (5, "/mnt/output"),
        ("/mnt", "/mnt/output"),
        (".", "/mnt/output"),
        ("/mnt/../etc", "/mnt/output"),
        ("../etc", "/mnt/output"),
        ("/mnt2/a", "/mnt/output"),
    ],
)
def test_results_are_below_the_folder_of_volumes(folder: object, results: str):
    arguments = {"training_config": {"TrainingArguments": {"output_dir": folder}}}
    assert results_folder({"training_config.yaml": yaml.safe_dump(arguments)}) == results


@pytest.mark.parametrize(
    "data", [None, {}, {"training_config.yaml": "["}, {"training_config.yaml": "- 1"}]
)
def test_options_that_cannot_be_read_mean_the_default_folder(data: dict[str, str] | None):
    assert results_folder(data) == "/mnt/output"


@pytest.mark.parametrize(
    ("image", "complete"),
    [
        ("a", "docker.io/library/a:latest"),
        ("a:1", "docker.io/library/a:1"),
        ("own/a", "docker.io/own/a:latest"),
        ("example.com/a", "example.com/a:latest"),
        ("example.com:5000/a", "example.com:5000/a:latest"),
        ("localhost/a:1", "localhost/a:1"),
        (f"example.com/a@{DIGEST}", f"example.com/a@{DIGEST}"),
        (f"example.com/a:1@{DIGEST}", f"example.com/a@{DIGEST}"),
        (f"a:1@{DIGEST}", f"docker.io/library/a@{DIGEST}"),
        ("no reference", "no reference"),
        ("", ""),
    ],
)
def test_references_of_images_are_completed(image: str, complete: str):
    assert complete_reference(image) == complete
