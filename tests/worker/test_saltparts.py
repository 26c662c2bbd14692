"""
Parts of C{salt} that site modules import: what they answer, as stock 3008.2 does.
"""

from __future__ import annotations

import os
from pathlib import Path

from saltwisted import compat
from saltwisted.compat import version
from saltwisted.config.compat import COMPAT_VERSION, COMPAT_VERSION_TEXT
from saltwisted.worker.process.loader import Loaders
from tests.worker.test_saltname import SiteCase

TERMINAL = """
import salt.utils.color as color
import salt.output as output

def colors():
    red = color.get_colors("RED")
    return [str(color.get_colors()["LIGHT_RED"]), str(red["BLUE"]), str(red["ENDC"]),
            color.get_colors(False)["RED"], color.get_colors()["RED"]("x")]

def printed():
    opts = {"color": False}
    output.display_output({"a": [1, "x"]}, "nested", {**opts, "output_file": __opts__["place"]})
    with open(__opts__["place"]) as file:
        shown = file.read()
    return [shown, output.out_format({"a": 1}, "json", opts), output.out_format("x", "", opts),
            output.get_printout("nosuch", opts)({"a": 1}).rstrip(),
            output.string_format({"a": 1}, "", {"color": True}),
            output.html_format({"a": 1}, "", {}), output.strip_esc_sequence("\\x1b[1m")]
"""
NAMES = """
import salt.utils.dns as dns
import salt.utils.jinja as jinja
import salt.utils.minions as minions

def asked(path):
    resolv = dns.parse_resolv(path)
    return [dns.ptr_name("10.0.0.1"), dns.ptr_name("x"), dns.srv_name("http", "udp", "a.b"),
            {str(k): v for k, v in dns.mx_rec(["10 a.", "5 b.", "10 c."]).items()},
            dns.srv_rec(["10 5 80 a."])[10], dns.soa_rec("a. b. 1 2 3 4 5")["minimum"],
            resolv["nameservers"], resolv["ip6_nameservers"], resolv["search"], resolv["options"],
            dns.parse_resolv("/nosuch"), dns.lookup("nosuch.invalid", "A", method="gai")]

def filters():
    return [jinja.regex_search("abcd", "b(.)"), jinja.quote("a b"), jinja.to_bool("yes"),
            jinja.ensure_sequence_filter("a"), jinja.indent("a\\nb", 2), jinja.union([1], [2]),
            str(jinja.PrintableDict([("a", 1), ("b", "x\\ny")])), jinja.tojson({"a": 1})]

def targets():
    return [list(minions.parse_target(text).values())
            for text in ("G@os:x", "L@a,b", "web*", "Z@x", "")]
"""
ROWS = """
from contextlib import contextmanager
from salt.pillar.sql_base import SqlBaseExtPillar

class Cursor:
    def execute(self, query, values):
        self.description = [(name,) for name in "abcd"[: len(query.split())]]
        self.rows = [["x", "y", query, values[0]][: len(self.description)]] * 2

    def fetchall(self):
        return self.rows

class Site(SqlBaseExtPillar):
    @classmethod
    def _db_name(cls):
        return "site"

    @contextmanager
    def _get_cursor(self):
        yield Cursor()

def fetched(*args, **kwargs):
    return Site().fetch("m1", {}, *args, **kwargs)

def all_of_them():
    return [fetched("one two three four"), fetched({"query": "one two three", "depth": 1}),
            fetched({"query": "one two three", "as_list": True}),
            fetched({"query": "one two three", "with_lists": "1"}),
            fetched(named="one two", other=["one two three four", 2]), fetched("", [], {"x": 1})]
"""


class PartTests(SiteCase):
    """Values are those that stock 3008.2 has given for the same calls."""

    def test_one_version(self) -> None:
        """Site modules, templates and C{manage.versions} are told the same release."""
        told = (compat.__version__, version.__version__, version.__saltstack_version__)
        self.assertEqual(set(told), {COMPAT_VERSION_TEXT})
        self.assertEqual(version.__version_info__, COMPAT_VERSION)

    def test_terminal(self) -> None:
        """C{salt.utils.color} has Salt's codes; C{salt.output} prints as commands do."""
        place = str(Path(self.mktemp()).absolute())
        text = TERMINAL.replace('__opts__["place"]', repr(place))
        found = self.run_site(text, "site.colors", "site.printed")

        red, end = "\x1b[0;31m", "\x1b[0;0m"
        self.assertEqual(found["site.colors"], ["\x1b[0;1;31m", red, end, "", f"{red}x{end}"])
        self.assertEqual(
            found["site.printed"],
            [
                "a:\n    - 1\n    - x\n",
                '{\n    "a": 1\n}',
                "x",
                "a:\n    1",
                "a:\n    1",
                "a:<br />&nbsp;&nbsp;&nbsp;&nbsp;1",
                "?[1m",
            ],
        )

    def test_names(self) -> None:
        """C{salt.utils.dns}, C{jinja} and C{minions}: records, filters, words of targets."""
        place = Path(self.mktemp())
        place.write_text(
            "# c\nnameserver 10.0.0.1 # one\nnameserver ::1\nnameserver x\nsearch a.b c\n"
            "options timeout:2 rotate\n"
        )
        text = NAMES.replace("def asked(path):", f"def asked(path={str(place.absolute())!r}):")
        found = self.run_site(text, "site.asked", "site.filters", "site.targets")

        self.assertEqual(
            found["site.asked"],
            [
                *("1.0.0.10.in-addr.arpa", False, "_http._udp.a.b"),
                {"10": ["a.", "c."], "5": ["b."]},
                [{"weight": 5, "port": 80, "name": "a."}],
                *(5, ["10.0.0.1", "::1"], ["::1"], ["a.b", "c"], ["timeout:2"], {}, False),
            ],
        )
        self.assertEqual(
            found["site.filters"],
            [["c"], "'a b'", True, ["a"], "a\n  b", [1, 2], "{'a': 1, 'b': \"x\\ny\"}", '{"a": 1}'],
        )
        self.assertEqual(
            found["site.targets"],
            [
                *(["G", None, "os:x"], ["L", None, "a,b"], [None, None, "web*"]),
                *([None, None, "Z@x"], [None, None, ""]),
            ],
        )

    def test_rows(self) -> None:
        """C{salt.pillar.sql_base} makes the maps of rows that stock makes."""
        found = self.run_site(ROWS, "site.all_of_them")["site.all_of_them"]

        three = "one two three"
        self.assertEqual(
            found,
            [
                {"x": {"y": {"one two three four": "m1"}}},
                {"x": {"b": "y", "c": three}},
                {"x": {"y": [three, three]}},
                {"x": [three]},
                {
                    "named": {"x": "y"},
                    "other": {"x": {"y": {"c": "one two three four", "d": "m1"}}},
                },
                {},
            ],
        )

    def test_grains(self) -> None:
        """C{salt.grains.core} computes what it is called for; what it has not is no function."""
        found = self.run_site(
            "import salt.grains.core as core\n"
            "def host():\n"
            "    system = core.os_data()\n"
            "    return [core.hostname(), [each in system for each in ('os', 'kernel')],\n"
            "            list(core.pythonversion()),\n"
            "            hasattr(core, 'nosuch')]\n",
            "site.host",
        )

        host, system, version, has = found["site.host"]
        self.assertEqual(sorted(host), ["domain", "fqdn", "host", "localhost"])
        self.assertEqual(system, [True, True])
        self.assertEqual((version, has), (["pythonversion"], False))

    def test_lazy_loader(self) -> None:
        """C{LazyLoader} has the modules of its directories alone, with what it is given."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        (folder / "own.py").write_text("def f():\n    return [__salt__, __opts__['x']]\n")
        found = self.run_site(
            "from salt.loader import LazyLoader\n"
            "def alone():\n"
            f"    made = LazyLoader([{str(folder)!r}], {{'x': 5}}, pack={{'__salt__': 'given'}})\n"
            "    return [made['own.f'](), 'test.ping' in made, 'site.alone' in made, list(made)]\n"
            "def derived():\n"
            "    class Own(LazyLoader):\n        pass\n"
            "    return Own([])\n",
            "site.alone",
            "site.derived",
        )

        self.assertEqual(found["site.alone"], [["given", 5], False, False, ["own.f"]])
        self.assertEqual(found["site.derived"][0], "NotImplementedError")

    def test_fileserver(self) -> None:
        """C{salt.fileserver} tells what lies in the roots of this machine."""
        folder = Path(self.mktemp()).absolute()
        (folder / "web").mkdir(parents=True)
        (folder / "web" / "init.sls").write_text("{}\n")
        opts = {"file_roots": {"base": [str(folder)]}, "hash_type": "md5"}
        found = self.run_site(
            "import salt.fileserver\n"
            "def asked():\n"
            f"    server = salt.fileserver.Fileserver({opts!r})\n"
            "    return [sorted(server.envs()), server.file_list({'saltenv': 'base'}),\n"
            "            server.find_file('web/init.sls', 'base')['rel'],\n"
            "            server.find_file('../x', 'base')['path'],\n"
            "            server.file_hash({'path': 'web/init.sls', 'saltenv': 'base'}),\n"
            "            server.dir_list({'saltenv': 'base'})]\n",
            "site.asked",
        )

        digest = {"hash_type": "md5", "hsum": "8a80554c91d9fca8acb82f023de02f11"}
        self.assertEqual(found["site.asked"][:4], [["base"], ["web/init.sls"], "web/init.sls", ""])
        self.assertEqual(found["site.asked"][4], digest)
        self.assertIn("web", found["site.asked"][5])

    def test_sdb(self) -> None:
        """The drivers C{env} and C{yaml}, which stock has, answer as there."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        (folder / "a.yaml").write_text("db: {user: u, pass: one}\n")
        (folder / "b.yaml").write_text("db: {pass: two}\n")
        files = [str(folder / "a.yaml"), str(folder / "no.yaml"), str(folder / "b.yaml")]
        opts = {
            "own": {"driver": "yaml", "files": files},
            "shut": {"driver": "yaml", "files": files, "gpg": True},
            "process": {"driver": "env"},
        }
        self.patch(os, "environ", {**os.environ, "SITE_WORD": "w"})
        modules = Loaders(opts, grains={}, pillar={}, stock=False).modules

        self.assertEqual(modules["sdb.get"]("sdb://own/db:pass"), "two")
        self.assertEqual(modules["sdb.get"]("sdb://own/db:user"), "u")
        self.assertIsNone(modules["sdb.get"]("sdb://own/db:no"))
        self.assertEqual(modules["sdb.get"]("sdb://process/SITE_WORD"), "w")
        self.assertEqual(modules["sdb.set"]("sdb://process/SITE_WORD", "other"), "w")
        for uri in ("sdb://shut/db", "sdb://own/db"):
            call, *more = ("sdb.get",) if "shut" in uri else ("sdb.set", "x")
            error = self.assertRaises(Exception, modules[call], uri, *more)
            self.assertIn("gpg" if "shut" in uri else "cannot set", str(error))
