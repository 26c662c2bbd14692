"""
C{testinfra}, by which others test machines, with its backend for Salt and our C{salt.client}.

Its venv is beside those of the stock Salts; the C{salt} package is not in it.
"""

from __future__ import annotations

import os
import subprocess

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import PEERS, ROOT, needs_peers
from tests.interop.test_clients import Site

CONFTEST = "import saltwisted.client\n"
TESTS = """
import pytest
import testinfra


def test_machine(host):
    assert host.system_info.type == "linux"
    assert host.file("/etc/passwd").exists and host.file("/etc/passwd").user == "root"
    assert not host.file("/etc/nosuch").exists
    assert host.package("dpkg").is_installed and not host.package("nosuch").is_installed
    assert host.user("root").uid == 0


def test_commands(host):
    done = host.run("echo out; echo %s >&2; exit 3", "it's")
    assert (done.rc, done.stdout.strip(), done.stderr.strip()) == (3, "out", "it's")
    assert host.check_output("printf 'a  b'") == "a  b"


def test_functions(host):
    assert host.salt("test.echo", ["x"]) == "x"
    assert host.salt("grains.item", "id") == {"id": host.backend.host}
    assert host.salt("pillar.get", ["word", "unmask=True"]) == "of " + host.backend.host


def test_found():
    def named(*words):
        return [each.backend.host for each in testinfra.get_hosts(words)]

    assert named("salt://*") == ["other", "ours"]
    assert named("salt://ou*") == ["ours"]
    assert named("salt://G@id:other") == ["other"]
    assert named("salt://ours") == [testinfra.get_host("salt://ours").backend.host] == ["ours"]


def test_absent():
    with pytest.raises(RuntimeError, match="Minion not connected"):
        testinfra.get_host("salt://nosuch").run("true")
"""


@needs_peers
class TestinfraTests(SynchronousTestCase):
    """Beside a real master of ours with two minions."""

    def test_salt_backend(self) -> None:
        """Its tests of files, packages, users, commands and functions pass for both minions."""
        python = os.path.join(PEERS, "testinfra", "bin", "python")
        if not os.path.exists(python):
            raise AssertionError(f"no testinfra: {python} is not there")
        site = Site(self, stock=False)
        folder = os.path.join(site.master.root, "tests")
        os.mkdir(folder)
        for name, text in (("conftest", CONFTEST), ("test_machines", TESTS)):
            with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
                file.write(text)

        done = subprocess.run(
            [python, "-m", "pytest", "--connection=salt", "--hosts=*", "-p", "no:cacheprovider"],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ROOT, "SALTWISTED_CONFIG_DIR": site.master.conf},
        )

        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("8 passed", done.stdout)
