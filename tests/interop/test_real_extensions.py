"""
Twelve Salt extensions from PyPI, installed together and without the C{salt} package: which of
their files load. It fetches some 60 MB, so it is C{--long} alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT
from tests.interop.extensions import LOAD

EXTENSIONS = (
    *("vault==1.8.0", "dockermod==0.1.3", "mysql==1.1.0", "kubernetes==3.0.0"),
    *("elasticsearch==1.2.3", "zabbix==1.0.0", "consul==1.1.0", "redis==1.0.2"),
    *("mongodb==1.0.0", "github==1.1.0", "prometheus==2.2.0", "s3fs==1.0.0"),
)
LIBRARIES = (
    *("requests", "docker", "PyMySQL", "kubernetes", "elasticsearch", "python-consul", "redis"),
    *("pymongo", "PyGithub", "PyNaCl", "prometheus-client", "hvac"),
)
REFUSE = """
dockermod/executors/docker dockermod/modules/dockercompose dockermod/proxy/docker
elasticsearch/modules/elasticsearch6_mod elasticsearch/returners/elasticsearch6_mod
elasticsearch/states/elasticsearch_mod kubernetes/modules/kuberesource_cmd
kubernetes/modules/kuberesource_cp kubernetes/modules/kuberesource_logs
kubernetes/modules/kuberesource_node kubernetes/modules/kuberesource_state
kubernetes/modules/kuberesource_workload prometheus/engines/prometheus_mod
redis/tokens/rediscluster zabbix/returners/zabbix_return
"""
"""They say by themselves that they have nothing to do here."""
FAIL = {"s3fs/fileserver/s3fs": "No module named 'salt.utils.s3'"}


@skipUnless(os.environ.get("SALTWISTED_LONG") == "1", "only with --long: it fetches packages")
class ExtensionTests(SynchronousTestCase):
    """Installed as docs/site-modules.md says."""

    def test_together(self) -> None:
        """All files load save those named here, and C{test.ping} answers as before."""
        base = Path(self.mktemp()).absolute()
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target"]
        extensions = [f"saltext-{each}" for each in EXTENSIONS]
        for words in (["ext", "--no-deps", *extensions], ["libs", *LIBRARIES]):
            subprocess.run([*pip, str(base / words[0]), *words[1:]], check=True)

        done = subprocess.run(
            [sys.executable, "-c", LOAD, str(base / "ext" / "saltext"), str(base / "cache")],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((ROOT, f"{base}/ext", f"{base}/libs")),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {name[: -len(".py")]: state for name, state in json.loads(done.stdout).items()}

        self.assertEqual(len(found), 97)
        failed = {name: why for name, (state, why) in found.items() if state == "fails"}
        self.assertEqual(failed.keys(), FAIL.keys(), failed)
        for name, why in failed.items():
            self.assertIn(FAIL[name], why)
        refused = {name: why for name, (state, why) in found.items() if state == "refuses"}
        self.assertEqual(sorted(refused), sorted(REFUSE.split()), refused)
