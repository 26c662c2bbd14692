"""
A plugin of C{pytest} that runs the unit tests of a Salt extension where C{salt} is ours.

L{tests.interop.extensions} starts C{pytest} with it. It offers our C{salt}, as a worker process
does; with the variable C{STOCK} it puts stock's after all else that can be imported. It stands in
for the packages with which extensions start real daemons: what their unit tests use of them is
one fixture, C{configure_loader_modules}, that says which globals the modules under test have. A
test has a time limit. Each result is a line of JSON in the file C{REPORT}.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

REPORT, LIMIT, STOCK = "EXTENSIONS_REPORT", "EXTENSIONS_LIMIT", "EXTENSIONS_STOCK"
"""Variables of the environment: a file, seconds, and where the C{salt} package is installed."""
GRAINS = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "id": "x"}
DUNDERS = (
    "__opts__",
    "__salt__",
    "__grains__",
    "__pillar__",
    "__context__",
    "__utils__",
    "__states__",
    "__serializers__",
    "__proxy__",
    "__ret__",
    "__env__",
    "__low__",
    "__lowstate__",
    "__running__",
    "__sdb__",
    "__instance_id__",
    "__orchestration_jid__",
    "__jid_event__",
    "__active_provider_name__",
    "__ext_pillar__",
    "__runner__",
)
_WORDS = 300
"""Characters of an error's text in a report."""


class TimedOut(BaseException):
    """A test took longer than its limit; no C{except Exception} of a module keeps it."""


def random_string(prefix: str, **kwargs: Any) -> str:
    """A name; that of a daemon which is never started."""
    return f"{prefix}0"


STANDINS: dict[str, Mapping[str, Any]] = {
    "saltfactories": {},
    "saltfactories.utils": {"random_string": random_string},
    "saltfactories.utils.functional": {
        "PATCH_TARGET": "",
        "Loaders": type("Loaders", (), {}),
    },
    "pytestshellutils": {},
    "pytestshellutils.utils": {"ports": types.ModuleType("ports")},
    "pytestshellutils.utils.processes": {"ProcessResult": type("ProcessResult", (), {})},
    "pytest_kind": {"KindCluster": type("KindCluster", (), {})},
}
"""What the fixtures of extensions import, for tests that are not run here."""


def stand_in() -> None:
    """Make what is in L{STANDINS} importable, where it is not installed."""
    for name, contents in STANDINS.items():
        top = name.partition(".")[0]
        if top not in sys.modules and importlib.util.find_spec(top) is not None:
            continue
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        module.__dict__.update(contents)


def offer(folder: str) -> None:
    """
    Offer C{salt}: ours, or stock's.

    @param folder: where modules of ours may keep things.
    """
    stock = os.environ.get(STOCK)
    if stock:
        sys.path.append(stock)
        return
    from saltwisted.worker.process import loader, saltname

    opts = {"id": "x", "file_client": "local", "cachedir": folder}
    loaders = loader.Loaders(opts, grains=GRAINS, pillar={}, stock=False)
    saltname.install(loaders.module_of)
    import salt

    # Ours has no directory; fixtures that start daemons begin with that of stock's
    salt.__file__ = os.path.join(folder, "salt", "__init__.py")


def globals_of(given: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """
    What a module has around it in a test.

    @param shared: an empty map for each of L{DUNDERS} that is not given, the same for all modules
        of a test: what a test puts into one of them, the others see.
    """
    return {**shared, **{name: each for name, each in given.items() if name != "sys.modules"}}


@pytest.fixture(scope="session")
def salt_factories(tmp_path_factory: Any) -> Any:
    """Daemons that never run, for tests that only want their options."""
    return Daemon({}, tmp_path_factory)


class Daemon:
    """What a test asks of a master or minion that does not run: C{id} and C{config}."""

    def __init__(self, config: dict[str, Any], folders: Any) -> None:
        self.config, self.id, self._folders = config, config.get("id", ""), folders

    def salt_master_daemon(self, name: str, **given: Any) -> Daemon:
        """A master of this name."""
        return self._made("DEFAULT_MASTER_OPTS", name, **given)

    def salt_minion_daemon(self, name: str, **given: Any) -> Daemon:
        """A minion of this name."""
        return self._made("DEFAULT_MINION_OPTS", name, **given)

    def _made(
        self, options: str, name: str, defaults: Any = None, overrides: Any = None, **given: Any
    ) -> Daemon:
        import salt.config

        folder = str(self._folders.mktemp(name))
        config = {**getattr(salt.config, options), "id": name, "root_dir": folder}
        return Daemon({**config, **(defaults or {}), **(overrides or {})}, self._folders)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before anything of the extension is imported."""
    stand_in()
    offer(os.path.dirname(os.path.abspath(os.environ[REPORT])))


def pytest_configure(config: Any) -> None:
    """Their markers, their slow tests, and the clock of L{limited}."""
    if hasattr(config.option, "slow"):
        config.option.slow = True
    for name in ("skip_if_binaries_missing", "skip_on_windows", "skip_unless_on_linux"):
        config.addinivalue_line("markers", f"{name}: of the packages that are stood in for")
    signal.signal(signal.SIGALRM, _alarm)


def _alarm(*args: Any) -> None:
    raise TimedOut(f"longer than {os.environ[LIMIT]} s")


@pytest.fixture(autouse=True)
def _globals_of_modules(request: Any) -> Iterator[None]:
    """Give the modules under test the globals that C{configure_loader_modules} says."""
    with ExitStack() as stack:
        if "configure_loader_modules" in request.fixturenames or _has_fixture(request):
            shared: dict[str, Any] = {name: {} for name in DUNDERS}
            for module, given in request.getfixturevalue("configure_loader_modules").items():
                values = given() if callable(given) else given
                if "sys.modules" in values:
                    stack.enter_context(mock.patch.dict(sys.modules, values["sys.modules"]))
                stack.enter_context(
                    mock.patch.multiple(module, create=True, **globals_of(values, shared))
                )
        yield


def _has_fixture(request: Any) -> bool:
    manager = request.session._fixturemanager
    return bool(manager.getfixturedefs("configure_loader_modules", request.node))


@contextmanager
def limited() -> Iterator[None]:
    """What is done here ends within the limit."""
    limit = float(os.environ[LIMIT])
    signal.setitimer(signal.ITIMER_REAL, limit, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: Any) -> Any:
    """Fixtures end in time; and the one marker of the stood-in packages that matters on Linux."""
    for mark in item.iter_markers("skip_if_binaries_missing"):
        missing = [each for each in mark.args if shutil.which(each) is None]
        if missing:
            pytest.skip(f"no {missing[0]}")
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    """A test ends in time."""
    with limited():
        return (yield)


def _tell(**words: Any) -> None:
    with open(os.environ[REPORT], "a", encoding="utf-8") as file:
        file.write(json.dumps(words) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """A line for a test: how it ended, and by which error."""
    report = yield
    if report.when == "call" or not report.passed:
        _tell(test=item.nodeid, outcome=report.outcome, **_error(call.excinfo))
    return report


def pytest_exception_interact(node: Any, call: Any, report: Any) -> None:
    """A line for a file that cannot be collected."""
    if isinstance(report, pytest.CollectReport):
        _tell(test=node.nodeid, outcome="uncollected", **_error(call.excinfo))


def _error(info: Any) -> dict[str, str]:
    if info is None:
        return {}
    value = info.value
    while isinstance(value, pytest.Collector.CollectError) and value.__cause__:
        value = value.__cause__
    words = str(value).strip() or repr(value)
    return {
        "error": type(value).__name__,
        "words": words[:_WORDS],
        "missing": str(getattr(value, "name", None) or ""),
    }
