"""
C{git_pillar} beside stock: the same pillars of the same repositories, whatever an entry says.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.wire.msgpack import unpack
from saltwisted.worker.pillar.work import PillarWorker
from tests.gitrepos import ENVIRON, Repo
from tests.harness import needs_peers, peer_venv, scratch

ASK = """
import json, os, sys
import salt.config, salt.pillar, salt.utils.gitfs
home, cases = sys.argv[1], json.loads(sys.argv[2])
def ask(name, case):
    opts = salt.config.master_config(None)
    opts.update(cachedir=f"{home}/{name}", sock_dir=home, root_dir=home, __role="master",
                git_pillar_provider="gitpython", extension_modules=home + "/ext",
                pillar_roots={"base": [home + "/none"]}, file_roots={"base": [home + "/none"]},
                pillar_safe_render_error=False, id="m1", file_client="local", pillar_cache=False)
    os.makedirs(opts["cachedir"])
    opts.update(case["options"])
    try:
        remotes = [entry["git"] for entry in opts["ext_pillar"]]
        for each in remotes:
            from salt.pillar.git_pillar import GLOBAL_ONLY, PER_REMOTE_ONLY, PER_REMOTE_OVERRIDES
            salt.utils.gitfs.GitPillar(
                opts, each, per_remote_overrides=PER_REMOTE_OVERRIDES,
                per_remote_only=PER_REMOTE_ONLY, global_only=GLOBAL_ONLY).fetch_remotes()
        found = salt.pillar.Pillar(
            opts, {"os": "X"}, "m1", case["saltenv"], pillarenv=case["pillarenv"]
        ).compile_pillar()
        found = json.loads(json.dumps(found, default=str))
    except SystemExit as error:
        found = f"exit {error.code}"
    except Exception as error:
        found = type(error).__name__
    return found
out = {name: ask(name, case) for name, case in cases.items()}
print("ANSWER" + json.dumps(out))
"""


@needs_peers
class CompareTests(SynchronousTestCase):
    """Two repositories with branches, tags and directories."""

    maxDiff = None

    def setUp(self) -> None:
        """Make them."""
        self.home = scratch(self)
        one, two = (Repo(os.path.join(self.home, name)) for name in ("one", "two"))
        self.one, self.two = one.url, two.url
        one.commit(
            {
                "top.sls": b"base:\n  '*': [a, sub.b]\n",
                "a.sls": b"who: one-{{ saltenv }}\nlist: [1]\nmap: {one: 1}\n",
                "sub/b.sls": b"b: {{ saltenv }}\n",
                "sub/top.sls": b"base:\n  '*': [b]\n",
                "shared.sls": b"shared: one\n",
            }
        )
        one.git("tag", "v1")
        one.git("checkout", "--quiet", "-b", "dev")
        one.commit({"top.sls": b"dev:\n  '*': [a]\n", "a.sls": b"who: dev-{{ saltenv }}\n"})
        one.git("checkout", "--quiet", "-b", "feature/x")
        one.commit({"top.sls": b"{{ saltenv }}:\n  '*': [a]\n", "a.sls": b"who: x-{{ saltenv }}\n"})
        one.git("checkout", "--quiet", "master")
        two.commit(
            {
                "top.sls": b"base:\n  '*': [c]\n",
                "c.sls": b"include: [shared]\nwho: two\nlist: [2]\nmap: {two: 2}\n",
                "shared.sls": b"shared: two\n",
                "mounted.sls": b"include: [lib.deep.shared]\nm: 1\n",
            }
        )
        two.git("branch", "trunk")

    def cases(self) -> dict[str, dict[str, Any]]:
        """What is asked, by name."""
        one, two = self.one, self.two

        def case(*entries: Any, **more: Any) -> dict[str, Any]:
            env = {name: more.pop(name, None) for name in ("saltenv", "pillarenv")}
            return {"options": {"ext_pillar": [{"git": list(entries)}], **more}, **env}

        return {
            "plain": case(f"master {one}"),
            "branch-option": case(one, git_pillar_branch="dev", pillarenv="dev"),
            "dev-asked": case(f"dev {one}", pillarenv="dev"),
            "dev-as-base": case({f"dev {one}": [{"env": "base"}]}),
            "env-option": case(f"master {one}", git_pillar_env="qa", pillarenv="qa"),
            "tag": case({f"v1 {one}": [{"env": "base"}]}),
            "slash": case(f"feature/x {one}", pillarenv="feature/x"),
            "missing-branch": case(f"nowhere {one}"),
            "two": case(f"master {one}", f"master {two}"),
            "lists": case(f"master {one}", f"master {two}", pillar_merge_lists=True),
            "no-includes": case(f"master {one}", f"master {two}", git_pillar_includes=False),
            "root": case({f"master {one}": [{"root": "sub"}]}),
            "root-option": case(f"master {one}", git_pillar_root="sub"),
            "root-missing": case({f"master {one}": [{"root": "nowhere"}]}),
            "mountpoint": case(f"master {two}", {f"master {one}": [{"mountpoint": "lib/deep"}]}),
            "same-twice": case(
                {f"master {one}": [{"name": "first"}]},
                {f"master {one}": [{"name": "second"}, {"root": "sub"}]},
            ),
            "base-option": case(f"trunk {two}", git_pillar_base="trunk"),
            "env-wild": case(f"__env__ {one}"),
            "env-wild-dev": case(f"__env__ {one}", pillarenv="dev"),
            "env-wild-saltenv": case(f"__env__ {one}", saltenv="dev"),
            "env-wild-gone": case(f"__env__ {one}", pillarenv="nowhere"),
            "fallback": case({f"__env__ {one}": [{"fallback": "feature/x"}]}, pillarenv="nowhere"),
            "fallback-option": case(
                f"__env__ {one}", git_pillar_fallback="feature/x", pillarenv="nowhere"
            ),
            "unknown": case({f"master {one}": [{"nope": 1}]}),
            "empty-parameters": case({f"master {one}": None}),
        }

    def stock(self, cases: dict[str, Any]) -> Any:
        """What stock says to all of them."""
        done = subprocess.run(
            [
                f"{peer_venv('3008')}/bin/python",
                "-c",
                ASK,
                os.path.join(self.home, "stock"),
                json.dumps(cases),
            ],
            env={**ENVIRON, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if "ANSWER" not in done.stdout:
            raise AssertionError(done.stdout[-2000:] + done.stderr[-3000:])
        return json.loads(done.stdout.partition("ANSWER")[2])

    def ours(self, case: dict[str, Any]) -> Any:
        """What we say."""
        options = {
            **MasterConfig().as_opts(),
            "pillar_roots": {"base": [self.home + "/none"]},
            "cachedir": f"{self.home}/ours",
            "config_dir": self.home,
            "extension_modules": self.home + "/ext",
            "pillar_safe_render_error": False,
            "git_pillar_update_interval": 3600,
            **case["options"],
        }
        load = {"id": "m1", "grains": {"os": "X"}, "pillarenv": case["pillarenv"]}
        answer = PillarWorker(options).pillar({**load, "saltenv": case["saltenv"]})
        return unpack(answer["packed"])

    def test_alike(self) -> None:
        """The same pillar for each entry; what is wrong is an error with both."""
        cases = self.cases()
        wrong = {}
        for name, theirs in self.stock(cases).items():
            mine = self.ours(cases[name])
            if isinstance(theirs, str) or "_errors" in theirs:
                if "_errors" not in mine:
                    wrong[name] = (mine, theirs)
            elif mine != theirs:
                wrong[name] = (mine, theirs)
        self.assertEqual(wrong, {}, json.dumps(wrong, indent=1))
