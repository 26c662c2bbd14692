"""
Which names a site's module gives itself.
"""

from __future__ import annotations

import os
import textwrap

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.modulenames import claimed_names

V = "def __virtual__():\n    return "
LITERAL = {
    "x = 1": (),
    "__virtualname__ = 'v'": ("v",),
    "__virtualname__: str = ('v')": ("v",),
    "try:\n    import nosuch\nexcept ImportError:\n    __virtualname__ = 'v'": ("v",),
    "__virtualname__ = 'v'\n" + V + "HAS": ("v",),
    "def __virtual__(): return 'v'": ("v",),
    V + "'v'": ("v",),
    V + "True": (),
    V + "(False, 'no such library')": (),
    V + "('v', '')": ("v",),
    V + "'v' if READY else (False, 'not ready')": ("v",),
    V + "READY and 'v'": ("v",),
    V + "not READY": (),
    V + "os.name == 'posix' and 'v' or 'w'": ("v", "w"),
    "def __virtual__():\n  if READY: return 'v'\n  return False": ("v",),
    "def __virtual__():\n  def f(): return name()\n  return 'v'": ("v",),
    "__virtual_aliases__ = ['v', 'w']": ("v", "w"),
    "__virtual_aliases__ = (\n    'v',\n    # and\n    'w',\n)": ("v", "w"),
    "def f(:": (),
    "'__virtualname__ in a docstring'": (),
}
COMPUTED = (
    "def __virtual__():\n  name = 'v'\n  return name",
    V + "READY and name()",
    V + "READY or 'v'",
    V + "'v' + 'w'",
    V + "HAS",
    "__virtualname__ = 'v' + 'w'",
    "__virtualname__, x = 'v', 1",
    "for __virtualname__ in 'v': pass",
    "__virtual_aliases__ = tuple('vw')",
    "__virtual_aliases__ = ()\n__virtual_aliases__ += ('v',)",
    "__virtual__ = lambda: 'v'",
    "from other import __virtual__",
    "from other import f as __virtual__",
    "from other import *",
    "@cached\ndef __virtual__():\n  return 'v'",
    "globals()['__virtualname__'] = 'v'",
    "async def __virtual__(): return 'v'",
)


class NamesTests(SynchronousTestCase):
    """L{claimed_names}, and what the loader makes of it."""

    def test_literal(self) -> None:
        """Names that are written literally are known by the text alone, in any spelling."""
        for text, names in LITERAL.items():
            self.assertEqual(claimed_names(text), frozenset(names), text)

    def test_computed(self) -> None:
        """Of all others it is known that the text does not say the name."""
        for text in COMPUTED:
            self.assertIsNone(claimed_names(text), text)

    def test_found(self) -> None:
        """
        The loader finds what a site has written, modules as well as states: where the name is not
        literal, the module is asked, but not by who asks for a module of ours.
        """
        base = os.path.abspath(self.mktemp())
        texts = (
            'def __virtual__(): return "{v}"',
            'READY = True\ndef __virtual__():\n    if READY: return "{v}"\n    return False',
            'READY = True\ndef __virtual__():\n    return READY and "{v}"',
            'def __virtual__():\n    name = "{v}"\n    return name',
            '__virtual_aliases__ = (\n    "{v}",\n)',
            '__virtual__ = lambda: "{v}"',
            'globals()["__virtualname__"] = "{v}"\ndef __virtual__(): return True',
        )
        opts = {
            **MinionConfig(id="m1").as_opts(),
            "extension_modules": base,
            "module_dirs": [],
            "cachedir": base,
        }
        for kind in ("modules", "states"):
            os.makedirs(os.path.join(base, kind))
            for number, text in enumerate(texts):
                path = os.path.join(base, kind, f"file{number}.py")
                with open(path, "w") as stream:
                    code = text.replace("{v}", f"v{number}")
                    stream.write(textwrap.dedent(code) + f"\ndef which(): return {number}\n")
        for kind in ("modules", "states"):
            for number in range(len(texts)):
                functions = Loaders(opts, grains={}, pillar={})[kind]
                self.assertEqual(functions[f"v{number}.which"](), number, texts[number])
                self.assertNotIn(f"v{number}.nothing", functions)

        functions = Loaders(opts, grains={}, pillar={}).modules
        self.assertIs(functions["test.ping"](), True)
        self.assertEqual([m.__name__ for m in functions.executed][1:], [])
