"""Files for clusters: their syntax, and that they name what is there."""

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SLURM = ROOT / "deploy" / "slurm.sh"
KUBERAY = ROOT / "deploy" / "kuberay.yaml"


def documents() -> dict[str, dict]:
    return {each["kind"]: each for each in yaml.safe_load_all(KUBERAY.read_text())}


def overrides(command: str) -> list[str]:
    """Keys that a command sets for train.py; those of Hydra itself left out."""
    words = re.findall(r"([\w.]+)=", command.partition("scripts/train.py")[2])
    return [word for word in words if not word.startswith("hydra.")]


def known_keys() -> set[str]:
    train = yaml.safe_load((ROOT / "conf" / "train.yaml").read_text())
    keys = {"ray", *train}
    for group, name in (("ray", "_base"), ("ray", "cluster"), ("algo", "ppo")):
        values = yaml.safe_load((ROOT / "conf" / group / f"{name}.yaml").read_text())
        keys |= {f"{group}.{key}" for key in values}
    return keys


def test_the_slurm_script_is_bash_asks_for_nodes_and_demands_a_token():
    done = subprocess.run(["bash", "-n", str(SLURM)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = SLURM.read_text()
    assert text.startswith("#!/bin/bash\n")
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.MULTILINE))
    assert {"nodes", "ntasks-per-node", "cpus-per-task", "time"} <= set(asked)
    assert "RAY_AUTH_MODE=token" in text and "chmod 600" in text
    assert not re.search(r"\bray\W* stop\b", text)  # it would stop other people's Ray as well


def test_the_slurm_script_trains_with_keys_that_are_there():
    keys = overrides(SLURM.read_text())
    assert {"ray", "ray.address", "resume"} <= set(keys)
    assert set(keys) - known_keys() == set()


def test_the_kuberay_file_has_what_a_ray_job_needs():
    job = documents()["RayJob"]
    assert job["apiVersion"] == "ray.io/v1"
    assert {"entrypoint", "rayClusterSpec", "shutdownAfterJobFinishes"} <= set(job["spec"])
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "requirements.lock").read_text().split()
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert {"name", "image", "resources"} <= set(container)
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert {each["name"] for each in container["env"]} >= {"OMP_NUM_THREADS"}


def test_the_kuberay_job_trains_with_keys_that_are_there_on_cpus_that_are_there():
    job = documents()["RayJob"]["spec"]
    keys = overrides(job["entrypoint"])
    assert {"ray", "ray.num_env_runners", "resume"} <= set(keys)
    assert set(keys) - known_keys() == set()
    (workers,) = job["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = workers["template"]["spec"]["containers"]
    cpus = workers["replicas"] * int(container["resources"]["requests"]["cpu"])
    runners = int(re.findall(r"ray\.num_env_runners=(\d+)", job["entrypoint"])[0])
    assert runners <= cpus


def test_results_of_the_kuberay_job_outlive_its_pods():
    spec = documents()["RayJob"]["spec"]
    pod = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    (volume,) = pod["volumes"]
    claim = documents()["PersistentVolumeClaim"]["metadata"]["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
    assert f"hydra.run.dir={mount['mountPath']}/" in spec["entrypoint"]


def test_kube_scheduler_asks_what_is_served_where_it_is_served():
    told = yaml.safe_load((ROOT / "deploy" / "kube-scheduler.yaml").read_text())
    (extender,) = told["extenders"]
    port = yaml.safe_load((ROOT / "conf" / "serve.yaml").read_text())["port"]
    routes = (ROOT / "gpuyard" / "serving" / "app.py").read_text()
    assert extender["urlPrefix"] == f"http://127.0.0.1:{port}"
    assert extender["weight"] > 0  # or Kubernetes refuses it beside a prioritizeVerb
    for verb in ("filterVerb", "prioritizeVerb"):
        assert f'"/{extender[verb]}"' in routes
    assert extender["managedResources"][0]["name"] == "nvidia.com/gpu"
