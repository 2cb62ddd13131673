"""Own reports of a failing key are recognised, whatever comes first."""

from __future__ import annotations

from controller.kube.objects import KubeObject, ObjectMeta
from controller.runtime.reconcile.status.echoes import StatusEchoes


def at(revision: str, *, generation: int = 1) -> KubeObject:
    return KubeObject(
        metadata=ObjectMeta(
            name="a", namespace="ns", resource_version=revision, generation=generation
        )
    )


def test_the_event_of_an_own_report_is_absorbed():
    echoes = StatusEchoes()
    echoes.begin("ns/a")
    assert not echoes.end("ns/a", "6")
    assert echoes.absorb(at("5"), at("6"))
    assert not echoes.absorb(at("6"), at("7"))


def test_an_event_that_comes_before_the_response_is_judged_at_the_end():
    echoes = StatusEchoes()
    echoes.begin("ns/a")
    assert echoes.absorb(at("5"), at("6"))
    assert not echoes.end("ns/a", "6")
    echoes.begin("ns/a")
    assert echoes.absorb(at("6"), at("7"))
    assert echoes.end("ns/a", "8"), "it was another's"


def test_an_event_with_a_change_of_others_is_never_absorbed():
    echoes = StatusEchoes()
    echoes.begin("ns/a")
    assert not echoes.absorb(at("5"), at("6", generation=2))
    echoes.end("ns/a", "6")
    assert not echoes.absorb(at("5"), at("6", generation=2))


def test_of_a_key_that_does_not_fail_nothing_is_absorbed():
    echoes = StatusEchoes()
    echoes.begin("ns/a")
    assert echoes.absorb(at("5"), at("6"))
    assert echoes.end("ns/a", "")
    assert not echoes.absorb(at("5"), at("6"))


def test_after_a_success_the_event_of_an_earlier_report_is_not_absorbed():
    echoes = StatusEchoes()
    echoes.begin("ns/a")
    echoes.end("ns/a", "6")
    echoes.begin("ns/a")
    assert not echoes.end("ns/a", "")
    assert not echoes.absorb(at("5"), at("6"))
