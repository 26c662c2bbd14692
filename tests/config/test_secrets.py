"""
Which options are secret, and that whoever shows options does not show them (T-CONF-1, T-LOG-1).
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.drift import option_of
from saltwisted.config import api, git, gitpillar, logins
from saltwisted.config.load import OTHER_NAMES
from saltwisted.config.options import (
    LOGIN_OPTIONS,
    SECRET_WITHIN,
    SECRETS,
    MasterConfig,
    MinionConfig,
)
from saltwisted.config.schema import Options
from saltwisted.config.secrets import (
    PLACEHOLDER,
    compared,
    shown,
    shown_text,
    shown_value,
    without_own,
)
from saltwisted.domain.replica.settings import shown_of
from saltwisted.domain.who import local
from saltwisted.errors import ConfigError
from saltwisted.master.context import Context
from saltwisted.worker.masking import answering
from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.rest import Rest
from tests.config.test_stock import loaded
from tests.doors.measure import assert_linear
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
        self.assertEqual(shown_text("https://a:b@c@h/x@y"), f"https://a:({PLACEHOLDER})@h/x@y")
        self.assertEqual(
            shown_text("https://h/x?private_token=b&page=2"),
            f"https://h/x?private_token=({PLACEHOLDER})&page=2",
        )

    def test_commands(self) -> None:
        """Of a command goes what it is given as a secret, by an option or in its environment."""
        for text, seen in (
            ("get --db-password b x", "get --db-password (*) x"),
            ("get --token=b --page=2", "get --token=(*) --page=2"),
            ("DB_PASSWORD=b get", "DB_PASSWORD=(*) get"),
            ("curl -u a:b http://h", "curl -u a:(*) http://h"),
            ("curl --user=a:b http://h", "curl --user=a:(*) http://h"),
            ("get --pass-file=/x compass=3 -u a", "get --pass-file=/x compass=3 -u a"),
        ):
            self.assertEqual(shown_text(text), seen.replace("*", PLACEHOLDER))


def holding(cls: type[Options]) -> Options:
    """
    A configuration with a canary in each option that can have one: in what is marked, and within
    each text, list and map under each name and in each form that is declared as a secret.
    """
    texts = f"https://u:{CANARY}@h/x?token={CANARY}", f"get --password {CANARY} -u u:{CANARY}"
    inner: dict[Any, Any] = {
        **dict.fromkeys(("password", "passphrase", "bindpw", "client_secret"), CANARY),
        **{name: {"a": CANARY, "b": [CANARY, {"c": 4711 * 10**6}]} for name in SECRET_WITHIN},
        "passwords": [CANARY],
        "s3": {"keyid": "seen", "key": CANARY},
        "texts": list(texts),
        texts[0]: [{"^password": CANARY}, {"token": CANARY}],
    }
    values: dict[str, Any] = {}
    for name, kind in cls.fields.items():
        if name in ("extra", "config_dir", "file_roots", "pillar_roots"):
            continue  # The last two are names of directories, and compared as they are
        if name in cls.secret:
            values[name] = CANARY
        elif "dict" in kind:
            values[name] = {"seen": inner, "list": [inner]}
        elif "list" in kind:
            values[name] = ["seen", *texts, {"seen": inner}, inner]
        elif "str" in kind:
            values[name] = texts[0]
    return cls(**values, extra=dict.fromkeys(SECRETS - cls.fields.keys(), CANARY))


class DeclarationTests(SynchronousTestCase):
    """T-OPT-1: nobody is shown what is declared to be secret, wherever it stands."""

    def check(self, value: Any, what: str = "") -> None:
        """There is no secret, and what is beside one is there."""
        text = told(value)
        self.assertNotIn(CANARY, text, what)
        self.assertNotIn("4711", text, what)

    def test_T_OPT_1_within(self) -> None:
        """T-OPT-1: each parameter that is declared is shown, or hidden, as its name says."""
        declared = {
            *git.GLOBAL, *git.OWN, *gitpillar.PER_REMOTE, *api.DEFAULTS, *logins.OIDC_DEFAULTS,
            *logins.FILE_DEFAULTS, *LOGIN_OPTIONS,
        }  # fmt: skip
        hidden = {name for name in declared if shown_value(name, "x") != "x"}

        self.assertEqual(
            hidden, {"password", "passphrase", "webhook_signatures", "auth.ldap.bindpw"}
        )
        words = ("pass", "secret", "token", "pw", "key", "sign")
        self.assertEqual(
            {name for name in declared - hidden if any(word in name for word in words)},
            {
                "ssl_key", "pubkey", "privkey", "client_secret_file", "password_field",
                "verify_keyring", "verify_allowed_signers",
            },
        )  # fmt: skip

    def test_T_OPT_1_marks_alone(self) -> None:
        """T-OPT-1: of the options themselves only those are hidden that are marked."""
        for cls in (MasterConfig, MinionConfig):
            kinds = cls.fields.items()
            found = {
                name for name, kind in kinds if shown_value(name, "x") != "x" and kind != "bool"
            }
            self.assertEqual(found, SECRETS & cls.fields.keys())

    def test_T_OPT_1_master(self) -> None:
        """T-OPT-1: master, runners, wheel, members and C{pillar_opts} show none of a master's."""
        config = holding(MasterConfig)
        ctx = Rig(self).ctx
        names = [
            *config.secret, "ext_pillar", "gitfs_remotes", "engines", "rest_twisted",
            "external_auth", "schedule", "gitfs_proxy", "tracing", "metrics",
        ]  # fmt: skip
        ctx.config.adopt(config, [*names, "extra"])
        for call, fun in ((ctx.wheel, "config.values"), (ctx.runner, "test.get_opts")):
            answer = self.successResultOf(Deferred.fromCoroutine(call(fun, [], {}, local("root"))))
            self.check(answer, fun)
            self.assertIn("seen", told(answer))
        for name in names:
            work = Deferred.fromCoroutine(ctx.runner("config.get", [name], {}, local("root")))
            self.check(self.successResultOf(work), name)

        opts = config.as_opts()
        self.check(shown(opts))
        self.check(shown_of(lambda name: option_of(config, name), compared))
        self.check(repr(config))
        known: dict[str, tuple[Any, Any]] = {}
        for _ in range(2):
            sent = without_own(opts, known)
            self.check(sent)
            self.assertEqual(sent["gitfs_remotes"][0], "seen")
        self.assertIn(CANARY, told(without_own({"mysql.pass": CANARY}, known)))
        # What changes meanwhile is looked at again
        changed = without_own({"ext_pillar": [{"x": {"password": CANARY, "b": 1}}]}, known)
        self.assertEqual(changed, {"ext_pillar": [{"x": {"password": PLACEHOLDER, "b": 1}}]})

    def test_T_OPT_1_minion(self) -> None:
        """
        T-OPT-1: no function of a minion shows a person what is secret among its options; its
        modules and templates read it.
        """
        config = holding(MinionConfig)
        lists = (
            "module_dirs", "disable_modules", "disable_returners", "whitelist_modules",
            "whitelist_state_modules", "providers",
        )  # fmt: skip
        opts = {**config.as_opts(), **dict.fromkeys(lists), "mysql.pass": CANARY}
        opts.update(cachedir="/nowhere", extension_modules="/nowhere")
        loaders = Loaders(opts, grains={}, pillar={"a": CANARY}, stock=False)
        functions = loaders.modules

        def ask(fun: str, *args: Any, **more: Any) -> Any:
            function = functions[fun]
            with answering(fun):
                return function(*args, **more)

        for fun in ("config.items", "test.get_opts", "test.opts_pkg"):
            found = ask(fun)
            self.check({**found}, fun)
            self.assertIn("seen", told(found["beacons"]))
        for name in config.fields:
            for fun in ("config.get", "config.option", "config.merge"):
                self.check(ask(fun, name), f"{fun} {name}")
            self.check(ask("config.get", name, merge="recurse"), name)
        self.check(ask("config.get", "beacons:seen:password"))
        self.check(ask("config.option", "*", wildcard=True, omit_pillar=True))
        self.check(ask("config.dot_vals", "mysql"))
        self.check(ask("config.get", "pillar"))
        self.check(ask("test.cross_test", "config.get", ["mysql.pass"]))

        for fun in ("config.get", "config.option", "config.merge"):
            self.assertEqual(functions[fun]("mysql.pass"), CANARY)
        self.assertEqual(functions["config.get"]("beacons:seen:password"), CANARY)
        self.assertEqual(functions["config.dot_vals"]("mysql"), {"mysql.pass": CANARY})
        self.assertIs(functions["config.items"](), loaders.opts)

    def test_T_OPT_1_cost(self) -> None:
        """T-OPT-1: to look through an option costs in proportion to its length."""
        shapes = ("a-", "--", "pass-", "token ", "://a:", "://a:b@", "-u a:", "?", "x=")
        for shape in shapes:
            assert_linear(
                self, shape, lambda size, shape=shape: shape * size, shown_text, (4096, 65536)
            )


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
        opts["rest_cherrypy"] = {"x": {"ext": WITHIN["ext_pillar"]}}
        answer = PillarWorker(opts).pillar({"do": "pillar", "id": "m1", "grains": {}})

        text = bytes(answer["packed"])
        for name in SECRETS:
            self.assertNotIn(f"{CANARY}-{name}".encode(), text)
        for number in "12345678":
            self.assertNotIn(f"{CANARY}{number}".encode(), text)
        # These are a site's own, and its modules read them there
        for letter in "9a":
            self.assertIn(f"{CANARY}{letter}".encode(), text)

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
