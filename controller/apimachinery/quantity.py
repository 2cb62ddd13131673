"""Kubernetes quantities: `500m`, `1.5Gi`, `1e3`.

A quantity is an exact number of billionths and a suffix family; sums and canonical text follow
apimachinery's `resource.Quantity`, so that what Manta writes compares equal to what KubeRay wrote.
"""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Final

from msgspec import Struct

_NANO: Final = 10**9
_LARGEST: Final = (2**63 - 1) * _NANO
_TEXT: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?"
)
_DECIMAL_POWERS: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES: Final = {power: suffix for suffix, power in _DECIMAL_POWERS.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
LONGEST: Final = 256
"""Maximum characters of a quantity: more than any amount needs, fewer than Python's limit."""

_SHOWN: Final = 20
"""Characters of an overlong quantity that a message shows."""

_LARGEST_EXPONENT: Final = 100
"""Exponent that reaches both caps; larger ones such as `1e999999999` would cost memory."""


class Family(Enum):
    """The notation of a quantity: powers of 1024, powers of 1000, or an exponent."""

    BINARY = "BinarySI"
    DECIMAL = "DecimalSI"
    EXPONENT = "DecimalExponent"


class InvalidQuantity(ValueError):  # noqa: N818 - reads as what it says: an invalid quantity
    """The text is not a quantity."""


class Quantity(Struct, frozen=True):
    """An exact amount.

    Attributes:
        nanos: the amount in billionths; smaller fractions are rounded away from zero.
        family: the suffix family it is written in.
    """

    nanos: int = 0
    family: Family = Family.DECIMAL

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum, in the family of the first operand that is not zero."""
        return Quantity(self.nanos + other.nanos, self.family if self.nanos else other.family)

    def __mul__(self, factor: int) -> Quantity:
        """Return the amount multiplied by `factor`."""
        return Quantity(self.nanos * factor, self.family)

    def __bool__(self) -> bool:
        """Return whether the amount is not zero."""
        return self.nanos != 0

    @property
    def value(self) -> int:
        """The amount as an integer, rounded away from zero."""
        return _divide_away_from_zero(self.nanos, _NANO)

    def __float__(self) -> float:
        """Return the nearest floating-point number."""
        return float(Fraction(self.nanos, _NANO))

    def __str__(self) -> str:
        """Return the canonical text: no fraction, the largest suffix that keeps it exact."""
        if not self.nanos:
            return "0"
        whole, rest = divmod(self.nanos, _NANO)
        if self.family is Family.BINARY and not rest and abs(whole) >= 1024:
            return _binary_text(whole)
        return _decimal_text(self.nanos, exponent=self.family is Family.EXPONENT)


ZERO: Final = Quantity()


def parse_quantity(value: str | float) -> Quantity:
    """Read a quantity as it stands in a manifest: text, or a bare JSON number.

    Raises:
        InvalidQuantity: the value is not a quantity.
    """
    if isinstance(value, bool):
        raise InvalidQuantity(f"{value!r} is not a quantity")
    text = value if isinstance(value, str) else repr(value)
    if len(text) > LONGEST:
        shown = text[:_SHOWN]
        raise InvalidQuantity(f"{shown!r}... has {len(text)} characters, at most {LONGEST} may be")
    return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidQuantity(f"{text!r} is not a quantity like 500m, 1.5Gi or 2")
    nanos = Fraction(match["number"]) * _NANO
    family = Family.DECIMAL
    if match["binary"]:
        family = Family.BINARY
        nanos *= 1024 ** _BINARY_SUFFIXES.index(match["binary"])
        if nanos < _NANO:
            family = Family.DECIMAL  # below one there is no binary suffix left to write
    elif match["exponent"]:
        family = Family.EXPONENT
        limit = _LARGEST_EXPONENT
        nanos *= Fraction(10) ** max(-limit, min(limit, int(match["exponent"])))
    elif match["decimal"]:
        nanos *= Fraction(10) ** _DECIMAL_POWERS[match["decimal"]]
    amount = min(_divide_away_from_zero(nanos.numerator, nanos.denominator), _LARGEST)
    return Quantity(-amount if match["sign"] == "-" else amount, family)


def _divide_away_from_zero(numerator: int, denominator: int) -> int:
    quotient = -(-abs(numerator) // denominator)
    return quotient if numerator >= 0 else -quotient


def _binary_text(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        number //= 1024
        power += 1
    return f"{number}{_BINARY_SUFFIXES[power]}"


def _decimal_text(nanos: int, *, exponent: bool) -> str:
    number, power = nanos, -9
    while number % 1000 == 0 and power < 18:
        number //= 1000
        power += 3
    if not exponent:
        return f"{number}{_DECIMAL_SUFFIXES[power]}"
    return f"{number}e{power}" if power else str(number)
