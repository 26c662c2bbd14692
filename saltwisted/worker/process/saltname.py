"""
The name C{salt}, for site modules if the C{salt} package is not installed.

Custom modules begin with C{import salt.exceptions} or C{import salt.utils.files}. In a worker
process that executes one, and nowhere else, L{install} adds an importer behind all others, so the
real package is used if there is one. The importer answers with modules of ours: C{salt.utils.files}
is L{saltwisted.utils.files}, everything else is below L{saltwisted.compat}, and
C{salt.modules.NAME} and C{salt.states.NAME} are views of what the loader has. Importing a missing
name raises C{ModuleNotFoundError} with the page that lists the available ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from saltwisted.worker.process import extensions, sitelogging

PAGE = "docs/site-modules.md"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VIEWS = {"salt.modules": "modules", "salt.states": "states"}
"""Packages whose modules are those of a loader, and which."""

RENAMED = {"x509_v2": "x509"}
"""Files of Salt whose module has another file here."""

ELSEWHERE = {"salt.output": "saltwisted.cli.siteoutput"}
"""Names whose module lies with what it is a view of."""

NAMED = {
    "salt.beacons": "Beacon",
    "salt.beacons.network_settings": "beacon validate",
    "salt.client.ssh": "",
    "salt.client.ssh.state": "lowstate_file_refs prep_trans_tar",
    "salt.ext": "",
    "salt.fileclient": "get_file_client",
    "salt.state": "HighState",
    "salt.utils.cloud": (
        "accept_key bootstrap gen_keys minion_config os_script remove_key salt_config_to_yaml"
    ),
    "salt.utils.extmods": "sync",
    "salt.utils.openstack": "",
    "salt.utils.openstack.neutron": "SaltNeutron",
    "salt.utils.openstack.nova": "SaltNova",
    "salt.utils.schema": "Schema",
    "salt.utils.thin": "gen_thin",
}
"""
Parts that modules import at their top and use in few functions, with what is used of them. They
can be imported, and whoever calls one is told that it is not here.
"""

LOST = ("salt.ext.six",)
"""Names that stock Salt has not either: their import fails in Python's own words, as there."""

Find = Callable[[str, str], types.ModuleType | None]
"""The executed module of a kind and file name, from the loader that works now."""


class SaltName:
    """
    An importer (PEP 451 finder and loader) of C{salt} and what is below it.

    @ivar find: finds C{salt.modules.NAME}; set again by each loader that executes a module which
        mentions C{salt}.
    """

    def __init__(self) -> None:
        self.find: Find | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """
        @raises ModuleNotFoundError: a name below C{salt} that is not offered; it says where to
            read which are.
        """
        if name != "salt" and not name.startswith("salt."):
            return None
        if name in LOST:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        view = name.rpartition(".")[0] in VIEWS
        if not view and source_of(name) is None and name not in NAMED:
            raise missing(name)
        is_package = not view and (_is_package(name) or _has_named(name))
        spec = ModuleSpec(name, self, origin="saltwisted", is_package=is_package)  # type: ignore[arg-type]
        source = None if view else source_of(name)
        if source is not None and not source.startswith("saltwisted."):
            # An extension's. It may import its own parts by Salt's name while it is executed.
            theirs = importlib.util.find_spec(source)
            if theirs is not None:
                spec.submodule_search_locations = theirs.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        """A plain module; L{exec_module} fills or replaces it."""
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the name its contents."""
        name = module.__name__
        package, _, last = name.rpartition(".")
        if package in VIEWS:
            sys.modules[name] = self._view(name, VIEWS[package], RENAMED.get(last, last))
            return
        source = source_of(name)
        named = {each: _absent(name, each) for each in NAMED.get(name, "").split()}
        if source is None and name in NAMED:
            module.__dict__.update(named)
            return
        if source is None:
            raise missing(name)
        ours = importlib.import_module(source)
        for each in named.keys() - vars(ours).keys():
            setattr(ours, each, named[each])
        if "__path__" not in module.__dict__ or not source.startswith("saltwisted."):
            for key, value in list(vars(module).items()):
                if isinstance(value, types.ModuleType):  # parts of it, imported meanwhile
                    vars(ours).setdefault(key, value)
            sys.modules[name] = ours
            return
        # Of a package only the contents: with our path, Python would load our files twice.
        for key, value in vars(ours).items():
            if not key.startswith("__") or key == "__version__":
                module.__dict__.setdefault(key, value)
        module.__doc__ = ours.__doc__
        module.__dict__["__getattr__"] = _lazy(name)

    def _view(self, name: str, kind: str, file: str) -> types.ModuleType:
        found = self.find(kind, file) if self.find is not None else None
        if found is None:
            raise missing(name)
        return found


_importer = SaltName()


def install(find: Find | None = None) -> None:
    """
    Offer C{salt} in this process, behind all other importers. Once is enough.

    @param find: answers C{salt.modules.NAME} and C{salt.states.NAME} from now on.
    """
    if find is not None:
        _importer.find = find
    if _importer not in sys.meta_path:
        sys.meta_path.append(_importer)
        sitelogging.install()


def installed() -> bool:
    """Whether this process offers our C{salt}."""
    return _importer in sys.meta_path


def missing(name: str) -> ModuleNotFoundError:
    """The error for what is not offered."""
    return ModuleNotFoundError(
        f"No module named '{name}': saltwisted runs site modules without the salt package,"
        f" and has no part of this name ({PAGE})",
        name=name,
    )


def source_of(name: str) -> str | None:
    """Which module of ours is behind a name such as C{salt.utils.files}; C{None}: none."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    parts = name.split(".")[1:]
    if any(not part.isidentifier() or part.startswith("_") for part in parts if part != "_compat"):
        return None
    if len(parts) == 2 and parts[0] == "utils" and _exists(("utils", parts[1])):
        return f"saltwisted.utils.{parts[1]}"
    if _exists(("compat", *parts)):
        return ".".join(("saltwisted", "compat", *parts))
    if len(parts) == 2 and parts[0] == "utils":
        return extensions.utility(parts[1])
    return None


def _has_named(name: str) -> bool:
    return any(each.startswith(f"{name}.") for each in (*NAMED, *LOST))


def _absent(module: str, name: str) -> Callable[..., Any]:
    """What is named in place of a function or class that is not here."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{module}.{name}: saltwisted runs site modules without the salt package, and has no"
            f" part of this name ({PAGE})"
        )

    return absent


def _exists(parts: Sequence[str]) -> bool:
    path = os.path.join(ROOT, *parts)
    return os.path.isfile(path + ".py") or os.path.isfile(os.path.join(path, "__init__.py"))


def _is_package(name: str) -> bool:
    return os.path.isdir(os.path.join(ROOT, "compat", *name.split(".")[1:]))


def _lazy(package: str) -> Callable[[str], Any]:
    """
    C{salt.utils.files} after a bare C{import salt.utils}: with stock, something has always
    imported it by then.
    """

    def attribute(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module '{package}' has no attribute '{name}' ({PAGE})") from None

    return attribute
