"""Quantities come back in their canonical form."""

from __future__ import annotations

import pytest

from controller.devcluster.apiserver.builtin_types import QuantityError, canonical_quantity


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("2000", "2k"),
        ("100000", "100k"),
        ("12e6", "12e6"),
        ("1e4", "10e3"),
        ("1e2", "100"),
        ("0.1Gi", "107374182400m"),
        ("0Gi", "0"),
        ("0.5Ki", "512"),
        ("1500Ki", "1500Ki"),
        ("5Gi", "5Gi"),
        ("128974848", "128974848"),
        ("-1", "-1"),
        (2, "2"),
        (0.25, "250m"),
    ],
)
def test_canonical_form(given, canonical):
    assert canonical_quantity(given) == canonical


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1GiB", "--1", "1e"])
def test_what_is_no_quantity(text):
    with pytest.raises(QuantityError):
        canonical_quantity(text)
