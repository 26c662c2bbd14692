"""
Configurations, judged by what stock Salt makes of the same files.

C{config_cases.json} was recorded from Salt 3008.2 by C{record_config.py}. In it
C{@} stands for the scratch directory; here it is C{/@}, on a disk in memory.
"""

from __future__ import annotations

import fnmatch
import json
import os.path
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.load import Loaded, load
from saltwisted.config.options import MasterConfig, MinionConfig

RECORDED = json.loads((Path(__file__).parent / "config_cases.json").read_text())

OWN = {
    "config_dir",
    "publish_window",
    "orchestrate_takeover",
    "catchup_wait",
    "serve_alone",
    "return_copies",
    "cluster_pillar",
    "cluster_roots",
    "claims",
    "claims_etcd",
    "claims_etcd_ca",
    "claims_etcd_cert",
    "claims_etcd_key",
    "claims_etcd_password",
    "claims_etcd_prefix",
    "claims_etcd_user",
    "git_pillar_verify",
    "git_pillar_verify_allowed_signers",
    "git_pillar_verify_keyring",
    "gitfs_max_size",
    "gitfs_timeout",
    "gitfs_verify",
    "gitfs_verify_allowed_signers",
    "gitfs_verify_keyring",
    "gitfs_webhook_secret",
    "mine_size_max",
    "pillar_last_good",
    "site_function_timeout",
    "job_claims_max",
    "job_claims_size_max",
    "reactor_chain_limit",
}
"""Our own options, which Salt has not."""
NEWER = {"pillar_mask_output", "whitelist_state_modules"}
"""Options of Salt 3008.5, which the recorded release had not."""

UNUSED = {"worker_pools"}
"""Filled in by stock for its own processes."""


class MemoryDisk:
    """Files in a dictionary."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def read(self, path: str) -> str | None:
        """The text, if it is there."""
        return self.files.get(os.path.normpath(path))

    def glob(self, pattern: str) -> list[str]:
        """Files and directories, level by level, without the hidden ones."""
        pattern = os.path.normpath(pattern)
        names: set[str] = set()
        for path in self.files:
            parts = path.split("/")
            names.update("/".join(parts[:depth]) for depth in range(2, len(parts) + 1))
        wanted = pattern.split("/")
        return [
            name
            for name in names
            if len(name.split("/")) == len(wanted)
            and all(
                fnmatch.fnmatchcase(part, want) and not (part[:1] == "." and want[:1] != ".")
                for part, want in zip(name.split("/"), wanted, strict=True)
            )
        ]

    def expand_user(self, path: str) -> str:
        """One user lives here."""
        return path.replace("~", "/home/user")

    def absolute(self, path: str) -> str:
        """Everything starts at the root."""
        return os.path.normpath(os.path.join("/", path))


class StillHost:
    """A host that is always the same."""

    name = "host.example.com"

    def __init__(self) -> None:
        self.theirs: dict[str, str] = {}

    def user(self) -> str:
        """Root."""
        return "root"

    def owner(self, path: str) -> str:
        """Root has everything but what C{theirs} says."""
        return self.theirs.get(path, "root")

    def home(self) -> str:
        """Root's."""
        return "/root"

    def program(self) -> str:
        """As when the cases were recorded."""
        return "program"

    def guess_id(self) -> str:
        """The only name it has."""
        return self.name

    def call_id_function(self, function: str, kwargs: Any, config: Any) -> str:
        """Shows what was asked."""
        return f"{function}({sorted(kwargs.items())}) {config.pki_dir}"


def loaded(role: str, files: dict[str, str], **arguments: Any) -> Loaded:
    """The configuration in C{/@}, from files that name it C{@}."""
    disk = MemoryDisk({f"/@/{name}": text.replace("@", "/@") for name, text in files.items()})
    return load(role, disk, StillHost(), arguments.pop("config_dir", "/@"), **arguments)


def plain(value: Any) -> Any:
    """As the recording wrote it down."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, set):
        return sorted(plain(item) for item in value)
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    return value.replace("/@", "@") if isinstance(value, str) else value


class DefaultTests(SynchronousTestCase):
    """What holds when nobody says anything."""

    def compare(self, role: str, opts: dict[str, Any]) -> None:
        """Every stock default is there with its value, and nothing else but what we add."""
        stock = RECORDED["defaults"][role]
        # the size of a buffer that stock computes from the machine's memory, and then ignores
        skipped = {"ipc_write_buffer"}
        differing = {
            key: (opts.get(key, "absent"), value)
            for key, value in stock.items()
            if key not in skipped and plain(opts.get(key, "absent")) != value
        }
        derived = {
            "id", "extra", "beacons", "token_dir", "syndic_dir", "__role", "__fs_update",
            "__cachedir",
        }  # fmt: skip

        self.assertEqual(differing, {})
        self.assertEqual(set(opts) - set(stock) - derived - OWN - NEWER, set())

    def test_master(self) -> None:
        """A master has all of stock's defaults."""
        self.compare("master", MasterConfig().as_opts())

    def test_minion(self) -> None:
        """A minion has all of stock's defaults."""
        self.compare("minion", MinionConfig().as_opts())


class AsStockTests(SynchronousTestCase):
    """Files mean what they mean to stock."""

    def test_cases(self) -> None:
        """Every recorded configuration gives the recorded options."""
        found = []
        for case in RECORDED["cases"]:
            role, expected = case["role"], case["opts"]
            opts = plain(loaded(role, case["files"]).config.as_opts())
            stock = {**RECORDED["defaults"][role], **expected}
            if case["name"] == "empty":
                del stock["id"]  # the recording machine's name
                opts.pop("id")
            for key in sorted({*stock, *opts} - OWN - NEWER - UNUSED):
                mine, theirs = opts.get(key, "absent"), stock.get(key, "absent")
                if mine != theirs:
                    found.append((case["name"], role, key, mine, theirs))

        self.assertEqual(found, [], "\n" + "\n".join(map(str, found)))
