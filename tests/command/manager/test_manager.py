"""KubeRay's flags, as Go programs read them, and its configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.command import manager
from controller.command.manager import (
    help_text,
    kind_settings_of,
    main,
    parse,
    read_options,
    settings_of,
    truth,
)
from controller.ray.api.feature_gates import CRON_JOB
from controller.runtime.settings import Settings

HEAD = "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n"


def written(folder: Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(text)
    return f"--config={path}"


def test_without_flags_everything_is_as_in_kuberay():
    settings = settings_of(read_options([]))
    assert settings.leader_election
    assert settings.workers == 1
    assert (settings.metrics_address, settings.health_address) == (":8080", ":8082")
    assert settings.namespaces == ()
    assert settings.qps is None
    assert settings.log_format == "json"


def test_the_command_line_of_kuberays_chart_is_understood():
    options = read_options(
        [
            "--feature-gates=RayClusterStatusConditions=true,RayCronJob=true",
            "--enable-leader-election=true",
            "--enable-metrics=true",
            "--reconcile-concurrency=4",
            "--qps=100",
            "--burst=200",
            "--log-file-encoder=console",
            "--log-stdout-encoder=json",
            "--watch-namespace=a,b",
            "--use-kubernetes-proxy",
        ]
    )
    settings = settings_of(options)
    assert settings.workers == 4
    assert (settings.qps, settings.burst) == (100, 200)
    assert settings.namespaces == ("a", "b")
    assert options.configuration.use_kubernetes_proxy
    assert kind_settings_of(options).ray.feature_gates.enabled(CRON_JOB)
    assert options.without_effect == ("enable-metrics",)


async def test_each_flag_without_effect_is_told_once_and_the_operator_starts(
    monkeypatch: pytest.MonkeyPatch,
):
    started: list[Settings] = []

    async def run(settings: Settings, **_: Any) -> int:
        started.append(settings)
        return 0

    monkeypatch.setattr(manager, "run", run)
    monkeypatch.setattr(manager, "log_as", lambda _: None)
    options = read_options(["-zap-devel", "--zap-encoder=json", "--zap-encoder=console"])
    with capture_logs() as logs:
        assert await manager._run(options, settings_of(options), kind_settings_of(options)) == 0
    told = [(line["event"], line["flag"]) for line in logs]
    assert told == [("flag.without_effect", "zap-devel"), ("flag.without_effect", "zap-encoder")]
    assert len(started) == 1


def test_the_debug_page_is_a_flag_of_ours_also_beside_a_file(tmp_path: Path):
    assert settings_of(read_options([])).debug_port == 0
    assert settings_of(read_options(["-debug-port=6060"])).debug_port == 6060
    file = written(tmp_path, HEAD)
    assert settings_of(read_options([file, "--debug-port=6060"])).debug_port == 6060
    assert settings_of(read_options([])).page_port == 0
    assert settings_of(read_options([file, "--page-port=8090"])).page_port == 8090


def test_a_negative_number_of_requests_a_second_is_no_limit():
    assert settings_of(read_options(["-qps=-1"])).qps is None


def test_a_rate_without_a_burst_has_kuberays(tmp_path: Path):
    assert settings_of(read_options(["-qps=20"])).burst == 200
    assert settings_of(read_options([written(tmp_path, HEAD + "qps: 20\n")])).burst == 200


def test_go_spellings_and_levels_of_zap():
    options = read_options(["-enable-leader-election=f", "-zap-log-level", "warn", "-zap-devel"])
    assert not settings_of(options).leader_election
    assert settings_of(options).log_level == "warning"
    assert options.without_effect == ("zap-devel",)
    assert settings_of(read_options(["-zap-log-level=3"])).log_level == "debug"


def test_a_file_replaces_the_flags_but_not_gates_levels_and_encoders(tmp_path: Path):
    file = written(
        tmp_path,
        HEAD + "reconcileConcurrency: 3\nqps: 5\nburst: 7\nwatchNamespace: c\nunknownField: 1\n"
        "leaderElectionNamespace:\nlogStdoutEncoder: json\n",
    )
    flags = ["-reconcile-concurrency=9", "-log-stdout-encoder=console", "-zap-log-level=debug"]
    options = read_options([file, *flags, "-feature-gates=RayCronJob=true"])
    settings = settings_of(options)
    assert (settings.workers, settings.qps, settings.burst) == (3, 5, 7)
    assert settings.namespaces == ("c",)
    assert settings.log_format == "console"
    assert settings.log_level == "debug"
    assert settings.leader_election
    assert options.without_effect == ("reconcile-concurrency",)
    assert kind_settings_of(options).ray.feature_gates.enabled(CRON_JOB)


@pytest.mark.parametrize(
    ("flags", "file", "name"),
    [
        ([], "", None),
        (["--batch-scheduler=yunikorn"], "", "yunikorn"),
        (["--enable-batch-scheduler"], "", "volcano"),
        (["--batch-scheduler=volcano"], "batchScheduler: kai-scheduler\n", "kai-scheduler"),
        ([], "enableBatchScheduler: true\n", "volcano"),
        (["--feature-gates=KubernetesWAS=true"], "qps: 5\n", "kubernetes-was-v1alpha2"),
    ],
)
def test_the_batch_scheduler_is_that_of_the_file_or_the_flags(
    tmp_path: Path, flags: list[str], file: str, name: str | None
):
    arguments = [*flags, written(tmp_path, HEAD + file)] if file else flags
    settings = kind_settings_of(read_options(arguments))
    found = settings.ray.batch_scheduler
    assert (found.name if found is not None else None) == name


def test_two_batch_schedulers_or_one_that_does_not_exist_end_the_process(
    capsys: pytest.CaptureFixture[str],
):
    for flags, said in (
        (["--batch-scheduler=slurm"], "there are volcano, yunikorn, kai-scheduler, scheduler-plug"),
        (["--batch-scheduler=yunikorn", "--enable-batch-scheduler"], "keep only the latter"),
        (["--batch-scheduler=volcano", "--feature-gates=KubernetesWAS=true"], "KubernetesWAS"),
    ):
        assert main(flags) == 2
        assert said in capsys.readouterr().err


def test_the_issuer_of_mtls_is_that_of_the_file_or_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = written(tmp_path, HEAD + "mtlsIssuer: manta\n")
    for arguments, issuer in (
        ([], "cert-manager"),
        (["-mtls-issuer=manta"], "manta"),
        ([file], "manta"),
    ):
        assert kind_settings_of(read_options(arguments)).ray.mtls_issuer == issuer
    assert main(["-mtls-issuer=vault"]) == 2
    assert "-mtls-issuer=vault: there are cert-manager and manta" in capsys.readouterr().err


def test_sidecars_and_defaults_of_pods_come_from_the_file(tmp_path: Path):
    file = written(
        tmp_path,
        HEAD + "headSidecarContainers: [{name: h, image: i}]\n"
        "workerSidecarContainers: [{name: w, image: i}]\n"
        "defaultContainerEnvs: [{name: A, value: b}]\n"
        "defaultPodAnnotations: {x: z}\ndefaultPodLabels: {k: v}\n",
    )
    cluster = kind_settings_of(read_options([file])).ray
    assert cluster.head_sidecars == ({"name": "h", "image": "i"},)
    assert cluster.worker_sidecars == ({"name": "w", "image": "i"},)
    assert cluster.container_env == ({"name": "A", "value": "b"},)
    assert cluster.pod_annotations == {"x": "z"}
    assert cluster.pod_labels == {"k": "v"}


def growing(form: str) -> str:
    """A few lines that stand for a thousand million values."""
    return "a0: &a0 {x: 1}\n" + "".join(
        f"a{number}: &a{number} {form.format(f'*a{number - 1}, ' * 10)}\n"
        for number in range(1, 10)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a mapping"),
        ("kind: Configuration\n", "apiVersion and kind must be"),
        (HEAD + "qps: many\n", "config.yaml, line 3, qps: "),
        (HEAD + "# more\n'enableLeaderElection': 3\n", "line 4, enableLeaderElection: "),
        (HEAD + "headSidecarContainers: [1]\n", "line 3, headSidecarContainers: "),
        (HEAD + "batchScheduler: [volcano]\n", "batchScheduler"),
        (HEAD + "a: [\n", "is not YAML"),
        (HEAD + "a: !!int b\n", "is not YAML"),
        (HEAD + "qps: .nan\n", "has the number nan"),
        ("a: " + "[" * 5000, "nested more than 64 levels"),
        (HEAD + growing("[{}]"), "has more than 20000 values"),
        (HEAD + growing("{{<<: [{}]}}"), "has more than 20000 values"),
        (HEAD + "a: " + "b" * (1 << 20), "has more than 1048576 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, text: str, message: str
):
    with pytest.raises(ValueError, match=message) as error:
        read_options([written(tmp_path, text)])
    assert "config.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--log-stdout-encoder=text", "neither json nor console"),
        ("--zap-log-level=loud", "a level is one of"),
        ("--config=/nowhere/at/all", "/nowhere/at/all"),
    ],
)
def test_a_flag_that_cannot_be_honoured_is_refused(flag: str, message: str):
    with pytest.raises(ValueError, match=message):
        read_options([flag])


@pytest.mark.parametrize(
    "flag",
    [
        "-qps=0",
        "-burst=0",
        "-qps=-3",
        "-reconcile-concurrency=0",
        "-metrics-addr=x",
        "-feature-gates=X=true",
    ],
)
def test_a_value_that_makes_no_sense_ends_the_process_with_2_and_a_sentence(
    flag: str, capsys: pytest.CaptureFixture[str]
):
    assert main([flag, *(["-burst=1"] if "qps" in flag else [])]) == 2
    assert capsys.readouterr().err.startswith("manager: ")


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.strip() == help_text()
    for flag in ("-qps", "-config", "-enable-leader-election", "-zap-log-level"):
        assert flag in help_text()


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["-version"]) == 0
    assert capsys.readouterr().out.startswith("manta ")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("-watch-namespace=A_B", "manager: -watch-namespace: 'A_B' is not the name of a namespace"),
        ("-reconcile-concurrency=0", "manager: -reconcile-concurrency must be at least 1"),
        ("-metrics-addr=a", "manager: -metrics-addr: not an address of the form host:port: 'a'"),
        ("-health-probe-bind-address=a", "manager: -health-probe-bind-address: not an address"),
        ("-debug-port=65536", "manager: -debug-port must be between 0 and 65535"),
        ("-qps=0", "manager: -qps must be more than 0"),
        ("-reconcile-concurrency=1001", "manager: -reconcile-concurrency must be at most 1000"),
        ("-burst=0", "manager: -burst must be at least 1"),
        ("-config=/gone", "manager: cannot read /gone: No such file or directory"),
    ],
)
def test_an_unusable_value_is_refused_under_the_name_of_its_flag(
    flag: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert main([flag]) == 2
    assert capsys.readouterr().err.startswith(words)


FLAGS = {"name": str, "count": int, "on": truth}


@pytest.mark.parametrize(
    "words", [["-name=a"], ["--name=a"], ["-name", "a"], ["--name", "a"], ["-name=b", "-name=a"]]
)
def test_one_dash_or_two_and_the_last_value_counts(words: list[str]):
    assert parse(words, FLAGS) == {"name": "a"}


def test_a_boolean_takes_its_value_only_after_the_sign():
    assert parse(["-on"], FLAGS) == {"on": True}
    assert parse(["-on=false", "-name=a"], FLAGS) == {"on": False, "name": "a"}
    with pytest.raises(ValueError, match="'false' is not a flag"):
        parse(["-on", "false"], FLAGS)


@pytest.mark.parametrize("word", ["1", "t", "T", "true", "TRUE", "True"])
def test_what_go_takes_for_true(word: str):
    assert truth(word) is True


@pytest.mark.parametrize("word", ["0", "f", "F", "false", "FALSE", "False"])
def test_what_go_takes_for_false(word: str):
    assert truth(word) is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-nam=a"], "-nam: there is no such flag"),
        (["-name"], "-name: a value is missing"),
        (["-count=x"], "-count=x: "),
        (["-on=yes"], "-on=yes: neither true nor false"),
        (["run"], "'run' is not a flag"),
        (["--", "run"], "'run' is not a flag"),
        (["-"], "'-' is not a flag"),
        (["", "run"], "'run' is not a flag"),
    ],
)
def test_what_cannot_be_read_is_named(words: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        parse(words, FLAGS)


def test_an_empty_word_ends_the_command_line_of_kuberays_chart_without_feature_gates():
    assert parse(["-count=3", ""], FLAGS) == {"count": 3}
