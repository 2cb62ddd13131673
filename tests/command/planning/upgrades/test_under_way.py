"""Which objects go because of an upgrade that has begun before anybody plans."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.planning.snapshot import replaced_objects

ROLLBACK = [{"type": "RollbackInProgress", "status": "True"}]


def owned(name: str, owner: str) -> dict[str, Any]:
    reference = {"uid": owner, "controller": True}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "ownerReferences": [reference]}}


CLUSTERS = [owned(name, "uid-of-svc") for name in "abc"] + [owned("d", "uid-of-another")]
PODS = [owned(f"{name}-head", f"uid-of-{name}") for name in "abcd"]


def replaced(active: str, pending: str = "", **status: Any) -> set[str]:
    roles = {"activeServiceStatus": active, "pendingServiceStatus": pending}
    named = {role: {"rayClusterName": name} for role, name in roles.items() if name}
    service = {"metadata": {"uid": "uid-of-svc"}, "status": named | status}
    found = replaced_objects(service, CLUSTERS, [*CLUSTERS, *PODS])
    return {uid.removeprefix("uid-of-") for uid in found}


def test_a_cluster_that_the_status_no_longer_names_goes_with_its_pods():
    assert replaced("a") == {"b", "c", "b-head", "c-head"}


def test_the_active_cluster_goes_when_another_one_is_to_replace_it():
    assert replaced("a", "b") == {"a", "c", "a-head", "c-head"}


def test_in_a_rollback_the_pending_cluster_goes():
    assert replaced("a", "b", conditions=ROLLBACK) == {"b", "c", "b-head", "c-head"}


@pytest.mark.parametrize("active", ["", "gone", "d"])
def test_while_nobody_knows_which_cluster_serves_none_goes(active: str):
    assert replaced(active) == set()
