"""Settings are checked and refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.runtime.settings import Settings, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8080", ("::1", 8080)),
        (":65535", ("", 65535)),
        ("X:0", ("X", 0)),
        ("", None),
        ("0", None),
    ],
)
def test_addresses_are_those_that_go_programs_take(text: str, address: tuple[str, int] | None):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "host:", "host:http", ":65536"])
@pytest.mark.parametrize("name", ["metrics_address", "health_address"])
def test_a_wrong_address_is_refused_by_name(name: str, text: str):
    wrong: dict[str, Any] = {name: text}
    with pytest.raises(ValueError, match="address") as caught:
        Settings(**wrong)
    assert str(caught.value) == f"{name}: not an address of the form host:port: {text!r}"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": 0}, "workers must be at least 1"),
        ({"workers": 1001}, "workers must be at most 1000"),
        ({"slow_reconciles": 0}, "slow_reconciles must be at least 1"),
        ({"client_concurrency": 0}, "client_concurrency must be at least 1"),
        ({"qps": 0}, "qps must be more than 0"),
        ({"sync_timeout_seconds": 0}, "sync_timeout_seconds must be more than 0"),
        ({"debug_port": -1}, "debug_port must be between 0 and 65535"),
        ({"debug_port": 65536}, "debug_port must be between 0 and 65535"),
        ({"page_port": 65536}, "page_port must be between 0 and 65535"),
        ({"reconcile_timeout_seconds": -0.5}, "reconcile_timeout_seconds must not be negative"),
    ],
)
def test_values_without_sense_are_refused_by_name(wrong: dict[str, Any], message: str):
    with pytest.raises(ValueError, match="must") as caught:
        Settings(**wrong)
    assert str(caught.value) == message


def test_what_is_not_the_name_of_a_namespace_is_refused():
    with pytest.raises(ValueError, match="namespace") as caught:
        Settings(namespaces=("a", " b"))
    assert str(caught.value) == "namespaces: ' b' is not the name of a namespace"


def test_the_least_values_that_make_sense_are_taken():
    least: dict[str, Any] = {
        "workers": 1,
        "slow_reconciles": 1,
        "client_concurrency": 1,
        "qps": 0.1,
        "debug_port": 0,
        "sync_timeout_seconds": 0.1,
        "reconcile_timeout_seconds": 0,
    }
    settings = Settings(**least)
    assert {name: getattr(settings, name) for name in least} == least


def test_the_greatest_values_are_taken():
    greatest = Settings(workers=1000, debug_port=65535)
    assert (greatest.workers, greatest.debug_port) == (1000, 65535)


def test_unknown_settings_are_refused():
    with pytest.raises(msgspec.ValidationError, match="wrokers"):
        msgspec.convert({"wrokers": 3}, Settings)
