"""Which users of this machine may reach pods."""

from __future__ import annotations

import os
import socket

import pytest

from devcluster.processes.network import (
    owner,
    permitted_users,
    ranges_of_others,
)
from tests.devcluster.processes.machines import NOBODY, connecting

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: only root can be another user"
)


@pytest.mark.parametrize(
    ("permitted", "others"),
    [
        ({0}, ["1-4294967294"]),
        ({0, 1000}, ["1-999", "1001-4294967294"]),
        ({1000}, ["0-999", "1001-4294967294"]),
        ({0, 1}, ["2-4294967294"]),
    ],
)
def test_all_others_are_ranges(permitted: set[int], others: list[str]):
    assert ranges_of_others(permitted) == others


def test_the_user_behind_sudo_is_permitted():
    assert permitted_users({}) == {os.getuid()}
    assert permitted_users({"SUDO_UID": "1234"}) == {os.getuid(), 1234}
    assert permitted_users({"SUDO_UID": "x"}) == {os.getuid()}


def test_the_owner_of_a_connection_is_known_while_it_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            here, _ = server.accept()
            ends = client.getsockname(), client.getpeername()
            assert owner(*ends) == os.getuid()
        assert owner(*ends) is None, "nobody holds it any more"
        here.close()
    assert owner(("10.1.2.3", 1), ("10.1.2.4", 2)) is None


def test_a_client_with_an_ipv6_socket_is_known_too():
    """As those of gRPC are, which reach IPv4 addresses with them."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as client,
    ):
        address, port = server.getsockname()
        client.connect((f"::ffff:{address}", port))
        here, peer = server.accept()
        assert owner(peer, (address, port)) == os.getuid()
        here.close()


@needs_root
def test_another_users_connection_is_not_mine():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        connecting(server.getsockname()) as other,
    ):
        here, peer = server.accept()
        assert owner(peer, server.getsockname()) == NOBODY
        here.close()
        assert other.wait(10) == 0
