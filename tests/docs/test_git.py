"""
The options and commands of C{docs/git.md} do what the page says: each is taken as it stands there.

Servers and logins are tried by L{tests.worker.test_gitservers}, signatures by
L{tests.worker.test_gitsigned} and L{tests.cluster.test_real_git_signed}, the cluster by
L{tests.cluster.test_real_git}.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from typing import Any

import yaml
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.testing.ports import reserve_ports
from tests.config.test_git import parsed
from tests.gitrepos import ENVIRON, Repo, git_daemon
from tests.harness import ROOT, OurMaster, OurMinion, scratch, until

WEB = "it:\n  test.succeed_without_changes: [{name: one}]\n"
PILLAR = {"top.sls": "{{ saltenv }}: {'*': [it]}\n", "it.sls": "WORD: {{ saltenv }}\n"}


class GitPageTests(SynchronousTestCase):
    """A master that is configured as the page has it; git takes its servers for one on loopback."""

    def setUp(self) -> None:
        """Start it."""
        if shutil.which("curl") is None:
            raise SkipTest("curl is not installed")
        with open(os.path.join(ROOT, "docs", "git.md"), encoding="utf-8") as file:
            self.page = file.read()
        self.home = scratch(self)
        self.repos = {
            name: Repo(os.path.join(self.home, "git", *name.split("/")))
            for name in ("states.git", "formulas/nginx.git", "pillar.git", "other.git")
        }
        self.states, formula = self.repos["states.git"], self.repos["formulas/nginx.git"]
        self.first = self.states.commit({"web/init.sls": WEB.encode()})
        self.states.git("branch", "dev")
        formula.commit({"nginx/init.sls": b"{}", "beside": b""})
        formula.git("branch", "--move", "master", "main")
        self.repos["pillar.git"].git("checkout", "--quiet", "-b", "main")
        for name, root, word in (("pillar.git", "pillar/", "one"), ("other.git", "", "other")):
            files = {root + path: text.replace("WORD", word) for path, text in PILLAR.items()}
            self.repos[name].commit({path: text.encode() for path, text in files.items()})
        self.master = self.configured()
        self.addCleanup(self.master.kill)
        self.master.up()
        minion = OurMinion(self.home, self.master, "web1")
        self.addCleanup(minion.kill)
        minion.up()
        self.master.ping_until("web1")

    def options(self) -> dict[str, Any]:
        """All options of the page's blocks, but for the signatures."""
        found: dict[str, Any] = {}
        for block in re.findall(r"^```yaml\n(.*?)^```", self.page, re.M | re.S):
            found.update(yaml.safe_load(block))
        signed = {name for name in found if name.startswith("gitfs_verify")}
        self.assertEqual(signed, {"gitfs_verify", "gitfs_verify_keyring"})
        return {name: value for name, value in found.items() if name not in signed}

    def configured(self) -> OurMaster:
        """A master with them."""
        port, self.api = reserve_ports(2)
        git_daemon(self, os.path.join(self.home, "git"), port)
        until("git daemon", lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        with open(os.path.join(self.home, ".gitconfig"), "w") as file:
            file.write(f'[url "git://127.0.0.1:{port}/"]\n')
            file.write("insteadOf = https://git.example.org/\ninsteadOf = git@git.example.org:\n")
        rest = {"port": self.api, "host": "127.0.0.1"}
        master = OurMaster(self.home, auto_accept=True, rest_twisted=rest, **self.options())
        master.env.update(ENVIRON, HOME=self.home)
        return master

    def lines(self, beginning: str) -> list[str]:
        """The lines of the page's shell blocks that begin so, without comments."""
        blocks = "".join(re.findall(r"^```sh\n(.*?)^```", self.page, re.M | re.S))
        found = [line.partition(" #")[0].strip() for line in blocks.splitlines()]
        return [line for line in found if line.startswith(beginning)]

    def command(self, line: str, status: int = 0) -> str:
        """What a line of the page says."""
        words = [word.strip("'") for word in line.split()]
        if words[0] == "saltwisted":
            words = words[1:]
        done = self.master.command(words[0], *words[1:])
        self.assertEqual(done.returncode, status, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def named(self, line: str) -> str:
        """A command that is on the page, within a text."""
        self.assertIn(f"`{line}`", self.page)
        return line

    def test_commands(self) -> None:
        """What is served, fetched, named, run on an earlier commit, and rolled back."""
        update, some, envs, files = self.lines("salt-run")
        roots, status = self.lines("saltwisted")
        self.assertIn("states.git", self.command(update))
        url = "https://git.example.org/states.git"
        self.assertIn(url, self.command(some.replace("NAME,URL", url)))
        self.command(roots)
        self.assertEqual(self.command(envs).split(), ["-", "base", "-", "dev"])
        listed = self.command(files)
        self.assertIn("web/init.sls", listed)
        self.assertNotIn("nginx", listed)
        base = self.command(files.replace("dev", "base"))
        self.assertIn("formulas/nginx/init.sls", base)
        self.assertNotIn("beside", base)
        self.command(status)

        second = self.states.commit({"web/init.sls": WEB.replace("one", "two").encode()})
        self.command(roots + " --wait")
        by_generation, by_commit = self.lines("salt --generation")
        web = by_commit.replace("0a1b2c3", self.first[:7]).replace("state.apply", "state.apply web")
        self.assertIn("one", self.command(web))
        jobs = json.loads(self.command("salt-run jobs.list_jobs --out json")).values()
        (job,) = [each for each in jobs if each["Function"] == "state.apply"]
        self.assertEqual(job["Commits"]["base"][url], self.first)
        web = by_generation.replace("3f2a9c0d1b7e", job["Generation"])
        self.assertIn("one", self.command(web.replace("state.apply", "state.apply web")))
        read = self.named("salt '*' cp.get_file_str salt://web/init.sls saltenv=0a1b2c3d")
        self.assertIn("one", self.command(read.replace("0a1b2c3d", self.first[:8])))
        log = self.command(self.named("saltwisted roots log"))
        self.assertIn(second[:12], log)
        back = self.named("saltwisted roots rollback GEN|COMMIT").replace("GEN|COMMIT", self.first)
        self.command(back)
        self.assertIn("rolled back", self.command("saltwisted roots log"))
        self.assertIn("one", self.command("salt 'web*' state.apply web"))

    def test_pillar(self) -> None:
        """The pillar is that of both entries; what is pushed is there after an update."""

        def pillar() -> Any:
            return self.master.salt("web1", "pillar.items", "unmask=True")["web1"]

        self.assertEqual(pillar(), {"one": "base", "other": "base"})
        self.repos["pillar.git"].commit({"pillar/it.sls": b"two: 2\n"})
        self.command(self.named("salt-run git_pillar.update"))
        self.assertEqual(pillar(), {"two": 2, "other": "base"})

    def test_hook(self) -> None:
        """A hook has the remotes fetched, and is refused without its token."""
        (line,) = self.lines("curl")
        line = line.replace("https://MASTER:8000", f"https://127.0.0.1:{self.api}")
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", self.api)))
        self.states.commit({"new": b""})

        def posted(line: str) -> str:
            shell = [
                "sh",
                "-c",
                f"{line} --insecure --silent --output /dev/null --write-out '%{{http_code}}'",
            ]
            return subprocess.run(shell, capture_output=True, text=True, check=True).stdout

        self.assertEqual(posted(line.replace("use-a-long-one", "another-one")), "401")
        self.assertEqual(posted(line), "200")
        until("the fetch", lambda: "new" in self.command("salt-run fileserver.file_list").split())

    def test_parameters(self) -> None:
        """Each parameter of the table is one, and so is each global form that the page says."""
        rows = re.findall(r"^\| (`.*?`) \|", self.page, re.M)
        names = re.findall(r"`(\w+)`", " ".join(rows))
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertNotIn("did you mean", str(parsed([{"/x": [{name: 1}]}])[1]), name)
        own = {"saltenv", "all_saltenvs", "name"}
        said = "Each parameter except `saltenv`, `all_saltenvs` and `name` has a global form"
        self.assertIn(said, self.page)
        forms = {f"gitfs_{name}" for name in set(names) - own}
        self.assertEqual(forms - {*MasterConfig().fields}, set())
