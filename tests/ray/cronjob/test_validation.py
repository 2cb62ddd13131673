"""Which RayCronJobs are refused, and in which words; what their operator takes for its zone."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jsonschema
import msgspec
import pytest
import yaml

from controller.apimachinery.validation import Problem
from controller.ray.api.definitions import ray_definition
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycronjob import (
    INVALID,
    ConcurrencyPolicy,
    RayCronJob,
    ValidCronJob,
    validate_cron_job,
)
from controller.ray.cronjob import RayCronJobKind, status
from controller.ray.settings import RaySettings
from tests.ray.cronjob.support import at, cron_job, job, job_spec, reads, succeeded, writes
from tests.ray.plain_data import paths, with_value


def judge(cron: RayCronJob) -> ValidCronJob | Problem:
    return validate_cron_job(cron, FeatureGates(), UTC)


def with_template(**changes: Any) -> dict[str, Any]:
    return {"jobTemplate": job_spec() | changes}


WRONG = [
    ({"schedule": "* * * *"}, "spec.schedule", "has 4 fields instead of five"),
    ({"schedule": ""}, "spec.schedule", "is empty"),
    ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule", "say it in spec.timeZone"),
    ({"schedule": "CRON_TZ=UTC @daily"}, "spec.schedule", "say it in spec.timeZone"),
    ({"schedule": 5}, "spec.schedule", "Expected `str`"),
    ({"schedule": None}, "spec", "schedule"),
    ({"timeZone": ""}, "spec.timeZone", "leave it out for the operator's own"),
    ({"timeZone": "Mars/Olympus"}, "spec.timeZone", "'Mars/Olympus' is not a time zone"),
    ({"timeZone": "America"}, "spec.timeZone", "is not a time zone"),
    ({"timeZone": "../../etc/passwd"}, "spec.timeZone", "is not a time zone"),
    ({"timeZone": "/etc/localtime"}, "spec.timeZone", "is not a time zone"),
    ({"timeZone": "UTC\0"}, "spec.timeZone", "is not a time zone"),
    ({"timeZone": "é" * 300}, "spec.timeZone", "is not a time zone"),
    ({"jobTemplate": None}, "spec", "jobTemplate"),
    ({"jobTemplate": []}, "spec.jobTemplate", "Expected `object`"),
    (with_template(rayClusterSpec=None), "spec.jobTemplate", ""),
    (with_template(backoffLimit=-1), "spec.jobTemplate.backoffLimit", "negative"),
    (with_template(submissionMode="Nonsense"), "spec.jobTemplate.submissionMode", "none of"),
    (with_template(suspend=True), "spec.jobTemplate.suspend", "spec.jobTemplate.shutdownAfter"),
    ({"concurrencyPolicy": "Sometimes"}, "spec.concurrencyPolicy", "Sometimes"),
    ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds", ">= 0"),
    ({"successfulJobsHistoryLimit": -1}, "spec.successfulJobsHistoryLimit", ">= 0"),
    ({"failedJobsHistoryLimit": "all"}, "spec.failedJobsHistoryLimit", "Expected `int"),
]


@pytest.mark.parametrize(("spec", "field", "words"), WRONG)
def test_what_is_wrong_is_told_with_its_path(spec: dict[str, Any], field: str, words: str):
    problem = judge(cron_job(**spec))
    assert isinstance(problem, Problem)
    assert problem.field.startswith(field), problem
    assert words in problem.message
    assert problem.reason == "InvalidRayCronJobSpec"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a" * 37, "has 37 characters; at most 36"),
        ("a.b", "begin with a letter"),
        ("1a", "begin with a letter"),
    ],
)
def test_a_name_must_suit_the_rayjobs_that_are_named_after_it(name: str, words: str):
    problem = judge(cron_job(name=name))
    assert isinstance(problem, Problem)
    assert (problem.field, problem.reason) == ("metadata.name", "InvalidRayCronJobSpec")
    assert words in problem.message
    assert isinstance(judge(cron_job(name="a" * 36)), ValidCronJob)


def test_what_is_right_is_read():
    valid = judge(
        cron_job(
            schedule="@every 1h30m",
            timeZone="Asia/Taipei",
            concurrencyPolicy="Replace",
            startingDeadlineSeconds=0,
            suspend=None,
        )
    )
    assert isinstance(valid, ValidCronJob)
    assert valid.zone == ZoneInfo("Asia/Taipei")
    assert valid.spec.concurrency_policy is ConcurrencyPolicy.REPLACE
    assert valid.spec.starting_deadline_seconds == 0
    assert not valid.spec.suspend


def test_time_zones_are_there_where_the_machine_has_none():
    try:
        zoneinfo.reset_tzpath([])
        ZoneInfo.clear_cache()
        assert isinstance(judge(cron_job(timeZone="Asia/Taipei")), ValidCronJob)
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize(
    ("variable", "zone"),
    [
        ("Asia/Taipei", "Asia/Taipei"),
        (":Asia/Taipei", "Asia/Taipei"),
        ("", "UTC"),
        ("Mars/Olympus", "UTC"),
        ("../x", "UTC"),
    ],
)
def test_the_operators_own_zone_is_named_by_its_environment(variable: str, zone: str):
    settings = RaySettings.from_environment({"TZ": variable}, Path("/nonexistent"))
    assert str(settings.local_zone) == zone


def test_without_a_variable_the_machine_says_where_it_is(tmp_path: Path):
    local = tmp_path / "localtime"
    assert RaySettings.from_environment({}, local).local_zone == UTC
    local.write_bytes(b"nonsense")
    assert RaySettings.from_environment({}, local).local_zone == UTC
    taipei = resources.files("tzdata").joinpath("zoneinfo", "Asia", "Taipei")
    local.write_bytes(taipei.read_bytes())
    zone = RaySettings.from_environment({}, local).local_zone
    assert at(12).astimezone(zone).hour == 20


ODD: list[Any] = [None, -1, 2**63, 1.5, "x", "", [], {}, True, [None], {"a": 5}, [[]]]


def test_whatever_stands_in_its_rayjobs_they_are_counted():
    raw = msgspec.to_builtins(succeeded(at(10)))
    kind = RayCronJobKind()
    for path in paths({"status": raw["status"]}):
        for value in ODD if path else ():
            odd = msgspec.convert(with_value(raw, path, value), type(job(at(10))))
            seen = kind.observe("default/cron", reads(cron_job(), odd))
            assert seen is not None
            assert len(seen.runs) == 1
            assert writes(kind.plan(seen, at(10, 30))) == []


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
    (version,) = ray_definition("RayCronJob")["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(example["spec"]) == set(spec["properties"])
    del example["spec"]["jobTemplate"]["rayClusterSpec"]
    jsonschema.Draft202012Validator(spec).validate(example["spec"])
    assert set(example["spec"]["jobTemplate"]) < set(
        spec["properties"]["jobTemplate"]["properties"]
    )
