#!/usr/bin/env python3
"""The recipes for Docker and Kubernetes in examples/, as far as a parser can check them: they are YAML, what
they refer to is there, and lockstep takes the commands that they give it.

  recipes.py PROGRAM SOURCE

Exit code 77: Python has no yaml here.
"""
import os
import subprocess
import sys
from pathlib import Path

try:
    import yaml
except ImportError:
    sys.exit(77)

PROGRAM, SOURCE = sys.argv[1], Path(sys.argv[2])


def load(name):
    return list(yaml.safe_load_all((SOURCE / "examples" / name).read_text()))


def takes(words):
    """lockstep understands the command; the configuration is that of the sources."""
    words = words[words.index("lockstep") + 1:]
    at = words.index("train")
    options = [w.replace("/configs/", f"{SOURCE}/configs/") for w in words]
    train = options[at:]
    run = subprocess.run([PROGRAM, *train, "--print-config"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    if words[0] == "launch":
        assert words[at - 1] == "--"
        run = subprocess.run([PROGRAM, *options[:at - 1], "--dry-run", "--program", "true", "--", "x"],
                             capture_output=True, text=True)
        assert run.returncode == 0 or "no mpiexec" in run.stderr, run.stderr
    return words


def check_image(service):
    build = service["build"]
    folder = SOURCE / "examples/compose" / build["context"]
    assert (folder / build["dockerfile"]).exists()
    assert (folder / "CMakeLists.txt").exists()


def processes():
    (recipe,) = load("compose/processes.yaml")
    (service,) = recipe["services"].values()
    check_image(service)
    words = takes(service["command"])
    assert service["hostname"] == "node" and "--standalone" in words


def hosts():
    (recipe,) = load("compose/hosts.yaml")
    services = recipe["services"]
    commands = {tuple(s["command"]) for s in services.values()}
    assert len(commands) == 1, "the same command on each"
    words = takes(list(commands.pop()))
    assert int(words[words.index("--nnodes") + 1]) == len(services)
    assert words[words.index("--rdzv-endpoint") + 1].split(":")[0] in services
    for name, service in services.items():
        check_image(service)
        assert service["hostname"] == name
        assert "LKS_RDZV_SECRET" in service["environment"]
        assert all(n in recipe["networks"] for n in service["networks"])
        assert all(other in services for other in service.get("depends_on", []))


def mpijob():
    job, claim = load("kubernetes/mpijob.yaml")
    assert (job["kind"], job["apiVersion"]) == ("MPIJob", "kubeflow.org/v2beta1")
    replicas = job["spec"]["mpiReplicaSpecs"]
    (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
    words = launcher["command"]
    takes(words)
    slots = job["spec"]["slotsPerWorker"] * replicas["Worker"]["replicas"]
    assert int(words[words.index("-n") + 1]) == slots
    for role in replicas.values():
        spec = role["template"]["spec"]
        volumes = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in spec["volumes"]}
        for container in spec["containers"]:
            assert all(m["name"] in volumes for m in container["volumeMounts"])
        assert set(volumes.values()) == {claim["metadata"]["name"]}


os.environ.pop("SLURM_JOB_ID", None)
processes()
hosts()
mpijob()
print("3 recipes")
