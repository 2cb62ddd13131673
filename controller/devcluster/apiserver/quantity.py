"""Quantities such as `500m` and `2Gi`, in the canonical form of the API."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?")
_BINARY = {
    suffix: 1024**power for power, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
}
_DECIMAL = {
    suffix: 3 * power
    for power, suffix in zip(
        range(-3, 7), ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), strict=True
    )
}
_SMALLEST = Decimal("1e-9")

RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityError(ValueError):
    """The text is not a quantity."""


def canonical_quantity(value: str | float) -> str:
    """Return the canonical form: no fraction, and the largest possible suffix.

    Raises:
        QuantityError: it is not a quantity.
    """
    number, suffix = _parse(value)
    if suffix.endswith("i"):
        amount = number * Decimal(_BINARY[suffix])
        is_whole = amount == amount.to_integral_value()
        return _binary(int(amount)) if is_whole and abs(amount) >= 1024 else _decimal(amount)
    if len(suffix) > 1:
        return _exponential(number.scaleb(int(suffix[1:])))
    return _decimal(number.scaleb(_DECIMAL[suffix]))


def _parse(value: str | float) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        raise QuantityError(RULE)
    return Decimal(match[1]), match[2] or ""


def quantity_value(value: str | float) -> Decimal:
    """Return the number that a quantity means.

    Raises:
        QuantityError: it is not a quantity.
    """
    number, suffix = _parse(value)
    if suffix.endswith("i"):
        return number * Decimal(_BINARY[suffix])
    if len(suffix) > 1:
        return number.scaleb(int(suffix[1:]))
    return number.scaleb(_DECIMAL[suffix])


def add_quantities(left: str, right: str, *, times: int = 1) -> str:
    """Return `left` plus `times` `right`, in powers of two if one of them is."""
    amount = quantity_value(left) + times * quantity_value(right)
    if left.endswith("i") or right.endswith("i"):
        return canonical_quantity(f"{amount / 1024:f}Ki")
    return canonical_quantity(f"{amount:f}")


def _binary(amount: int) -> str:
    chosen = ""
    for suffix, factor in _BINARY.items():
        if amount and amount % factor == 0:
            chosen = suffix
    return f"{amount // _BINARY[chosen]}{chosen}"


def _whole(amount: Decimal) -> tuple[int, int]:
    """Return mantissa and exponent, a multiple of three, rounded up to whole nanos."""
    amount = amount.quantize(_SMALLEST, rounding=ROUND_UP)
    if not amount:
        return 0, 0
    mantissa, exponent = int(amount.scaleb(9)), -9
    while mantissa % 1000 == 0:
        mantissa, exponent = mantissa // 1000, exponent + 3
    return mantissa, exponent


def _decimal(amount: Decimal) -> str:
    mantissa, exponent = _whole(amount)
    while exponent > 18:
        mantissa, exponent = mantissa * 1000, exponent - 3
    suffix = next(name for name, power in _DECIMAL.items() if power == exponent)
    return f"{mantissa}{suffix}"


def _exponential(amount: Decimal) -> str:
    mantissa, exponent = _whole(amount)
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)
