"""
What site modules import of C{salt} and call, to be recorded with stock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Ask = Callable[..., None]
EXCEPTIONS = [
    "CommandExecutionError",
    "SaltInvocationError",
    "CommandNotFoundError",
    "SaltException",
    "CheckError",
    "InvalidConfigError",
    "AuthenticationError",
    "InvalidKeyError",
    "SaltRunnerError",
    "TemplateError",
    "VMwareFileNotFoundError",
    "NxosCliError",
    "SaltCloudNotFound",
    "TimeoutError",
    "LoaderError",
    "ArgumentValueError",
    "SaltNoMinionsFound",
    "FileserverConfigError",
    "MissingSmb",
    "CodePageError",
    "SaltClientTimeout",
    "SaltRenderError",
    "TimedProcTimeoutError",
    "LoggingRuntimeError",
]
SYSTEMS = [
    "is_linux",
    "is_windows",
    "is_darwin",
    "is_sunos",
    "is_freebsd",
    "is_openbsd",
    "is_netbsd",
    "is_aix",
    "is_fedora",
    "is_proxy",
    "is_photonos",
    "is_smartos",
    "is_junos",
]


MODULE = """
import importlib
import salt.utils
from salt.exceptions import CommandExecutionError, SaltInvocationError
import salt.utils.decorators
import salt.utils.decorators.path
import salt.utils.odict
import salt.utils.context
import salt.utils.immutabletypes
import salt.utils.dictdiffer
import salt.loader.context
from salt.utils.decorators import depends, memoize, ignores_kwargs
from salt.utils.decorators.path import which as needs

HAS = True
LACKS = None
depended = salt.loader.context.LoaderContext()
__named__ = depended.named_context("__salt__")


def ask(name, *args, **kwargs):
    module, _, function = name.rpartition(".")
    found = getattr(importlib.import_module("salt." + module), function)(*args, **kwargs)
    return sorted(found) if isinstance(found, set) else found


def raised(name, *args):
    try:
        raise getattr(importlib.import_module("salt.exceptions"), name)(*args)
    except Exception as error:
        kinds = [each.__name__ for each in type(error).__mro__ if "salt" in each.__module__]
        return [str(error), type(error).__module__, kinds]


def constants():
    import salt.defaults
    import salt.defaults.exitcodes as codes

    same = salt.defaults.NOT_SET == salt.defaults.NOT_SET
    return [
        repr(salt.defaults.NOT_SET), same, salt.defaults.DEFAULT_TARGET_DELIM,
        sorted((k, v) for k, v in vars(codes).items() if isinstance(v, int)),
    ]


def ordered():
    made = salt.utils.odict.DefaultOrderedDict(list)
    made["b"].append(1)
    made["a"] = 2
    return [list(made.items()), list(made.copy().items()), isinstance(made, dict)]


def frozen():
    made = salt.utils.immutabletypes.freeze({"a": [1, {"b": 2}], "s": "t"})
    found = [type(made).__name__, type(made["a"]).__name__, made["a"][1]["b"], len(made)]
    try:
        made["x"] = 1
    except TypeError as error:
        found.append(str(error))
    found += [made.copy(), made["a"] + [3], repr(made)]
    return found


def injected():
    with salt.utils.context.func_globals_inject(ask, HAS=2, NEW=3):
        inside = [HAS, NEW]
    return [inside, HAS, "NEW" in globals()]


def differ(one, two, ignore=None):
    found = salt.utils.dictdiffer.diff(one, two)
    return [
        sorted(found.added()), sorted(found.removed()), sorted(found.changed()),
        sorted(found.unchanged()), salt.utils.dictdiffer.deep_diff(two, one, ignore),
    ]


def named():
    return [__named__["test.echo"]("x"), "test.nosuch" in __named__]


def keyed(folder):
    import os
    import salt.crypt

    path = salt.crypt.write_keys(folder, "pair", 2048)
    other = salt.crypt.write_keys(folder, "other", 2048)
    signature = salt.crypt.sign_message(path, b"words")
    public = os.path.join(folder, "pair.pub")
    ask = salt.crypt.verify_signature
    found = [ask(public, b"words", signature), ask(public, b"other", signature)]
    found.append(ask(os.path.join(folder, "other.pub"), b"words", signature))
    found += [salt.crypt.write_keys(folder, "pair", 2048) == path, len(signature)]
    found += [each.split("\\n")[0] for each in salt.crypt.gen_keys(2048)]
    return found + [oct(os.stat(path).st_mode & 0o777)]


def cached(folder):
    import salt.cache

    cache = salt.cache.factory({"cachedir": folder, "cache": "localfs"})
    found = [cache.fetch("a/b", "k"), cache.contains("a/b"), cache.list("a/b")]
    cache.store("a/b", "k", {"x": [1, None, "é"], 2: True})
    cache.store("a/b", "l", "text")
    found += [cache.fetch("a/b", "k"), cache.contains("a/b"), cache.contains("a/b", "k")]
    found += [sorted(cache.list("a/b")), cache.list("a"), type(cache.updated("a/b", "k")).__name__]
    found += [cache.updated("a/b", "no"), cache.flush("a/b", "k"), cache.flush("a/b", "k")]
    found += [cache.fetch("a/b", "k"), cache.flush("a"), cache.flush("a"), cache.list("a/b")]
    found.append(cache.cache("c", "k", lambda: [1, 2], loop_fun=lambda each: each + 1))
    return found + [cache.cache("c", "k", lambda: [3])]


def returner(options, attrs, **kwargs):
    import salt.returners

    ret = kwargs.pop("ret", {})
    found = [salt.returners.get_returner_options("mine", ret, attrs, __opts__=options, **kwargs)]

    def option(name, default=""):
        return options.get(name, default)

    salted = {"config.option": option}
    found.append(salt.returners.get_returner_options("mine", ret, attrs, __salt__=salted, **kwargs))
    return found


def serialized(name, value, text, **options):
    module = importlib.import_module("salt.serializers." + name)
    found = []
    for ask, given in ((module.serialize, value), (module.deserialize, text)):
        try:
            found.append(ask(given, **options))
        except Exception as error:
            found.append([type(error).__name__, isinstance(error, RuntimeError)])
    return found


def zipped(data, size):
    import io
    import salt.utils.gzip_util as module

    pieces = list(module.compress_file(io.BytesIO(data.encode()), chunk_size=size))
    whole = module.uncompress(module.compress(data))
    return [[module.uncompress(each) for each in pieces], whole]


def rendered(folder, text, **context):
    import os
    from salt.utils.templates import TEMPLATE_REGISTRY

    path = os.path.join(folder, "template")
    with open(path, "w") as file:
        file.write(text)
    words = {"salt": __salt__, "grains": {"os": "X"}, "pillar": {}, "opts": __opts__}
    found = []
    for source, options in ((path, {}), (text, {"from_str": True})):
        done = TEMPLATE_REGISTRY["jinja"](
            source, to_str=True, context=context, saltenv="base", sls="", **words, **options
        )
        found.append([done["result"], done["data"].splitlines()[:1]])
    return found


@depends("HAS")
def offered():
    return "offered"


@depends("LACKS")
def withheld():
    return "withheld"


def instead():
    return "instead"


@depends("LACKS", fallback_function=instead)
def replaced():
    return "replaced"


@depends("true", retcode=0)
def command_ends():
    return "ends"


@depends("false", nonzero_retcode=False)
def command_fails():
    return "fails"


@needs("sh")
def with_sh():
    return "sh"


@needs("nosuchprogram")
def without():
    return "nothing"


_counted = []


@memoize
def once(value):
    _counted.append(value)
    return len(_counted)


@ignores_kwargs("b")
def ignoring(a=1, **kwargs):
    return [a, sorted(key for key in kwargs if not key.startswith("__"))]


def twice():
    return [once(1), once(1), once(2)]
"""


def site(s: Any) -> None:
    """A site's module imports C{salt}."""
    s.write("roots/_modules/site.py", MODULE)
    s.call("saltutil.sync_modules")

    def ask(name: str, *args: Any, **kwargs: Any) -> None:
        s.call("site.ask", name, *args, **kwargs)

    for name in ("offered", "withheld", "replaced", "command_ends", "command_fails"):
        s.call(f"site.{name}")
    for name in ("with_sh", "without", "twice", "constants", "ordered", "frozen", "injected"):
        s.call(f"site.{name}")
    s.call("site.named")
    s.call("site.ignoring", a=2, b=3, c=4)
    _exceptions(s)
    nested = {"a": {"b": 1, "c": [1, 2]}, "d": 4, "e": {"f": 5}}
    s.call("site.differ", nested, {"a": {"b": 2, "c": [1, 2]}, "e": {"f": 5}, "g": 1})
    s.call("site.differ", nested, {"a": {"b": 2, "c": [1]}, "d": 5}, ["d"])
    _texts(ask)
    _versions(ask)
    _networks(ask)
    _urls(ask)
    _machine(s, ask)
    _parts(s, ask)


def _exceptions(s: Any) -> None:
    for name in EXCEPTIONS:
        s.call("site.raised", name, "a text")
    s.call("site.raised", "CommandExecutionError", "a text", {"changes": 1})


def _texts(ask: Ask) -> None:
    for text in ('{"a": [1, "\u00fc"]}', "[1", "", "7"):
        ask("utils.json.loads", text)
        ask("utils.json.find_json", f"noise {text} more")
    ask("utils.json.find_json", "a { b\n[1, 2] c")
    for value in ({"b": "\u00fc", "a": [1, None]}, "x", [{}], {"a": {1: 2}}):
        ask("utils.json.dumps", value)
        ask("utils.json.dumps", value, indent=2, sort_keys=True)
        ask("utils.yaml.safe_dump", value)
        ask("utils.yaml.safe_dump", value, default_flow_style=False)
        ask("utils.yaml.dump", value, default_flow_style=False)
    for text in (
        "a: 1\nb: [x, 010]\n",
        "- a\n- b: 2020-01-01\n",
        "a: 1\na: 2",
        "a: [",
        "",
        "x: yes",
    ):
        ask("utils.yaml.safe_load", text)
        ask("utils.yaml.load", text)
    for text in ("gr\u00fcn", "", "a b"):
        for name in ("md5_digest", "sha1_digest", "sha256_digest", "sha512_digest"):
            ask(f"utils.hashutils.{name}", text)
        ask("utils.hashutils.base64_b64encode", text)
        ask("utils.hashutils.base64_encodestring", text)
    ask("utils.hashutils.base64_b64decode", "Z3LDvG4=")
    ask("utils.hashutils.hmac_compute", "a", "b")
    ask("utils.hashutils.get_hash", "/nosuch")
    ask("utils.hashutils.get_hash", "/etc/hostname", "nosuch")
    ask("utils.stringutils.to_str", b"x")
    ask("utils.data.traverse_dict_and_list", {"a": [{"b": 1}]}, "a:0:b")
    ask("utils.itertools.fnmatch_multiple", ["a", "bc"], "b*")
    ask("utils.beacons.list_to_dict", [{"a": 1}, {"b": 2}, {"a": 3}])


def _versions(ask: Ask) -> None:
    pairs = (
        ("1.2", "1.10"),
        ("1.0", "1.0"),
        ("2.0rc1", "2.0"),
        ("1:1.0", "2.0"),
        ("1.a", "1.b"),
        ("3008.2", "3006.9"),
        ("", "1"),
        ("1.0-1", "1.0-2"),
        (1, "1"),
    )
    for one, two in pairs:
        ask("utils.versions.version_cmp", one, two)
        ask("utils.versions.version_cmp", one, two, ignore_epoch=True)
        for operator in ("<", "<=", "==", ">=", ">", "!=", "=<"):
            ask("utils.versions.compare", one, operator, two)
    for value in ("20260101120000123456", "20260101120000123456_77", "x", 7, "", None):
        ask("utils.jid.is_jid", value)
    ask("utils.jid.jid_to_time", "20260101120000123456")
    ask("utils.jid.jid_to_time", "x")
    for when in ("2026-01-02 03:04:05", 0):
        ask("utils.dateutils.strftime", when, "%Y %H")


def _networks(ask: Ask) -> None:
    for text in ("10.0.0.1", "10.0.0.0/8", "::1", "fe80::/10", "x", "", "127.0.0.1", "1.2.3"):
        for name in ("is_ip", "is_ipv4", "is_ipv6", "is_loopback", "is_subnet", "is_ipv4_subnet"):
            ask(f"utils.network.{name}", text)
        ask("utils.network.is_ipv6_subnet", text)
        ask("utils.network.ip_bracket", text)
        ask("utils.network.sanitize_host", text)
        for name in ("ipv4_addr", "ipv6_addr", "ip_addr", "netmask", "mac"):
            ask(f"utils.validate.net.{name}", text)
    for text in ("00:11:22:33:44:55", "00-11-22-33-44-55", "001122334455", "00:11-22:33:44:55"):
        ask("utils.validate.net.mac", text)
        if "-22:" not in text:
            ask("utils.network.mac_str_to_bytes", text)
    for mask in ("255.255.255.0", "255.0.255.0", "0.0.0.0", "255.255.255.255", "256.0.0.0", 7):
        ask("utils.validate.net.netmask", mask)
    for bits in (24, "8", 32, 0, 33, "x"):
        ask("utils.network.cidr_to_ipv4_netmask", bits)
    ask("utils.network.get_net_size", "255.255.240.0")
    ask("utils.network.get_net_start", "10.1.2.3", "255.255.0.0")
    ask("utils.network.calc_net", "10.1.2.3", "255.255.0.0")
    ask("utils.network.in_subnet", "10.0.0.0/8", "10.1.1.1")
    ask("utils.network.in_subnet", "10.0.0.0/8", ["11.1.1.1"])
    ask("utils.network.in_subnet", "nonsense", ["11.1.1.1"])
    for text in ("a:80", "a", "[::1]:80", "a:x", "10.0.0.1:4505", "::1", "a:80:90"):
        ask("utils.network.parse_host_port", text)


def _urls(ask: Ask) -> None:
    for url in (
        "salt://a/b",
        "salt://a?saltenv=dev",
        "salt://|a?b",
        "a/b",
        "http://x/y",
        "salt://",
    ):
        for name in ("parse", "is_escaped", "unescape", "split_env", "strip_proto", "escape"):
            ask(f"utils.url.{name}", url)
        ask("utils.url.add_env", url, "prod")
        ask("utils.url.create", url)
        ask("utils.url.create", url, "dev")
        ask("utils.url.validate", url, ["salt", "https"])
        ask("utils.url.add_http_basic_auth", url, "u", "p")
        ask("utils.url.add_http_basic_auth", url, "u", https_only=True)
    ask("utils.url.redact_http_basic_auth", "clone https://u:p@h/x")


def _machine(s: Any, ask: Ask) -> None:
    for name in SYSTEMS:
        ask(f"utils.platform.{name}")
    for name in ("root", "nosuchuser", "daemon"):
        ask("utils.user.get_group_list", name)
        ask("utils.user.get_group_list", name, include_default=False)
        ask("utils.user.get_group_dict", name)
        ask("utils.user.get_gid_list", name)
        ask("utils.user.get_uid", name)
        ask("utils.user.get_gid", name)
    ask("utils.user.get_default_group", "root")
    ask("utils.user.get_user")
    w = s.path
    for name in ("a", "nosuch", "d"):
        ask("utils.validate.path.is_writeable", w(name))
        ask("utils.validate.path.is_writeable", w(name), check_parent=True)
        ask("utils.validate.path.is_readable", w(name))
        ask("utils.validate.path.is_executable", w(name))
        ask("utils.path.islink", w(name))
    ask("utils.path.join", "/a", "b")


def _parts(s: Any, ask: Ask) -> None:
    """Parts that are modules by themselves."""
    w = s.path
    s.call("site.keyed", w("."))
    s.call("site.cached", w("cache"))
    options = {"mine.host": "h", "mine": {"port": 1, "user": ""}, "alt.mine.host": "other"}
    options.update({"creds": {"mine.key": "K"}, "alt.mine": {"port": 2}})
    attrs = {"host": "host", "port": "port", "user": "user", "none": "none", "profile": "profile"}
    s.call("site.returner", options, attrs)
    s.call("site.returner", options, attrs, defaults={"none": 5, "user": "me"})
    s.call("site.returner", options, attrs, ret={"ret_kwargs": {"port": 9}})
    options["mine.profile"] = "creds"
    more = {"profile_attr": "profile", "profile_attrs": {"key": "key"}}
    s.call("site.returner", options, attrs, **more)
    data = {"a": [1, "x"], "b": {"c": None}}
    s.call("site.serialized", "json", data, '{"a": [1, 2.5, null]}')
    s.call("site.serialized", "json", data, "{", indent=1)
    s.call("site.serialized", "yaml", data, "a: [1, 2.5, null]\nb: {c: d}\n")
    s.call("site.serialized", "yaml", "text", "a: [")
    s.call("site.serialized", "yaml", data, "x", default_flow_style=False)
    s.call("site.serialized", "msgpack", data, b"\x81\xa1a\x93\x01\xc3\xc0")
    s.call("site.serialized", "msgpack", data, b"\xc1")
    sections = {"one": {"A": 1, "b": None}, "DEFAULT": {"d": "e"}}
    s.call("site.serialized", "configparser", sections, "[x]\na=1\nb : two\n")
    s.call("site.serialized", "configparser", [1], "a=1")
    s.call("site.zipped", "abcdefgh", 3)
    s.call("site.zipped", "", 4)
    s.call("site.rendered", w("."), "{{ grains.os }} {{ a }}", a="é")
    s.call("site.rendered", w("."), "{{ a.b.c }}", a=1)
    for text in ("60m", "1.5h", "7d", "90s", "12", 5, 1.5, None, "x", "5w", []):
        ask("utils.timeutil.timestring_map", text)
    for locale in ("ca_ES.UTF-8@valencia UTF-8", "en_us.utf8", "C", "de@euro", "a_b_c.d.e"):
        ask("utils.locales.split_locale", locale)
        ask("utils.locales.normalize_locale", locale)
    ask("utils.locales.join_locale", {"language": "de", "modifier": "euro", "charmap": "X"})
    for given in (
        ["a", {"b": 1}, {"mine_function": "f", "allow_tgt": "x"}],
        {"mine_function": "g"},
    ):
        ask("utils.mine.parse_function_definition", given)
    ask("utils.mine.wrap_acl_structure", [1], "web*", "glob")
    ask("utils.mine.wrap_acl_structure", [1])
    ask("utils.mine.minion_side_acl_denied", {"m": {"f": ["a"]}}, "m", "f", "b")
    ask("utils.mine.minion_side_acl_denied", {"m": {"f": ["a"]}}, "m", "f", "a")
    for suffix, prefix in (("a", ""), (["1", "ret"], "job"), ([2, None, "x"], "run"), ("x", "own")):
        ask("utils.event.tagify", suffix, prefix)
    ask("utils.event.tagify", "x", "job", "base")
    for path, sls in (("/srv/a/b.sls", "a.b"), ("/srv/a/init.sls", "a"), ("/srv/x.j2", "")):
        ask("utils.templates.generate_sls_context", path, sls)
    ask("utils.process.os_is_running", 0)
    ask("utils.process.get_pidfile", w("nosuch"))
    ask("utils.process.check_pidfile", w("nosuch"))
