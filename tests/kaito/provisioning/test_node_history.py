"""Where new nodes were lost, others are labelled only once they have lasted for a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controller.kaito.provisioning.nodes import NodeHistory

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_the_label_waits_for_longer_the_more_often_new_nodes_are_lost():
    history, waits = NodeHistory(), []
    for round_ in range(6):
        name = f"n{round_}"
        history = history.after({name}, at(10 * round_))
        waits.append(history.wait(name, at(10 * round_)))
        history = history.after((), at(10 * round_ + 5))
    assert waits == [0, 10, 20, 30, 30, 30]


def test_the_loss_of_an_old_node_and_an_old_loss_count_for_nothing():
    history = NodeHistory({"a": at(0)}, 3, at(0))
    assert history.after({"a"}, at(599)).rounds == 3
    assert history.after({"a"}, at(600)).rounds == 0
    assert history.after((), at(600)).rounds == 0


def test_a_clock_that_goes_back_holds_no_label_for_longer():
    history = NodeHistory({"a": at(36_000)}, 5, at(36_000)).after({"a"}, at(0))
    assert history.wait("a", at(0)) == 30
    assert history.wait("a", at(30)) == 0
    assert history.after({"a"}, at(600)).rounds == 0
