"""The command lines: sorted flags, and those that each model needs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.kaito.presets.gpus import Cloud, NodeGPUs, find_instance_type, gpus_of_slice
from controller.kaito.presets.models import Model, catalogue, find_model
from controller.kaito.presets.runtimes import (
    VllmSettings,
    serves_with_transformers,
    transformers_command,
    tuning_command,
    vllm_command,
    vllm_flags,
    with_optional_flags,
)

HOST_CACHE = "kaito-kv-cache-cpu-memory-utilization"


def model(name: str) -> Model:
    found = find_model(name)
    assert found is not None
    return found


def gpus(name: str) -> NodeGPUs:
    machine = find_instance_type(Cloud.AZURE, f"Standard_{name}")
    assert machine is not None
    return machine.gpus


ONE = VllmSettings(gpus("NC24ads_A100_v4"))
FOUR = VllmSettings(gpus("NC96ads_A100_v4"))
SERVE_PHI_4_MINI = (
    "python3 /workspace/vllm/inference_api.py "
    "--chat-template=/workspace/chat_templates/tool-chat-phi4-mini.jinja "
    "--compilation-config.pass_config.fuse_allreduce_rms=False --config_format=auto "
    "--download-dir=/workspace/weights --dtype=bfloat16 --gpu-memory-utilization=0.84 "
    """--kv-events-config='{"enable_kv_cache_events":true}' --load_format=auto """
    "--max-model-len=auto --model=microsoft/phi-4-mini-instruct "
    "--served-model-name=phi-4-mini-instruct --tensor-parallel-size=1 --tokenizer_mode=auto "
    "--trust-remote-code"
)


def test_the_whole_command_of_one_node():
    assert vllm_command(model("phi-4-mini-instruct"), ONE) == ["/bin/sh", "-c", SERVE_PHI_4_MINI]


def test_several_nodes_share_one_command_that_asks_for_the_pods_index():
    settings = VllmSettings(gpus("NC24ads_A100_v4"), nodes=2, leader_host="w-0.w-headless.ns.svc")
    shell, _, line = vllm_command(model("qwen2.5-coder-32b-instruct"), settings)
    assert shell == "/bin/sh"
    start, _, rest = line.partition("; then ")
    leader, _, rest = rest.partition("; ")
    serve, _, worker = rest.partition("; else ")
    assert start == 'if [ "${POD_INDEX}" = "0" ]'
    assert leader == (
        "/workspace/vllm/multi-node-serving.sh leader --ray_cluster_size=2 --ray_port=6379"
    )
    assert worker == (
        "/workspace/vllm/multi-node-serving.sh worker --ray_address=w-0.w-headless.ns.svc "
        "--ray_port=6379; fi"
    )
    flags = vllm_flags(model("qwen2.5-coder-32b-instruct"), settings)
    assert all(f"--{name}" in serve for name in flags)
    assert flags["pipeline-parallel-size"] == "2"
    assert flags["tensor-parallel-size"] == "1"
    assert flags["distributed-executor-backend"] == "ray"
    assert flags[HOST_CACHE] == "0"


def test_a_small_model_is_copied_to_every_gpu_of_a_node():
    flags = vllm_flags(model("phi-4"), FOUR)
    assert (flags["data-parallel-size"], flags["tensor-parallel-size"]) == ("4", "1")
    assert flags[HOST_CACHE] == "0"


def test_a_model_of_half_a_gpu_is_sharded():
    half = Model(name="a/b", weights="40Gi")
    flags = vllm_flags(half, FOUR)
    assert "data-parallel-size" not in flags
    assert flags["tensor-parallel-size"] == "4"
    assert HOST_CACHE not in flags
    less = Model(name="a/b", weights="39.99Gi")
    assert vllm_flags(less, FOUR)["data-parallel-size"] == "4"


def test_a_small_model_on_several_nodes_is_sharded_all_the_same():
    flags = vllm_flags(model("phi-4"), replace(FOUR, nodes=2, leader_host="x"))
    assert (flags["tensor-parallel-size"], flags["pipeline-parallel-size"]) == ("4", "2")
    assert "data-parallel-size" not in flags


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (replace(ONE, with_adapters=True), "enable-lora", ""),
        (replace(ONE, with_config=True), "kaito-config-file", "/mnt/config/inference_config.yaml"),
        (replace(ONE, performance_mode="throughput"), "performance-mode", "throughput"),
        (replace(ONE, performance_mode="balanced"), "performance-mode", None),
        (replace(ONE, port=5001), "port", "5001"),
        (ONE, "port", None),
        (replace(ONE, served_name="fleet"), "served-model-name", "fleet"),
        (VllmSettings(gpus("NV36ads_A10_v5")), "gpu-memory-utilization", "0.82"),
        (VllmSettings(gpus_of_slice("3g.40gb")), HOST_CACHE, "0"),
        (replace(ONE, local_weights="/opt/kaito/models/phi-4"), "model", "/opt/kaito/models/phi-4"),
        (replace(ONE, local_weights="/opt"), "load-format", "runai_streamer"),
        (replace(ONE, local_weights="/opt"), "load_format", None),
        (replace(ONE, local_weights="/opt"), "download-dir", None),
    ],
)
def test_each_setting_has_its_flag(settings: VllmSettings, name: str, value: str | None):
    assert vllm_flags(model("phi-4"), settings).get(name) == value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "deepseek-r1-0528",
            {
                "reasoning-parser": "deepseek_r1",
                "tool-call-parser": "deepseek_v3",
                "tokenizer_mode": "deepseek_v32",
                "chat-template": "/workspace/chat_templates/tool-chat-deepseekr1.jinja",
                "dtype": "auto",
            },
        ),
        (
            "deepseek-ai/DeepSeek-V3.2",
            {
                "tool-call-parser": "deepseek_v32",
                "kernel-config.enable_flashinfer_autotune": "False",
                HOST_CACHE: "0",
            },
        ),
        ("deepseek-ai/DeepSeek-V4-Pro", {"kv-cache-dtype": "fp8", "tokenizer_mode": "deepseek_v4"}),
        ("Qwen/Qwen3.5-9B", {"gdn-prefill-backend": "triton", "tool-call-parser": "qwen3_coder"}),
        ("Qwen/Qwen3-8B-AWQ", {"tool-call-parser": "hermes", "dtype": "auto"}),
        ("MiniMaxAI/MiniMax-M2.7", {"enable-expert-parallel": ""}),
        (
            "openai/gpt-oss-20b",
            {"reasoning-parser": "openai_gptoss", "tool-call-parser": "openai", HOST_CACHE: "0"},
        ),
        (
            "mistral-7b",
            {
                "load_format": "mistral",
                "config_format": "mistral",
                "tokenizer_mode": "mistral",
                "tool-call-parser": "mistral",
                "reasoning-parser": None,
            },
        ),
        ("mistralai/Mistral-Medium-3.5-128B", {"reasoning-parser": "mistral"}),
        ("zai-org/GLM-5.2-FP8", {"reasoning-parser": "glm45", "tool-call-parser": "glm47"}),
    ],
)
def test_each_model_has_the_flags_that_it_needs(name: str, expected: dict[str, str | None]):
    flags = vllm_flags(model(name), ONE)
    assert {flag: flags.get(flag) for flag in expected} == expected


def test_the_whole_command_of_transformers():
    assert transformers_command(model("mistral-7b-instruct"))[2] == (
        "accelerate launch --gpu_ids=all --machine_rank=0 --num_machines=1 --num_processes=1 "
        "/workspace/tfs/inference_api.py --allow_remote_files "
        "--chat_template=/workspace/chat_templates/mistral-instruct.jinja "
        "--pipeline=text-generation "
        "--pretrained_model_name_or_path=mistralai/mistral-7b-instruct-v0.3 "
        "--served_model_name=mistral-7b-instruct-v0.3 --torch_dtype=bfloat16"
    )


def test_transformers_serves_only_the_models_of_its_table():
    served = {each.short_name for each in catalogue().values() if serves_with_transformers(each)}
    assert len(served) == 20
    assert "phi-4-mini-instruct" not in served


def test_the_whole_command_of_tuning():
    assert tuning_command(2)[2] == (
        "cd /workspace/tfs/ && python3 metrics_server.py & accelerate launch --num_processes=2 "
        "/workspace/tfs/fine_tuning.py"
    )


@pytest.mark.parametrize("nodes", [1, 2])
def test_flags_of_an_edit_come_and_go_in_a_command_that_there_is(nodes: int):
    settings = replace(ONE, nodes=nodes, leader_host="w-0.w-headless.ns.svc")
    plain = vllm_command(model("phi-4"), settings)[2]
    both = vllm_command(model("phi-4"), replace(settings, with_adapters=True, with_config=True))[2]
    edited = with_optional_flags(plain, with_adapters=True, with_config=True)
    assert sorted(edited.split()) == sorted(both.split())
    assert with_optional_flags(both, with_adapters=True, with_config=True) is both
    assert with_optional_flags(edited, with_adapters=False, with_config=False) == plain
    one = with_optional_flags(both, with_adapters=False, with_config=True)
    assert "enable-lora" not in one
    assert "--kaito-config-file=/mnt/config/inference_config.yaml" in one


@pytest.mark.parametrize(
    "line", [transformers_command(model("phi-4"))[2], "my-server --enable-lora", "/bin/sh"]
)
def test_a_command_of_another_server_is_left_alone(line: str):
    assert with_optional_flags(line, with_adapters=True, with_config=True) == line
    assert with_optional_flags(line, with_adapters=False, with_config=False) == line
