"""Every dependency has a licence that permits what is done with it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from tests.docs.licences import IMAGE, PAGE, TESTS, is_permitted, licence, pinned, table
from tests.docs.upgrade_pictures import block


@pytest.mark.parametrize("package", pinned(TESTS))
def test_the_licence_of_a_dependency_is_permitted(package: str):
    try:
        said = licence(package)
    except PackageNotFoundError:
        pytest.skip(f"this version of Python does without {package}")
    assert is_permitted(said)


def test_what_the_image_holds_is_tested_too():
    assert set(pinned(IMAGE)) < set(pinned(TESTS))


@pytest.mark.parametrize(
    ("expression", "permitted"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-or-later OR MIT", True),
        ("GPL-3.0-or-later", False),
        ("MIT AND LGPL-2.1-only", False),
        ("", False),
    ],
)
def test_a_licence_that_is_not_permitted_is_found(expression: str, permitted: bool):
    assert is_permitted(expression) is permitted


def test_the_page_names_the_licence_of_all_that_the_image_holds():
    written = block(PAGE.read_text(), "licences")
    assert written == table(), "run python -m tests.docs.licences"
