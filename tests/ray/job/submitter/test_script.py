"""The submitter's script: its words, and what bash makes of them."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.redaction import last_error
from controller.apimachinery.user_yaml import go_json, go_quote
from controller.ray.api.validation.job import open_quotes
from controller.ray.job.submitter import Dashboard, submission_script
from tests.ray.job.rayjobs import rayjob, valid

URL = "http://example-head-svc.default.svc.cluster.local:8265"
REPEATABLE = Dashboard(URL, URL, repeatable=True)
ONCE = Dashboard("http://127.0.0.1:8265", "http://localhost:8265", repeatable=False)
WAITING = "done ; "
SEPARATOR, END = "\x1f", "\x1e"


def script(dashboard: Dashboard = REPEATABLE, job_id: str = "example-bcdfg", **spec: Any) -> str:
    return submission_script(valid(rayjob(**spec)), job_id, dashboard)


def without_waiting(text: str) -> str:
    return text.split(WAITING, 1)[1]


def test_a_repeatable_script_asks_submits_and_follows_the_log():
    assert without_waiting(script()) == (
        f"if ! ray job status --address {URL} example-bcdfg >/dev/null 2>&1 ; "
        f"then ray job submit --address {URL} --no-wait --submission-id example-bcdfg "
        "-- python job.py ; "
        f"fi ; ray job logs --address {URL} --follow example-bcdfg"
    )


def test_a_script_that_runs_once_submits_and_waits():
    assert without_waiting(script(ONCE)) == (
        "ray job submit --address http://127.0.0.1:8265 --submission-id example-bcdfg "
        "-- python job.py ;"
    )


def test_all_options_stand_in_kuberays_order():
    text = script(
        ONCE,
        runtimeEnvYAML="pip: [requests==2.26.0]\nenv_vars:\n  counter_name: test_counter\n",
        metadata={"b": "2", "a": "1"},
        entrypointNumCpus=2,
        entrypointNumGpus=0.5,
        entrypointResources='{"r": 1}',
        entrypoint=" python job.py\n",
    )
    assert without_waiting(text) == (
        "ray job submit --address http://127.0.0.1:8265 "
        '--runtime-env-json "{\\"env_vars\\":{\\"counter_name\\":\\"test_counter\\"},'
        '\\"pip\\":[\\"requests==2.26.0\\"]}" '
        '--metadata-json "{\\"a\\":\\"1\\",\\"b\\":\\"2\\"}" '
        "--submission-id example-bcdfg "
        "--entrypoint-num-cpus 2.000000 --entrypoint-num-gpus 0.500000 "
        '--entrypoint-resources "{\\"r\\": 1}" '
        "-- python job.py ;"
    )


def test_the_script_waits_until_the_dashboard_says_that_it_is_well():
    waiting = script(ONCE).split(WAITING)[0]
    assert waiting.startswith("until python3 -c ")
    assert "'http://localhost:8265/api/gcs_healthz', timeout=10" in waiting
    assert "b'success' not in" in waiting
    assert waiting.endswith("; sleep 2 ; ")


@pytest.mark.parametrize("amount", [0, -1])
def test_amounts_that_are_not_positive_are_not_asked_for(amount: int):
    text = script(entrypointNumCpus=amount, entrypointNumGpus=amount)
    assert "--entrypoint-num" not in text


@pytest.mark.parametrize(
    ("status", "words", "well"),
    [(200, b"success", True), (200, b"starting", False), (503, b"success", False)],
)
def test_the_dashboard_is_well_if_it_says_success(status: int, words: bytes, *, well: bool):
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/api/gcs_healthz"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        text = script(Dashboard(url, url, repeatable=False))
        question = text.removeprefix("until ").split(" >/dev/null")[0]
        found = subprocess.run(["/bin/bash", "-c", question], check=False, capture_output=True)
        thread.join()
    assert (found.returncode == 0) is well


STUB = f"""#!/bin/bash
printf '%s{SEPARATOR}' "$(basename "$0")" "$@" >> "$CALLS"
printf '{END}' >> "$CALLS"
[[ "$(basename "$0") $2" != "ray status" || -n "$KNOWN" ]] || exit 1
[[ "$(basename "$0")" != "$BROKEN" && "$2" != "$BROKEN" ]] || exit 1
"""


def calls(tmp_path: Path, text: str, **variables: str) -> list[list[str]]:
    """Which programs bash starts for the script, with which arguments."""
    record = tmp_path / "calls"
    record.write_text("")
    for program in ("ray", "python3", "sleep", "after", "piped"):
        stub = tmp_path / program
        stub.write_text(STUB)
        stub.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(record)} | variables
    subprocess.run(["/bin/bash", "-ce", "--", text], env=environment, check=False, timeout=20)
    found = [each.split(SEPARATOR)[:-1] for each in record.read_text().split(END) if each]
    return [call for call in found if call[0] not in {"python3", "sleep"}]


def submitted(tmp_path: Path, **spec: Any) -> dict[str, str]:
    """Options of the one `ray job submit` that bash starts, and under `--` the entrypoint."""
    variables = spec.pop("variables", {})
    (call,) = calls(tmp_path, script(ONCE, **spec), **variables)
    assert call[:3] == ["ray", "job", "submit"]
    end = call.index("--")
    options = dict(zip(call[3:end:2], call[4:end:2], strict=True))
    return options | {"--": " ".join(call[end + 1 :])}


def test_bash_submits_what_ray_does_not_know_yet(tmp_path: Path):
    asked, submit, logs = calls(tmp_path, script())
    assert asked[:3] == ["ray", "job", "status"]
    assert submit[:3] == ["ray", "job", "submit"]
    assert logs[:3] == ["ray", "job", "logs"]


def test_a_submitter_that_runs_again_submits_nothing_twice(tmp_path: Path):
    asked, logs = calls(tmp_path, script(), KNOWN="yes")
    assert asked[:3] == ["ray", "job", "status"]
    assert logs[:3] == ["ray", "job", "logs"]


def test_nothing_is_submitted_while_the_dashboard_is_not_well(tmp_path: Path):
    impatient = script().replace("sleep 2", "exit 0")
    assert calls(tmp_path, impatient, BROKEN="python3") == []
    assert calls(tmp_path, impatient) != []


def test_what_could_not_be_submitted_is_not_followed(tmp_path: Path):
    asked, submit = calls(tmp_path, script(), BROKEN="submit")
    assert (asked[2], submit[2]) == ("status", "submit")


def test_the_entrypoint_is_not_quoted_so_that_the_submitters_shell_splits_it(tmp_path: Path):
    first, second = calls(tmp_path, script(ONCE, entrypoint="python a.py && after all"))
    assert first[-2:] == ["python", "a.py"]
    assert second == ["after", "all"], "this runs in the submitter and not in Ray"


def test_quotes_in_the_entrypoint_are_the_shells(tmp_path: Path):
    entrypoint = 'python -c "\nimport ray\nprint(1)\n"'
    (call,) = calls(tmp_path, script(ONCE, entrypoint=entrypoint))
    assert call[-2:] == ["-c", "\nimport ray\nprint(1)\n"]


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("# first\n  # second\n\npython a.py", ["python", "a.py"]),
        ("python a.py \\\n  --x \\\n", ["python", "a.py", "--x"]),
        ("python a.py \\\\", ["python", "a.py", "\\"]),
        ("python a.py # why \\", ["python", "a.py"]),
        ("python a.py 'a # b'", ["python", "a.py", "a # b"]),
    ],
)
@pytest.mark.parametrize("dashboard", [REPEATABLE, ONCE])
def test_comments_and_ends_of_lines_add_no_word_to_the_entrypoint(
    tmp_path: Path, dashboard: Dashboard, entrypoint: str, words: list[str]
):
    found = calls(tmp_path, script(dashboard, entrypoint=entrypoint))
    submit = next(each for each in found if each[2] == "submit")
    assert submit[submit.index("--") + 1 :] == words
    assert (found[-1][2] == "logs") is (dashboard is REPEATABLE)


def test_variables_in_the_entrypoint_are_those_of_the_submitter(tmp_path: Path):
    options = submitted(tmp_path, entrypoint="python $SCRIPT", variables={"SCRIPT": "a.py"})
    assert options["--"] == "python a.py"


def test_variables_in_json_arguments_are_expanded(tmp_path: Path):
    options = submitted(
        tmp_path,
        runtimeEnvYAML="env_vars:\n  TOKEN: $TOKEN\n",
        metadata={"who": "${WHO}"},
        entrypointResources='{"$KIND": 1}',
        variables={"TOKEN": "secret", "WHO": "me", "KIND": "gpu"},
    )
    assert json.loads(options["--runtime-env-json"]) == {"env_vars": {"TOKEN": "secret"}}
    assert json.loads(options["--metadata-json"]) == {"who": "me"}
    assert json.loads(options["--entrypoint-resources"]) == {"gpu": 1}


def test_backticks_in_json_arguments_are_run(tmp_path: Path):
    options = submitted(tmp_path, metadata={"who": "`echo me`"})
    assert json.loads(options["--metadata-json"]) == {"who": "me"}


@pytest.mark.parametrize(
    "text",
    ['a "b" c', "a\\b", "a\nb\tc", "it's", "<&>", "é ü 日本", "\u2028", "\u00a0", "a!b", "{}[]"],
)
def test_other_text_in_json_arguments_reaches_ray_as_it_is(tmp_path: Path, text: str):
    options = submitted(tmp_path, metadata={"text": text})
    assert json.loads(options["--metadata-json"]) == {"text": text}


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\a\v", '"\\n\\t\\a\\v"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("é日", '"é日"'),
        ("\u00a0\u200b", '"\\u00a0\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_text_is_quoted_as_go_does(text: str, quoted: str):
    assert go_quote(text) == quoted


def test_json_is_written_as_go_does():
    value = {"b": [1, 0.5, True, None], "a": {"é": "<&>\u2028"}}
    assert go_json(value) == ('{"a":{"é":"\\u003c\\u0026\\u003e\\u2028"},"b":[1,0.5,true,null]}')


@pytest.mark.parametrize(
    "entrypoint",
    [
        "python a.py # a comment",
        "python a.py;",
        "python a.py <<EOF\nit's text\nEOF",
        "python a.py 'a#b' \\\n",
        "python a.py \\\n  --x # y",
    ],
)
@pytest.mark.parametrize("dashboard", [REPEATABLE, ONCE])
def test_an_entrypoint_swallows_no_word_of_the_script(
    tmp_path: Path, entrypoint: str, dashboard: Dashboard
):
    found = calls(tmp_path, script(dashboard, entrypoint=entrypoint))
    wanted = ["status", "submit", "logs"] if dashboard is REPEATABLE else ["submit"]
    assert [call[2] for call in found if call[0] == "ray"] == wanted


PARTS = [
    *("'", '"', "`", "$(", "(", ")", "a", " ", "\n", "\\", "#", "$", "${x}", "${x:-'}", "<<<"),
    *("it's", ";", "&&", "\\\n", "case x in y)", "<<E\n'\nE\n"),
]


@given(st.lists(st.sampled_from(PARTS), max_size=9))
@settings(max_examples=100, deadline=None)
def test_no_entrypoint_that_bash_can_read_is_refused_for_its_quotes(parts: list[str]):
    command = f"echo {''.join(parts)}"
    if open_quotes(command):
        read = subprocess.run(
            ["/bin/bash", "-nc", f"{command}\n"], check=False, capture_output=True
        )
        assert read.returncode != 0


@pytest.mark.parametrize(
    "entrypoint", ["python ${X:-'a}", "python ${X", "python a.py <<EOF\n it's\nEOF\n'x"]
)
def test_a_quote_that_only_bash_finds_submits_nothing_and_is_the_error_of_the_log(
    tmp_path: Path, entrypoint: str
):
    text = script(entrypoint=entrypoint)
    assert calls(tmp_path, text) == []
    ran = subprocess.run(["/bin/bash", "-nce", "--", text], check=False, capture_output=True)
    assert ran.returncode != 0
    assert "unexpected EOF while looking for matching" in last_error(ran.stderr.decode())
