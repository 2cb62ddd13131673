"""Names of claims and of pools."""

from __future__ import annotations

import re

from controller.kaito.provisioning.nodes import claim_name, node_pool_name


def test_a_claim_has_kaitos_form_and_depends_on_all_that_tells_it_apart():
    names = {
        claim_name(uid, place, generation, attempt)
        for uid in ("u", "v")
        for place in range(3)
        for generation in range(3)
        for attempt in range(3)
    }
    assert len(names) == 54
    assert all(re.fullmatch(r"ws[0-9a-f]{9}", name) for name in names)


def test_the_same_claim_has_the_same_name_for_ever():
    assert claim_name("u", 0, 0, 0) == claim_name("u", 0, 0, 0) == "ws0782ad6ae"


def test_a_pool_has_kaitos_name():
    assert node_pool_name("default", "phi") == "default-phi"
    assert node_pool_name("a" * 31, "b" * 31) == f"{'a' * 31}-{'b' * 31}"
    assert node_pool_name("a" * 40, "b" * 40) == f"{'a' * 40}-bbbbbbbbbbbb-f5e4207a7"


def test_two_workspaces_may_have_one_name_of_a_pool():
    assert node_pool_name("a-b", "c") == node_pool_name("a", "b-c")
