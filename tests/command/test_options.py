"""The options of `manta run`."""

from __future__ import annotations

from controller.__main__ import _feature_gates, _parser, _settings


def test_kuberays_names_of_options_are_understood():
    line = (
        "run --metrics-addr=:9090 --health-probe-bind-address=:9091 --reconcile-concurrency=4 "
        "--watch-namespace=a,b --feature-gates=RayMultiHostIndexing=false"
    )
    options = _parser().parse_args(line.split())
    settings = _settings(options)
    assert settings.metrics_address == ":9090"
    assert settings.health_address == ":9091"
    assert settings.workers == 4
    assert settings.namespaces == ("a", "b")
    assert not _feature_gates(options).enabled("RayMultiHostIndexing")
