"""
More of what site modules and extensions import of C{salt} and call, to be recorded with stock.
"""

from __future__ import annotations

from typing import Any

MODULE = """
import importlib
import salt.cache
import salt.payload
import salt.returners
import salt.serializers.json
import salt.utils.atomicfile
import salt.utils.dictdiffer
import salt.utils.files
import salt.utils.versions
from salt.exceptions import FileLockError, get_error_message
from salt.state import STATE_INTERNAL_KEYWORDS


def coded():
    import datetime
    import salt.utils.data

    found = []
    inside = [b"a", "\\u00fc", 1, None, (b"t", [b"u"]), {b"k": b"v"}, datetime.datetime(2026, 1, 2)]
    for words in ({}, {"preserve_tuples": True}, {"keep": True}):
        found.append(salt.utils.data.decode({"x": inside, b"y": b"z"}, **words))
        found.append(salt.utils.data.encode({"x": inside[:-1], b"y": "z"}, **words))
    found.append(salt.utils.data.decode([b"\\xff"], keep=True))
    try:
        salt.utils.data.decode([b"\\xff"])
    except UnicodeDecodeError as error:
        found.append(str(error))
    round = [b"a"]
    round.append(round)
    return [repr(found), repr(salt.utils.data.decode(round))]


def logged():
    import logging

    log = logging.getLogger("salt.site.test")
    for name in ("trace", "profile", "garbage", "debug"):
        getattr(log, name)("a %s", "word")
    try:
        raise ValueError("x")
    except ValueError as error:
        log.debug("failed: %s", error, exc_info_on_loglevel=logging.DEBUG)
        log.debug("failed: %s", error, exc_info_on_loglevel="debug", once=True)
    return [logging.TRACE, logging.PROFILE, logging.GARBAGE, logging.getLevelName(5)]


def kept(folder):
    cache = salt.cache.factory({**__opts__, "cache": "localfs"}, cachedir=folder)
    found = [cache.fetch("a/b", "k"), cache.contains("a/b"), cache.list("a/b")]
    found.append(cache.updated("a/b", "k"))
    cache.store("a/b", "k", {"x": [1, "y", b"\\xff", None]})
    cache.store("a/b", "gone", "v", expires=-5)
    cache.store("a/b", "stays", "v", expires=500)
    found += [cache.fetch("a/b", "k"), cache.fetch("a/b", "gone"), cache.fetch("a/b", "stays")]
    found += [cache.contains("a/b"), cache.contains("a/b", "k"), sorted(cache.list("a/b"))]
    found += [cache.list("a"), type(cache.updated("a/b", "k")).__name__]
    cache.clean_expired("a/b")
    found.append(sorted(cache.list("a/b")))
    found.append(cache.cache("a", "made", lambda **kw: ["one"], loop_fun=str.upper))
    found.append(cache.cache("a", "made", lambda **kw: ["two"]))
    found += [cache.flush("a/b", "k"), cache.flush("a/b", "k"), cache.flush("a"), cache.flush("a")]
    return found


def packed(value):
    data = salt.payload.dumps(value)
    other = salt.payload.dumps(value, use_bin_type=True)
    return [data.hex(), salt.payload.loads(data), other.hex()]


def unpacked(text):
    return salt.payload.loads(bytes.fromhex(text))


def written(name, value, **options):
    module = importlib.import_module("salt.serializers." + name)
    text = module.serialize(value, **options)
    return [text, module.deserialize(text), module.available]


def read(name, text):
    module = importlib.import_module("salt.serializers." + name)
    try:
        return module.deserialize(text)
    except salt.serializers.DeserializationError as error:
        return type(error).__name__


def differ(old, new, missing=True, matchers=None):
    found = salt.utils.dictdiffer.recursive_diff(old, new, missing, matchers)
    answer = [found.diffs, found.added(), found.removed(), found.changed(), found.unchanged()]
    answer += [found.added(True), found.removed(True, separator="/"), found.changed("/")]
    return answer + [found.new_values, found.old_values, found.changes_str]


def locked(path):
    found = []
    with salt.utils.files.wait_lock(path):
        try:
            with salt.utils.files.wait_lock(path, timeout=0.2, sleep=0.05):
                found.append("twice")
        except FileLockError as error:
            found.append(str(error))
    try:
        with salt.utils.files.wait_lock(path):
            raise ValueError("inside")
    except FileLockError as error:
        found.append(str(error))
    with salt.utils.files.wait_lock(path):
        found.append("again")
    return found


def versions(one, two):
    made = salt.utils.versions.Version(one)
    return [made < two, made <= two, made == two, made >= two, made > two, made != two, str(made)]


def options(ret, attrs, **kwargs):
    return salt.returners.get_returner_options("mem", ret, attrs, __salt__=__salt__, **kwargs)


def options_of(opts, ret, attrs, **kwargs):
    return salt.returners.get_returner_options("mem", ret, attrs, __opts__=opts, **kwargs)


def others(path):
    salt.utils.atomicfile.safe_atomic_write(path, "text")
    first = open(path).read()
    salt.utils.atomicfile.safe_atomic_write(path, b"more")
    return [
        first, open(path).read(), get_error_message(ValueError("a", 1)),
        get_error_message(ValueError()), "require" in STATE_INTERNAL_KEYWORDS,
    ]


def signed(folder):
    import datetime
    import os
    import salt.crypt
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from salt.utils import x509 as util

    keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in "ab"]
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    private = keys[0].private_bytes(pem, serialization.PrivateFormat.PKCS8, none)
    os.makedirs(folder, exist_ok=True)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    for name, data in (("key", private), ("pub", keys[0].public_key().public_bytes(pem, form))):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    word = salt.crypt.sign_message(os.path.join(folder, "key"), "m1")
    public = os.path.join(folder, "pub")
    found = [type(word).__name__, salt.crypt.verify_signature(public, "m1", word)]
    found.append(salt.crypt.verify_signature(public, "m2", word))
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    day = datetime.datetime(2026, 1, 1)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(7)
    made = made.public_key(keys[0].public_key()).not_valid_before(day)
    made = made.not_valid_after(day + datetime.timedelta(days=9)).sign(keys[0], hashes.SHA256())
    text = made.public_bytes(pem).decode()
    loaded = [util.load_cert(text), util.load_cert(made.public_bytes(serialization.Encoding.DER))]
    found += [each.serial_number for each in loaded]
    found += [util.load_cert(text, get_encoding=True)[1:], util.load_cert(text, load_chain=True)[1]]
    found += [util.verify_signature(made, key.public_key()) for key in keys]
    found += [util.is_pair(made.public_key(), key) for key in keys]
    return found + [util.load_privkey(private).key_size, util.load_pubkey(public).key_size]


def rendered(engine, text, **context):
    import salt.utils.templates

    found = salt.utils.templates.TEMPLATE_REGISTRY[engine](
        text, from_str=True, to_str=True, context=context, saltenv="base",
        grains=__grains__, pillar=__pillar__, salt=__salt__, opts=__opts__,
    )
    return [found["result"], found["data"] if found["result"] else ""]
"""

SDB = """
def get(key, profile=None):
    return None if key == "none" else [key, profile.get("word")]


def set_(key, value, profile=None):
    return ["set", key, value]


def delete(key, profile=None):
    return ["deleted", key]


__func_alias__ = {"set_": "set"}
"""


def parts(s: Any) -> None:
    """A site's module imports more of C{salt}."""
    s.write("roots/_modules/parts.py", MODULE)
    s.write("roots/_sdb/store.py", SDB)
    s.call("saltutil.sync_modules")
    s.call("saltutil.sync_sdb")
    s.call("parts.kept", s.path("cache"))
    s.call("parts.locked", s.path("locked"))
    s.call("parts.coded")
    s.call("parts.logged")
    s.call("parts.signed", s.path("cache"))
    s.call("parts.others", s.path("written"))
    for value in ({"a": [1, "\u00fc", None, True, 1.5]}, "x", [], 2**63, {"a": {"b": {}}}):
        s.call("parts.packed", value)
    for text in ("82a16101a16202", "c1", "", "a3ff6162"):
        s.call("parts.unpacked", text)
    for name in ("json", "yaml", "yamlex", "configparser", "msgpack"):
        if name != "msgpack":
            s.call("parts.written", name, {"a": {"b": "1", "c": "\u00fc"}})
        s.call("parts.read", name, "{[")
    s.call("parts.written", "json", {"b": 1, "a": 2}, sort_keys=True)
    _differences(s)
    for one in ("1.0", "1.0rc1", "2.1.3"):
        for two in ("1.0", "1.0.1", "2.1.3"):
            s.call("parts.versions", one, two)
    s.call("parts.versions", "not a version", "1.0")
    attrs = {"host": "host", "port": "port", "left": "nothere"}
    s.call("parts.options", {}, attrs, defaults={"port": 7, "left": "l"})
    s.call("parts.options", {"ret_kwargs": {"host": "kw", "new": 1}}, attrs)
    for opts in ({"mem.host": "h", "mem.port": 1}, {"host": "plain"}, {}):
        s.call("parts.options_of", opts, {}, attrs, defaults={"port": 7})
    for engine, text in (
        ("jinja", "{{ a }}-{{ saltenv }}"),
        ("jinja", "{{ nosuch }}"),
        ("jinja", "{% if"),
    ):
        s.call("parts.rendered", engine, text, a="b")
    for uri in ("sdb://nosuch/x", "sdb://", "x", "sdb://nosuch"):
        s.call("sdb.get", uri)
        s.call("sdb.get", uri, strict=True)
        s.call("sdb.set", uri, 1)
        s.call("sdb.delete", uri)
        s.call("sdb.get_or_set_hash", uri)


def _differences(s: Any) -> None:
    old = {"a": 1, "b": {"c": ["1"], "d": {"e": "x"}, "gone": {"in": 1}}, "same": 5, "n": None}
    new = {
        "a": 2,
        "b": {"c": ["2"], "d": {"e": "y", "f": {"g": 1}}},
        "same": 5,
        "new": {"h": {"i": 0}},
    }
    for one, two in ((old, new), (new, old), (old, old), ({}, new), (old, {})):
        for missing in (True, False):
            s.call("parts.differ", one, two, missing)
    lists = {"l": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}
    other = {"l": [{"name": "b", "v": 3}, {"name": "a", "v": 1}]}
    s.call("parts.differ", lists, other, True, ["name"])
