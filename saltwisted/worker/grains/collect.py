"""
Grains: what a minion knows about itself, each computed when it is first needed.

L{Grains} is a map whose values come in groups. A group is a function with the names that it may
provide. C{grains["os"]} runs only the group of the distribution; iterating runs them all. The names
and values are those of Salt's C{core}, C{disks}, C{extra}, C{lvm}, C{mdadm}, C{minion_process} and
C{package} grains on Linux, and the order of precedence is Salt's: core, then custom modules, then
the rest including C{conf_dir/grains}, and the C{grains} option over all. No group starts a process
if a file or the kernel gives the same answer.

L{saltwisted.worker.grains.distribution} has the names of distributions,
L{saltwisted.worker.grains.virtual} hypervisors and containers, L{saltwisted.worker.grains.netinfo}
netlink.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

import saltwisted
from saltwisted.config.compat import COMPAT_VERSION, COMPAT_VERSION_TEXT
from saltwisted.domain.yamltext import load_yaml
from saltwisted.worker import systools
from saltwisted.worker.freshfile import fresh
from saltwisted.worker.grains import netinfo
from saltwisted.worker.grains.machine import Machine

CustomGrain = tuple[str, Callable[..., Any]]
"""C{("module.function", function)} of a module from C{_grains}."""

_ABSENT = object()
_PLACEHOLDER = ""
"""Keeps an incomplete map from looking empty to C code: C{json} writes C{{}} for length 0."""


@frozen
class Group:
    """
    Some grains that are computed together.

    @ivar keys: every name that C{compute} may return, except names that begin with C{prefix}.
    """

    name: str
    keys: frozenset[str]
    compute: Callable[[Grains], Mapping[str, Any]]
    prefix: str = ""

    def gives(self, key: str) -> bool:
        """Whether C{key} can be among the results."""
        return key in self.keys or bool(self.prefix and key.startswith(self.prefix))


class Grains(dict[str, Any]):
    """
    A C{dict} that fills itself.

    It is a real C{dict}, so C{msgpack}, C{json} and modules that test for one accept it. Each of
    its methods that reads more than one key completes it first. Writing a key replaces the computed
    value until the next L{refresh}.

    It must not be used by several threads. If a process forks after some groups were computed, the
    child has them.

    @ivar static: the C{grains} option of the configuration.
    """

    def __init__(
        self,
        opts: Mapping[str, Any],
        custom: Callable[[], Iterable[CustomGrain]] | None = None,
        static: Mapping[str, Any] | None = None,
        machine: Machine | None = None,
    ) -> None:
        """
        @param opts: Salt-shaped options; read are C{id master conf_file config_dir cachedir grains
            grains_blacklist grains_cache grains_cache_expiration grains_deep_merge enable_*_grains}
            and a few more.
        @param custom: gives the functions of custom grain modules, in order; called once when the
            first answer needs them. They are called with C{grains} if they take that parameter.
        @param static: in place of C{opts["grains"]}.
        """
        super().__init__()
        self.opts = opts
        self.machine = machine or Machine()
        self._custom = custom
        if static is None:
            given = opts.get("grains") or {}
            static = given.static if isinstance(given, Grains) else given
        self.static: dict[str, Any] = dict(static)
        self._groups: dict[str, Mapping[str, Any]] = {}
        self._custom_result: dict[str, Any] | None = None
        self._complete = False
        self._cache_tried = False
        super().__setitem__(_PLACEHOLDER, None)

    def refresh(self, static: Mapping[str, Any] | None = None) -> None:
        """
        Forget everything that was computed or set; the cache file is not read again.

        @param static: a new C{grains} option, if it may have changed.
        """
        super().clear()
        super().__setitem__(_PLACEHOLDER, None)
        if static is not None:
            self.static = dict(static)
        self._groups.clear()
        self._custom_result = None
        self._complete = False
        self._cache_tried = True

    def group(self, name: str) -> Mapping[str, Any]:
        """The result of one group, not filtered by C{grains_blacklist}; computed once."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = _BY_NAME[name].compute(self)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Everything, in an ordinary C{dict}."""
        self.complete()
        return dict(self.items())

    def complete(self) -> None:
        """Compute all groups that were not yet asked for."""
        if self._complete:
            return
        self._complete = True
        super().pop(_PLACEHOLDER, None)
        if self._from_cache():
            return
        written = dict(super().items())
        super().clear()
        super().update(self._all())
        # Values that were handed out stay the same objects, and those that were set stay set.
        super().update(written)
        if self.opts.get("grains_cache", False):
            self._write_cache()

    def _all(self) -> dict[str, Any]:
        if self.opts.get("skip_grains", False):
            return {}
        whole: dict[str, Any] = {}
        merge = _deep_update if self._deep() else dict.update
        for group in _CORE:
            merge(whole, self._allowed(self.group(group.name)))
        merge(whole, self._custom_grains())
        for group in _REST:
            merge(whole, self._allowed(self.group(group.name)))
        merge(whole, self.static)
        return whole

    def _deep(self) -> bool:
        return self.opts.get("grains_deep_merge", False) is True

    def _find(self, key: str) -> Any:
        """One grain, with as little work as its place in the order of authority allows."""
        if self._complete:
            return _ABSENT
        if self._deep() or self.opts.get("grains_cache", False) or self.opts.get("skip_grains"):
            self.complete()
            return super().get(key, _ABSENT)
        if key in self.static:
            return self.static[key]
        for group in _REST_REVERSED:
            if group.name == "file" or group.gives(key):
                found = self._allowed(self.group(group.name))
                if key in found:
                    return found[key]
        if self._custom is not None:
            found = self._custom_grains()
            if key in found:
                return found[key]
        name = _CORE_KEYS.get(key)
        if name is None:
            name = next((g.name for g in _CORE if g.prefix and key.startswith(g.prefix)), None)
        if name is None:
            return _ABSENT
        return self._allowed(self.group(name)).get(key, _ABSENT)

    def _allowed(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        blocks = self.opts.get("grains_blacklist") or ()
        if not blocks:
            return found
        return {
            key: value
            for key, value in found.items()
            if not any(_expression_matches(key, block) for block in blocks)
        }

    def _custom_grains(self) -> dict[str, Any]:
        if self._custom_result is not None:
            return self._custom_result
        result: dict[str, Any] = {}
        self._custom_result = result
        functions = [] if self._custom is None else list(self._custom())
        merge = _deep_update if self._deep() else dict.update
        for name, function in functions:
            kwargs: dict[str, Any] = {}
            wanted = _parameters(function)
            if "grains" in wanted:
                kwargs["grains"] = self._so_far(result)
            if "proxy" in wanted:
                kwargs["proxy"] = None
            try:
                value = function(**kwargs)
            except Exception:
                import logging

                logging.getLogger(__name__).critical(
                    "Failed to load grains defined in grain file %s in function %s, error:\n",
                    name,
                    function,
                    exc_info=True,
                )
                continue
            if isinstance(value, dict):
                merge(result, self._allowed(value))
        return result

    def _so_far(self, custom: Mapping[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for group in _CORE:
            whole.update(self._allowed(self.group(group.name)))
        whole.update(custom)
        return whole

    # --- the cache file

    def _cache_path(self) -> str:
        return os.path.join(self.opts.get("cachedir") or "", "grains.cache.p")

    def _from_cache(self) -> bool:
        if self._cache_tried or not self.opts.get("grains_cache", False):
            return False
        self._cache_tried = True
        if self.opts.get("refresh_grains_cache", False):
            return False
        path = self._cache_path()
        try:
            age = int(time.time() - os.stat(path).st_mtime)
        except OSError:
            return False
        raw = systools.read_bytes(path)
        if age > self.opts.get("grains_cache_expiration", 300) or not raw:
            return False
        from saltwisted.errors import WireError
        from saltwisted.wire import msgpack

        try:
            cached = msgpack.unpack(raw)
        except WireError:
            return False
        if not isinstance(cached, dict) or not cached:
            return False
        if isinstance(cached.get("osrelease_info"), list):
            cached["osrelease_info"] = tuple(cached["osrelease_info"])
        written = dict(super().items())
        super().update(cached)
        super().update(written)
        return True

    def _write_cache(self) -> None:
        from saltwisted.wire import msgpack

        path = self._cache_path()
        try:
            with fresh(path, sync=False) as file:
                file.write(msgpack.pack(dict(super().items())))
        except (OSError, TypeError, ValueError) as error:
            import logging

            logging.getLogger(__name__).error(
                "Unable to write to grains cache file %s: %s", path, error
            )

    # --- the map

    def __missing__(self, key: str) -> Any:
        value = self._find(key)
        if value is _ABSENT:
            raise KeyError(key)
        super().__setitem__(key, value)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """One grain, or C{default}."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        return isinstance(key, str) and self.get(key, _ABSENT) is not _ABSENT

    def __iter__(self) -> Iterator[str]:
        self.complete()
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self.complete()
        return super().__reversed__()

    def __len__(self) -> int:
        self.complete()
        return super().__len__()

    def __bool__(self) -> bool:
        return True

    def keys(self) -> Any:
        """All names."""
        self.complete()
        return super().keys()

    def values(self) -> Any:
        """All values."""
        self.complete()
        return super().values()

    def items(self) -> Any:
        """All pairs."""
        self.complete()
        return super().items()

    def copy(self) -> dict[str, Any]:
        """An ordinary C{dict}."""
        return self.as_dict()

    def __eq__(self, other: object) -> bool:
        self.complete()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return self.as_dict() | dict(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self.as_dict()

    def __repr__(self) -> str:
        self.complete()
        return super().__repr__()

    def __reduce__(self) -> Any:
        return dict, (self.as_dict(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy

        return deepcopy(self.as_dict(), memo)

    def __delitem__(self, key: str) -> None:
        self.complete()
        super().__delitem__(key)

    def pop(self, key: str, *default: Any) -> Any:
        """As on C{dict}."""
        self.complete()
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """As on C{dict}."""
        self.complete()
        return super().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As on C{dict}; a grain that can be computed is there."""
        try:
            return self[key]
        except KeyError:
            super().__setitem__(key, default)
            return default


def _expression_matches(text: str, expression: Any) -> bool:
    """A glob, else a regular expression for the whole of C{text}."""
    if not isinstance(expression, str):
        return False
    if fnmatch.fnmatch(text, expression):
        return True
    try:
        return re.match(rf"\A{expression}\Z", text) is not None
    except re.error:
        return False


def _deep_update(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Maps merge, anything else replaces, as C{grains_deep_merge} says."""
    for key, value in source.items():
        mine = target.get(key)
        if isinstance(mine, dict) and isinstance(value, Mapping):
            merged = dict(mine)
            _deep_update(merged, value)
            target[key] = merged
        else:
            target[key] = value


def _parameters(function: Callable[..., Any]) -> set[str]:
    code = getattr(function, "__code__", None)
    if code is None:
        import inspect

        try:
            return set(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return set()
    return set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


# --- the groups


def _append_domain(grains: Grains) -> dict[str, Any]:
    opts = grains.opts
    return {"append_domain": opts["append_domain"]} if "append_domain" in opts else {}


def _cwd(grains: Grains) -> dict[str, Any]:
    try:
        return {"cwd": os.getcwd()}
    except OSError:
        # The directory was removed under us.
        return {}


def _gateways(grains: Grains) -> dict[str, Any]:
    found: dict[str, Any] = {"ip_gw": False, "ip4_gw": False, "ip6_gw": False}
    for number, family in (("4", socket.AF_INET), ("6", socket.AF_INET6)):
        routes = grains.machine.routes(family)
        first = next((route for route in routes if route.destination == "default"), None)
        if first is None:
            continue
        found["ip_gw"] = True
        # Salt takes the word behind "via", which is "inet6" for an IPv4 route over IPv6.
        gateway = "inet6" if first.via6 else first.gateway
        found[f"ip{number}_gw"] = True if first.multipath or not gateway else gateway
    return found


def _dns(grains: Grains) -> dict[str, Any]:
    if "proxyminion" in grains.opts:
        return {}
    path = "/run/systemd/resolve/resolv.conf"
    if not grains.machine.exists(path):
        path = "/etc/resolv.conf"
    text = grains.machine.read(path)
    return {} if text is None else {"dns": parse_resolv(text)}


def parse_resolv(text: str) -> dict[str, Any]:
    """C{resolv.conf(5)} in Salt's shape; of several C{domain} or C{search} lines the last wins."""
    import ipaddress

    servers: dict[str, list[str]] = {"4": [], "6": [], "": []}
    found: dict[str, Any] = {"sortlist": [], "domain": "", "search": [], "options": []}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        directive = words[0].lower()
        args: list[str] = []
        for word in words[1:]:
            if word[0] in "#;":
                break
            args.append(word)
        if directive == "search":
            found["search"] = args
        if not args:
            continue
        if directive == "nameserver":
            try:
                address = ipaddress.ip_address(args[0])
            except ValueError:
                continue
            for key in ("", str(address.version)):
                if str(address) not in servers[key]:
                    servers[key].append(str(address))
        elif directive == "domain":
            found["domain"] = args[0]
        elif directive == "options":
            if args[0] not in found["options"]:
                found["options"].append(args[0])
        elif directive == "sortlist":
            for item in args:
                text_item = _sort_network(item)
                if text_item and text_item not in found["sortlist"]:
                    found["sortlist"].append(text_item)
    return {
        "nameservers": servers[""],
        "ip4_nameservers": servers["4"],
        "ip6_nameservers": servers["6"],
        **found,
    }


def _sort_network(item: str) -> str:
    import ipaddress

    try:
        network = ipaddress.ip_network(item)
        if "/" not in item and network.version == 4:
            first = int(item.split(".", 1)[0])
            bits = 8 if first < 128 else 16 if first < 192 else 24
            network = ipaddress.ip_network(f"{item}/{bits}", strict=False)
    except ValueError:
        return ""
    return network.with_netmask


def _fibre_channel(grains: Grains) -> dict[str, Any]:
    return {"fibre_channel_host": grains.machine.isdir("/sys/class/fc_host")}


def _fqdns(grains: Grains) -> dict[str, Any]:
    if not grains.opts.get("enable_fqdns_grains", True):
        return {"fqdns": []}
    ifaces = grains.group("interfaces")["interfaces"]
    return {"fqdns": fqdns(ifaces, grains.machine)}


def fqdns(ifaces: Mapping[str, Any], machine: Machine | None = None) -> list[str]:
    """
    The names that reverse look-ups give for all addresses but loopback; sorted.

    One after the other while the resolver answers; after a tenth of a second the rest side by
    side, since each address without a name may cost the resolver's whole patience.
    """
    source = machine or Machine()
    wanted = [*netinfo.addresses(ifaces, "inet"), *netinfo.addresses(ifaces, "inet6")]
    found: set[str] = set()

    def look_up(address: str) -> None:
        name = source.reverse_name(address)
        if name:
            found.add(name)

    started = time.monotonic()
    while wanted and time.monotonic() - started < 0.1:
        look_up(wanted.pop(0))
    if wanted:
        import threading

        threads = [threading.Thread(target=look_up, args=(item,), daemon=True) for item in wanted]
        for start in range(0, len(threads), 8):
            for thread in threads[start : start + 8]:
                thread.start()
            for thread in threads[start : start + 8]:
                thread.join()
    return sorted(found)


def _machine_id(grains: Grains) -> dict[str, Any]:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        text = grains.machine.read(path)
        if text is not None:
            return {"machine_id": text.strip()}
    return {}


def _master(grains: Grains) -> dict[str, Any]:
    return {"master": grains.opts.get("master", "")}


def _server_id(grains: Grains) -> dict[str, Any]:
    import hashlib

    digest = hashlib.sha256(str(grains.opts.get("id") or "").encode()).digest()
    return {"server_id": int.from_bytes(digest, "big") % 2**31}


def _hostname(grains: Grains) -> dict[str, Any]:
    fqdn = grains.machine.full_name() or "localhost.localdomain"
    host, _dot, domain = fqdn.partition(".")
    return {"localhost": grains.machine.node_name(), "fqdn": fqdn, "host": host, "domain": domain}


def _interfaces(grains: Grains) -> dict[str, Any]:
    """Not a grain by itself: the links and addresses that several groups show."""
    return {"interfaces": grains.machine.interfaces()}


def _hwaddr_interfaces(grains: Grains) -> dict[str, Any]:
    ifaces = grains.group("interfaces")["interfaces"]
    return {
        "hwaddr_interfaces": {
            name: data["hwaddr"] for name, data in ifaces.items() if "hwaddr" in data
        }
    }


def _id(grains: Grains) -> dict[str, Any]:
    return {"id": grains.opts.get("id", "")}


def _ip4_interfaces(grains: Grains) -> dict[str, Any]:
    return {"ip4_interfaces": _by_interface(grains, ("inet",))}


def _ip6_interfaces(grains: Grains) -> dict[str, Any]:
    return {"ip6_interfaces": _by_interface(grains, ("inet6",))}


def _ip_interfaces(grains: Grains) -> dict[str, Any]:
    return {"ip_interfaces": _by_interface(grains, ("inet", "inet6"))}


def _by_interface(grains: Grains, protos: tuple[str, ...]) -> dict[str, list[str]]:
    return {
        name: [
            item["address"]
            for kind in (*protos, "secondary")
            for item in data.get(kind, ())
            if kind != "secondary" or item["type"] in protos
        ]
        for name, data in grains.group("interfaces")["interfaces"].items()
    }


def _addresses(grains: Grains) -> dict[str, Any]:
    ifaces = grains.group("interfaces")["interfaces"]
    return {
        "ipv4": netinfo.addresses(ifaces, "inet", include_loopback=True),
        "ipv6": netinfo.addresses(ifaces, "inet6", include_loopback=True),
    }


def _fqdn_ips(grains: Grains) -> dict[str, Any]:
    found: dict[str, Any] = {}
    own = grains.group("addresses")
    name = grains.group("hostname")["fqdn"]
    for number, family in (("4", socket.AF_INET), ("6", socket.AF_INET6)):
        answers = grains.machine.resolve(name, family) if own[f"ipv{number}"] else []
        found[f"fqdn_ip{number}"] = answers
    return found


def _kernel_params(grains: Grains) -> dict[str, Any]:
    text = grains.machine.read("/proc/cmdline")
    if text is None:
        return {}
    found: list[tuple[str, str | None]] = []
    for word in shlex.split(text):
        parts = word.split("=")
        # A word with two or more "=" has no value in Salt either.
        found.append((parts[0], parts[1].strip('"') if len(parts) == 2 else None))
    return {"kernelparams": found}


def _locale_info(grains: Grains) -> dict[str, Any]:
    import locale

    try:
        language, encoding = locale.getlocale()
    except ValueError:
        language = encoding = "unknown"
    return {
        "locale_info": {
            "defaultlanguage": language,
            "defaultencoding": encoding,
            "detectedencoding": sys.getdefaultencoding(),
            "timezone": time.localtime().tm_zone,
        }
    }


def _kernel(grains: Grains) -> dict[str, Any]:
    name = os.uname()
    return {
        "kernel": name.sysname,
        "nodename": name.nodename,
        "kernelrelease": name.release,
        "kernelversion": name.version,
        "cpuarch": name.machine,
    }


_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA controller, 3D controller, display controller, processing accelerator."""

_GPU_VENDORS = ("nvidia", "amd", "ati", "intel", "cirrus logic", "vmware", "matrox", "aspeed")


def _pair(line: str) -> tuple[str, str]:
    key, _colon, value = line.partition(":")
    return key.strip(), value.strip()


def _gpus(grains: Grains) -> dict[str, Any]:
    none: dict[str, Any] = {"num_gpus": 0, "gpus": []}
    opts, machine = grains.opts, grains.machine
    if opts.get("enable_lspci", True) is False or opts.get("enable_gpu_grains", True) is False:
        return none
    # Salt knows graphics cards only through lspci; without it there are none.
    if not machine.which("lspci"):
        return none
    root = "/sys/bus/pci/devices"
    if not any(
        (machine.read(f"{root}/{slot}/class") or "")[:6] in _GPU_CLASSES
        for slot in machine.listdir(root)
    ):
        return none
    found = []
    for block in machine.run(["lspci", "-vmm"])[1].split("\n\n"):
        fields: dict[str, str] = dict(
            _pair(line) for line in block.splitlines() if re.match(r"\w+:\s+.*", line)
        )
        if fields.get("Class", "").lower() not in (
            "3d controller",
            "display controller",
            "processing accelerators",
            "vga compatible controller",
        ):
            continue
        words = re.split("[^A-Za-z0-9]", fields.get("Vendor", "").lower())
        vendor = next((name for name in _GPU_VENDORS if name in words), "unknown")
        found.append({"vendor": vendor, "model": fields.get("Device", "")})
    return {"num_gpus": len(found), "gpus": found}


def _selinux(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    if not machine.which("selinuxenabled"):
        return {}
    # What libselinux looks at: a mounted selinuxfs, and a configuration.
    enforce = machine.read("/sys/fs/selinux/enforce")
    enabled = enforce is not None and machine.exists("/etc/selinux/config")
    found: dict[str, Any] = {"enabled": enabled}
    if machine.which("getenforce"):
        word = "Disabled"
        if enabled:
            word = "Enforcing" if (enforce or "").strip() == "1" else "Permissive"
        found["enforced"] = word
    return {"selinux": found}


_SYSTEMD_LIBRARY = re.compile(r"libsystemd-shared-(\d+)[^/]*\.so\Z")
_SYSTEMD_FEATURES = re.compile(rb"[+-]PAM [ -~]*?[+-]SYSVINIT[ -~]*")


def _systemd(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    if not machine.which("systemctl") or not machine.which("localectl"):
        return {}
    return {"systemd": systemd_info(machine)}


def systemd_info(machine: Machine) -> dict[str, str]:
    """C{version} and C{features} as C{systemctl --version} prints them."""
    version, features = "UNDEFINED", ""
    libraries = [
        (f"{root}/{name}", match)
        for root in ("/lib/systemd", "/usr/lib/systemd", "/usr/lib64/systemd")
        for name in machine.listdir(root)
        if (match := _SYSTEMD_LIBRARY.match(name))
    ]
    numbers = {match.group(1) for _path, match in libraries}
    if len(numbers) == 1:
        # Both lines of "systemctl --version" are constants of this library.
        blob = machine.read_bytes(libraries[0][0]) or b""
        constant = _SYSTEMD_FEATURES.search(blob)
        if constant:
            return {
                "version": numbers.pop(),
                "features": constant.group().decode("ascii"),
            }
    code, output = machine.run(["systemctl", "--version"])
    lines = output.splitlines()
    if code == 0 and lines and lines[0].startswith("systemd "):
        version = lines[0].split()[1]
        features = lines[1] if len(lines) > 1 else ""
    return {"version": version, "features": features}


def _init(grains: Grains) -> dict[str, Any]:
    return {"init": init_system(grains.machine, grains.opts.get("file_buffer_size", 262144))}


def init_system(machine: Machine, chunk: int = 262144) -> str:
    """
    Which program is process 1: C{systemd}, C{sysvinit}, C{runit}, ... or C{unknown}.

    @param chunk: the first of the three names in a piece of C{/sbin/init} of this size decides,
        as in Salt.
    """
    if machine.exists("/run/systemd/system"):
        return "systemd"
    words = (machine.read("/proc/1/cmdline") or "").replace("\0", " ").split()
    if not words:
        return "unknown"
    program = machine.which(words[0])
    if program is not None and program.endswith("bin/init"):
        image = (machine.read_bytes(program) or b"").lower()
        for start in range(0, len(image), chunk):
            piece = image[max(start - 7, 0) : start + chunk]
            for name in ("upstart", "sysvinit", "systemd"):
                if name.encode() in piece:
                    return name
        return "unknown"
    for name in ("supervisord", "dumb-init", "tini"):
        if machine.which(name) in words:
            return name
    if words == ["runit"] or "/sbin/my_init" in words:
        return "runit"
    return "unknown"


def _distribution(grains: Grains) -> dict[str, Any]:
    from saltwisted.worker.grains import distribution

    return distribution.distribution(grains.machine)


def _cpu(grains: Grains) -> dict[str, Any]:
    text = grains.machine.read("/proc/cpuinfo")
    found: dict[str, Any] = {"num_cpus": 0, "cpu_model": "Unknown", "cpu_flags": []}
    if text is None:
        return found
    flags = ""
    for line in text.splitlines():
        key, colon, rest = line.partition(":")
        if not colon:
            continue
        key = key.strip()
        if key == "processor":
            found["num_cpus"] += 1
        elif key in ("flags", "Features"):
            flags = rest
        elif key in ("vendor_id", "model name", "cpu"):
            found["cpu_model"] = rest.partition(":")[0].strip()
        elif key == "# processors":
            found["num_cpus"] = int(rest.partition(":")[0])
        elif key == "Processor":
            found["cpu_model"] = rest.partition(":")[0].strip().split("-")[0]
            found["num_cpus"] = 1
    found["cpu_flags"] = flags.partition(":")[0].split()
    return found


def _osarch(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    family = grains.group("distribution").get("os_family")
    native = grains.group("kernel")["cpuarch"]
    if family == "Debian":
        # The architecture for which dpkg was built is the one under which it is installed.
        status = machine.read_bytes("/var/lib/dpkg/status") or b""
        at = 0 if status.startswith(b"Package: dpkg\n") else status.find(b"\nPackage: dpkg\n") + 1
        if at or status.startswith(b"Package: dpkg\n"):
            stanza = status[at : status.find(b"\n\n", at)]
            match = re.search(rb"^Architecture: *(\S+)$", stanza, re.MULTILINE)
            if match:
                return {"osarch": match.group(1).decode("ascii", "replace")}
        return {"osarch": machine.run(["dpkg", "--print-architecture"])[1].strip()}
    if family in ("RedHat", "Suse"):
        if machine.which("rpm"):
            output = machine.run(["rpm", "--eval", "%{_host_cpu}"])[1].strip()
            return {"osarch": output or "unknown"}
        return {"osarch": native or "unknown"}
    if family in ("NILinuxRT", "Poky"):
        ranks: dict[str, int] = {}
        for line in machine.run(["opkg", "print-architecture"])[1].splitlines():
            words = line.split()
            if len(words) == 3 and words[0] == "arch":
                ranks[words[1]] = int(words[2])
        return {"osarch": sorted(ranks, key=lambda name: ranks[name], reverse=True)}
    return {"osarch": native}


def _memory(grains: Grains) -> dict[str, Any]:
    found = {"mem_total": 0, "swap_total": 0}
    names = {"MemTotal": "mem_total", "SwapTotal": "swap_total"}
    for line in (grains.machine.read("/proc/meminfo") or "").splitlines():
        key, _colon, rest = line.partition(":")
        if key in names:
            found[names[key]] = int(rest.split()[0]) // 1024
    return found


_FIRMWARE = {
    "biosversion": "bios_version",
    "biosvendor": "bios_vendor",
    "boardname": "board_name",
    "productname": "product_name",
    "manufacturer": "sys_vendor",
    "biosreleasedate": "bios_date",
    "uuid": "product_uuid",
    "serialnumber": "product_serial",
}


def _hardware(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    found = _device_tree(machine) if machine.isdir("/proc/device-tree") else {}
    if machine.exists("/sys/class/dmi/id"):
        for key, name in _FIRMWARE.items():
            raw = machine.read_bytes(f"/sys/class/dmi/id/{name}")
            if raw is not None:
                text = raw.strip().decode("utf-8", "replace")
                found[key] = text.lower() if key == "uuid" else text
    elif machine.which("dmidecode"):
        found.update(_from_dmidecode(machine))
    elif machine.which("fw_printenv"):
        for key, name in (
            ("manufacturer", "manufacturer"),
            ("serialnumber", "serial#"),
            ("productname", "DeviceDesc"),
        ):
            code, output = machine.run(["fw_printenv", name])
            parts = output.split("=")
            if code == 0 and len(parts) > 1:
                found[key] = clean_hardware_value(key, parts[1])
    return found


def _device_tree(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    model = (machine.read("/proc/device-tree/model") or "").rstrip("\0")
    if model:
        maker, comma, product = model.partition(",")
        if comma:
            found["manufacturer"] = maker
        found["productname"] = product if comma else maker
    for name in ("system-id", "serial-number"):
        text = (machine.read(f"/proc/device-tree/{name}") or "").rstrip("\0")
        if text:
            found["serialnumber"] = text
    return found


def _from_dmidecode(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def ask(keyword: str) -> str | None:
        code, output = machine.run(["dmidecode", "-s", keyword])
        lines = [line for line in output.splitlines() if not line.startswith("#")]
        if code != 0 or not lines:
            return None
        return clean_hardware_value(keyword, lines[0].strip())

    for key, keyword in (
        ("biosversion", "bios-version"),
        ("biosvendor", "bios-vendor"),
        ("productname", "system-product-name"),
        ("manufacturer", "system-manufacturer"),
        ("biosreleasedate", "bios-release-date"),
        ("uuid", "system-uuid"),
    ):
        value = ask(keyword)
        if value is not None:
            found[key] = value.lower() if key == "uuid" else value
    for keyword in ("system-serial-number", "chassis-serial-number", "baseboard-serial-number"):
        value = ask(keyword)
        if value is not None:
            found["serialnumber"] = value
            break
    return found


def clean_hardware_value(key: str, value: str) -> str | None:
    """C{None} for what firmware says when nobody filled it in, else C{value}."""
    if not value or re.match("none", value, re.IGNORECASE):
        return None
    if "uuid" in key:
        import uuid

        try:
            uuid.UUID(value)
        except ValueError:
            return None
        return value
    if re.search("serial|part|version", key):
        bogus = (
            re.match(r"0+$", value)
            or re.match(r"0?1234567[8]?[9]?[0]?", value)
            or re.search(
                r"sernum|part[_-]?number|specified|filled|applicable", value, re.IGNORECASE
            )
        )
    elif re.search("asset|manufacturer", key):
        bogus = re.search(
            r"manufacturer|to be filled|available|asset|^no(ne|t)", value, re.IGNORECASE
        )
    else:
        bogus = re.search(r"to be filled", value, re.IGNORECASE) or re.search(
            r"un(known|specified)|no(t|ne)? (asset|provided|defined|available|present|specified)",
            value,
            re.IGNORECASE,
        )
    return None if bogus else value


def _virtual(grains: Grains) -> dict[str, Any]:
    from saltwisted.worker.grains import virtual

    product = grains.group("hardware").get("productname") or ""
    found = virtual.virtual(grains.machine, grains.opts, product)
    found.update(virtual.hypervisor(grains.machine, found["virtual"]))
    return found


_OPENVZ_PS = (
    'ps -fH -p $(grep -l "^envID:[[:space:]]*0\\$" '
    '/proc/[0-9]*/status | sed -e "s=/proc/\\([0-9]*\\)/.*=\\1=")  '
    "| awk '{ $7=\"\"; print }'"
)


def _ps(grains: Grains) -> dict[str, Any]:
    if grains.group("virtual").get("virtual") == "openvzhn":
        return {"ps": _OPENVZ_PS}
    if grains.group("distribution").get("os_family") == "NILinuxRT":
        return {"ps": "ps -o user,pid,ppid,tty,time,comm"}
    return {"ps": "ps -efHww"}


def _release(grains: Grains) -> dict[str, Any]:
    from saltwisted.worker.grains import distribution

    facts = grains.group("distribution")
    if not facts.get("osrelease"):
        return {}
    return distribution.release_grains(facts["os"], facts["osfullname"], facts["osrelease"])


def _path(grains: Grains) -> dict[str, Any]:
    text = os.environ.get("PATH", "").strip()
    return {"path": text, "systempath": text.split(os.pathsep)}


def _python(grains: Grains) -> dict[str, Any]:
    return {
        "pythonexecutable": sys.executable,
        "pythonpath": list(sys.path),
        "pythonversion": list(sys.version_info),
    }


def _versions(grains: Grains) -> dict[str, Any]:
    return {
        "saltpath": os.path.dirname(os.path.abspath(saltwisted.__file__)),
        "saltversion": COMPAT_VERSION_TEXT,
        "saltversioninfo": list(COMPAT_VERSION),
        "saltwistedversion": saltwisted.__version__,
    }


def _zmq(grains: Grains) -> dict[str, Any]:
    version = zmq_version()
    return {"zmqversion": version} if version else {}


def zmq_version() -> str:
    """
    Version of the ZeroMQ library that C{pyzmq} uses, or the empty string.

    Worker code does not import C{zmq}; the library itself is asked.
    """
    import ctypes
    import glob

    candidates: list[str] = []
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, "zmq", "__init__.py")):
            candidates = glob.glob(os.path.join(glob.escape(folder), "pyzmq.libs", "libzmq*.so*"))
            candidates.append("libzmq.so.5")
            break
    for path in candidates:
        try:
            library = ctypes.CDLL(path)
            numbers = [ctypes.c_int() for _ in range(3)]
            library.zmq_version(*(ctypes.byref(number) for number in numbers))
        except (OSError, AttributeError):
            continue
        return ".".join(str(number.value) for number in numbers)
    return ""


def _disks(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    found: dict[str, list[str]] = {"disks": [], "ssds": []}
    for name in machine.listdir("/sys/block"):
        if machine.readlink(f"/sys/block/{name}").startswith("../devices/virtual/"):
            continue
        flag = (machine.read(f"/sys/block/{name}/queue/rotational") or "")[:1]
        if flag in ("0", "1"):
            found["ssds" if flag == "0" else "disks"].append(name)
    return found


def grains_file(opts: Mapping[str, Any]) -> str:
    """Path of the static grains file beside the minion's configuration; may not exist."""
    conf = opts.get("conf_file") or ""
    if not conf:
        conf = opts.get("config_dir") or ""
        return os.path.join(conf, "grains") if conf else ""
    return os.path.join(conf if os.path.isdir(conf) else os.path.dirname(conf), "grains")


def _file(grains: Grains) -> dict[str, Any]:
    path = grains_file(grains.opts)
    raw = grains.machine.read(path) if path else None
    if not raw:
        return {}
    import yaml

    try:
        data = load_yaml(raw)
    except yaml.YAMLError:
        import logging

        logging.getLogger(__name__).warning("Bad syntax in grains file! Skipping.")
        return {}
    return data if isinstance(data, dict) else {}


def _shell(grains: Grains) -> dict[str, Any]:
    return {"shell": os.environ.get("SHELL", "/bin/sh")}


def _transactional(grains: Grains) -> dict[str, Any]:
    return {"transactional": bool(grains.machine.which("transactional-update"))}


def _efi(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    root = "/sys/firmware/efi"
    secure = False
    modern, older = machine.exists(f"{root}/efivars"), machine.exists(f"{root}/vars")
    if modern or older:
        folder = f"{root}/efivars" if modern else f"{root}/vars"
        names = [name for name in machine.listdir(folder) if name.startswith("SecureBoot-")]
        if not modern:
            names = [f"{name}/data" for name in names]
        if len(names) == 1:
            secure = (machine.read_bytes(f"{folder}/{names[0]}") or b"")[-1:] == b"\x01"
    return {"efi": modern or older, "efi-secure-boot": secure}


def _lvm(grains: Grains) -> dict[str, Any]:
    machine = grains.machine
    if not machine.which("lvm"):
        return {}
    groups = machine.run(["lvm", "vgs", "-o", "vg_name", "--noheadings"])[1].split()
    found: dict[str, list[str]] = {name: [] for name in groups}
    if found:
        rows = machine.run(["lvm", "lvs", "-o", "vg_name,lv_name", "--noheadings"])[1]
        for row in rows.splitlines():
            words = row.split()
            if len(words) == 2:
                found.setdefault(words[0], []).append(words[1])
    return {"lvm": found}


def _mdadm(grains: Grains) -> dict[str, Any]:
    text = grains.machine.read("/proc/mdstat")
    if text is None:
        return {}
    skipped = ("Personalities : ", "unused devices:")
    names = {
        line.split(" : ")[0]
        for line in text.splitlines()
        if " : " in line and not line.startswith(skipped)
    }
    return {"mdadm": sorted(names)}


def _process(grains: Grains) -> dict[str, Any]:
    import grp
    import pwd

    uid, gid = os.geteuid(), os.getegid()
    try:
        entry = pwd.getpwuid(uid)
        user = entry.pw_name
    except KeyError:
        return {"username": str(uid), "groupname": "", "pid": os.getpid(), "gid": gid, "uid": uid}
    try:
        group = grp.getgrgid(entry.pw_gid).gr_name
    except KeyError:
        group = ""
    return {"username": user, "groupname": group, "pid": os.getpid(), "gid": gid, "uid": uid}


def _opts(grains: Grains) -> dict[str, Any]:
    return {"opts": dict(grains.opts)} if grains.opts.get("grain_opts", False) else {}


def _package(grains: Grains) -> dict[str, Any]:
    return {"package": None}


def _resources(grains: Grains) -> dict[str, Any]:
    managed = grains.opts.get("resources", {})
    return {"salt_resources": managed} if managed else {}


def _truststore(grains: Grains) -> dict[str, Any]:
    return {"ca_truststore": "certifi"}


def _group(
    compute: Callable[[Grains], Mapping[str, Any]], keys: str = "", prefix: str = ""
) -> Group:
    name = compute.__name__.lstrip("_")
    return Group(name, frozenset(keys.split() or [name]), compute, prefix)


_CORE = (
    _group(_append_domain),
    _group(_cwd),
    _group(_gateways, "ip_gw ip4_gw ip6_gw"),
    _group(_dns),
    _group(_fibre_channel, "fibre_channel_host"),
    _group(_fqdns),
    _group(_machine_id),
    _group(_master),
    _group(_server_id),
    _group(_hostname, "localhost fqdn host domain"),
    _group(_hwaddr_interfaces),
    _group(_id),
    _group(_ip4_interfaces),
    _group(_ip6_interfaces),
    _group(_addresses, "ipv4 ipv6"),
    _group(_fqdn_ips, "fqdn_ip4 fqdn_ip6"),
    _group(_ip_interfaces),
    _group(_kernel_params, "kernelparams"),
    _group(_locale_info),
    _group(_gpus, "num_gpus gpus"),
    _group(_kernel, "kernel nodename kernelrelease kernelversion cpuarch"),
    _group(_selinux),
    _group(_systemd),
    _group(_init),
    _group(_distribution, "os os_family oscodename osfullname osrelease", prefix="lsb_distrib_"),
    _group(_cpu, "num_cpus cpu_model cpu_flags"),
    _group(_osarch),
    _group(_memory, "mem_total swap_total"),
    _group(_hardware, " ".join(_FIRMWARE)),
    _group(_virtual, "virtual virtual_subtype", prefix="virtual_hv_"),
    _group(_ps),
    _group(_release, "osrelease_info osmajorrelease osfinger"),
    _group(_path, "path systempath"),
    _group(_python, "pythonexecutable pythonpath pythonversion"),
    _group(_versions, "saltpath saltversion saltversioninfo saltwistedversion"),
    _group(_zmq, "zmqversion"),
)
"""Salt's C{core} module, whose values custom grains replace."""

_REST = (
    _group(_disks, "disks ssds"),
    Group("file", frozenset(), _file),
    _group(_shell),
    _group(_transactional),
    _group(_efi, "efi efi-secure-boot"),
    _group(_lvm),
    _group(_mdadm),
    _group(_process, "username groupname pid gid uid"),
    _group(_opts),
    _group(_package),
    _group(_resources, "salt_resources"),
    _group(_truststore, "ca_truststore"),
)
"""Salt's other modules, which come after the custom ones; C{file} may give any name."""

_REST_REVERSED = _REST[::-1]
_CORE_KEYS = {key: group.name for group in _CORE for key in group.keys}
_BY_NAME = {group.name: group for group in (*_CORE, *_REST, _group(_interfaces))}
