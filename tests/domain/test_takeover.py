"""
What becomes of a stock master's options and keys.
"""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as some
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.takeover import (
    IGNORED,
    MAPPED,
    UNSUPPORTED,
    Act,
    Verdict,
    give_back,
    judge_all,
)
from tests.harness import ROOT

NOT_READERS = (
    "config/options.py", "config/schema.py", "domain/takeover.py", "roles/reload.py",
    "cli/elsewhere.py",
)  # fmt: skip
KNOWN = [*MasterConfig.fields, *MasterConfig.dotted]


class OptionTests(SynchronousTestCase):
    """Each option has one verdict, with its reason."""

    def judged(self, **options: object) -> tuple[dict[str, Verdict], dict[str, object]]:
        """The verdicts by name, and what is written."""
        findings, write = judge_all({k: (v, "/f") for k, v in options.items()}, KNOWN)
        for finding in findings:
            if finding.verdict is not Verdict.TAKEN:
                self.assertTrue(finding.reason, finding)
        return {finding.option: finding.verdict for finding in findings}, write

    def test_taken(self) -> None:
        """What means the same here is written as it is, own data included."""
        options = {"timeout": 7, "nodegroups": {"a": "*"}, "mysql.host": "db", "ours": [1]}
        verdicts, write = self.judged(**options)

        self.assertEqual(set(verdicts.values()), {Verdict.TAKEN})
        self.assertEqual(write, options)

    def test_others(self) -> None:
        """Paths are mapped, pools ignored, engines unsupported; none of them is written."""
        verdicts, write = self.judged(
            pki_dir="/p", worker_threads=9, engines=[{"a": {}}], mworker_niceness=3
        )

        self.assertEqual(
            verdicts,
            {
                "pki_dir": Verdict.MAPPED,
                "worker_threads": Verdict.IGNORED,
                "mworker_niceness": Verdict.IGNORED,
                "engines": Verdict.UNSUPPORTED,
            },
        )
        self.assertEqual(write, {})

    def test_harmless_values(self) -> None:
        """An option of something that is not here does not count while it asks for nothing."""
        verdicts, _ = self.judged(
            reactor=[],
            fileserver_backend=["roots"],
            master_job_cache="local_cache",
            cache="localfs",
        )

        self.assertEqual(set(verdicts.values()), {Verdict.TAKEN})

    def test_old_names(self) -> None:
        """Names of older Salts become today's, and lose against them."""
        self.assertEqual(self.judged(client_acl={"a": []})[1], {"publisher_acl": {"a": []}})
        both = self.judged(client_acl={"a": []}, publisher_acl={"b": []})[1]
        self.assertEqual(both, {"publisher_acl": {"b": []}})
        self.assertEqual(self.judged(keep_jobs=48)[1], {"keep_jobs_seconds": 48 * 3600})

    def test_every_option(self) -> None:
        """No option of a stock master is without a verdict; the tables name no option twice."""
        findings, _ = judge_all(dict.fromkeys(KNOWN, (None, "")), KNOWN)

        self.assertEqual(len(findings), len(KNOWN))
        self.assertEqual(set(MAPPED) & set(IGNORED) | set(MAPPED) & set(UNSUPPORTED), set())

    def test_parts(self) -> None:
        """Of an option of which a part is here that part stays: pam, beside a yubico that goes."""
        verdicts, write = self.judged(
            external_auth={"yubico": {"a": [".*"]}, "pam": {"b": ["test.*"]}},
            fileserver_backend=["roots", "gitfs", "hgfs"],
            master_tops={"cobbler": {}, "ext_nodes": "cmd"},
        )

        self.assertEqual(set(verdicts.values()), {Verdict.UNSUPPORTED})
        self.assertEqual(
            write,
            {
                "external_auth": {"pam": {"b": ["test.*"]}},
                "fileserver_backend": ["roots", "gitfs"],
                "master_tops": {"ext_nodes": "cmd"},
            },
        )

    def test_git(self) -> None:
        """What a site with gitfs, git_pillar and minionfs has configured stays as it is."""
        url = "https://git.example.org/states.git"
        options: dict[str, object] = {
            "fileserver_backend": ["roots", "gitfs", "minionfs"],
            "gitfs_remotes": [
                url,
                {url: [{"name": "b"}, {"root": "r"}, {"mountpoint": "salt://m"}]},
            ],
            "gitfs_base": "main",
            "gitfs_root": "salt",
            "gitfs_fallback": "main",
            "gitfs_mountpoint": "salt://x",
            "gitfs_saltenv": [{"dev": [{"ref": "develop"}]}],
            "gitfs_saltenv_whitelist": ["base"],
            "gitfs_ref_types": ["branch"],
            "gitfs_disable_saltenv_mapping": True,
            "gitfs_privkey": "/k",
            "gitfs_passphrase": "p",
            "gitfs_user": "u",
            "gitfs_password": "w",
            "gitfs_insecure_auth": True,
            "gitfs_ssl_verify": False,
            "gitfs_proxy": "http://proxy:3128",
            "gitfs_refspecs": ["+refs/heads/*:refs/remotes/origin/*"],
            "gitfs_update_interval": 120,
            "ext_pillar": [{"git": [f"main {url}", {f"__env__ {url}": [{"root": "pillar"}]}]}],
            "git_pillar_base": "main",
            "git_pillar_root": "pillar",
            "git_pillar_privkey": "/k",
            "git_pillar_includes": False,
            "minionfs_mountpoint": "salt://pushed",
            "minionfs_env": "pushed",
            "minionfs_whitelist": ["web*"],
            "minionfs_blacklist": ["db*"],
            "file_recv": True,
        }
        verdicts, write = self.judged(**options)

        others = {name: one for name, one in verdicts.items() if one is not Verdict.TAKEN}
        self.assertEqual(others, {})
        self.assertEqual(write, options)
        # One provider reads, whatever these say
        said = {"gitfs_provider": "pygit2", "gitfs_pubkey": "/k.pub", "gitfs_depth": 1}
        self.assertEqual(set(self.judged(**said)[0].values()), {Verdict.IGNORED})

    def test_taken_is_read(self) -> None:
        """What is called taken is looked at somewhere: as an attribute, or by its name."""
        text = "\n".join(
            path.read_text()
            for path in Path(ROOT, "saltwisted").rglob("*.py")
            if path.relative_to(ROOT).as_posix().removeprefix("saltwisted/") not in NOT_READERS
        )
        looked = set(re.findall(r"\.(\w+)\b", text))
        looked.update(re.findall(r"""["'](?=([\w.-]+)["'])""", text))
        defaults = {**MasterConfig.dotted, **MasterConfig.defaults}
        findings, _ = judge_all({name: (defaults[name], "") for name in KNOWN}, KNOWN)
        taken = [one.option for one in findings if one.verdict is Verdict.TAKEN]
        unread = []
        for name in taken:
            if name in UNSUPPORTED or name.startswith("git_pillar_"):
                continue  # judged by the value; read by a name that is put together
            if name not in looked:
                unread.append(name)

        self.assertEqual(unread, [])


PLACES = some.dictionaries(
    some.tuples(some.sampled_from(["minions", "minions_pre"]), some.sampled_from(["a", "b"])),
    some.sampled_from(["k1", "k2"]),
)


class GiveBackTests(SynchronousTestCase):
    """Stock's key directories, brought up to what was decided meanwhile."""

    def test_accepted(self) -> None:
        """A key that was pending and is accepted at ours becomes accepted at stock's."""
        before = {("minions_pre", "web1"): "k"}
        back = give_back(before, {("minions", "web1"): "k"}, before)

        self.assertEqual(
            [(change.act, change.folder) for change in back.changes],
            [(Act.WRITE, "minions"), (Act.REMOVE, "minions_pre")],
        )

    def test_withdrawn(self) -> None:
        """A key that was deleted at ours goes, also where stock has another by now."""
        place = ("minions", "web1")
        back = give_back({place: "k"}, {}, {place: "other"})

        self.assertEqual([change.act for change in back.changes], [Act.REMOVE])

    def test_both(self) -> None:
        """Where both accepted something else, stock's stays and is named."""
        place = ("minions", "web1")
        back = give_back({}, {place: "ours"}, {place: "theirs"})

        self.assertEqual((back.changes, back.kept), ((), (place,)))

    @given(PLACES, PLACES)
    def test_law(self, before: dict, ours: dict) -> None:
        """While stock stood still, giving back makes it equal to ours."""
        stock = dict(before)
        for change in give_back(before, ours, stock).changes:
            place = (change.folder, change.minion_id)
            if change.act is Act.WRITE:
                stock[place] = ours[place]
            else:
                del stock[place]

        self.assertEqual(stock, ours)

    @given(PLACES)
    def test_nothing(self, keys: dict) -> None:
        """Without a change at ours, stock's keys are left alone, whatever they are."""
        self.assertEqual(give_back({}, {}, keys).changes, ())
        self.assertEqual(give_back(keys, keys, {}).changes, ())
