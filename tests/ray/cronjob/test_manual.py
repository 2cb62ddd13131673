"""What docs/raycronjob.md says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import yaml

from controller.ray.api.definitions.crds import raycronjob_definition
from controller.ray.api.validation.cronjob import INVALID
from controller.ray.cronjob import status

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "raycronjob.md").read_text()
REASON = re.compile(r'ReadyCondition\(\s*"\w+",\s*"(\w+)"')


def test_the_manual_names_every_reason_and_no_other():
    source = Path(status.__file__).read_text()
    reasons = {INVALID, *REASON.findall(source)}
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert told == reasons


def test_the_example_of_the_manual_has_the_fields_of_the_definition():
    example = yaml.safe_load(PAGE.split("```yaml\n")[1].split("```")[0])
    (version,) = raycronjob_definition()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(example["spec"]) == set(spec["properties"])
    del example["spec"]["jobTemplate"]["rayClusterSpec"]
    jsonschema.Draft202012Validator(spec).validate(example["spec"])
    assert set(example["spec"]["jobTemplate"]) < set(
        spec["properties"]["jobTemplate"]["properties"]
    )
