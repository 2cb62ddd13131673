"""Every model of the catalogue, to the last row of a table that another program computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.kaito.presets import (
    Cloud,
    catalogue,
    disk_request,
    estimate_nodes,
    find_instance_type,
    find_model,
    startup_seconds,
)

TABLE = [
    line.split()
    for line in (Path(__file__).parent / "conformance.txt").read_text().splitlines()
    if not line.startswith("#")
]
TYPES = [f"Standard_{name}" for name in TABLE[0][6:]]
ROWS = TABLE[1:]


def test_the_table_has_every_model_of_the_catalogue():
    assert [row[0] for row in ROWS] == [model.name for model in catalogue().values()]
    assert len(ROWS) == 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_model_needs_what_the_table_says(row: list[str]):
    name, weights, per_token, _attention, disk, start, *nodes = row
    model = find_model(name)
    assert model is not None
    assert model.weights == weights
    assert model.cache_bytes_per_token == int(per_token)
    assert disk_request(model) == disk
    assert int(startup_seconds(model)) == int(start)
    machines = [find_instance_type(Cloud.AZURE, each) for each in TYPES]
    assert [estimate_nodes(model, each.gpus) for each in machines if each] == list(map(int, nodes))
