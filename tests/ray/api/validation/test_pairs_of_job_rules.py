"""Whoever follows what is told about a RayJob meets no refusal that was not told at first."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import pytest

from controller.apimachinery.problem import Problem
from controller.ray.api.rayjob import parse_job_spec
from controller.ray.api.validation.job import validate_job
from tests.ray.api.validation.test_job import WRONG
from tests.ray.job.rayjobs import changed, job_manifest, rayjob

Row = dict[str, Any]


def told(manifest: dict[str, Any]) -> tuple[Problem, ...]:
    found = validate_job(rayjob(manifest))
    return found.all if isinstance(found, Problem) else ()


def is_of_its_type(row: Row) -> bool:
    """Whether all fields have the right types: the definition refuses the others before."""
    if row["words"].startswith("Expected"):  # within an embedded cluster or template
        return False
    try:
        parse_job_spec(rayjob(changed(job_manifest(), row["set"])))
    except msgspec.ValidationError:
        return False
    return True


ROWS = [row for row in WRONG if is_of_its_type(row)]


def name(row: Row) -> str:
    return f"{row['field']}: {row['words']}"


def overlap(one: set[str], other: set[str]) -> bool:
    return any(a == b or a.startswith((f"{b}.", f"{b}[")) for a in one for b in other) or any(
        b.startswith((f"{a}.", f"{a}[")) for a in one for b in other
    )


def remedies(row: Row) -> list[dict[str, Any]]:
    return row.get("remedies") or [{row["field"]: None}]


def concerned(row: Row) -> set[str]:
    """The fields that a row is about: those that make it wrong, and those that mend it."""
    mended = {path for remedy in remedies(row) for path in remedy}
    return {row["field"], *row["set"], *mended}


def told_alone(row: Row) -> Problem:
    return next(
        each
        for each in told(changed(job_manifest(), row["set"]))
        if each.field == row["field"] and row["words"] in each.message
    )


def is_cured(fields: set[str], manifest: dict[str, Any], rows: tuple[Row, Row]) -> bool:
    """Whether what is wrong with these fields is right beside the rest, and stays so."""
    after = (told(changed(manifest, remedy)) for row in rows for remedy in remedies(row))
    return all(each.field not in fields for found in after for each in found)


def pairs() -> list[tuple[Row, Row]]:
    """Every two rows that can be wrong in one RayJob."""
    return [
        (one, other)
        for one, other in combinations(ROWS, 2)
        if not overlap(set(one["set"]), set(other["set"]))
    ]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_remedy_of_a_problem_is_one(row: Row):
    manifest = changed(job_manifest(), row["set"])
    before = {each.field for each in told(manifest)}
    for remedy in remedies(row):
        left = [each.field for each in told(changed(manifest, remedy))]
        assert row["field"] not in left or left.count(row["field"]) < len(before)
        assert set(left) <= before, f"{remedy} leads to {left}, which nobody had told"


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_contradiction_names_all_of_its_fields(row: Row):
    problem = told_alone(row)
    for field in problem.against:
        assert field in problem.message or field in problem.field, problem


@pytest.mark.slow
def test_two_problems_are_both_told_and_no_remedy_leads_to_a_third():
    checked = 0
    for one, other in pairs():
        manifest = changed(changed(job_manifest(), one["set"]), other["set"])
        found = told(manifest)
        fields = {each.field for each in found}
        contradictory = [bool(each.against) for each in found]
        assert contradictory == sorted(contradictory, reverse=True), (name(one), name(other))
        if not overlap(concerned(one), concerned(other)):
            missing = {one["field"], other["field"]} - fields
            assert not missing or is_cured(missing, manifest, (one, other)), (
                name(one),
                name(other),
            )
            checked += not missing
        for row in (one, other):
            if told_alone(row) not in found:
                continue  # together they are told otherwise, with another remedy
            for remedy in remedies(row):
                left = {each.field for each in told(changed(manifest, remedy))}
                assert left <= fields, (name(one), name(other), remedy, left - fields)
    assert checked > 1000


def test_a_suspended_job_on_a_selected_cluster_is_right_as_it_is():
    spec: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "a"}}
    assert not told(job_manifest(suspend=True, **spec))
    assert not told(job_manifest(suspend=True, shutdownAfterJobFinishes=True, **spec))


def test_what_is_wrong_with_the_name_is_told_with_the_rest():
    fields = [each.field for each in told(job_manifest("A.B", backoffLimit=-1))]
    assert fields == ["metadata.name", "spec.backoffLimit"]
