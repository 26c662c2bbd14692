"""
The module loader, by Salt's conventions, on modules written here.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable
from typing import Any

import msgpack
from jinja2 import Environment, UndefinedError
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.exceptions import SaltRenderError
from saltwisted.worker.process import catalogue, modulefiles
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.modulefiles import claims
from saltwisted.worker.process.opts import Opts
from saltwisted.worker.states.slots import fill_slots
from saltwisted.worker.templates import render_data, render_text


class LoaderCase(SynchronousTestCase):
    """A directory of modules, and loaders over it."""

    def setUp(self) -> None:
        """Make the directories, with a quiet log; leave no module of a test behind."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.opts: dict[str, Any] = {
            "id": "m1",
            "cachedir": self.base,
            "extension_modules": os.path.join(self.base, "extmods"),
        }

        def forget() -> None:
            for name in [name for name in sys.modules if name.startswith("saltwisted.loaded")]:
                del sys.modules[name]

        self.addCleanup(forget)

    def module(self, name: str, text: str, kind: str = "modules") -> str:
        """Put a synced module in place."""
        path = os.path.join(self.base, "extmods", kind, name + ".py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(textwrap.dedent(text))
        return path

    def loaders(self, **kwargs: Any) -> Loaders:
        """Loaders without stock's modules."""
        return Loaders({**self.opts, **kwargs.pop("opts", {})}, stock=False, **kwargs)


def _ways(functions: Any, module: str) -> dict[str, Callable[[], Any]]:
    """All ways to call a module's function C{f}; those that load everything come last."""
    name = f"{module}.f"
    slot = [f"__slot__:salt:{name}()"]
    fill_slots(functions, slot, {})
    # What modules have, as those do that render for others
    every = functions["test.ping"].__globals__["__salt__"]
    facts = {"salt": every, "opts": {}, "grains": {}, "pillar": {}, "saltenv": "base"}

    def rendered(text: str) -> str:
        return Environment().from_string(text).render(salt=functions)

    def file(text: str) -> Any:
        return render_text(text, "jinja", {**facts}).strip()

    def renderer(text: str, pipe: str) -> Any:
        return render_data({**facts}, text=text, pipe=pipe)["a"]

    def mined() -> Any:
        return (
            functions["test.ping"]
            .__globals__["__salt__"]["mine.update"]
            .__globals__["_call"](name, [], {})
        )

    def iterated() -> Any:
        return {key: functions[key] for key in functions}[name]()

    return {
        "item": lambda: functions[name](),
        "get": lambda: functions.get(name, lambda: "hidden")(),
        "attribute": lambda: getattr(functions, module).f(),
        "item in a template": lambda: rendered(f"{{{{ salt['{name}']() }}}}"),
        "attribute in a template": lambda: rendered(f"{{{{ salt.{name}() }}}}"),
        "slot": lambda: slot[0],
        "item in a file": lambda: file(f"{{{{ salt['{name}']() }}}}"),
        "attribute in a file": lambda: file(f"{{{{ salt.{name}() }}}}"),
        "from the loaders in a file": lambda: file(f"{{{{ salt.called['{name}']() }}}}"),
        "rendered data": lambda: renderer(f"a: {{{{ salt['{name}']() }}}}", "jinja|yaml"),
        "the mine": mined,
        "saltcheck": lambda: every["saltcheck.run_test"].__globals__["_answer"](name, [], {}),
        "test.try": lambda: functions["test.try"](name),
        "test.cross_test": lambda: functions["test.cross_test"](name),
        "saltutil.mmodule": lambda: functions["saltutil.mmodule"]("base", name),
        "iteration": iterated,
        "items": lambda: dict(functions.items())[name](),
        "item after all are loaded": lambda: functions[name](),
        "attribute after all are loaded": lambda: getattr(functions, module).f(),
    }


class LoadingTests(LoaderCase):
    """What is found, under which name, and when it runs."""

    def test_only_what_is_asked_for(self) -> None:
        """Calling one module's function executes no other module."""
        self.module("boom", "raise RuntimeError('not asked for')")
        self.module("one", "def ping():\n    return 'pong'")
        functions = self.loaders().modules

        self.assertEqual(functions["one.ping"](), "pong")
        self.assertEqual(
            [module.__name__ for module in functions.executed], ["saltwisted.loaded.ext.module.one"]
        )
        self.assertEqual(functions.missing_modules, {})

    def test_own_test_ping(self) -> None:
        """Our own test.ping is there."""
        self.assertIs(self.loaders().modules["test.ping"](), True)

    def test_virtual_name(self) -> None:
        """A module that renames itself is found under its new name and not under its file's."""
        self.module(
            "aptlike",
            """
            __virtualname__ = "pkgs"
            def __virtual__():
                return __virtualname__
            def version():
                return 1
            """,
        )
        functions = self.loaders().modules

        self.assertEqual(functions["pkgs.version"](), 1)
        self.assertNotIn("aptlike.version", functions)

    def test_virtual_by_grains(self) -> None:
        """Of several claimants of one name the one whose C{__virtual__} agrees is taken."""
        for name, os_name in (("a_pkg", "Plan9"), ("b_pkg", "Debian")):
            self.module(
                name,
                f"""
                __virtualname__ = "pkgs"
                def __virtual__():
                    if __grains__["os"] == "{os_name}":
                        return "pkgs"
                    return False, "not {os_name}"
                def who():
                    return "{name}"
                """,
            )

        self.assertEqual(self.loaders(grains={"os": "Debian"}).modules["pkgs.who"](), "b_pkg")
        none = self.loaders(grains={"os": "Hurd"}).modules
        self.assertNotIn("pkgs.who", none)
        self.assertEqual(
            none.missing_fun_string("pkgs.who"),
            "'pkgs' __virtual__ returned False: not Plan9; not Debian",
        )

    def test_missing_texts(self) -> None:
        """The texts for a missing function and for a refusal are those of stock."""
        self.module("no", "def __virtual__():\n    return False\ndef f(): pass")
        self.module("bad", "import does_not_exist_anywhere\ndef f(): pass")
        self.module("fine", "def f(): pass")
        functions = self.loaders().modules
        for name in ("no.f", "bad.f", "fine.g", "gone.f"):
            self.assertNotIn(name, functions)

        self.assertEqual(functions.missing_fun_string("no.f"), "'no' __virtual__ returned False")
        self.assertEqual(
            functions.missing_fun_string("bad.f"),
            "'bad' __virtual__ returned False: No module named 'does_not_exist_anywhere'",
        )
        self.assertEqual(functions.missing_fun_string("fine.g"), "'fine.g' is not available.")
        self.assertEqual(functions.missing_fun_string("gone.f"), "'gone.f' is not available.")

    def test_virtual_raises(self) -> None:
        """A C{__virtual__} that raises makes its module missing, with the error as reason."""
        self.module("odd", "def __virtual__():\n    raise ValueError('hm')\ndef f(): pass")
        functions = self.loaders().modules

        self.assertNotIn("odd.f", functions)
        self.assertIn("Module will not be loaded: hm", functions.missing_fun_string("odd.f"))

    def test_virtual_key_error(self) -> None:
        """A KeyError in C{__virtual__}, from grains that are not there yet, does not count."""
        self.module(
            "shy", "def __virtual__():\n    return __grains__['no']\ndef f():\n    return 1"
        )

        self.assertEqual(self.loaders(grains={}).modules["shy.f"](), 1)

    def test_aliases(self) -> None:
        """C{__func_alias__}, C{__virtual_aliases__} and C{__load__} shape the names."""
        self.module(
            "thing",
            """
            __virtual_aliases__ = ("stuff",)
            __func_alias__ = {"list_": "list"}
            __load__ = ["list_"]
            def list_():
                return [1]
            def hidden():
                pass
            """,
        )
        functions = self.loaders().modules

        self.assertEqual(functions["stuff.list"](), [1])
        self.assertEqual(functions["thing.list"](), [1])
        self.assertNotIn("thing.hidden", functions)

    def test_not_functions_of_the_module(self) -> None:
        """Imported functions, classes and private names are not functions of the module."""
        self.module(
            "mine",
            """
            from os.path import join
            from textwrap import dedent
            class Thing: pass
            def _private(): pass
            def public(): pass
            """,
        )
        names = [name for name in self.loaders().modules if name.startswith("mine.")]

        self.assertEqual(names, ["mine.public"])

    def test_parts(self) -> None:
        """The functions of its parts are functions of a module of ours, what they import is not."""
        functions = self.loaders().modules

        self.assertEqual(functions["file.stats"].__module__, "saltwisted.modules._file_owners")
        self.assertEqual(functions["file.basename"]("/a/b"), "b")
        self.assertIs(functions.file.stats, functions["file.stats"])
        self.assertNotIn("file.digest", functions)
        self.assertNotIn("file.adopt_parts", functions)

    def own(self, **texts: str) -> None:
        """Put modules and their parts in place of ours."""
        here = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(here, "modules"))
        for name, text in texts.items():
            with open(os.path.join(here, "modules", f"{name}.py"), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(text))
        self.patch(catalogue, "HERE", here)

    def test_loaded_parts(self) -> None:
        """A part that is given by its name has what its module has, anew for each minion."""
        self.own(
            mine='__parts__ = ("_mine_more",)\n__func_alias__ = {"list_": "list"}',
            _mine_more="""
            import logging
            from textwrap import dedent
            __opts__: dict
            log = logging.getLogger(__name__)
            calls = []
            def called(): return __opts__["id"], __grains__["os"], calls.append(1) or len(calls)
            def list_(): return __salt__["mine.called"](), log.name
            def _hidden(): ...
            """,
        )
        first, second = self.loaders(grains={"os": "A"}), self.loaders(grains={"os": "B"})

        self.assertEqual(
            first.modules["mine.list"](), (("m1", "A", 1), "saltwisted.loaded.int.module.mine")
        )
        self.assertEqual(second.modules["mine.called"](), ("m1", "B", 1))
        first.replace(grains={"os": "C"})
        self.assertEqual(first.modules.mine.called(), ("m1", "C", 2))
        self.assertEqual(
            [name for name in first.modules if name.startswith("mine.")],
            ["mine.called", "mine.list"],
        )

    def test_loaded_parts_are_known(self) -> None:
        """A warm parent compiles a module's parts with it, so that its children need not."""
        self.own(mine='__parts__ = ("_mine_more",)', _mine_more="def called(): return 7")
        folder = os.path.join(catalogue.HERE, "modules")
        self.patch(modulefiles, "HERE", catalogue.HERE)
        modulefiles.preload(["mine"])
        for name in ("mine", "_mine_more"):
            os.remove(os.path.join(folder, f"{name}.py"))
        with open(os.path.join(folder, "mine.py"), "w", encoding="utf-8"):
            pass

        self.assertEqual(self.loaders().modules["mine.called"](), 7)

    def test_parts_of_others(self) -> None:
        """A synced module has no parts: its namespace is its author's, as in Salt."""
        self.module(
            "mine",
            """
            import textwrap
            __parts__ = (textwrap,)
            def public(): pass
            """,
        )
        names = [name for name in self.loaders().modules if name.startswith("mine.")]

        self.assertEqual(names, ["mine.public"])

    def test_init(self) -> None:
        """C{__init__} gets the options before C{__virtual__}; its failure hides the module."""
        self.module(
            "ready",
            """
            SEEN = {}
            def __init__(opts):
                SEEN["id"] = opts["id"]
            def __virtual__():
                return "id" in SEEN
            def seen():
                return SEEN
            """,
        )
        self.module("unready", "def __init__(opts):\n    1 / 0\ndef f(): pass")
        functions = self.loaders().modules

        self.assertEqual(functions["ready.seen"](), {"id": "m1"})
        self.assertNotIn("unready.f", functions)
        self.assertIn("__init__ failed", functions.missing_fun_string("unready.f"))

    def test_synced_replaces_ours(self) -> None:
        """A synced module replaces the whole of ours with the same file name."""
        self.module("test", "def shout():\n    return 'A'")
        functions = self.loaders().modules

        self.assertEqual(functions["test.shout"](), "A")
        self.assertNotIn("test.ping", functions)

    def test_both(self) -> None:
        """
        A file of another name that the site calls as one of our modules adds its functions to
        ours, and replaces those of the same name, whatever was asked for first, as in Salt; so do
        two files of the site's.
        """
        head = "__virtualname__ = 'test'\ndef __virtual__():\n    return __virtualname__\n"
        self.module("a_site", head + "def mine(): return 'mine'\ndef echo(x): return x * 2\n")
        self.module("z_site", head + "def more(): return 'more'\ndef mine(): return 'z'\n")

        for ask in (["test.ping"], ["test.mine"], ["test.more"], ["test.echo"], []):
            functions = self.loaders().modules
            if not ask:
                functions.load_all()
            for name in ask:
                functions.get(name)
            self.assertIs(functions["test.ping"](), True)
            self.assertEqual(functions["test.echo"]("x"), "xx")
            self.assertEqual([functions["test.mine"](), functions["test.more"]()], ["mine", "more"])
            functions.load_all()
            self.assertEqual(functions["test.echo"]("x"), "xx")
            self.assertIn("test.fib", functions)

    def test_not_for_this_machine(self) -> None:
        """One whose C{__virtual__} says no leaves ours in its place."""
        self.module(
            "a_site",
            "__virtualname__ = 'test'\ndef __virtual__(): return False\ndef mine(): return 1\n",
        )

        functions = self.loaders().modules
        self.assertIs(functions["test.ping"](), True)
        self.assertNotIn("test.mine", functions)

    def test_everywhere(self) -> None:
        """
        C{__salt__} and the others, and those of C{salt.loader}, are there in threads, in
        coroutines, and in a process that was forked.
        """
        self.module(
            "site",
            """
            import asyncio, os
            from concurrent.futures import ThreadPoolExecutor
            from salt.loader.dunder import __opts__ as named

            def one():
                return [__salt__["test.echo"]("x"), __opts__["id"], named["id"], __grains__["g"]]

            def threads():
                with ThreadPoolExecutor(20) as pool:
                    return list(pool.map(lambda _: one(), range(200)))

            def coroutines():
                async def each():
                    await asyncio.sleep(0)
                    return one() + [await asyncio.to_thread(one)]

                async def all():
                    return await asyncio.gather(*(each() for _ in range(20)))

                return asyncio.run(all())

            def forked():
                ours, theirs = os.pipe()
                if os.fork() == 0:
                    os.write(theirs, repr(one()).encode())
                    os._exit(0)
                os.wait()
                return os.read(ours, 1000).decode()
            """,
        )
        functions = self.loaders(grains={"g": 1}).modules

        expected = ["x", "m1", "m1", 1]
        self.assertEqual(functions["site.threads"](), [expected] * 200)
        self.assertEqual(functions["site.coroutines"](), [[*expected, expected]] * 20)
        self.assertEqual(functions["site.forked"](), repr(expected))

    def test_packages(self) -> None:
        """A module may be a directory, with relative imports inside."""
        self.module("bag/__init__", "from . import inner\ndef f():\n    return inner.VALUE")
        self.module("bag/inner", "VALUE = 7")

        self.assertEqual(self.loaders().modules["bag.f"](), 7)

    def test_imports_synced_utils(self) -> None:
        """A synced module may import a synced utility by its bare name."""
        self.module("helper_of_test", "NUMBER = 5", kind="utils")
        self.module(
            "user_of_it", "import helper_of_test\ndef f():\n    return helper_of_test.NUMBER"
        )
        self.addCleanup(sys.modules.pop, "helper_of_test", None)
        path = list(sys.path)

        self.assertEqual(self.loaders().modules["user_of_it.f"](), 5)
        self.assertEqual(sys.path, path)

    def test_disable_and_whitelist(self) -> None:
        """C{disable_modules} hides modules; C{whitelist_modules} from all but other modules."""
        self.module("one", "def f():\n    return 1")
        self.module(
            "two",
            "def f():\n    return __salt__['one.f']()\n"
            "def wired():\n    return 'one.f' in __wire_salt__, 'two.f' in __wire_salt__",
        )

        disabled = self.loaders(opts={"disable_modules": ["one"]}).modules
        listed = self.loaders(opts={"whitelist_modules": ["two"]})

        self.assertNotIn("one.f", disabled)
        self.assertIn("two.f", disabled)
        self.assertIs(disabled.called, disabled)
        self.assertNotIn("one.f", listed.called)
        self.assertEqual(listed.called["two.f"](), 1)
        self.assertEqual(listed.called["two.wired"](), (False, True))
        self.assertEqual(listed.called.missing_fun_string("one.f"), "'one.f' is not available.")
        self.assertEqual(listed.called.loaded_names(), ["two.f", "two.wired"])
        self.assertEqual(list(listed.called), ["two.f", "two.wired"])
        self.assertEqual(len(listed.called), 2)
        self.assertIs(copy.deepcopy(listed.called), listed.called)
        self.assertRaises(TypeError, pickle.dumps, listed.called)

    def test_whitelisted_states(self) -> None:
        """C{whitelist_state_modules} hides states, from each other too; modules are not meant."""
        for kind in ("modules", "states"):
            self.module("one", "def f(name): pass", kind)
            self.module("two", "def f(name):\n    return 'one.f' in __states__", kind)

        loaders = self.loaders(opts={"whitelist_state_modules": ["two"]})

        self.assertNotIn("one.f", loaders.states)
        self.assertIs(loaders.states["two.f"]("x"), False)
        self.assertIn("one.f", loaders.called)
        self.assertNotIn("one.f", list(loaders.states))

    def test_T_ACL_3_no_other_way(self) -> None:
        """
        T-ACL-3: what C{whitelist_modules} or C{disable_modules} hides is hidden by every way to
        a function: by its name, as an attribute, in a template, in a slot, and by those that call
        others by name.
        """
        self.module("one", "def f(*args, **kwargs):\n    return 'called'")
        self.module("two", "def f(*args, **kwargs):\n    return 'called'")
        names = ["two", "test", "state", "saltutil", "match"]
        for opts in ({"disable_modules": ["one"]}, {"whitelist_modules": names}):
            functions = self.loaders(opts=opts).called
            for module, there in (("one", False), ("two", True)):
                for way, call in _ways(functions, module).items():
                    try:
                        said = call()
                    except (KeyError, AttributeError, UndefinedError, SaltRenderError):
                        said = "hidden"
                    self.assertEqual(said == "called", there, (opts, module, way))

    def test_providers(self) -> None:
        """C{providers} gives a name to another module, whatever that one's C{__virtual__} says."""
        self.module("special", "def __virtual__():\n    return False\ndef start():\n    return 's'")

        functions = self.loaders(opts={"providers": {"service": "special"}}).modules

        self.assertEqual(functions["service.start"](), "s")

    def test_changed_within_a_second(self) -> None:
        """A module written again at once, with the same size, is not served from Python's cache."""
        self.module("quick", "def f():\n    return 1")
        self.assertEqual(self.loaders().modules["quick.f"](), 1)
        self.module("quick", "def f():\n    return 2")

        self.assertEqual(self.loaders().modules["quick.f"](), 2)

    def test_clear(self) -> None:
        """After C{clear} a module that was missing is found."""
        functions = self.loaders().modules
        self.assertNotIn("late.f", functions)
        self.module("late", "def f():\n    return 1")
        functions.clear()

        self.assertEqual(functions["late.f"](), 1)

    def test_claims(self) -> None:
        """The names that a file claims are read without running it; computed names are any name."""
        literal = self.module(
            "lit", "__virtualname__ = 'x'  # so\ndef __virtual__():\n    return 'y'"
        )
        computed = self.module("comp", "NAME = 'z'\n__virtualname__ = NAME.lower()")

        self.assertEqual(claims(literal), {"x", "y"})
        self.assertIsNone(claims(computed))


class SurroundingsTests(LoaderCase):
    """What modules find around them."""

    PROBE = """
        def names():
            return [__opts__["id"], __grains__, __pillar__, __context__, __proxy__]
        def call():
            return __salt__["probe.names"]()[0]
        def master():
            return __master__, __daemon__
        def state(name):
            return __states__["st.run"](name)
        def util():
            return __utils__["u.twice"](4)
    """

    def test_pillar_of_packages(self) -> None:
        """C{pkg} has the pillar: its C{system-environment} is for apt, too."""
        grains = {"os_family": "Debian", "os": "Debian", "osrelease": "12", "kernel": "Linux"}
        functions = self.loaders(grains=grains, pillar={"p": 1}).modules

        space = functions["pkg.install"].__globals__

        self.assertEqual(space["__pillar__"], {"p": 1})

    def test_injected(self) -> None:
        """Salt's names are there, and lead to the same functions and other kinds."""
        self.module("probe", self.PROBE)
        self.module(
            "st", "def run(name):\n    return name + __salt__['probe.call']()", kind="states"
        )
        self.module("u", "def twice(x):\n    return 2 * x", kind="utils")
        functions = self.loaders(
            grains={"os": "X"}, pillar={"p": 1}, context={"c": 2}, master="M", daemon="D"
        ).modules

        self.assertEqual(functions["probe.names"](), ["m1", {"os": "X"}, {"p": 1}, {"c": 2}, {}])
        self.assertEqual(functions["probe.call"](), "m1")
        self.assertEqual(functions["probe.master"](), ("M", "D"))
        self.assertEqual(functions["probe.state"]("n"), "nm1")
        self.assertEqual(functions["probe.util"](), 8)

    def test_made_when_needed(self) -> None:
        """Grains and pillar are made once, when a module that mentions them is loaded."""
        made: list[str] = []

        def grains() -> dict[str, Any]:
            made.append("grains")
            return {"a": 1}

        self.module("plain", "def f():\n    return 1")
        self.module("wants", "def f():\n    return __grains__")
        functions = self.loaders(grains=grains, pillar=lambda: made.append("pillar")).modules

        functions["plain.f"]()
        self.assertEqual(made, [])
        self.assertEqual(functions["wants.f"](), {"a": 1})
        self.assertEqual(functions.opts["grains"], {"a": 1})
        self.assertEqual(made, ["grains"])

    def test_attribute_style(self) -> None:
        """C{__salt__.module.function} works, and an unknown name is an AttributeError."""
        self.module("probe", self.PROBE)
        functions = self.loaders().modules

        self.assertEqual(functions.probe.call(), "m1")
        self.assertRaises(AttributeError, lambda: functions.nothing)
        self.assertRaises(AttributeError, lambda: functions.probe.nothing)

    def test_mapping(self) -> None:
        """C{in}, C{get} and iteration agree; a loader is true and copies to itself."""
        self.module("probe", self.PROBE)
        functions = self.loaders().modules

        self.assertIsNone(functions.get("probe.gone"))
        self.assertEqual(functions.get("probe.gone", 3), 3)
        self.assertTrue(functions)
        self.assertIn("probe.call", list(functions))
        self.assertEqual(len(functions), len(list(functions)))
        self.assertIs(copy.deepcopy(functions), functions)
        self.assertRaises(KeyError, lambda: functions["nodot"])

    def test_module_options(self) -> None:
        """A module's own C{__opts__} are laid over the configuration's for this module alone."""
        self.module("own", "__opts__ = {'own.port': 5}\ndef f():\n    return __opts__")
        self.module("other", "def f():\n    return __opts__")
        functions = self.loaders().modules

        self.assertEqual(functions["own.f"]()["own.port"], 5)
        self.assertEqual(functions["own.f"]()["id"], "m1")
        self.assertNotIn("own.port", functions["other.f"]())

    def test_two_worlds(self) -> None:
        """Two loaders in one process do not see each other's pillar."""
        self.module("probe", self.PROBE)
        one = self.loaders(pillar={"n": 1}).modules
        two = self.loaders(pillar={"n": 2}).modules

        self.assertEqual(one["probe.names"]()[2], {"n": 1})
        self.assertEqual(two["probe.names"]()[2], {"n": 2})
        self.assertEqual(one["probe.names"]()[2], {"n": 1})

    def test_replace(self) -> None:
        """Replacing the pillar reaches modules that are loaded already."""
        self.module("probe", self.PROBE)
        loaders = self.loaders(pillar={"n": 1})
        loaders.modules["probe.names"]()

        loaders.replace(pillar={"n": 2})

        self.assertEqual(loaders.modules["probe.names"]()[2], {"n": 2})
        self.assertEqual(loaders.opts["pillar"], {"n": 2})

    def test_outputter(self) -> None:
        """C{__outputter__} marks functions."""
        self.module("shown", "__outputter__ = {'f': 'highstate'}\ndef f(): pass")

        self.assertEqual(self.loaders().modules["shown.f"].__outputter__, "highstate")

    def test_custom_grains(self) -> None:
        """
        Functions of synced grain modules are among the grains, and see those of the configuration
        alone, in C{__grains__} and in the options.
        """
        self.module(
            "mygrains",
            "def f():\n"
            "    seen = [dict(__grains__), dict(__opts__['grains'])]\n"
            "    return {'colour': 'red', 'seen': seen}",
            kind="grains",
        )
        for given in ({}, {"rack": "r7"}):
            self.opts.update(conf_file=os.path.join(self.base, "minion"), grains=given)

            grains = make_grains(self.opts)

            self.assertEqual((grains["colour"], grains["seen"]), ("red", [given, given]))

    def test_custom_grains_again(self) -> None:
        """
        Grains that are made again within a job are new: those that the job had are not taken for
        those of the configuration.
        """
        self.opts.update(conf_file=os.path.join(self.base, "minion"), grains={"rack": "r7"})
        loaders = self.loaders(grains={"rack": "r7", "colour": "green", "gone": 1})
        self.module("mygrains", "def f():\n    return {'colour': __grains__}", kind="grains")

        for opts in (loaders.opts, Loaders(loaders.opts).opts):
            grains = make_grains(opts)

            self.assertEqual(grains["colour"], {"rack": "r7"})
            self.assertNotIn("gone", grains)


class OptsTests(SynchronousTestCase):
    """The Salt-shaped options."""

    def setUp(self) -> None:
        """Options whose grains count how often they are made."""
        self.made = 0

        def grains() -> dict[str, Any]:
            self.made += 1
            return {"os": "X"}

        self.opts = Opts({"id": "m", "grains": "old"}, {"grains": grains})

    def test_late(self) -> None:
        """Other keys do not make the grains; asking for them does, once."""
        self.assertEqual((self.opts["id"], self.opts.get("nope")), ("m", None))
        self.assertIn("grains", self.opts)
        self.assertEqual(self.made, 0)
        self.assertEqual(self.opts.get("grains"), {"os": "X"})
        self.assertEqual(self.opts["grains"], {"os": "X"})
        self.assertEqual(self.made, 1)

    def test_written(self) -> None:
        """What is written replaces what was not made yet."""
        self.opts["grains"] = {"os": "Y"}

        self.assertEqual((self.opts["grains"], self.made), ({"os": "Y"}, 0))

    def test_whole(self) -> None:
        """Every way to take the whole takes the grains too."""
        whole = {"id": "m", "grains": {"os": "X"}}

        ways: list[Any] = [
            dict,
            lambda opts: {**opts},
            copy.copy,
            copy.deepcopy,
            lambda opts: opts.copy(),
            lambda opts: dict(opts.items()),
            lambda opts: json.loads(json.dumps(opts)),
            lambda opts: msgpack.unpackb(msgpack.packb(opts)),
            lambda opts: pickle.loads(pickle.dumps(opts)),
        ]
        for way in ways:
            self.setUp()
            self.assertEqual(way(self.opts), whole)
