"""
C{minionfs} beside stock: lists, hashes, and which backend serves a file that several have.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.master.fileserver import FileServer
from saltwisted.stores.sources.table import FILE_SOURCES
from tests.harness import needs_peers, peer_venv, scratch

ASK = """
import json, sys
import salt.config, salt.fileserver
def plain(value):
    return value.decode() if isinstance(value, bytes) else value
def ask(home, given, paths):
    opts = salt.config.master_config(None)
    opts.update(cachedir=home, sock_dir=home, root_dir=home, extension_modules=home + "/ext",
                file_recv=True, file_roots={"base": [home + "/srv"]}, **given)
    opts["__role"] = "master"
    fs = salt.fileserver.Fileserver(opts)
    found = {"envs": sorted(fs.envs())}
    for env in found["envs"]:
        load = {"saltenv": env}
        files = sorted(fs.file_list(dict(load)))
        found[env] = {
            "files": files, "dirs": sorted(fs.dir_list(dict(load))),
            "empty": fs.file_list_emptydirs(dict(load)), "links": fs.symlink_list(dict(load)),
            "found": {}, "hashes": {},
        }
        for path in [*files, *paths]:
            at = fs.find_file("|" + path, env)
            found[env]["found"][path] = at.get("back", "") if at["path"] else ""
            hashed = fs.file_hash({"path": "|" + path, **load})
            found[env]["hashes"][path] = plain(hashed.get("hsum", "")) if hashed else ""
    return found
home, cases, paths = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
print(json.dumps({name: ask(home, given, paths) for name, given in cases.items()}))
"""
CASES: dict[str, dict[str, Any]] = {
    "alone": {"fileserver_backend": ["minionfs"]},
    "roots first": {"fileserver_backend": ["roots", "minionfs"]},
    "minionfs first": {"fileserver_backend": ["minionfs", "roots"]},
    "other env": {"fileserver_backend": ["roots", "minionfs"], "minionfs_env": "pushed"},
    "mounted": {"fileserver_backend": ["minionfs"], "minionfs_mountpoint": "salt://mnt"},
    "white": {"fileserver_backend": ["minionfs"], "minionfs_whitelist": ["web*"]},
    "black": {"fileserver_backend": ["minionfs"], "minionfs_blacklist": [r"db\d"]},
    "both": {
        "fileserver_backend": ["minionfs"],
        "minionfs_whitelist": ["*1"],
        "minionfs_blacklist": ["db*"],
    },
    "ignored": {"fileserver_backend": ["minionfs"], "file_ignore_glob": ["*.pyc"]},
}
PATHS = ["web1/top.sls", "web1/etc", "web1", "nobody/x", "web1/link", "web1/../db1/odd/-x"]


@needs_peers
class CompareTests(SynchronousTestCase):
    """One cache directory, read by both."""

    maxDiff = None

    def test_same(self) -> None:
        """
        Environments, files, directories, hashes and the backend that serves are those of stock,
        but for a link, which stock serves and does not list.
        """
        home = scratch(self)
        for path, content in (
            ("minions/web1/files/etc/fstab", b"fstab"),
            ("minions/web1/files/etc/deep/er/x", b""),
            ("minions/web1/files/top.sls", b"base: {}"),
            ("minions/web1/files/a.pyc", b"pyc"),
            ("minions/db1/files/odd/a b\u00fc", b"odd"),
            ("minions/db1/files/odd/-x", b"-"),
            ("minions/db2/data.p", b"other"),
            ("srv/web1/etc/fstab", b"of the roots"),
            ("srv/top.sls", b"base: {}"),
        ):
            full = Path(home, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content)
        os.symlink("etc/fstab", f"{home}/minions/web1/files/link")
        python = os.path.join(peer_venv("3008"), "bin/python")
        done = subprocess.run(
            [python, "-c", ASK, home, json.dumps(CASES), json.dumps(PATHS)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        theirs = json.loads(done.stdout)

        for name, given in CASES.items():
            for env in theirs[name]["envs"]:
                found = theirs[name][env]
                for path in list(found["found"]):
                    if path.endswith("web1/link"):
                        found["found"][path] = found["hashes"][path] = ""
            self.assertEqual(self.ours(home, given), theirs[name], name)

    def ours(self, home: str, given: dict[str, Any]) -> dict[str, Any]:
        """What our file server says."""
        config = MasterConfig(
            cachedir=home, pki_dir=f"{home}/pki", file_recv=True,
            file_roots={"base": [f"{home}/srv"]}, **given,
        )  # fmt: skip
        names = config.fileserver_backend
        sources = [FILE_SOURCES.take(name)(config, maybeDeferred) for name in names]
        server = FileServer(sources, config, maybeDeferred)

        def value(answer: Any) -> Any:
            return self.successResultOf(maybeDeferred(lambda: answer))

        found: dict[str, Any] = {"envs": server.envs()}
        for env in found["envs"]:
            files = value(server.list_now("files", env, ""))
            told = found[env] = {
                "files": files,
                "dirs": value(server.list_now("dirs", env, "")),
                "empty": value(server.list_now("empty_dirs", env, "")),
                "links": value(server.links_now(env, "")),
                "found": {},
                "hashes": {},
            }
            for path in [*files, *PATHS]:
                told["found"][path] = server.file_find("|" + path, env).get("back", "")
                hashed = value(server.file_hash("|" + path, env))
                told["hashes"][path] = hashed["hsum"] if hashed else ""
        return found
