"""The syntax of names, label keys and label values."""

from __future__ import annotations

import re
from typing import Final

_NAME_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def is_dns_label(value: str) -> bool:
    """Return whether `value` is at most 63 lower-case letters, digits and inner dashes."""
    return len(value) <= 63 and _DNS_LABEL.fullmatch(value) is not None


def is_dns_1035_label(value: str) -> bool:
    """Return whether `value` is a DNS label that begins with a letter."""
    return len(value) <= 63 and _DNS_1035_LABEL.fullmatch(value) is not None


def is_qualified_name(key: str) -> bool:
    """Return whether `key` may be the key of a label: `name` or `dns.prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Return whether `value` may be the value of a label; the empty string may."""
    return not value or (len(value) <= 63 and _NAME_PART.fullmatch(value) is not None)


def _is_dns_subdomain(value: str) -> bool:
    parts = value.split(".")
    return len(value) <= 253 and all(_DNS_LABEL.fullmatch(part) for part in parts)
