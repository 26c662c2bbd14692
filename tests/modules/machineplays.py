"""
Modules and states of one subject, played together: firewalls, volumes, aliases, web servers.

As in L{tests.modules.plays} nothing of this machine is asked: commands have played answers. What
is new here is that a play may have several modules, states among them, which call one another.
What stock answered and did is in C{tests/vectors/machine}, one file for each play;
L{tests.modules.test_machineplays} asks the same of ours.

To record, with the Python of stock's venv (the older release records what 3008 has moved out)::

    PEERS/3008/bin/python tests/modules/machineplays.py [PLAY...]
    PEERS/3006/bin/python tests/modules/machineplays.py PLAY...
"""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import sys
import tempfile
import types
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

if __name__ == "__main__":
    # The package of our tests needs what a venv of stock has not: one of its name stands in.
    import harness

    _package = types.ModuleType("tests.modules")
    vars(_package)["harness"] = harness
    sys.modules.update({"tests": types.ModuleType("tests"), "tests.modules": _package})
    from machinescripts import SCRIPTS
    from plays import Functions, Play
else:
    from tests.modules import harness
    from tests.modules.machinescripts import SCRIPTS
    from tests.modules.plays import Functions, Play

VECTORS = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors", "machine"
)


@frozen(kw_only=True)
class Subject:
    """
    What a play is about.

    @ivar modules: by the name that calls begin with, the file's path below C{modules}.
    @ivar release: the release of stock that answered.
    """

    modules: Mapping[str, str]
    release: str = "3008"


def _subject(*names: str, release: str = "3008", **files: str) -> Subject:
    modules = {name: name for name in names}
    for virtual, path in files.items():
        modules[virtual.replace("states_", "states/")] = path
    return Subject(modules=modules, release=release)


_SWITCHES = {
    f"states_apache_{kind}": f"../states/apache_{kind}" for kind in ("site", "module", "conf")
}

SUBJECTS: Mapping[str, Subject] = {
    "alias": _subject(states_alias="../states/alias"),
    "iptables": _subject("iptables"),
    "iptables_save": _subject("iptables"),
    "iptables_states": _subject("iptables", states_iptables="../states/iptables"),
    "sysfs": _subject("sysfs", states_sysfs="../states/sysfs"),
    "xfs": _subject("xfs"),
    "lvm": _subject(lvm="linux_lvm"),
    "lvm_states": _subject(lvm="linux_lvm", states_lvm="../states/lvm"),
    "blockdev": _subject(states_blockdev="../states/blockdev"),
    "logrotate": _subject("logrotate", states_logrotate="../states/logrotate"),
    "dnsutil": _subject("dnsutil"),
    "dig": _subject("dig"),
    "saltutil_states": _subject(states_saltutil="../states/saltutil"),
    "apache": _subject("apache", states_apache="../states/apache"),
    "apache_debian": _subject(apache="deb_apache", **_SWITCHES, release="3006"),
    "nftables": _subject("nftables"),
    "selinux": _subject("selinux"),
    "selinux_states": _subject(states_selinux="../states/selinux"),
    "debian_ip": _subject(ip="debian_ip"),
    "network_states": _subject(ip="debian_ip", states_network="../states/network"),
    "nftables_states": _subject("nftables", states_nftables="../states/nftables"),
    "firewalld": _subject("firewalld"),
    "firewalld_states": _subject("firewalld", states_firewalld="../states/firewalld"),
}


def _with_stderr(functions: Functions, play: Play) -> None:
    """C{cmd.run_stderr} and its brothers, which leave the exit code where modules look for it."""
    run_all = functions["cmd.run_all"]

    def answered(cmd: Any, **kwargs: Any) -> dict[str, Any]:
        done: dict[str, Any] = run_all(cmd, **kwargs)
        play.context["retcode"] = done["retcode"]
        return done

    functions["cmd.run_all"] = answered
    functions["cmd.run_stderr"] = lambda cmd, **kwargs: answered(cmd, **kwargs)["stderr"]
    for name in ("cmd.run", "cmd.run_stdout"):
        functions[name] = lambda cmd, **kwargs: answered(cmd, **kwargs)["stdout"]
    functions["cmd.retcode"] = lambda cmd, **kwargs: answered(cmd, **kwargs)["retcode"]


def _unless_played(play: Play, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the module, as long as the play has no answer of its own."""

    def called(*args: Any, **kwargs: Any) -> Any:
        if name in play.functions:
            return copy.deepcopy(play.functions[name])
        return function(*args, **kwargs)

    return called


def _load(subject: Subject, play: Play, functions: Functions, dunders: Any) -> dict[str, Any]:
    """All functions of a subject by their full names; the modules' ones are also C{__salt__}."""
    found: dict[str, Any] = {}
    given = {"grains": play.grains, "opts": play.opts, "context": play.context}
    for virtual, path in subject.modules.items():
        module = harness.load(path, salt=functions, **given, **dunders)
        for key in play.constants.keys() & vars(module).keys():
            setattr(module, key, play.constants[key])
        aliases = getattr(module, "__func_alias__", {})
        found[f"{virtual}.__virtual__"] = getattr(module, "__virtual__", bool)
        for key, value in list(vars(module).items()):
            if not key.startswith("_") and isinstance(value, types.FunctionType):
                found[f"{virtual}.{aliases.get(key, key)}"] = value
    for name, function in found.items():
        if not name.startswith("states/") and not name.endswith("__virtual__"):
            functions.setdefault(name, _unless_played(play, name, function))
    return found


def perform(name: str, patch: Callable[[Play], Any], **dunders: Any) -> tuple[Play, list[Any]]:
    """
    Play.

    @param patch: lets the world see the play's programs.
    @return: the play, and for each call C{ok} and an answer, or C{error}, class and text; then
        the commands and calls that it made.
    """
    play = Play(os.path.realpath(tempfile.mkdtemp(prefix="play")))
    try:
        SCRIPTS[name](play)
        patch(play)
        functions = Functions(play)
        _with_stderr(functions, play)
        known = _load(SUBJECTS[name], play, functions, dunders)
        found: list[Any] = []
        for function, args, kwargs in play.calls:
            del functions.trace[:]
            ask = function if callable(function) else known[function]
            try:
                answer = ["ok", ask(*copy.deepcopy(args), **copy.deepcopy(kwargs))]
            except Exception as error:
                answer = ["error", type(error).__name__, str(error)]
            if isinstance(function, str) or answer[1] is not None:
                # How often a module looks at its options is its own affair.
                did = [line for line in functions.trace if not line.startswith("config.")]
                text = json.dumps([*answer, did], default=repr)
                text = text.replace(hex(uuid.getnode()), "{NODE}")
                found.append(json.loads(text.replace(play.folder, "{W}")))
        return play, found
    finally:
        shutil.rmtree(play.folder)


def main() -> None:
    """Record the plays of this release with stock's modules."""
    import salt.config
    import salt.loader
    import salt.modules
    import salt.utils.path
    import salt.version

    logging.disable(logging.CRITICAL)
    os.umask(0o022)
    harness.FOLDER = os.path.dirname(salt.modules.__file__)
    utils = salt.loader.utils(dict(salt.config.DEFAULT_MINION_OPTS))
    release = salt.version.__version__

    def patch(play: Play) -> None:
        salt.utils.path.which = play.which
        salt.utils.path.which_bin = play.which_bin

    for name in sys.argv[1:] or SUBJECTS:
        if release.partition(".")[0] != SUBJECTS[name].release:
            continue
        _play, answers = perform(name, patch, utils=utils)
        with open(os.path.join(VECTORS, f"{name}.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps({"_version": release, "answers": answers}, indent=1) + "\n")


if __name__ == "__main__":
    main()
