"""Whole manifests on pages are accepted by an API server that refuses unknown fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.resources import CRDS
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, custom_resource_definitions
from controller.testing.cluster import Cluster
from tests.docs.tree import PAGES, blocks_of

KINDS = {each.kind: each for each in (RAYCLUSTERS, RAYJOBS, RAYSERVICES)}


def whole(page: Path) -> list[dict[str, Any]]:
    """The manifests of a page that name their kind and have a name: others are excerpts."""
    documents = [
        document
        for language, text in blocks_of(page)
        if language == "yaml"
        for document in yaml.safe_load_all(text)
    ]
    return [
        each
        for each in documents
        if isinstance(each, dict) and each.get("kind") in KINDS and each["metadata"].get("name")
    ]


WITH_MANIFESTS = [page for page in PAGES if whole(page)]


def test_the_page_about_jobs_begins_with_one():
    assert "rayjob.md" in {page.name for page in WITH_MANIFESTS}


@pytest.mark.parametrize("page", WITH_MANIFESTS, ids=lambda page: page.name)
async def test_a_whole_manifest_on_a_page_is_accepted(page: Path, cluster: Cluster):
    for definition in custom_resource_definitions():
        await cluster.user.create(CRDS, "", definition)
    await cluster.settle(1)
    for manifest in whole(page):
        path = KINDS[manifest["kind"]].path("default")
        query = {"fieldValidation": "Strict"}
        await cluster.user.request_json("POST", path, query=query, body=manifest)
