"""Certificates in real handshakes."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest

from controller.apimachinery.certificates import Authority, Certificate

NOW, DAY = datetime.now(UTC), timedelta(days=1)
AUTHORITY = Authority.new("authority", NOW, DAY)


def issued(authority: Authority = AUTHORITY) -> Certificate:
    return authority.issue("host", ["localhost", "10.0.0.7"], NOW, DAY, for_clients=True)


def shake_hands(client: Certificate | None, name: str = "10.0.0.7") -> None:
    own = issued().context()
    own.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    own.verify_mode = ssl.CERT_REQUIRED
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    other.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    if client is not None:
        client.load_into(other)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        other.wrap_bio(back, there, server_hostname=name),
        own.wrap_bio(there, back, server_side=True),
    ]
    waiting = 0
    while waiting < 2:
        for side in sides:
            try:
                side.do_handshake()
                waiting += 1
            except ssl.SSLWantReadError:
                waiting = 0


def test_both_sides_accept_what_one_authority_has_issued_to_servers_that_are_clients():
    shake_hands(issued())


@pytest.mark.parametrize(
    "client",
    [
        None,
        issued(Authority.new("authority", NOW, DAY)),
        AUTHORITY.issue("a server alone", ["localhost"], NOW, DAY),
    ],
)
def test_a_client_without_a_certificate_of_the_authority_for_clients_is_refused(
    client: Certificate | None,
):
    with pytest.raises(ssl.SSLError):
        shake_hands(client)


def test_a_server_under_another_address_is_refused():
    with pytest.raises(ssl.SSLError, match="mismatch"):
        shake_hands(issued(), "10.0.0.8")
