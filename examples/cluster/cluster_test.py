#!/usr/bin/env python3
"""The job of Kubernetes and the image's recipe: cluster_test.py DXGKIT_EXECUTABLE

Reads both and runs the job's command as indexed pods would. scripts/container_test makes the image and runs the command in it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from debian_yaml import yaml  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TOOL = os.path.abspath(sys.argv.pop(1))
JOB = yaml.safe_load((HERE / "kubernetes.yaml").read_text())

# Fields of batch/v1 Job that may stand in the file, with the type of each: a field that is misspelt is refused by the real thing, too.
NAME, COUNT, TEXT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"), int, str
QUANTITY = re.compile(r"\d+(m|Ki|Mi|Gi)?")
FIELDS = {
    "apiVersion": re.compile("batch/v1"), "kind": re.compile("Job"), "metadata": {"name": NAME},
    "spec": {
        "completionMode": re.compile("Indexed"), "completions": COUNT, "parallelism": COUNT, "backoffLimit": COUNT,
        "template": {"spec": {
            "restartPolicy": re.compile("Never|OnFailure"),
            "securityContext": {"runAsUser": COUNT, "runAsGroup": COUNT, "fsGroup": COUNT},
            "containers": [{
                "name": NAME, "image": TEXT, "command": [TEXT],
                "resources": {"requests": {"cpu": QUANTITY, "memory": QUANTITY}, "limits": {"cpu": QUANTITY, "memory": QUANTITY}},
                "securityContext": {"allowPrivilegeEscalation": bool, "capabilities": {"drop": [TEXT]}},
                "volumeMounts": [{"name": NAME, "mountPath": re.compile("/.+")}]}],
            "volumes": [{"name": NAME, "persistentVolumeClaim": {"claimName": NAME}, "emptyDir": {}}]}}}}


def misfits(value, shape, place=""):
    """Places where a value does not have its shape."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [place]
        return [one for key, inner in value.items() for one in (misfits(inner, shape[key], f"{place}.{key}") if key in shape else [f"{place}.{key}"])]
    if isinstance(shape, list):
        return [one for i, inner in enumerate(value) for one in misfits(inner, shape[0], f"{place}[{i}]")] if isinstance(value, list) else [place]
    if isinstance(shape, re.Pattern):
        return [] if isinstance(value, str) and shape.fullmatch(value) else [place]
    return [] if type(value) is shape else [place]


class Cluster(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "scratch").mkdir()
        self.pod = JOB["spec"]["template"]["spec"]

    def tool(self, *words):
        done = subprocess.run([TOOL, *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def pod_of(self, index, shards):
        """What a pod with this index does, in folders of this test."""
        shell, option, script = self.pod["containers"][0]["command"]
        self.assertIn(f"/{JOB['spec']['completions']} ", script)
        script = script.replace(f"/{JOB['spec']['completions']} ", f"/{shards} ").replace("/data/", f"{self.folder}/data/").replace("/scratch", f"{self.folder}/scratch")
        environment = os.environ | {"JOB_COMPLETION_INDEX": str(index), "PATH": f"{os.path.dirname(TOOL)}:{os.environ['PATH']}"}
        return subprocess.run([shell, option, script], env=environment, capture_output=True, text=True)

    def test_the_job_has_what_kubernetes_knows(self):
        self.assertEqual(misfits(JOB, FIELDS), [])
        spec = JOB["spec"]
        self.assertLessEqual(spec["parallelism"], spec["completions"])
        mounts = [mount["name"] for mount in self.pod["containers"][0]["volumeMounts"]]
        self.assertEqual(mounts, [volume["name"] for volume in self.pod["volumes"]])
        self.assertEqual([len(volume) for volume in self.pod["volumes"]], [2, 2])
        # The check itself.
        self.assertEqual(misfits({"spec": {"completionmode": "Indexed", "completions": "100"}}, FIELDS), [".spec.completionmode", ".spec.completions"])

    def test_two_indices_make_what_one_process_makes(self):
        (self.folder / "data").mkdir()
        small = ("--clients", "1", "--operations", "10")
        self.tool("campaign", "run", "data/nightly", "--engine", "none", "--seeds", "1..12", "--shards", "2", "--", *small)
        for index in (1, 0, 1):  # a pod that is started twice is harmless
            done = self.pod_of(index, 2)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotEqual(self.pod_of(2, 2).returncode, 0)  # there is no such shard
        self.assertIn("12 passed, 0 failed", self.tool("campaign", "report", "data/nightly"))
        self.tool("sim", "--seeds", "1..12", "--jobs", "1", "--quiet", "--db", "one.sqlite", *small)
        self.tool("merge", "alone.sqlite", "one.sqlite")
        self.assertEqual((self.folder / "data/nightly/results.sqlite").read_bytes(), (self.folder / "alone.sqlite").read_bytes())
        self.assertEqual(list((self.folder / "scratch").iterdir()), [])

    def test_the_recipe_and_the_job_agree(self):
        recipe = (HERE / "Containerfile").read_text()
        steps = [line.split(maxsplit=1) for line in recipe.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
        self.assertEqual([step[0] for step in steps], ["FROM", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT"])
        values = dict(steps)
        self.assertEqual(values["USER"], "{runAsUser}:{runAsGroup}".format(**self.pod["securityContext"]))
        self.assertIn(values["WORKDIR"], [mount["mountPath"] for mount in self.pod["containers"][0]["volumeMounts"]])
        subprocess.run(["sh", "-n", "-c", values["RUN"]], check=True)


if __name__ == "__main__":
    unittest.main()
