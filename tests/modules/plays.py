"""
Calls of modules whose surroundings are played, with the answers and doings of stock Salt.

A play names a module, the programs that seem to be installed, and what commands and functions of
other modules answer. Each call of it has an answer (or error), and leaves a trace: the commands
that were run and the functions that were called. What stock's module answered and did is in
C{tests/vectors/modules/played.json}; L{tests.modules.test_plays} asks the same of ours.

To record again, with the Python of stock's venv and this checkout in C{PYTHONPATH}::

    PEERS/3008/bin/python tests/modules/plays.py
"""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import sys
import tarfile
import tempfile
import types
import zipfile
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    # The package of our tests needs what a venv of stock has not.
    import harness
else:
    from tests.modules import harness

VECTORS = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors", "modules", "played.json"
)
ZONES = """               Local time: Fri 2024-03-01 10:00:00 CET
                Time zone: Europe/Berlin (CET, +0100)
          RTC in local TZ: no
"""


class Functions(dict[str, Any]):
    """C{__salt__}: commands from a table; any other function is written down and answers so too."""

    def __init__(self, play: Play) -> None:
        commands = harness.Commands()
        commands.answers = play.answers
        super().__init__(commands.salt())
        for name in play.functions:
            self.pop(name, None)
        self.trace = commands.ran
        self.play = play

    def __missing__(self, name: str) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            words = [repr(arg) for arg in args]
            words += [f"{key}={value!r}" for key, value in sorted(kwargs.items())]
            self.trace.append(f"{name}({', '.join(words)})")
            answer = self.play.functions.get(name, True)
            return answer(*args, **kwargs) if callable(answer) else copy.deepcopy(answer)

        return called

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.play.functions

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]


class Play:
    """
    Calls of one module.

    @ivar folder: a directory for the files of the play, C{{W}} in what is recorded.
    @ivar programs: what seems to be installed, C{name: path}.
    @ivar answers: of commands, as L{harness.Commands} wants them.
    @ivar functions: answers of other modules, by full name.
    @ivar constants: names of a module that are something else here, such as its paths.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.programs: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}
        self.grains: dict[str, Any] = dict(harness.GRAINS)
        self.opts: dict[str, Any] = {"test": False, "cachedir": folder}
        self.constants: dict[str, Any] = {}
        self.context: dict[str, Any] = {"salt.utils.systemd.booted": False}
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> None:
        """Call a function of the module; its answer is compared."""
        self.calls.append((function, args, kwargs))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """Write a file before the next call."""

        def step() -> None:
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(self.path(name), mode)

        self.calls.append((step, (), {}))

    def read(self, name: str) -> None:
        """Compare the content of a file."""

        def step() -> str:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()

        self.calls.append((step, (), {}))

    def tree(self, name: str) -> None:
        """Compare what is below a directory: names, modes, sizes, where links lead."""

        def step() -> list[Any]:
            found: list[Any] = []
            for folder, folders, names in os.walk(self.path(name)):
                for item in sorted(folders + names):
                    path = os.path.join(folder, item)
                    facts = os.lstat(path)
                    what: Any = facts.st_size if os.path.isfile(path) else "folder"
                    what = os.readlink(path) if os.path.islink(path) else what
                    found.append([path, f"{facts.st_mode & 0o7777:o}", what])
            return sorted(found)

        self.calls.append((step, (), {}))

    def run(self, step: Callable[[], None]) -> None:
        """Do something before the next call."""
        self.calls.append((step, (), {}))

    def let(self, what: str, **facts: Any) -> None:
        """Change C{programs}, C{functions}, C{context} or C{grains} before the next call."""

        def step() -> None:
            place: dict[str, Any] = getattr(self, what)
            place.update(facts)

        self.calls.append((step, (), {}))

    def answer(self, command: str, answer: Any) -> None:
        """Change what a command answers before the next call."""

        def step() -> None:
            self.answers[command] = answer

        self.calls.append((step, (), {}))

    def which(self, name: Any = None, *_: Any) -> str | None:
        """The path of a program that seems to be installed."""
        return self.programs.get(name)

    def which_bin(self, names: Any) -> str | None:
        return next((self.programs[name] for name in names if name in self.programs), None)


def hosts(p: Play) -> None:
    """Lines with comments, without an end, addresses twice."""
    p.functions["config.option"] = p.path("hosts")
    p.write("hosts", "127.0.0.1 localhost # c\n# whole\n\n10.0.0.1 a b\n10.0.0.1\tc\n::1 ip6\n")
    p.call("list_hosts")
    for name in ("a", "nope"):
        p.call("get_ip", name)
    for address in ("10.0.0.1", "9.9.9.9"):
        p.call("get_alias", address)
    p.call("has_pair", "10.0.0.1", "c")
    p.call("has_pair", "10.0.0.1", ["a", "c"])
    p.call("has_pair", "1.1.1.1", "x")
    for function, *args in (
        ("add_host", "10.0.0.1", "d"),
        ("add_host", "10.0.0.1", "d"),
        ("add_host", "10.0.0.2", "e"),
        ("set_comment", "10.0.0.2", "hi"),
        ("set_comment", "10.0.0.2", "hi"),
        ("set_comment", "9.9.9.9", "x"),
        ("rm_host", "10.0.0.1", "a"),
        ("rm_host", "10.0.0.2", "e"),
        ("rm_host", "10.0.0.2", "e"),
        ("set_host", "10.0.0.1", "x y"),
        ("set_host", "10.0.0.3", "z", "note"),
        ("set_host", "10.0.0.3", ""),
    ):
        p.call(function, *args)
        p.read("hosts")
    p.write("hosts", "10.0.0.5 a # one\n10.0.0.5 b c\n1.1.1.1 q")
    p.call("set_host", "2.2.2.2", "r")
    p.call("rm_host", "10.0.0.5", "b")
    p.read("hosts")
    p.call("list_hosts")


def kmod(p: Play) -> None:
    """Modules loaded and removed, now and for the next start."""
    p.programs = {name: f"/sbin/{name}" for name in ("lsmod", "modprobe", "rmmod")}
    head = "Module                  Size  Used by\n"
    fuse = "fuse                  1 0\n"
    p.answers["/sbin/lsmod"] = f"{head}ext4                743424  1\njbd2 131072  1 ext4,x\n{fuse}"
    p.functions.update({"file.file_exists": False, "file.search": False})
    p.call("lsmod")
    p.call("mod_list")
    p.call("is_loaded", "ext4")
    p.call("is_loaded", "nope")
    p.answer("/sbin/lsmod", [head, head + fuse])
    p.call("load", "fuse")
    p.answer("/sbin/lsmod", [head, head + fuse])
    p.call("load", "fuse", True)
    p.answer("/sbin/lsmod", [head + fuse, head])
    p.call("remove", "fuse", False)
    p.answer("/sbin/modprobe", {"retcode": 1, "stderr": "no such module", "stdout": "out"})
    p.answer("/sbin/rmmod", {"retcode": 1, "stderr": "in use", "stdout": "out"})
    p.answer("/sbin/lsmod", head + fuse)
    p.call("load", "nope")
    p.call("remove", "fuse")


def sysctl(p: Play) -> None:
    """Values read, set and kept."""
    p.programs["sysctl"] = "/sbin/sysctl"
    p.answers["/sbin/sysctl -a"] = "kernel.ostype = Linux\nnet.x = \nbad line\na = b = c\n"
    p.answers["/sbin/sysctl -n"] = "Linux"
    p.call("default_config")
    p.call("show")
    p.call("get", "kernel.ostype")
    p.call("assign", "nope.nope", 1)
    p.answers["/sbin/sysctl -w kernel.hostname"] = {"stdout": "kernel.hostname = x"}
    p.call("assign", "kernel.hostname", "x")
    bad = {"stdout": "", "stderr": 'sysctl: setting key "kernel.domainname": Invalid argument'}
    p.answers["/sbin/sysctl -w kernel.domainname"] = {"retcode": 1, **bad}
    p.call("assign", "kernel.domainname", "y")
    p.answers["/sbin/sysctl -w kernel.ostype"] = bad
    p.call("assign", "kernel.ostype", "z")
    p.answers["/sbin/sysctl -n kernel.hostname"] = "x"
    conf = p.path("sysctl.conf")
    p.call("persist", "kernel.hostname", "x", config=conf)
    p.read("sysctl.conf")
    p.call("persist", "kernel.hostname", "x", config=conf)
    p.write("sysctl.conf", "# c\n; d\nkernel.hostname=y\nother = 1\n\nodd line\nx.y = 1  2\n")
    p.call("show", config_file=conf)
    p.call("show", config_file=p.path("nope"))
    p.call("persist", "kernel.hostname", "x", config=conf)
    p.read("sysctl.conf")


def timezone(p: Play) -> None:
    """The zone by C{timedatectl}, and the clock without it."""
    p.programs["timedatectl"] = "/usr/bin/timedatectl"
    p.answers["timedatectl"] = ZONES
    p.answers["date +%Z"] = "CET"
    p.answers["date +%z"] = "+0100"
    p.call("get_zone")
    p.call("get_zonecode")
    p.call("get_offset")
    p.call("zone_compare", "Europe/Berlin")
    p.call("zone_compare", "Etc/UTC")
    p.call("get_hwclock")
    p.call("set_hwclock", "localtime")
    p.call("set_hwclock", "UTC")
    p.call("set_zone", "Etc/UTC")
    p.answer("timedatectl", ZONES.replace("in local TZ: no", "in local TZ: yes"))
    p.call("get_hwclock")
    p.answer("timedatectl", "nothing of the kind")
    p.call("get_zone")
    p.call("get_hwclock")
    p.answer("timedatectl", {"retcode": 1, "stderr": "no bus"})
    p.call("get_zone")
    p.answer("timedatectl set-timezone", {"retcode": 1, "stderr": "Invalid time zone"})
    p.call("set_zone", "No/Such")


def localemod(p: Play) -> None:
    """The language with C{localectl} and without, and locales that are made."""
    p.grains["osmajorrelease"] = 12
    p.answers["locale -a"] = "C\nC.utf8\nen_US.utf8\nde_DE@euro"
    p.answers['grep "^LANG="'] = 'LANG="C.UTF-8"'
    p.answers["localectl status"] = (
        "   System Locale: LANG=de_DE.UTF-8\n   LANGUAGE=de_DE:de\n   VC: x\n"
    )
    p.call("list_avail")
    p.call("get_locale")
    for name in ("en_US.UTF-8", "en_US.utf8", "C.UTF-8", "de_DE.ISO-8859-15@euro", "xx_YY", "C"):
        p.call("avail", name)
    p.call("set_locale", "en_US.UTF-8")
    p.let("programs", **{"update-locale": "/usr/sbin/update-locale"})
    p.call("set_locale", "en_US.UTF-8")
    p.let("programs", **{"localectl": "/usr/bin/localectl"})
    p.let("context", **{"salt.utils.systemd.booted": True})
    p.call("get_locale")
    p.call("set_locale", "en_US.UTF-8")
    p.answer("localectl status", "")
    p.call("get_locale")
    p.answer("localectl set-locale", 1)
    p.call("set_locale", "en_US.UTF-8")


def alternatives(p: Play) -> None:
    """Links set, chosen and removed; nothing of C{/etc} is touched."""
    shown = (
        "swx - auto mode\n  link best version is /bin/cat\n  link currently points to /bin/cat\n"
        "  link swx is /usr/bin/swx\n/bin/cat - priority 60\n/bin/ls - priority 50"
    )
    p.answers["update-alternatives --display swx"] = {"stdout": shown}
    p.answers["update-alternatives --display nope"] = {
        "retcode": 2,
        "stdout": "",
        "stderr": "update-alternatives: error: no alternatives for nope",
    }
    p.call("display", "swx")
    p.call("display", "nope")
    p.call("show_current", "no-such-link")
    p.call("check_exists", "swx", "/bin/ls")
    p.call("check_exists", "swx", "/x")
    p.call("check_exists", "nope", "/x")
    p.call("check_installed", "no-such-link", "/x")
    p.call("install", "swx", "/usr/bin/swx", "/bin/ls", 50)
    p.call("set", "swx", "/bin/ls")
    p.call("auto", "swx")
    p.call("remove", "swx", "/bin/ls")
    p.answer("update-alternatives", {"retcode": 2, "stderr": "error: no such", "stdout": "out"})
    p.call("install", "swx", "/usr/bin/swx", "/bin/ls", 50)
    p.call("set", "swx", "/nope")
    p.call("auto", "swx")
    p.call("remove", "nope", "/bin/ls")


def mount(p: Play) -> None:
    """C{fstab}, maps of the automounter, swap, and commands that mount."""
    tab = p.path("fstab")
    p.write(
        "fstab",
        "# c\nUUID=1 / ext4 errors=remount-ro 0 1\n/dev/sdb1\t/data xfs a,b 0 2\nbad line\n"
        "tmpfs /t tmpfs defaults\ntmpfs /t tmpfs x 0\n",
    )
    p.call("fstab", tab)
    p.call("fstab", p.path("nope"))
    for args, kwargs in (
        (("/data", "/dev/sdb1", "xfs", "b,a", 0, 2), {}),
        (("/data", "/dev/sdb1", "xfs", ["c"]), {}),
        (("/data", "/dev/sdb1", "xfs", ["d"]), {"not_change": True}),
        (("/new", "/dev/sdz", "ext4"), {"test": True}),
        (("/new", "/dev/sdz", "ext4"), {}),
        (("/new", "/dev/sdy", "ext4"), {"match_on": "name"}),
        (("/new", "/dev/sdy", "ext4"), {"match_on": ["name", "device"]}),
        (("/sp ace", "/dev/sp ace", "ext4"), {}),
        (("/t", "tmpfs", "tmpfs", "size=1"), {}),
    ):
        p.call("set_fstab", *args, config=tab, **kwargs)
        p.read("fstab")
    p.call("set_fstab", "/new", "/dev/sdy", "ext4", match_on=5, config=tab)
    p.call("set_fstab", "/x", "y", "tmpfs", config=p.path("nope"))
    for entry in (("/new", "/dev/sdy"), ("/new", "/dev/sdy"), ("/data", None)):
        p.call("rm_fstab", *entry, config=tab)
        p.read("fstab")
    p.call("rm_fstab", "/x", "y", config=p.path("nope"))
    auto = p.path("auto")
    p.write("auto", "# m\n/..x\t-fstype=nfs,rw\tnfs:h\n\nq w\n")
    p.call("automaster", auto)
    for args in (
        ("/x", "h", "nfs", "rw"),
        ("/x", "h", "nfs", ["ro", "soft"]),
        ("/y", "z", "smbfs"),
    ):
        p.call("set_automaster", *args, config=auto, not_change=False)
        p.read("auto")
    p.call("rm_automaster", "/x", "h", config=auto)
    p.read("auto")
    p.functions["file.directory_exists"] = False
    p.call("mount", "/nowhere/m", "/dev/x", True, "ext4", "rw,user", user="me")
    p.call("mount", "/nowhere/m", "/dev/x", False, "ext4", ["rw"])
    p.call("mount", "/nowhere/m")
    p.call("umount", "/nowhere/m")
    p.call("remount", "/nowhere/m", "/dev/x", fstype="ext4", opts="ro")
    p.answer("mount", {"retcode": 32, "stderr": "bad superblock"})
    p.call("mount", "/nowhere/m", "/dev/x", fstype="ext4")
    p.programs["ldd"] = "/usr/bin/ldd"
    p.programs["sshfs"] = "/usr/bin/sshfs"
    p.answers["ldd /usr/bin/sshfs"] = "\tlibfuse.so.2 => /lib/libfuse.so.2\n"
    p.call("is_fuse_exec", "sshfs")
    p.call("is_fuse_exec", "nope")


def debconf(p: Play) -> None:
    """Answers of packages: shown, set and preset from files."""
    p.programs["debconf-get-selections"] = "/usr/bin/debconf-get-selections"
    p.answers["debconf-get-selections"] = (
        "# comment\nman-db\tman-db/auto-update\tboolean\ttrue\nlocales\tlocales/x\tmultiselect\n"
        "man-db man-db/install select  a b, c\nbad\n"
    )
    p.call("get_selections", False)
    p.call("get_selections")
    p.call("show", "man-db")
    p.call("show", "nope")
    p.functions["cp.cache_file"] = p.path("pre")
    p.call("set_file", "salt://pre")
    p.functions["cp.get_template"] = "/cache/pre"
    p.call("set_template", "salt://pre", "jinja", {"a": 1}, None)
    p.let("functions", **{"cp.cache_file": False})
    p.call("set_file", "salt://nope")


def pip(p: Play) -> None:
    """The command lines for a virtual environment, and what comes of their output."""
    p.write("v/bin/python", "#!/bin/sh\n", 0o755)
    p.write("v/bin/pip", "#!/bin/sh\n", 0o755)
    p.write("odd", "")
    env = p.path("v")
    python = p.path("v/bin/python")
    pip_ = f"{python} -m pip"
    p.answers[f"{pip_} --version"] = "pip 23.0.1 from /x (python 3.11)"
    p.answers[f"{pip_} freeze"] = (
        "a==1.0\n-e git+https://x/y@abc#egg=Big_Name\nb @ file:///b.whl\n# c\n"
    )
    p.answers[f"{pip_} list --format=json"] = (
        '[{"name": "A_b", "version": "1"}, {"name": "pip", "version": "23.0.1"}]'
    )
    p.answers[f"{pip_} list"] = '[{"name": "A_b", "version": "1", "latest_version": "2"}]'
    p.call("version", bin_env=env)
    for place in (p.path("nope"), p.path("odd"), p.folder):
        p.call("version", bin_env=place)
    p.call("list", bin_env=env)
    p.call("list", "a-", bin_env=env)
    p.call("is_installed", "a.B", bin_env=env)
    p.call("is_installed", "zz", bin_env=env)
    p.call("freeze", bin_env=env)
    p.call("list_freeze_parse", bin_env=env)
    p.call("list_upgrades", bin_env=env)
    p.call("normalize", "A.b_c")
    many: list[dict[str, Any]] = [
        {"pkgs": "a,b"},
        {"pkgs": ["a==1", "b;python_version<'3'"], "user": "me"},
        {"pkgs": "a", "upgrade": True, "pre_releases": True, "no_deps": True},
        {"pkgs": "a", "index_url": "http://x", "extra_index_url": "https://y", "proxy": "h:1"},
        {"pkgs": "a", "index_url": "bad"},
        {"pkgs": "a", "extra_index_url": "bad"},
        {"pkgs": "a", "no_index": True, "index_url": "http://x"},
        {"pkgs": "a", "no_index": True, "find_links": ["http://x", "file:///y"]},
        {"pkgs": "a", "find_links": "no-such-place"},
        {"pkgs": "a", "timeout": 5, "log": p.path("log"), "cache_dir": "/c"},
        {"pkgs": "a", "timeout": "x"},
        {"pkgs": "a", "exists_action": "w"},
        {"pkgs": "a", "exists_action": "q"},
        {"pkgs": "a", "target": "/t", "download": "/d", "build": "/b"},
        {"pkgs": "a", "ignore_installed": True, "force_reinstall": True, "no_cache_dir": True},
        {"pkgs": "a", "global_options": ["x"], "install_options": "y", "trusted_host": ["h", "i"]},
        {"pkgs": "a", "extra_args": [{"--retries": "1"}, "--no-color"], "env_vars": {"A": 1}},
        {"pkgs": "a", "extra_args": "--z"},
        {"pkgs": "a", "env_vars": 5},
        {"pkgs": "a", "use_wheel": True},
        {"pkgs": "a", "no_use_wheel": True, "no_binary": "x", "cert": "/c.pem"},
        {"pkgs": "a", "cwd": "/somewhere", "disable_version_check": True},
        {"editable": "git+https://x/y#egg=z"},
        {"editable": "git+https://x/y"},
        {"editable": ["/local", "svn+http://a#egg=b"]},
        {"requirements": p.path("req.txt")},
        {"requirements": [p.path("req.txt")], "cwd": p.folder},
        {},
    ]
    p.write("req.txt", "swpkg==1.0 # c\n-r sub.txt\n")
    p.write("sub.txt", "# nothing\n")
    for words in many:
        p.call("install", bin_env=env, **words)
    for words in (
        {"pkgs": "a,b"},
        {"requirements": p.path("req.txt")},
        {"pkgs": ["swpkg"], "requirements": [p.path("req.txt")]},
        {"pkgs": "a", "timeout": 3, "proxy": "h", "log": p.path("log")},
        {"pkgs": "a", "timeout": "x"},
    ):
        p.call("uninstall", bin_env=env, **words)
    p.call("list_all_versions", "a", bin_env=env, index_url="bad")


def virtualenv(p: Play) -> None:
    """Command lines that make environments, and words that are refused."""
    p.programs["virtualenv"] = "/usr/bin/virtualenv"
    p.programs["python3"] = "/usr/bin/python3"
    p.answers["virtualenv --version"] = "virtualenv 20.17.1 from /x"
    env = p.path("v")
    for words in (
        {"venv_bin": "venv"},
        {"venv_bin": "venv", "python": "x"},
        {"venv_bin": "venv", "upgrade": True, "symlinks": True, "clear": True},
        {"venv_bin": "venv", "never_download": True},
        {"venv_bin": "venv", "prompt": "x"},
    ):
        p.call("create", env, **words)
    p.call("get_site_packages", p.path("nope"))
    p.call("get_distribution_path", p.path("nope"), "pip")


def git(p: Play) -> None:
    """The command lines, and what comes of played output."""
    cwd = p.path("repo")
    hash_ = "0123456789abcdef0123456789abcdef01234567"
    p.answers["git --version"] = "git version 2.39.5"
    p.answers["git remote --verbose"] = (
        "origin\thttps://me:pw@example.org/x (fetch)\norigin\thttps://me:pw@example.org/x (push)\n"
        "up\t/srv/x y (fetch)\nbad\nup\t/z (other)\n"
    )
    p.answers["git for-each-ref"] = "main\ntopic"
    p.answers["git ls-remote"] = f"{hash_}\tHEAD\n{hash_}\trefs/heads/main\n"
    p.answers["git config --local --get-all"] = "one\ntwo"
    p.answers["git config --local --get-regexp"] = "a.b one\na.b two\na.c\n"
    p.answers["git status"] = "M  a b\0?? c\0 D d\0R  new\0old\0"
    p.answers["git fetch"] = (
        "From /up\n   0123456..789abcd  main       -> origin/main\n"
        " * [new branch]      topic      -> origin/topic\n * [new tag]         v1 -> v1\n"
        " t [tag update]      v0         -> v0\n + 1111111...2222222 force -> origin/force\n"
    )
    p.answers["git worktree list"] = (
        f"worktree {p.folder}\nHEAD {hash_}\nbranch refs/heads/main\n\n"
        f"worktree /nowhere/x\nHEAD {hash_}\ndetached\nprunable gone\n\nworktree /bare\nbare\n"
    )
    p.answers["git tag --points-at"] = "v1\nv2"
    p.answers["git merge-base"] = f"{hash_}\nffff"
    p.call("version", versioninfo=True)
    for function, *args in (
        ("current_branch",),
        ("describe",),
        ("list_branches",),
        ("list_branches", True),
        ("list_tags",),
        ("remotes",),
        ("remote_get",),
        ("remote_get", "nope"),
        ("status",),
        ("fetch",),
        ("revision", "HEAD", True),
        ("rev_parse", "x", "--verify"),
        ("init",),
        ("init", True, "/t", "/s", 664),
        ("reset", "--hard HEAD"),
        ("stash", "pop"),
        ("branch", "b", ["-d", 1]),
        ("commit", "a message", "--author='X Y <x@y>'"),
        ("add", "f", "-v --force --"),
        ("rm", "f", "--cached"),
        ("discard_local_changes", "f"),
        ("rebase", "a b", "-i"),
        ("rebase", "a 'b c'"),
        ("checkout",),
        ("checkout", "x", True),
        ("push", "origin", "main"),
        ("pull", "--rebase"),
        ("merge", "x", "--no-edit", "-c a.b=c"),
        ("merge_base", "a,b"),
        ("tag", "v", "HEAD", "a message"),
        ("tag", "v", "HEAD", None, "-d"),
        ("tag", "v", "HEAD", None, "--message=x"),
        ("symbolic_ref", "HEAD", "x", "-d"),
        ("symbolic_ref", "HEAD"),
        ("submodule", "update", "--init"),
        ("list_worktrees",),
        ("list_worktrees", True),
        ("worktree_add", "/w/x"),
        ("worktree_add", "/w/x", "main", True, True),
        ("diff", "a", "b"),
        ("remote_set", "http://x"),
    ):
        p.call(function, cwd, *args)
    p.call("list_worktrees", cwd, all=True)
    p.call("list_worktrees", cwd, all=True, stale=True)
    p.call("list_worktrees", cwd, zz=True)
    p.call("worktree_add", cwd, "/w/x", branch="b", detach=True)
    p.call("worktree_add", cwd, "/w/x", detach=True)
    p.call("worktree_prune", cwd, dry_run=True, expire="1.day")
    p.call("fetch", cwd, "origin", True, "a,b", "-f --tags")
    p.call("ls_remote", cwd, ref="x", opts="--tags")
    p.call("remote_refs", "https://x", True, True, filter="v*", https_user="u", https_pass="p@")
    p.call("remote_refs", "http://x", https_user="u")
    p.call("clone", cwd)
    p.call("clone", cwd, "https://x", "n", "--depth 1", https_user="u", https_pass="p/")
    p.call("clone", cwd, "https://x", https_user="u")
    p.call("diff", cwd, no_index=True, paths="a,b", item1="x")
    p.call("diff", cwd, "x", "y", cached=True, paths=["a"])
    p.call("diff", cwd, no_index=True, cached=True)
    p.call("merge_base", cwd, ["a", "b"], all=True)
    p.call("merge_base", cwd, "a", is_ancestor=True)
    p.call("merge_base", cwd, "a,b", is_ancestor=True)
    p.call("merge_base", cwd, fork_point="x")
    p.call("merge_base", cwd, "a,b", fork_point="x")
    p.call("merge_base", cwd, octopus=True, independent=True)
    p.call("merge_tree", cwd, "a", "b", base="c")
    p.call("archive", cwd, "/o.tar")
    p.call("archive", cwd, "/o.tar", "v1", "", format="tar")
    p.call("remote_set", cwd, "https://x", "up", https_user="u", push_url="/y")
    p.call("config_get", "a.b", cwd)
    p.call("config_get", "a.b", cwd, all=True)
    p.call("config_get", "a.b")
    p.call("config_get", "a.b", **{"global": True})
    p.call("config_get_regexp", "a.*", "[ot]", cwd)
    p.call("config_set", "a.b", "c", cwd=cwd)
    p.call("config_set", "a.b", multivar="c,d", cwd=cwd)
    p.call("config_set", "a.b", "c", ["d"], cwd=cwd)
    p.call("config_set", "a.b", "c", cwd=cwd, add=True)
    p.call("config_set", "a.b", "c", cwd=cwd, zz=True)
    p.call("config_unset", "a.b", cwd=cwd, all=True)
    for code in (1, 5, 6, 9):
        p.answer("git config --unset", {"retcode": code, "stderr": "why"})
        p.call("config_unset", "a.b", "x.*", cwd=cwd)
    p.answer("git config --local --get-all", {"retcode": 1})
    p.answer("git config --unset", {"retcode": 5})
    p.call("config_get", "a.b", cwd)
    p.call("config_unset", "a.b", cwd=cwd)
    p.answer("git", {"retcode": 128, "stderr": "fatal: https://u:p@x/ is bad", "stdout": "out"})
    p.call("push", cwd, "https://u:p@x/", "main")
    p.call("clone", cwd, "https://x", https_user="u", https_pass="p")
    p.functions["file.file_exists"] = False
    p.call("clone", cwd, "ssh://x", identity=[p.path("no"), p.path("no2")])


INI = (
    "a=1\nb = 2\n# c = 3\n\n[s1]\nx: 1\nk = v\n;semi\n   cont of semi\nz=  spaced  \n"
    "  indented = y\n    deeper\n\tand tab\nunknown line\n#k = old\n\n[ s 2 ]\n[s1]\nmore=1\n",
    "",
    "[only]\n",
    "no sections\nat all = 1",
    "[a]\n#k=1\nk=2\n[b]\n # q = 1\n",
    "k=1\n[k]\nx=1\n",
    "[d]\nmulti = one\n  two\n  three\nnext=1\n\n\n",
    "  lead = 1\n[x]\n  a = 1\n  b = 2\n   c = 3\n",
    "#b\n[t]\n[t]\na = \n= 5\n# a = 9\njunk\n  cont\n[s]\nb=2\n; a=1\n",
    "[s]\n# a = 9\na = 1\n\tx\n\n[t]\njunk\na = 1\n\n\n[s]\nb=2",
)


def ini(p: Play) -> None:
    """Each change of files with odd lines, comments, sections twice."""
    path = p.path("x.ini")
    for text in INI:
        for function, args, kwargs in (
            ("get_ini", (), {}),
            ("get_ini", (), {"separator": " "}),
            ("get_section", ("s1",), {}),
            ("get_option", ("s1", "k"), {}),
            ("get_option", ("", "a"), {}),
            ("set_option", ({"s1": {"k": "new", "added": 5}, "new": {"q": True}},), {}),
            ("set_option", ({"c": "1", "a": "1"},), {}),
            ("set_option", ({"b": {"q": 2}, "s": {"b": "8"}},), {"no_spaces": True}),
            ("set_option", ({"x": {"a": 1}},), {"separator": ":"}),
            ("set_option", ({},), {}),
            ("remove_option", ("s1", "k"), {}),
            ("remove_option", ("", "a"), {}),
            ("remove_section", ("s1",), {}),
            ("remove_section", ("nope",), {}),
        ):
            p.write("x.ini", text)
            p.call(function, path, *args, **kwargs)
            if not function.startswith("get"):
                p.read("x.ini")
    p.call("get_ini", p.path("nope"))
    p.call("set_option", p.path("new"), {"a": {"b": "c"}, "t": 1})
    p.read("new")
    p.call("set_option", p.path("no/new"), {"a": 1})


KEYS = (
    "AAAAC3NzaC1lZDI1NTE5AAAAIHBPZ1ma0QmZ2gmo6v4vyrcAqyFyZ6kNO5Lf7TqjEcXh",
    "AAAAC3NzaC1lZDI1NTE5AAAAIGy4F5JSd9IyLCI0Fh6oCAy5l1KGMbgnXyD+NvAUO0rT",
)


def ssh(p: Play) -> None:
    """Keys that may come in, and hosts that are known."""
    one, two = KEYS
    user = "somebody"
    conf, hosts_ = p.path("keys"), p.path("known")
    p.programs.update({"ssh": "/usr/bin/ssh", "ssh-keygen": "/usr/bin/ssh-keygen"})
    p.functions["user.info"] = {"home": p.folder, "uid": os.geteuid(), "gid": os.getegid()}
    p.functions["cp.cache_file"] = lambda source, *_: p.path(source)
    p.functions["config.option"] = conf
    p.write(
        "file", f'ssh-ed25519 {one} c one\n# x\nfrom="1.2.3.4",no-pty ssh-ed25519 {two} two\nx y\n'
    )
    p.write("none", "nothing\n")
    p.write("keys", "", 0o600)
    for args in (
        (one, "ed25519", "cm"),
        (one, "ed25519", "cm"),
        (one, "ed25519", "cm2", ["no-pty", 'from="a,b"']),
        (two, "ed25519"),
        ("a b",),
        ("!!!",),
        (one, "zzz"),
    ):
        p.call("set_auth_key", user, *args, config=conf)
        p.read("keys")
    p.call("set_auth_key", "no-such-user", two)
    p.call("set_auth_key", user, two, config="%z")
    p.call("set_auth_key", user, two, config="a%")
    p.call("auth_keys", user, conf)
    p.call("auth_keys", user, conf, "md5")
    p.call("auth_keys", user, conf, "zz")
    p.call("auth_keys", "no-such-user")
    p.call("check_key", user, one, "ed25519", "x", [], conf)
    p.call("check_key", user, two, "ed25519", "", [], conf)
    p.call("check_key", user, "AAAA", "rsa", "", [], conf)
    for name in ("file", "none", "nope"):
        p.call("check_key_file", user, name, conf)
    for function in ("rm_auth_key", "rm_auth_key"):
        p.call(function, user, one, conf)
        p.read("keys")
    for function in ("set_auth_key_from_file", "rm_auth_key_from_file"):
        for name in ("file", "file", "none"):
            p.call(function, user, name, conf)
            p.read("keys")
    p.write(
        "keys", f"# c\n\nssh-ed25519 {one} a\nbadline\nssh-rsa\nno-x ssh-ed25519 {two} b c", 0o600
    )
    p.call("set_auth_key", user, two, "ed25519", "new", config=conf)
    p.read("keys")
    p.call("set_auth_key", user, "AAAAB3NzaC1yc2E=", "rsa", "z", config=conf)
    p.call("rm_auth_key", user, one, conf)
    p.read("keys")
    p.write("known", f"h1 ssh-ed25519 {one}\n", 0o600)
    p.answers["ssh-keygen -F h1"] = f"# Host h1 found: line 1\nh1 ssh-ed25519 {one}"
    p.call("get_known_host_entries", None, "h1", hosts_)
    p.call("get_known_host_entries", None, "h2", hosts_)
    p.call("check_known_host", None, "h1", config=hosts_)
    p.call("check_known_host", None, "h1", key=one, config=hosts_)
    p.call("check_known_host", None, "h1", key=two, config=hosts_)
    p.call("check_known_host", None, "h1", fingerprint="zz", config=hosts_)
    p.call("check_known_host", None, "h2", config=hosts_)
    p.call("check_known_host", None)
    p.call(
        "set_known_host",
        None,
        "h3",
        key=one,
        enc="ssh-ed25519",
        hash_known_hosts=False,
        config=hosts_,
    )
    p.call("set_known_host", None, "h3", port=22, key=two, enc="ssh-ed25519", config=hosts_)
    p.call("set_known_host", None, "h3", config="relative")
    p.call("set_known_host", None)
    p.read("known")
    p.call("rm_known_host", None, "h1", hosts_)
    p.call("rm_known_host", None, "h1", p.path("nope"))
    p.call("hash_known_hosts", None, hosts_)
    p.write("plain", "-----BEGIN RSA PRIVATE KEY-----\nx\n")
    p.write("locked", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nx\n")
    for name in ("plain", "locked", "none", "nope"):
        p.call("key_is_encrypted", p.path(name))


def archive(p: Play) -> None:
    """Archives looked into, made and unpacked without any program."""
    p.functions["cp.cache_file"] = lambda source, *_: source if os.path.isfile(source) else False
    p.functions["file.user_to_uid"] = lambda name: -1

    def pack() -> None:
        os.symlink("a", p.path("in/d/l"))
        for mode, name in (("w", "x.tar"), ("w:gz", "x.tgz"), ("w:xz", "x.txz")):
            with tarfile.open(p.path(name), mode) as tar:
                for item in ("d", "top"):
                    tar.add(p.path(f"in/{item}"), item)
        with zipfile.ZipFile(p.path("x.zip"), "w") as zipped:
            for item in ("d/", "d/a", "d/e/", "d/e/b", "top"):
                info = zipfile.ZipInfo.from_file(p.path(f"in/{item}"), item)
                zipped.writestr(info, b"" if item.endswith("/") else b"data")
            link = zipfile.ZipInfo("d/l")
            link.external_attr = 0o120777 << 16
            link.create_system = 3
            zipped.writestr(link, b"a")
        shutil.copy(p.path("x.tgz"), p.path("x.odd"))

    p.write("in/d/a", "1\n", 0o750)
    p.write("in/d/e/b", "22\n", 0o600)
    p.write("in/top", "t\n")
    p.write("bad.zip", "junk\n")
    p.write("bad.tar", "junk\n")
    p.run(pack)
    for name in ("x.tar", "x.tgz", "x.txz", "x.zip", "bad.zip", "bad.tar", "nope.tar"):
        for words in ({}, {"verbose": True}, {"strip_components": 1}):
            p.call("list", p.path(name), **words)
    p.call("list", p.path("x.odd"))
    p.call("list", p.path("x.odd"), archive_format="tar")
    p.call("list", p.path("x.tar"), archive_format="zzz")
    p.call("list", p.path("x.tar"), strip_components="x")
    p.call("list", p.path("x.tar"), strip_components=-2)
    p.call("tar", "", "x")
    p.call("tar", "cvf", "/x.tar", "a,b", cwd="/y", dest="/z")
    p.call("tar", "cf", "/x.tar", ["a", "b"], runas="me")
    p.call("zip", p.path("z.zip"), [p.path("in/d/e"), p.path("in/top")])
    p.call("list", p.path("z.zip"))
    p.call("zip", p.path("z2.zip"), "d/e,top,nope", cwd=p.path("in"))
    p.call("zip", p.path("z3.zip"), "d")
    p.call("zip", p.path("z3.zip"), "d", cwd="relative")
    p.call("unzip", p.path("x.zip"), p.path("out"))
    p.tree("out")
    p.call("unzip", p.path("x.zip"), p.path("out2"), excludes="top,d/l", extract_perms=False)
    p.tree("out2")
    p.call("unzip", p.path("x.zip"), p.path("out3"), trim_output=2)
    p.call("unzip", p.path("bad.zip"), p.path("out3"))
    p.call("unzip", p.path("x.zip"), p.path("out4"), password="")
    p.call("is_encrypted", p.path("x.zip"))
    p.call("is_encrypted", p.path("bad.zip"))
    p.call("is_encrypted", p.path("nope.zip"))


PLAYS: dict[str, tuple[str, Callable[[Play], None]]] = {
    "hosts": ("hosts", hosts),
    "kmod": ("kmod", kmod),
    "sysctl": ("linux_sysctl", sysctl),
    "timezone": ("timezone", timezone),
    "locale": ("localemod", localemod),
    "alternatives": ("alternatives", alternatives),
    "mount": ("mount", mount),
    "debconf": ("debconfmod", debconf),
    "pip": ("pip", pip),
    "virtualenv": ("virtualenv_mod", virtualenv),
    "git": ("git", git),
    "ini": ("ini_manage", ini),
    "ssh": ("ssh", ssh),
    "archive": ("archive", archive),
}
"""By virtual name the module's file, which is called the same on both sides, and the script."""


def perform(virtual: str, patch: Callable[[Play], Any], **dunders: Any) -> tuple[Play, list[Any]]:
    """
    Play.

    @param patch: lets the world see the play's programs.
    @return: the play, and for each call C{ok} and an answer, or C{error}, class and text; then
        the trace.
    """
    name, script = PLAYS[virtual]
    play = Play(os.path.realpath(tempfile.mkdtemp(prefix="play")))
    try:
        script(play)
        patch(play)
        functions = Functions(play)
        given = {"grains": play.grains, "opts": play.opts, "context": play.context}
        module = harness.load(name, salt=functions, **given, **dunders)
        aliases = getattr(module, "__func_alias__", {})
        for key, value in list(vars(module).items()):
            if not key.startswith("_") and isinstance(value, types.FunctionType):
                functions.setdefault(f"{virtual}.{aliases.get(key, key)}", value)
        found: list[Any] = []
        for function, args, kwargs in play.calls:
            del functions.trace[:]
            ask = function if callable(function) else functions[f"{virtual}.{function}"]
            try:
                answer = ["ok", ask(*copy.deepcopy(args), **copy.deepcopy(kwargs))]
            except Exception as error:
                answer = ["error", type(error).__name__, str(error)]
            if isinstance(function, str) or answer[1] is not None:
                # What a module keeps and gives away may change with its next call.
                text = json.dumps([*answer, functions.trace], default=repr)
                text = text.replace(play.folder, "{W}").replace(play.folder[1:], "{W}")
                text = text.replace(sys.executable, "{PYTHON}")
                found.append(json.loads(text))
        return play, found
    finally:
        shutil.rmtree(play.folder)


def main() -> None:
    """Record all plays with stock's modules."""
    import salt.config
    import salt.loader
    import salt.modules
    import salt.utils.path
    import salt.version

    logging.disable(logging.CRITICAL)
    os.umask(0o022)
    os.environ["HOME"] = "/root"
    harness.FOLDER = os.path.dirname(salt.modules.__file__)
    utils = salt.loader.utils(dict(salt.config.DEFAULT_MINION_OPTS))

    def patch(play: Play) -> None:
        salt.utils.path.which = play.which
        salt.utils.path.which_bin = play.which_bin

    recorded = {name: perform(name, patch, utils=utils)[1] for name in PLAYS}
    with open(VECTORS, "w", encoding="utf-8") as file:
        text = json.dumps({"_version": salt.version.__version__, **recorded}, indent=1)
        file.write(text + "\n")


if __name__ == "__main__":
    main()
