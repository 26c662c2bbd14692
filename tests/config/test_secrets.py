"""
Which options are secret, and that whoever shows options does not show them (T-CONF-1, T-LOG-1).
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.drift import option_of
from saltwisted.config.load import OTHER_NAMES
from saltwisted.config.options import LOGIN_OPTIONS, SECRETS, MasterConfig, MinionConfig
from saltwisted.config.secrets import PLACEHOLDER, compared, shown, shown_text, shown_value
from saltwisted.domain.replica.settings import shown_of
from saltwisted.domain.who import local
from saltwisted.errors import ConfigError
from saltwisted.master.context import Context
from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.process.rest import Rest
from tests.config.test_stock import loaded
from tests.master.rig import Rig
from tests.web.rig import ApiRig

CANARY = "s3cretZx9"
PLAIN = {
    "eauth_tokens", "keep_acl_in_token", "pass_dir", "pass_gnupghome", "pass_strict_fetch",
    "pass_variable_prefix", "pass_to_ext_pillars", "resource_pillar_key", "rotate_aes_key",
    "ssh_use_home_key", "token_dir", "token_expire", "token_file",
    "token_expire_user_override", "tokens_dirs", "eauth_tokens.cache_driver", "key_cache",
    "eauth_tokens.cluster_id", "claims_etcd_key", "master_sign_key_name", "key_logfile",
    "allow_minion_key_revoke", "keys.cache_driver", "mmap_cache_key_size", "keysize",
    "verify_master_pubkey_sign", "master_use_pubkey_signature",
    "master_pubkey_signature", "gitfs_verify_keyring", "git_pillar_verify_keyring",
}  # fmt: skip
"""Options whose names have a word of secrets in them and that are none: paths, times, switches."""
WITHIN: dict[str, Any] = {
    "ext_pillar": [
        {"git": [{f"main https://bot:{CANARY}0@git.example.com/x": [{"password": f"{CANARY}1"}]}]},
        {"mysql": {"pass": f"{CANARY}2", "host": "db"}},
    ],
    "gitfs_remotes": [
        f"https://{CANARY}{CANARY}{CANARY}@github.com/a/b",
        {"https://git.example.com/y": [{"passphrase": f"{CANARY}4"}, {"root": "states"}]},
    ],
    "rest_twisted": {
        "webhook_signatures": {
            "git/*": f"{CANARY}5",
            "ci": {"secret": f"{CANARY}6", "header": "X-Signature"},
        },
    },
    "tracing": {"endpoint": "http://otlp", "headers": {"x-team": f"{CANARY}7"}},
    "external_auth": {"rest": {"^url": f"https://me:{CANARY}8@auth.example.com/"}},
    "mysql.pass": f"{CANARY}9",
    "redis.password": 12345678,
    "slack": {"api_key": f"{CANARY}a", "room": "ops"},
    "engines": [{"irc": {"token": f"{CANARY}b", "nick": "salt"}}],
}
"""Options that have secrets somewhere, and other things."""


def config_of_secrets(**more: Any) -> MasterConfig:
    """A master's configuration in which every option that is secret has a secret."""
    known = {name: f"{CANARY}-{name}" for name in SECRETS if name in MasterConfig.fields}
    extra = {name: f"{CANARY}-{name}" for name in SECRETS if name not in MasterConfig.fields}
    for name, value in {**WITHIN, **more}.items():
        (known if name in MasterConfig.fields else extra)[name] = value
    return MasterConfig(**known, extra=extra)


def told(value: Any) -> str:
    """As it is sent."""
    return json.dumps(value, default=str)


class DeclaredTests(SynchronousTestCase):
    """The marks in the schema."""

    def test_marks(self) -> None:
        """A secret option has the type that it would have without the mark, and is handed on."""
        self.assertEqual(MasterConfig.fields["cluster_secret"], "str | None")
        self.assertEqual(MasterConfig.fields["winrepo_password"], "str")
        self.assertIn("winrepo_password", MasterConfig.handed_on)
        self.assertIn("cluster_secret", MasterConfig.secret)
        self.assertNotIn("cluster_secret", MinionConfig.secret)
        self.assertGreater(len(SECRETS), 15)

    def test_none_is_forgotten(self) -> None:
        """An option whose name has a word of secrets is marked as one, or said to be none here."""
        names = {*MasterConfig.fields, *MinionConfig.fields, *MasterConfig.dotted, *OTHER_NAMES}
        names |= {*MinionConfig.dotted, *LOGIN_OPTIONS}
        words = ("pass", "secret", "token", "pw", "_key", "key_", "keys", "credential")
        like = {name for name in names if any(word in name for word in words)}

        self.assertEqual(like - SECRETS, PLAIN)


class ShownTests(SynchronousTestCase):
    """What is shown of values."""

    def test_within(self) -> None:
        """What is beside a secret is shown, and whether there is one."""
        found = shown(WITHIN)

        self.assertNotIn(CANARY, told(found))
        self.assertNotIn("12345678", told(found))
        self.assertEqual(found["slack"], {"api_key": PLACEHOLDER, "room": "ops"})
        self.assertEqual(found["engines"][0]["irc"]["nick"], "salt")
        self.assertEqual(found["ext_pillar"][1], {"mysql": {"pass": PLACEHOLDER, "host": "db"}})
        self.assertIn("git.example.com/x", told(found["ext_pillar"]))
        self.assertEqual(
            found["gitfs_remotes"][1]["https://git.example.com/y"][1], {"root": "states"}
        )
        self.assertEqual(found["tracing"]["endpoint"], "http://otlp")

    def test_what_is_none(self) -> None:
        """Nothing stands for a secret that is not set, and names of a site's own mean nothing."""
        plain = {
            "cluster_secret": None,
            "gitfs_password": "",
            "nodegroups": {"secret": "G@role:vault", "token": "web*"},
            "file_roots": {"base": ["/srv/salt"], "secret": ["/srv/secret"]},
            "token_expire": 43200,
            "rest_timeout": 300,
            "claims_etcd": ["http://etcd1:2379"],
        }

        self.assertEqual(shown(plain), plain)

    def test_addresses(self) -> None:
        """Of an address the user stays and the password goes; a token in his place goes, too."""
        self.assertEqual(shown_text("ssh://git@host/x"), "ssh://git@host/x")
        self.assertEqual(shown_text("https://bob@host/x"), "https://bob@host/x")
        self.assertEqual(shown_text("x http://a:b@h:80/"), f"x http://a:({PLACEHOLDER})@h:80/")
        self.assertNotIn("ghp_", shown_text("https://ghp_0123456789abcdef0123@github.com/a"))


class EverywhereTests(SynchronousTestCase):
    """Each option that is marked, wherever options are shown."""

    def setUp(self) -> None:
        self.config = config_of_secrets()

    def rig(self) -> Context:
        """A master with it."""
        options = {name: self.config.value(name) for name in {*SECRETS, *WITHIN}}
        known = {name: value for name, value in options.items() if name in MasterConfig.fields}
        extra = {name: value for name, value in options.items() if name not in known}
        return Rig(self, **known, extra=extra).ctx

    def test_functions(self) -> None:
        """T-CONF-1: no runner and no wheel function shows a secret, by whatever way it is named."""
        ctx = self.rig()
        answers = []
        asked: list[tuple[Any, str, list[str]]] = [
            (ctx.wheel, "config.values", []),
            (ctx.runner, "test.get_opts", []),
        ]
        asked += [(ctx.runner, "config.get", [name]) for name in {*SECRETS, *WITHIN}]
        asked += [(ctx.runner, "config.get", ["rest_twisted:webhook_signatures:git/*"])]
        asked += [(ctx.runner, "config.get", ["slack:api_key"])]
        for call, fun, arg in asked:
            work = Deferred.fromCoroutine(call(fun, arg, {}, local("root")))
            answers.append((fun, arg, self.successResultOf(work)))

        for fun, arg, answer in answers:
            self.assertNotIn(CANARY, told(answer), f"{fun} {arg}")
        self.assertIn("otlp", told(answers[0][2]))
        self.assertEqual(answers[0][2]["return"]["cluster_secret"], PLACEHOLDER)

    def test_api(self) -> None:
        """T-CONF-1: C{config.values} over the API, for a user of C{@wheel}, has no secret."""
        rig = ApiRig(
            self, **{name: f"{CANARY}-{name}" for name in SECRETS & {*MasterConfig.fields}}
        )
        low = {"client": "wheel", "fun": "config.values"}

        reply = rig.ask("POST", "/", low, token=rig.login())

        self.assertEqual(reply.status, 200)
        self.assertIn('"cluster_secret"', reply.text)
        self.assertNotIn(CANARY, reply.text)

    def test_members(self) -> None:
        """T-CONF-1: what members compare tells secrets apart, within options too, and no secret."""
        texts = shown_of(lambda name: option_of(self.config, name), compared)
        others = config_of_secrets(ext_pillar=[{"mysql": {"pass": f"{CANARY}other", "host": "db"}}])
        theirs = shown_of(lambda name: option_of(others, name), compared)

        self.assertNotIn(CANARY, told(texts))
        self.assertNotEqual(texts["ext_pillar"], theirs["ext_pillar"])
        self.assertTrue(texts["sharedsecret"].startswith("sha256 "))

    def test_pillars(self) -> None:
        """T-CONF-1: C{pillar_opts} sends minions what a site's modules need, and no secret."""
        opts = {**self.config.as_opts(), "pillar_opts": True, "pillar_roots": {"base": []}}
        opts["ext_pillar"] = []
        answer = PillarWorker(opts).pillar({"do": "pillar", "id": "m1", "grains": {}})

        text = bytes(answer["packed"])
        for name in SECRETS:
            self.assertNotIn(f"{CANARY}-{name}".encode(), text)
        self.assertIn(f"{CANARY}9".encode(), text)

    def test_wrong_types(self) -> None:
        """T-LOG-1: a secret of a wrong type is named, and not shown, nor is what is beside it."""
        for name in sorted(SECRETS & {*MasterConfig.fields}):
            text = f"{name}: {{a: {CANARY}}}\n"
            error = self.assertRaises(ConfigError, loaded, "master", {"master": text})
            self.assertIn(name, str(error))
            self.assertNotIn(CANARY, str(error))
        blocks = (
            f"rest_twisted: [{{webhook_signatures: {{a: {CANARY}}}}}]\n",
            f"rest_twisted: {{webhook_signatures: [{CANARY}]}}\n",
            f"external_auth: {{rest: [{{password: {CANARY}}}]}}\n",
            f"metrics: [{{headers: {{a: {CANARY}}}}}]\n",
        )
        for text in blocks:
            warnings = loaded("master", {"master": text}).warnings
            self.assertTrue(warnings, text)
            self.assertNotIn(CANARY, told(list(warnings)))

    def test_rest(self) -> None:
        """T-LOG-1: a password in the address of C{rest} is in no step and no problem."""
        url = f"http://me:{CANARY}@127.0.0.1:1/"

        proof = Rest().prove({"url": url}, "fred", "x")

        self.assertIn("127.0.0.1:1", proof.problem + told(proof.steps))
        self.assertNotIn(CANARY, proof.problem + told(proof.steps))

    def test_values(self) -> None:
        """A number is hidden as a text is, and a secret that is a list in each of its parts."""
        self.assertEqual(shown_value("sharedsecret", 4711), PLACEHOLDER)
        self.assertEqual(
            shown_value("sharedsecret", ["a", {"b": "c"}]), [PLACEHOLDER, {"b": PLACEHOLDER}]
        )
