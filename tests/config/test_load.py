"""
Reading configuration files: what is refused, what is told, what wins.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.load import choose_directory, load
from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.config.schema import Misfit, fit
from saltwisted.errors import ConfigError
from saltwisted.worker.process.configio import Disk, Machine, load_from_disk
from tests.config.test_stock import MemoryDisk, StillHost, loaded

ROOT = Path(__file__).resolve().parent.parent.parent


def master(text: str, **arguments: Any) -> MasterConfig:
    """A master's configuration from one file."""
    return loaded("master", {"master": text}, **arguments).master


class ErrorTests(SynchronousTestCase):
    """What cannot work stops the start, and says where."""

    def refused(self, text: str, line: int | None, word: str, role: str = "master") -> None:
        """The text is refused at this line, for a reason with this word."""
        error = self.assertRaises(ConfigError, loaded, role, {role: text})
        self.assertEqual((error.path, error.line), (f"/@/{role}", line))
        self.assertIn(word, error.reason)

    def test_broken_yaml(self) -> None:
        """Broken YAML is named with its line."""
        self.refused("a: 1\nb: {c: 1\n", 3, "flow mapping")
        self.refused("a: 1\n\tb: 2\n", 2, "tab")
        self.refused("a: 1\na: 2\n", 2, "conflicting")
        self.refused("a: *nobody\n", 1, "undefined alias")
        self.refused("a: \x07\n", None, "control characters")

    def test_not_a_mapping(self) -> None:
        """A file that is not a mapping is refused."""
        self.refused("- a\n- b\n", 1, "not a list")
        self.refused("just words\n", 1, "not a str")

    def test_wrong_types(self) -> None:
        """A value that cannot be the option's is refused at its own line."""
        self.refused("# a port\n\npublish_port: abc\n", 3, "whole number")
        self.refused("user: root\nret_port: [4506]\n", 2, "whole number")
        self.refused("timeout: soon\n", 1, "number")
        self.refused("file_roots:\n  - /srv\n", 1, "mapping")
        self.refused("order_masters: perhaps\n", 1, "true or false")
        self.refused("pki_dir: {a: b}\n", 1, "text")
        self.refused("reactor: {a: b}\n", 1, "list")
        self.refused("publish_port: 4505.5\n", 1, "whole number")
        self.refused("publish_port: 70000\n", 1, "65535")
        self.refused("publish_signing_algorithm: MD5\n", 1, "PKCS1v15-SHA1")
        self.refused("encryption_algorithm: ROT13\n", 1, "OAEP-SHA1", role="minion")
        self.refused("master_type: foo\n", 1, "func or disable, not 'foo'", role="minion")
        self.refused("user: root\npublish_port: .inf\n", 2, "whole number")
        self.refused("timeout: .nan\n", 1, "number")

    def test_in_an_included_file(self) -> None:
        """The file named is the one which holds the value."""
        files = {"master": "user: root\n", "master.d/a.conf": "# x\nret_port: x\n"}

        error = self.assertRaises(ConfigError, loaded, "master", files)

        self.assertEqual((error.path, error.line), ("/@/master.d/a.conf", 2))

    def test_includes_itself(self) -> None:
        """Files that include one another are refused, not read for ever."""
        files = {"master": "include: a\n", "a": "include: b\n", "b": "include: a\n"}

        error = self.assertRaises(ConfigError, loaded, "master", files)

        self.assertIn("itself", error.reason)
        self.refused("user: root\ninclude: {a: b}\n", 2, "path")

    def test_secrets_stay_out(self) -> None:
        """Neither the text of a configuration nor that of an error about it shows a password."""
        config = master("key_pass: tellnobody\n")

        self.assertNotIn("tellnobody", repr(config))
        self.assertNotIn("tellnobody", str(config))


class YamlTests(SynchronousTestCase):
    """T-YAML-1: nothing in a file becomes an object or a call."""

    def test_t_yaml_1(self) -> None:
        """Tags that build Python objects are plain errors, at every place in a file."""
        for tag in (
            "!!python/object/apply:os.system ['true']",
            "!!python/object/new:os.system ['true']",
            "!!python/name:os.system",
            "!!python/module:os",
            "!!python/object:builtins.dict {}",
            "!!python/tuple [1]",
            "!custom x",
        ):
            for text in (f"a: {tag}\n", f"{tag}\n", f"? {tag}\n: 1\n", f"a: [{{b: {tag}}}]\n"):
                error = self.assertRaises(ConfigError, loaded, "minion", {"minion": text})
                self.assertEqual(error.path, "/@/minion")

    def test_bombs(self) -> None:
        """Deep nesting and keys that are not keys end in an error, not in a crash."""
        laughs = "a0: &a0 [x]\n" + "".join(
            f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60)
        )
        for text in (
            "[" * 100000,
            "a: " + "{a: " * 100000,
            "- " * 100000,
            "? [a]\n: b\n",
            "? {a: b}\n: c\n",
            "a: &a [*a]\n",
            "a: &a {b: *a}\n",
            laughs,
        ):
            self.assertRaises(ConfigError, loaded, "master", {"master": text})

    def test_long_files(self) -> None:
        """A long list or deep tree of a real site is not a bomb."""
        deep = "\n".join(" " * level + f"k{level}:" for level in range(60)) + " x\n"
        wide = "nodes: [" + ", ".join(f"{{name: n{n}}}" for n in range(2000)) + "]\n"

        self.assertEqual(len(master(deep + wide).extra["nodes"]), 2000)

    def test_merge_keys(self) -> None:
        """What stands in a map itself wins over what is merged into it."""
        config = loaded("master", {"master": "a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\n"}).master

        self.assertEqual(config.extra["b"], {"x": 1, "y": 2})


class WarningTests(SynchronousTestCase):
    """What works but should be told."""

    def warnings(self, text: str, role: str = "master") -> list[str]:
        """The sentences for one file."""
        return loaded(role, {role: text}).warnings

    def test_unknown(self) -> None:
        """An unknown option is kept, and the nearest name is told with file and line."""
        result = loaded("master", {"master": "user: root\npublish_prot: 1\n"})

        self.assertEqual(len(result.warnings), 1)
        self.assertIn("/@/master:2:", result.warnings[0])
        self.assertIn("'publish_port'", result.warnings[0])
        self.assertEqual(result.master.extra["publish_prot"], 1)
        self.assertEqual(result.master.as_opts()["publish_prot"], 1)

    def test_own_data(self) -> None:
        """A site's own data is kept, and called that."""
        self.assertIn("your own", self.warnings("zzz_our_sites_data: {a: 1}\n")[0])

    def test_not_unknown(self) -> None:
        """Settings of modules, of the other role, and rarer ones of Salt are not a surprise."""
        text = (
            "mysql.host: db\nmine_interval: 5\nrest_cherrypy: {port: 8000}\nkeys.cache_driver: x\n"
        )

        self.assertEqual(self.warnings(text), [])

    def test_parts(self) -> None:
        """A part by a name that nobody knows is said, with the one that was meant and the line."""
        misspelt = (
            ("cache: localsf", "localfs"),
            ("fileserver_backend: [root]", "roots"),
            ("master_job_cache: localcache", "local_cache"),
            ("fileserver_backend: [roots, gitsf]", "gitfs"),
        )
        for line, meant in misspelt:
            (text,) = self.warnings(f"user: x\n{line}\n")
            self.assertIn("master:2: ", text)
            self.assertIn(f"did you mean {meant!r}? there is ", text)
            self.assertTrue(text.endswith(" is used"), text)
        salts = "cache: redis\nmaster_job_cache: pgjsonb\nfileserver_backend: [git, roots]\n"
        self.assertEqual(self.warnings(salts), [])

    def test_coerced(self) -> None:
        """Values that work in stock in spite of their type are taken, with a warning if odd."""
        result = loaded(
            "master",
            {
                "master": "publish_port: '5505'\ntimeout: '2.5'\nuser: 1000\nkeep_jobs: 2.0\n"
                "auto_accept: 'True'\nmax_minions: false\nfileserver_backend: roots\n"
                "peer: []\nreactor: {}\norder_masters: 1\nssh_port: 2222\n"
            },
        )
        config = result.master

        self.assertEqual(config.publish_port, 5505)
        self.assertEqual((config.timeout, config.user, config.keep_jobs), (2.5, "1000", 2))
        self.assertIs(config.auto_accept, False)
        self.assertEqual((config.max_minions, config.value("fileserver_backend")), (0, ["roots"]))
        self.assertEqual((config.peer, config.value("reactor")), ({}, []))
        self.assertIs(config.order_masters, True)
        self.assertEqual(config.value("ssh_port"), "2222")
        self.assertEqual(len(result.warnings), 7)

    def test_keep_jobs(self) -> None:
        """The old keep_jobs counts, as in Salt, unless keep_jobs_seconds is set as well."""
        alone = master("keep_jobs: 72\n")
        both = master("keep_jobs: 72\nkeep_jobs_seconds: 60\n")

        self.assertEqual(alone.keep_jobs_seconds, 259200)
        self.assertEqual(both.keep_jobs_seconds, 60)
        self.assertEqual(master("").keep_jobs_seconds, 86400)

    def test_empty_values(self) -> None:
        """A key with nothing behind it means the default."""
        config = master("file_roots:\npeer:\nuser:\nschedule:\ntimeout:\n")

        self.assertEqual(config.file_roots, MasterConfig().file_roots)
        self.assertEqual((config.peer, config.user, config.timeout), ({}, "root", 5))

    def test_missing_include(self) -> None:
        """An include that matches nothing is told; an empty master.d is not."""
        self.assertIn("matches no file", self.warnings("include: nowhere/*.conf\n")[0])
        self.assertEqual(self.warnings("user: root\n"), [])

    def test_saved_schedule(self) -> None:
        """A saved schedule that was cut off is left out, and the minion starts."""
        result = loaded(
            "minion", {"minion": "id: m\n", "minion.d/_schedule.conf": "schedule: {a: {"}
        )

        self.assertEqual(result.minion.schedule, {})
        self.assertIn("_schedule.conf", result.warnings[0])

    def test_sdb(self) -> None:
        """A value that is to be looked up is refused, since nothing looks it up yet."""
        error = self.assertRaises(
            ConfigError, loaded, "master", {"master": "key_pass: sdb://vault/x\n"}
        )

        self.assertIn("sdb://", error.reason)


class PlaceTests(SynchronousTestCase):
    """Which directory counts, and where the paths are then."""

    def choose(self, *files: str, given: str | None = None, **environ: str) -> str:
        """The directory a master takes when these files exist."""
        return choose_directory("master", given, environ, MemoryDisk(dict.fromkeys(files, "")))

    def test_order(self) -> None:
        """The command line, our variable, our directory, Salt's variable, Salt's directory."""
        ours, other = "/etc/saltwisted/master", "/s/master"

        self.assertEqual(self.choose(given="/x", SALTWISTED_CONFIG_DIR="/y"), "/x")
        self.assertEqual(self.choose(ours, SALTWISTED_CONFIG_DIR="/y"), "/y")
        self.assertEqual(self.choose(ours, other, SALT_CONFIG_DIR="/s"), "/etc/saltwisted")
        self.assertEqual(self.choose(other, SALT_CONFIG_DIR="/s"), "/s")
        self.assertEqual(self.choose(SALT_CONFIG_DIR="/s"), "/etc/salt")
        self.assertEqual(self.choose("/etc/saltwisted/minion"), "/etc/salt")

    def test_own_paths(self) -> None:
        """With our own directory the default paths are ours; a file may still say others."""
        disk = MemoryDisk({"/etc/saltwisted/minion": "cachedir: /somewhere/else\nid: m\n"})
        config = load("minion", disk, StillHost()).minion

        self.assertEqual(config.config_dir, "/etc/saltwisted")
        self.assertEqual(config.pki_dir, "/etc/saltwisted/pki/minion")
        self.assertEqual(config.sock_dir, "/run/saltwisted/minion")
        self.assertEqual(config.log_file, "/var/log/saltwisted/minion")
        self.assertEqual(config.cachedir, "/somewhere/else")
        master_config = load("master", disk, StillHost(), "/etc/saltwisted/").master
        self.assertEqual(master_config.cachedir, "/var/cache/saltwisted/master")
        self.assertEqual(master_config.value("token_dir"), "/var/cache/saltwisted/master/tokens")
        self.assertEqual(master_config.key_logfile, "/var/log/saltwisted/key")

    def test_user_of_the_keys(self) -> None:
        """Root's commands work for whom C{pki_dir} belongs to, unless a file names a user."""
        host = StillHost()
        host.theirs = {"/etc/saltwisted/pki/master": "saltwisted", "/srv/pki": "other"}

        def user(text: str, directory: str = "/etc/saltwisted") -> str:
            disk = MemoryDisk({f"{directory}/master": text})
            return load("master", disk, host, directory).master.user

        self.assertEqual(user(""), "saltwisted")
        self.assertEqual(user("pki_dir: /srv/pki"), "other")
        self.assertEqual(user("user: root"), "root")
        self.assertEqual(user("pki_dir: /srv/pki", "/etc/salt"), "root")

    def test_salts_paths(self) -> None:
        """With any other directory the default paths are Salt's, under root_dir."""
        config = master("root_dir: /home/me/salt\n", config_dir="/@")

        self.assertEqual(config.pki_dir, "/home/me/salt/etc/salt/pki/master")
        self.assertEqual(config.sock_dir, "/home/me/salt/var/run/salt/master")

    def test_nothing_there(self) -> None:
        """No file at all is a configuration like any other."""
        result = load("master", MemoryDisk({}), StillHost())

        self.assertEqual((result.sources, result.warnings), ([], []))
        self.assertEqual(result.master.conf_file, "/etc/salt/master")

    def test_overrides(self) -> None:
        """What a command line says wins over every file, and is judged alike."""
        self.assertEqual(master("timeout: 9\n", overrides={"timeout": 3}).timeout, 3)
        error = self.assertRaises(ConfigError, master, "", overrides={"timeout": "x"})
        self.assertIsNone(error.path)

    def test_sources(self) -> None:
        """The files that were read are known, in their order."""
        result = loaded("master", {"master": "", "master.d/b.conf": "", "master.d/a.conf": ""})

        self.assertEqual(result.sources, ["/@/master", "/@/master.d/a.conf", "/@/master.d/b.conf"])


class IdTests(SynchronousTestCase):
    """Who a minion is."""

    def minion(self, text: str = "", **files: str) -> MinionConfig:
        """A minion's configuration."""
        return loaded("minion", {"minion": text}).minion

    def test_guess(self) -> None:
        """Without an id the host's name is taken, and is to be remembered."""
        result = loaded("minion", {"minion": "root_dir: /r\n"})

        self.assertEqual(result.minion.id, "host.example.com")
        self.assertEqual(result.id_to_cache, ("/r/etc/salt/minion_id", "host.example.com"))
        own = load("minion", MemoryDisk({"/etc/saltwisted/minion": ""}), StillHost())
        self.assertEqual(own.id_to_cache, ("/etc/saltwisted/minion_id", "host.example.com"))

    def test_not_asked(self) -> None:
        """A command that needs no id does not ask for one."""
        result = loaded("master", {"master": ""}, guess_id=False)

        self.assertEqual(result.master.id, "")
        self.assertIsNone(result.id_to_cache)

    def test_shaped(self) -> None:
        """A guessed name is shortened, lowered and completed as configured."""
        self.assertEqual(self.minion("minion_id_remove_domain: true\n").id, "host")
        self.assertEqual(self.minion("minion_id_remove_domain: Example.com\n").id, "host")
        self.assertEqual(
            self.minion("minion_id_remove_domain: true\nappend_domain: d\n").id, "host.d"
        )
        self.assertIsNone(loaded("minion", {"minion": "minion_id_caching: false\n"}).id_to_cache)

    def test_function(self) -> None:
        """An id_function is called with its arguments."""
        self.assertEqual(self.minion("id_function: a.b\n").id, "a.b([]) /etc/salt/pki/minion")
        self.assertEqual(
            self.minion("id_function: {a.b: {x: 1}}\n").id,
            "a.b([('x', 1)]) /etc/salt/pki/minion",
        )

    def test_peer_of_nobody(self) -> None:
        """C{peer: true} allows nothing, as in Salt; the master starts, and says so."""
        for option in ("peer", "peer_run"):
            for value in ("true", "false"):
                result = loaded("master", {"master": f"{option}: {value}\n"})
                self.assertEqual(getattr(result.master, option), {})
                (warning,) = result.warnings
                self.assertIn(f"{option} has to be a map", warning)
                self.assertIn("allows nothing", warning)

    def test_masters(self) -> None:
        """Masters are split into host and port in every form Salt knows."""
        config = self.minion(
            "master: [a, 'b:5506', '::1', '[::1]:5507', '[fe80::1]', 'tcp://c:5', 'tcp://[::2]']\n"
            "master_port: 4999\n"
        )

        self.assertEqual(
            config.masters(),
            [
                ("a", 4999),
                ("b", 5506),
                ("::1", 4999),
                ("::1", 5507),
                ("fe80::1", 4999),
                ("c", 5),
                ("::2", 4999),
            ],
        )
        self.assertEqual(
            self.minion("master: 'a:1'\nmaster_uri_format: ip_only\n").masters(), [("a:1", 4506)]
        )
        self.assertEqual(self.minion("").masters(), [("salt", 4506)])

    def test_master_and_port(self) -> None:
        """Modules see the port of a lone master apart from it, as in Salt, and several whole."""
        for text, master, port in (
            ("master: 127.0.0.1:24506", "127.0.0.1", 24506),
            ("master: '[::1]:24506'", "::1", 24506),
            ("master: '::1'", "::1", 4506),
            ("master: a\nmaster_port: 1", "a", 1),
            ("master: [a, 'b:2']\nmaster_port: 1", ["a", "b:2"], 1),
            ("master: a:2,b:3", "a:2,b:3", 4506),
            ("master: site.master\nmaster_type: func", "site.master", 4506),
            ("master: 'a:1'\nmaster_uri_format: ip_only", "a:1", 4506),
        ):
            config = self.minion(text + "\n")
            opts = config.as_opts()
            self.assertEqual((opts["master"], opts["master_port"]), (master, port), text)


class OptionsTests(SynchronousTestCase):
    """The values themselves."""

    def test_frozen(self) -> None:
        """Nobody changes a configuration; evolve makes another one."""
        config = MasterConfig(timeout=7)

        self.assertRaises(AttributeError, setattr, config, "timeout", 8)
        self.assertEqual(config.evolve(timeout=8).timeout, 8)
        self.assertEqual(config, MasterConfig(timeout=7))
        self.assertNotEqual(config, MasterConfig())
        self.assertRaises(TypeError, MasterConfig, no_such_option=1)

    def test_fresh(self) -> None:
        """Nothing that is mutable is shared, neither between values nor between calls."""
        first, second = MasterConfig(), MasterConfig()
        first.file_roots["base"].append("/x")
        opts = second.as_opts()
        opts["pillar_roots"]["base"].append("/y")
        opts["metrics"]["headers"]["z"] = 1

        self.assertEqual(second.file_roots, MasterConfig().file_roots)
        self.assertNotIn("/y", second.as_opts()["pillar_roots"]["base"])
        self.assertEqual(MasterConfig().value("metrics")["headers"], {})

    def test_every_type_is_known(self) -> None:
        """Each option's declared type is one that values can be checked against."""
        for cls in (MasterConfig, MinionConfig):
            for name, declared in cls.fields.items():
                if name != "extra":
                    self.assertEqual(
                        fit(declared, cls.defaults[name]), (cls.defaults[name], None), name
                    )

    def test_misfits(self) -> None:
        """A union takes what one of its parts takes, exactly before approximately."""
        self.assertEqual(fit("str | list[Any]", ["a"]), (["a"], None))
        self.assertEqual(fit("bool | int", 3), (3, None))
        self.assertEqual(fit("int | None", None), (None, None))
        self.assertEqual(fit("float", True)[0], 1)
        self.assertRaises(Misfit, fit, "int | None", "x")
        self.assertRaises(Misfit, fit, "int", float("inf"))


class ShippedTests(SynchronousTestCase):
    """The files in etc/saltwisted."""

    def test_shipped(self) -> None:
        """As shipped they say nothing; with every line switched on they say the defaults."""
        for role in ("master", "minion"):
            text = (ROOT / "etc" / "saltwisted" / role).read_text()
            live = "\n".join(
                line[1:]
                if line.startswith("#") and not line.startswith(("# ", "##", "#\n"))
                else ""
                for line in text.splitlines()
            )
            files = {f"/etc/saltwisted/{role}": text}
            plain = load(role, MemoryDisk(files), StillHost(), "/etc/saltwisted", guess_id=False)
            files = {f"/etc/saltwisted/{role}": live}
            full = load(role, MemoryDisk(files), StillHost(), "/etc/saltwisted", guess_id=False)

            self.assertEqual((plain.warnings, full.warnings), ([], []))
            self.assertEqual(plain.config, full.config)
            self.assertGreater(len(live.split()), 300)


class DiskTests(SynchronousTestCase):
    """Real files on a real host."""

    def setUp(self) -> None:
        """A directory of its own."""
        self.dir = Path(self.mktemp()).absolute()
        (self.dir / "minion.d").mkdir(parents=True)

    def test_load(self) -> None:
        """A directory with Salt's files is read, hidden files are not."""
        (self.dir / "minion").write_text("id: m\nroot_dir: .\n")
        (self.dir / "minion.d" / "a.conf").write_text("master: [a, b]\n")
        (self.dir / "minion.d" / ".a.conf").write_text("id: hidden\n")

        result = load_from_disk("minion", str(self.dir), environ={})

        self.assertEqual(result.minion.masters(), [("a", 4506), ("b", 4506)])
        self.assertEqual(result.minion.id, "m")
        self.assertEqual(
            result.minion.cachedir, str(Path.cwd() / "var" / "cache" / "salt" / "minion")
        )
        self.assertEqual(len(result.sources), 2)

    def test_bad_bytes(self) -> None:
        """A file that is not UTF-8 is refused with the line, one that cannot be read with why."""
        (self.dir / "minion").write_bytes(b"id: m\nx: \xff\n")
        error = self.assertRaises(ConfigError, load_from_disk, "minion", str(self.dir), {})
        self.assertEqual(error.line, 2)

        (self.dir / "minion").unlink()
        (self.dir / "minion").mkdir()
        error = self.assertRaises(ConfigError, load_from_disk, "minion", str(self.dir), {})
        self.assertIn("directory", error.reason)

    def test_id_function(self) -> None:
        """An id_function calls an execution module; one that gives no name is refused."""
        text = f"root_dir: {self.dir}\nid_function: {{test.echo: {{text: Named}}}}\n"
        (self.dir / "minion").write_text(text + "minion_id_lowercase: true\n")
        self.assertEqual(load_from_disk("minion", str(self.dir), {}).minion.id, "named")

        for wrong in ("test.true", "no.such"):
            (self.dir / "minion").write_text(f"root_dir: {self.dir}\nid_function: {wrong}\n")
            error = self.assertRaises(ConfigError, load_from_disk, "minion", str(self.dir), {})
            self.assertIn(wrong, error.reason)

    def test_wrong_role(self) -> None:
        """Each role's typed value refuses to be the other's."""
        result = load_from_disk("master", str(self.dir), environ={}, guess_id=False)

        self.assertRaises(TypeError, lambda: result.minion)

    def test_glob(self) -> None:
        """Wild cards find what the shell would find."""
        (self.dir / "minion.d" / "a.conf").write_text("")
        (self.dir / "minion.d" / ".b.conf").write_text("")
        disk, here = Disk(), str(self.dir / "minion.d")

        self.assertEqual(list(disk.glob(f"{here}/*.conf")), [f"{here}/a.conf"])
        self.assertEqual(list(disk.glob(f"{here}/a.c?nf")), [f"{here}/a.conf"])
        self.assertEqual(list(disk.glob(f"{here}/a.conf")), [f"{here}/a.conf"])
        self.assertEqual(list(disk.glob(f"{here}/none/*.conf")), [])

    def test_host(self) -> None:
        """The host says who we are and gives an id that is not empty."""
        host = Machine()

        self.assertTrue(host.guess_id())
        self.assertTrue(host.user())
        self.assertTrue(os.path.isabs(host.home()))

    def test_light(self) -> None:
        """Reading a configuration loads neither Twisted nor attrs, Jinja or DNS."""
        (self.dir / "master").write_text("timeout: 3\nunknown: 1\n")
        program = (
            "import sys\n"
            "from saltwisted.worker.process.configio import load_from_disk\n"
            f"load_from_disk('master', {str(self.dir)!r}, {{}}, guess_id=False).config.timeout\n"
            "heavy = {'twisted', 'attr', 'jinja2', 'zmq', 'socket', 'difflib', 'inspect'}\n"
            "print(sorted(heavy & set(sys.modules)))\n"
        )

        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
        )

        self.assertEqual(done.stdout.strip(), "[]")
