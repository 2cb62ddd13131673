"""Quantities against apimachinery's own vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.quantity import ZERO, Family, InvalidQuantity, Quantity, parse_quantity

CANONICAL = [
    ("0", "0"), ("0n", "0"), ("0Ki", "0"), ("0e3", "0"), ("00", "0"), ("-0", "0"),
    ("1", "1"), ("+1", "1"), ("-1", "-1"), ("1.", "1"), (".5", "500m"), ("1.5", "1500m"),
    ("100m", "100m"), ("1000m", "1"), ("0.1", "100m"), ("1u", "1u"), ("1000n", "1u"),
    ("1024", "1024"), ("1000", "1k"), ("12000", "12k"), ("1500", "1500"), ("1000000", "1M"),
    ("1Ki", "1Ki"), ("8Ki", "8Ki"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"), ("0.5Mi", "512Ki"),
    ("0.5Ki", "512"), ("1023Mi", "1023Mi"), ("100Ki", "100Ki"), ("0.1Mi", "104857600m"),
    ("1000Ki", "1000Ki"), ("2Ti", "2Ti"), ("-1.5Gi", "-1536Mi"),
    ("1e3", "1e3"), ("1E3", "1e3"), ("1e6", "1e6"), ("1e-3", "1e-3"), ("12e-3", "12e-3"),
    ("5e2", "500"), ("1e0", "1"), ("1.5e3", "1500"),
    ("1E", "1E"), ("9E", "9E"), ("10E", "9223372036854775807"), ("-10E", "-9223372036854775807"),
    ("9Ei", "9223372036854775807"), ("1e999999999", "9223372036854775807"),
    ("0.1n", "1n"), ("1.1n", "2n"), ("-0.1n", "-1n"), ("1e-999999999", "1e-9"),
    ("0.001Ki", "1024m"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_a_quantity_is_written_in_its_canonical_form(text: str, canonical: str):
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "a", "1i", "1K", "1ki", "1mm", "--1", "1e", "1e1.5", ".", "0x1", "1,5"]
)
def test_what_is_no_quantity_is_refused(text: str):
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


def test_bare_numbers_are_quantities_and_booleans_are_not():
    assert str(parse_quantity(2)) == "2"
    assert str(parse_quantity(0.5)) == "500m"
    with pytest.raises(InvalidQuantity):
        parse_quantity(True)


@pytest.mark.parametrize(
    ("text", "value"), [("1500m", 2), ("1", 1), ("1n", 1), ("-1500m", -2), ("1Ki", 1024)]
)
def test_the_integer_value_is_rounded_away_from_zero(text: str, value: int):
    assert parse_quantity(text).value == value


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        (["1Gi", "1G"], "2073741824"),
        (["1G", "1Gi"], "2073741824"),
        (["0", "1Gi", "1Mi"], "1025Mi"),
        (["0Gi", "500m", "500m"], "1"),
        (["2Gi", "2Gi"], "4Gi"),
        (["1Gi", "500m"], "1073741824500m"),
        (["1e3", "1k"], "2e3"),
        ([], "0"),
    ],
)
def test_a_sum_keeps_the_suffix_family_of_its_first_operand_that_is_not_zero(
    terms: list[str], total: str
):
    assert str(sum(map(parse_quantity, terms), ZERO)) == total


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(Family))
def test_the_canonical_form_is_read_back_as_the_same_amount(whole: int, family: Family):
    quantity = Quantity(whole * 10**9, family)
    assert parse_quantity(str(quantity)).nanos == quantity.nanos


@given(st.lists(st.tuples(st.integers(0, 10**15), st.sampled_from(Family)), max_size=5))
def test_a_sum_is_exact_in_any_order(parts: list[tuple[int, Family]]):
    quantities = [Quantity(nanos, family) for nanos, family in parts]
    assert sum(quantities, ZERO).nanos == sum(nanos for nanos, _ in parts)
    assert sum(reversed(quantities), ZERO).nanos == sum(nanos for nanos, _ in parts)


def test_zero_is_false_and_a_multiple_keeps_its_family():
    assert not ZERO
    assert str(parse_quantity("512Mi") * 4) == "2Gi"
    assert float(parse_quantity("1500m")) == 1.5


@pytest.mark.parametrize("text", ["9" * 257, "1e" + "9" * 5000, "0." + "9" * 5000, "x" * 5000])
def test_a_quantity_of_thousands_of_characters_is_invalid_and_not_repeated(text: str):
    with pytest.raises(InvalidQuantity) as raised:
        parse_quantity(text)
    assert len(str(raised.value)) < 100
    assert f"has {len(text)} characters" in str(raised.value)
