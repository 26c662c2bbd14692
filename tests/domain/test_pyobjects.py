"""
The C{pyobjects} renderer; the expected values are those of stock 3008.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.render.errors import TemplateFailure
from tests.domain.rendering import renderer

STATES = {"file": ["managed", "directory"], "test": ["nop"], "ssh_auth": ["present"]}
LIBRARY = """#!pyobjects
class A:
    x = 5
y = 7
def f(n):
    File.managed(n, mode='0600')
File.managed('never')
"""


def functions(names: Mapping[str, Any] = STATES) -> dict[str, Any]:
    """Salt's functions as far as programs use them."""
    grains = {"os": "Debian", "os_family": "Debian", "kernel": "Linux"}
    return {
        "sys.list_state_functions": lambda m: [f"{m}.{name}" for name in names.get(m, ())],
        "grains.get": grains.get,
        "grains.item": lambda *keys: {k: grains[k] for k in keys if k in grains},
        "pillar.get": lambda key, default="": {"m": {"svc": "p"}}.get(key, default),
        "test.echo": lambda text: text,
    }


class ProgramTests(SynchronousTestCase):
    """Programs and the states they make."""

    def run_program(self, text: str, table: Any = None, **files: str) -> Any:
        """The states of a program; keywords are files of the environment, without C{.sls}."""
        base = {f"{name}.sls": content for name, content in files.items()}
        made = renderer(
            {"base": {"a.sls": "#!pyobjects\n" + text, "lib.sls": LIBRARY, **base}},
            functions=functions() if table is None else table,
        )
        return made.file("DIR/base/a.sls", sls="a")

    def failure(self, text: str, **files: str) -> TemplateFailure:
        """The error of a program."""
        failure: TemplateFailure = self.assertRaises(
            TemplateFailure, self.run_program, text, **files
        )
        return failure

    def test_state(self) -> None:
        """A call makes a state with its arguments by name, in order of the names."""
        self.assertEqual(
            self.run_program("File.managed('/x', source='salt://x', mode='0644')"),
            {"/x": {"file.managed": [{"mode": "0644"}, {"source": "salt://x"}]}},
        )
        self.assertEqual(
            self.run_program("SshAuth.present('u')\nTest.nop('u')"),
            {"u": {"ssh_auth.present": [], "test.nop": []}},
        )

    def test_blocks(self) -> None:
        """States in a C{with} block get its requisite, also in nested ones."""
        text = (
            "with File.directory('/d', mode='755'):\n"
            "    File.managed('/d/f', contents='x')\n"
            "    with Test('n', 'watch_in'):\n"
            "        Test.nop('l')\n"
            "Test.nop('after')\n"
        )

        self.assertEqual(
            self.run_program(text),
            {
                "/d": {"file.directory": [{"mode": "755"}]},
                "/d/f": {"file.managed": [{"contents": "x"}, {"require": [{"file": "/d"}]}]},
                "l": {"test.nop": [{"require": [{"file": "/d"}]}, {"watch_in": [{"test": "n"}]}]},
                "after": {"test.nop": []},
            },
        )

    def test_requisites(self) -> None:
        """References are values too; a single one is a list of one."""
        text = "Test.nop('a', require=File('/z'), watch=[Test('b'), {'pkg': 'c'}])"

        self.assertEqual(
            self.run_program(text),
            {
                "a": {
                    "test.nop": [
                        {"require": [{"file": "/z"}]},
                        {"watch": [{"test": "b"}, {"pkg": "c"}]},
                    ]
                }
            },
        )

    def test_include_extend(self) -> None:
        """C{include} and C{extend} make the parts of an SLS of those names."""
        text = "include('b', 'c')\nFile.managed(extend('/y'), mode='0600')\nTest.nop('x')"

        self.assertEqual(
            self.run_program(text),
            {
                "x": {"test.nop": []},
                "include": ["b", "c"],
                "extend": {"/y": {"file.managed": [{"mode": "0600"}]}},
            },
        )

    def test_imports(self) -> None:
        """Other files give their names, not their states; their functions make ours."""
        text = (
            "import salt://lib.sls\n"
            "from salt://lib.sls import A, y as z\n"
            "import salt://chain.sls\n"
            "File.managed('/x', a=A.x, b=z, c=lib.y, d=chain.q)\nlib.f('/q')"
        )

        self.assertEqual(
            self.run_program(text, chain="import salt://lib.sls\nq = lib.y\n"),
            {
                "/x": {"file.managed": [{"a": 5}, {"b": 7}, {"c": 7}, {"d": 7}]},
                "/q": {"file.managed": [{"mode": "0600"}]},
            },
        )

    def test_map(self) -> None:
        """A C{Map} takes attributes by grains, in order of priority, and from the pillar."""
        text = (
            "class M(Map):\n"
            "    priority = ('os_family', 'os')\n"
            "    class Debian:\n        __grain__ = 'os'\n        svc = 'os'\n        x = 1\n"
            "    class Family:\n        __match__ = 'Debian'\n        svc = 'family'\n"
            "    class RedHat:\n        svc = 'rh'\n"
            "class P(M):\n    merge = 'm'\n"
            "Test.nop('a', svc=M.svc, x=M.x, p=P.svc)\n"
        )

        self.assertEqual(
            self.run_program(text), {"a": {"test.nop": [{"p": "p"}, {"svc": "os"}, {"x": 1}]}}
        )

    def test_names(self) -> None:
        """Salt's functions and facts under their short and long names."""
        text = (
            "Test.nop('a', g=grains('os'), p=pillar('n', 'd'), s=salt.test.echo('hi'),"
            " d=__salt__['test.echo'](3), l=__sls__, k=__grains__['os'])"
        )

        self.assertEqual(
            self.run_program(text)["a"]["test.nop"],
            [{"d": 3}, {"g": "Debian"}, {"k": "Debian"}, {"l": "a"}, {"p": "d"}, {"s": "hi"}],
        )

    def test_builtins(self) -> None:
        """Python's own names stay what they are, in functions too."""
        text = (
            "def g():\n    try:\n        1 / 0\n"
            "    except ZeroDivisionError:\n        Test.nop('x')\ng()\n"
        )

        self.assertEqual(self.run_program(text), {"x": {"test.nop": []}})

    def test_mistakes(self) -> None:
        """Errors in stock's words, with the line."""
        twice = "File.managed('/x')\nFile.managed('/x')"
        exists = "A state with id ''/x'', type ''file.managed'' exists"
        no_function = "The function 'nope' does not exist in the StateFactory for 'file'"
        cases = [
            (twice, exists, 3),
            ("File.nope('/x')", no_function, 2),
            ("\nNope.managed('/x')", "name 'Nope' is not defined", 3),
            ("raise ValueError('boo')", "boo", 2),
            ("def f(:\n", "invalid syntax (<string>, line 2)", 2),
            ("from salt://lib.sls import nope", "'nope' was not found in 'salt://lib.sls'", None),
            ("import salt://no.sls", "Could not find the file 'salt://no.sls'", None),
        ]
        for text, words, line in cases:
            failure = self.failure(text)
            self.assertEqual((str(failure), failure.line), (words, line), text)
        self.assertIn(
            "imports itself", str(self.failure("import salt://b.sls", b="import salt://b.sls"))
        )

    def test_no_states(self) -> None:
        """Where there are no state modules, every capital name is taken for one."""
        self.assertEqual(
            self.run_program("Nope.managed('/x')", functions({})), {"/x": {"nope.managed": []}}
        )

    def test_apart(self) -> None:
        """A failed program leaves nothing behind for the next one."""
        self.failure("Test.nop('left')\nraise ValueError")

        self.assertEqual(self.run_program("Test.nop('x')"), {"x": {"test.nop": []}})
