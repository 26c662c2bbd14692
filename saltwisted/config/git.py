"""
Git remotes, as in C{gitfs_remotes}: the meaning of an entry, and its errors.

The names are Salt's: each parameter of a remote has a global form, C{gitfs_NAME}, which is its
default. A remote that cannot work is left out and reported; the others serve. Nothing here touches
a disk or a network, and no message contains a credential.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from saltwisted.errors import ConfigError
from saltwisted.refnames import is_branch, is_ref
from saltwisted.words import listed

REF_TYPES = ("branch", "tag", "sha")
TEXTS = (
    "base", "fallback", "mountpoint", "root", "proxy", "user", "password", "pubkey", "privkey",
    "passphrase", "verify", "verify_keyring", "verify_allowed_signers",
)  # fmt: skip
FLAGS = ("ssl_verify", "insecure_auth", "disable_saltenv_mapping")
LISTS = ("saltenv_whitelist", "saltenv_blacklist", "refspecs", "ref_types")
NUMBERS = ("update_interval", "depth")
GLOBAL = (*TEXTS, *FLAGS, *LISTS, *NUMBERS)
"""Parameters with a global form."""
OPTIONS = {
    "base": "gitfs_base",
    "disable_saltenv_mapping": "gitfs_disable_saltenv_mapping",
    "fallback": "gitfs_fallback",
    "insecure_auth": "gitfs_insecure_auth",
    "mountpoint": "gitfs_mountpoint",
    "passphrase": "gitfs_passphrase",
    "password": "gitfs_password",
    "privkey": "gitfs_privkey",
    "proxy": "gitfs_proxy",
    "ref_types": "gitfs_ref_types",
    "refspecs": "gitfs_refspecs",
    "root": "gitfs_root",
    "saltenv_blacklist": "gitfs_saltenv_blacklist",
    "saltenv_whitelist": "gitfs_saltenv_whitelist",
    "ssl_verify": "gitfs_ssl_verify",
    "update_interval": "gitfs_update_interval",
    "user": "gitfs_user",
    "verify": "gitfs_verify",
    "verify_allowed_signers": "gitfs_verify_allowed_signers",
    "verify_keyring": "gitfs_verify_keyring",
}
"""
Their global forms. The whole history is fetched whatever C{gitfs_depth} says, and ssh needs no
C{gitfs_pubkey}.
"""
OWN = ("all_saltenvs", "name", "saltenv")
"""Parameters of one remote alone; C{gitfs_saltenv} is a map beside, and no default."""
PER_SALTENV = ("mountpoint", "root", "ref")
AUTH = ("user", "password", "pubkey", "privkey", "passphrase")
SIGNERS = {"gpg": "verify_keyring", "ssh": "verify_allowed_signers"}
"""How commits may be signed, and the parameter that names the file with those who may."""
PROVIDERS = ("pygit2", "gitpython", "gitcli")
"""Those of Salt. Any of them is accepted, and there is one here."""
REFSPECS = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")

_URL = re.compile(r"(file|git|https?|ssh|git\+ssh|ssh\+git)://", re.IGNORECASE)
_SCP = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_][\w.-]*:(?!/?/|:)\S+")
_SCP_ROOT = re.compile(r"[A-Za-z0-9_][\w.-]*@[A-Za-z0-9_][\w.-]*:/\S+")
_REFSPEC = re.compile(
    r"(?:\^(?P<not>refs/[^\s:]+))|(?:\+?(?P<source>[^\s:+^-][^\s:]*):(?P<target>refs/[^\s:]+))"
)


ID = ("id", "url")
"""What a remote always has."""


class GitRemote:
    """
    One repository, and how its refs become environments; never changes.

    Every command of the shell imports this module, so it is a plain class.

    @ivar id: the name that Salt uses: the text of the entry.
    @ivar name: the parameter C{name}, or C{""}.
    @ivar saltenv: environment to its own C{ref}, C{root} and C{mountpoint}.
    @ivar saltenv_everywhere: the same from C{gitfs_saltenv}; C{saltenv} takes precedence.
    @ivar all_saltenvs: the one ref that all environments have, or C{None}.
    """

    id: str
    url: str
    name: str = ""
    base: str = "master"
    fallback: str = ""
    mountpoint: str = ""
    root: str = ""
    proxy: str = ""
    user: str = ""
    password: str = ""
    pubkey: str = ""
    privkey: str = ""
    passphrase: str = ""
    verify: str = ""
    verify_keyring: str = ""
    verify_allowed_signers: str = ""
    ssl_verify: bool = True
    insecure_auth: bool = False
    disable_saltenv_mapping: bool = False
    saltenv_whitelist: tuple[str, ...] = ()
    saltenv_blacklist: tuple[str, ...] = ()
    refspecs: tuple[str, ...] = REFSPECS
    ref_types: tuple[str, ...] = REF_TYPES
    update_interval: float = 60.0
    depth: int = 1
    all_saltenvs: str | None = None
    saltenv: Mapping[str, Mapping[str, str]] = {}
    saltenv_everywhere: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, **values: Any) -> None:
        """
        @raises TypeError: there is no parameter of a name.
        """
        if odd := [name for name in values if not hasattr(type(self), name) and name not in ID]:
            raise TypeError(f"unknown parameters: {sorted(odd)}")
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GitRemote) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Never the values: passwords are among them."""
        return f"<GitRemote {self.shown}>"

    @property
    def shown(self) -> str:
        """What people are told of it: its name, or its URL without credentials."""
        return self.name or shown(self.url)

    @property
    def key(self) -> str:
        """What it is written down by: as its entry in the configuration, without credentials."""
        return key_of_entry(self.id)

    @property
    def signers(self) -> str:
        """The file that says who may sign; C{""} where nobody has to."""
        return str(getattr(self, SIGNERS[self.verify])) if self.verify else ""

    @property
    def judged(self) -> tuple[str, ...]:
        """What tells repositories apart by who may sign; empty where nobody has to."""
        return (self.verify, self.signers) if self.verify else ()

    def reached(self) -> dict[str, Any]:
        """
        Where it is, how it is reached, and who has to have signed what comes, as what fetches it
        takes that; secrets included.
        """
        return {
            "url": self.url,
            "refspecs": list(self.refspecs),
            "user": self.user,
            "password": self.password,
            "privkey": self.privkey,
            "passphrase": self.passphrase,
            "proxy": self.proxy,
            "ssl_verify": self.ssl_verify,
            "verify": self.verify,
            "signers": self.signers,
        }


def shown(url: str) -> str:
    """A URL without user, password, and whatever else may be a secret."""
    head, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    return f"{head}{mark}{host}{slash}{path.partition('?')[0].partition('#')[0]}"


def key_of_entry(entry: str) -> str:
    """
    A text that stands for an entry and has no credentials. Entries of other users have others;
    passwords are in no digest either, since one of a short password can be guessed.
    """
    plain = shown(entry)
    if plain == entry:
        return entry
    head, _, rest = entry.partition("://")
    host, slash, path = rest.partition("/")
    login, mark, host = host.rpartition("@")
    said = (head, login.partition(":")[0], mark, host, slash, path)
    return f"{plain} {hashlib.sha256(repr(said).encode()).hexdigest()[:8]}"


def remotes_of(value_of: Callable[[str], Any]) -> tuple[list[GitRemote], list[str]]:
    """
    The remotes of C{gitfs_remotes} that can work, and a sentence for each thing that cannot.

    @param value_of: the value of an option of a master.
    """
    found: list[GitRemote] = []
    wrong: list[str] = []
    try:
        everywhere = _saltenvs("gitfs_saltenv", value_of("gitfs_saltenv"))
    except ConfigError as error:
        wrong.append(f"{error.reason}; it is left out")
        everywhere = {}
    usual = {name: value_of(option) for name, option in OPTIONS.items()}
    provider = value_of("gitfs_provider")
    if provider and provider not in PROVIDERS:
        wrong.append(f"gitfs_provider: unknown provider {provider!r}{_near(provider, PROVIDERS)}")
    for entry in _entries(value_of("gitfs_remotes")):
        try:
            found.append(_remote(entry, usual, everywhere))
        except ConfigError as error:
            wrong.append(f"gitfs_remotes: {error.reason}; this remote is left out")
    return found, wrong


def _entries(value: Any) -> Iterator[Any]:
    """Entries of a list; a map in it has one remote for each key, as in Salt."""
    for entry in value if isinstance(value, (list, tuple)) else [value] if value else []:
        if isinstance(entry, Mapping):
            yield from ({key: given} for key, given in entry.items())
        else:
            yield entry


def _remote(
    entry: Any, usual: Mapping[str, Any], everywhere: Mapping[str, Mapping[str, str]]
) -> GitRemote:
    given: dict[str, Any] = {}
    if isinstance(entry, Mapping):
        entry, parameters = next(iter(entry.items()))
        given = repacked(parameters)
        if not given:
            raise ConfigError(
                f"remote {_named(entry)!r} has no parameters: remove the colon after its URL"
            )
    if not isinstance(entry, str):
        raise ConfigError("the URL of a remote must be text: put it in quotation marks")
    url = check_url(entry)
    who = shown(url)
    for name in given:
        if name not in GLOBAL + OWN:
            near = _near(name, GLOBAL + OWN)
            raise ConfigError(f"remote {who!r}: invalid parameter {name!r}{near}")
    values: dict[str, Any] = {"id": entry, "url": url, "saltenv_everywhere": everywhere}
    for name in GLOBAL:
        value = given.get(name) if given.get(name) is not None else usual.get(name)
        if value is not None:
            values[name] = typed(who, name, value)
    if given.get("name"):
        values["name"] = str(given["name"])
    if given.get("all_saltenvs") is not None:
        values["all_saltenvs"] = check_ref(who, "all_saltenvs", str(given["all_saltenvs"]))
    saltenv = _saltenvs(f"remote {who!r}: saltenv", given.get("saltenv"))
    # As in Salt: the ref of environment base, if one is said here, is the parameter base
    base = saltenv.get("base", {})
    if "ref" in base:
        values["base"] = base["ref"]
    values["saltenv"] = saltenv
    remote = GitRemote(**values)
    judge(remote)
    return remote


def typed(who: str, name: str, value: Any) -> Any:
    """A parameter as what it has to be."""
    if name in FLAGS:
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise ConfigError(f"remote {who!r}: {name} must be true or false")
    if name in LISTS:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, (list, tuple)):
            raise ConfigError(f"remote {who!r}: {name} must be a list of strings")
        return tuple(str(word).strip() for word in words)
    if name in NUMBERS:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = -1
        if number < 0 or number > 1e9:
            raise ConfigError(f"remote {who!r}: {name} must be a number")
        return int(number) if name == "depth" else number
    if name == "verify" and value is False:
        return ""
    text = str(value)
    if "\0" in text or "\n" in text or "\r" in text:
        raise ConfigError(f"remote {who!r}: {name} must be one line")
    if name == "root":
        return check_path(who, name, text)
    if name == "mountpoint":
        return check_path(who, name, text.removeprefix("salt://"))
    if name in ("base", "fallback"):
        return check_ref(who, name, text) if text else ""
    return text


def judge(remote: GitRemote) -> None:
    """
    What parameters say together.

    @raises ConfigError: it cannot work.
    """
    who = shown(remote.url)
    for spec in remote.refspecs:
        found = _REFSPEC.fullmatch(spec)
        target = (found and found["target"]) or "refs/tags/"
        whole = found is not None and target.startswith(("refs/remotes/", "refs/tags/"))
        if found is None or not whole or not _is_sound(found["not"] or found["source"], target):
            raise ConfigError(
                f"remote {who!r}: refspecs: {spec!r} does not map refs of the remote to"
                " refs/remotes/ or refs/tags/"
            )
    odd = [kind for kind in remote.ref_types if kind.lower() not in REF_TYPES]
    if odd:
        have = listed(REF_TYPES)
        raise ConfigError(f"remote {who!r}: ref_types {odd[0]!r} is unknown: there are {have}")
    if remote.verify and remote.verify not in SIGNERS:
        near = _near(remote.verify, tuple(SIGNERS))
        raise ConfigError(f"remote {who!r}: verify: {remote.verify!r} is unknown{near}")
    if remote.verify and not remote.signers.startswith("/"):
        needed = SIGNERS[remote.verify]
        raise ConfigError(
            f"remote {who!r}: verify: {remote.verify} needs {needed}, the path of the file that"
            " says who may sign"
        )
    scheme = remote.url.partition("://")[0].lower() if "://" in remote.url else ""
    if scheme in ("http", "https"):
        if bool(remote.user) != bool(remote.password):
            lacking = "password" if remote.user else "user"
            raise ConfigError(
                f"remote {who!r}: user and password belong together, but {lacking} is missing"
            )
        if remote.password and scheme == "http" and not remote.insecure_auth:
            raise ConfigError(
                f"remote {who!r}: passwords are not sent over http unless insecure_auth is set;"
                " use https or ssh"
            )
    ssh = "ssh" in scheme or (not scheme and not remote.url.startswith("/"))
    if ssh and remote.passphrase and not remote.privkey:
        raise ConfigError(f"remote {who!r}: passphrase is set, but privkey is not")


def check_url(text: str) -> str:
    """
    The URL of a remote, which may be asked for by the git program.

    @raises ConfigError: git could take it for an option or run a program, or it is none.
    """
    url = text.strip()
    if url.startswith("-"):
        raise ConfigError("the URL of a remote must not begin with a minus")
    if "::" in url.partition("://")[0] or any(sign < " " or sign == "\x7f" for sign in url):
        raise ConfigError(f"{_named(url)!r} is not a valid URL of a remote")
    if url.startswith("/") or _SCP.fullmatch(url) or _SCP_ROOT.fullmatch(url):
        return url
    match = _URL.match(url)
    if match and len(url) > match.end():
        # git hands the host to ssh, and an empty or an option-like one is no host
        host = url[match.end() :].partition("/")[0].rpartition("@")[2]
        if host.startswith("-") or (match[1].lower() != "file" and not host):
            raise ConfigError(f"{_named(url)!r} has no host")
        if any(part.startswith("-") for part in url[match.end() :].split("/")[:1]):
            raise ConfigError(f"{_named(url)!r} has no host")
        return url
    raise ConfigError(
        f"{_named(url)!r} is not a valid URL of a remote: use file://, git://, http://, https://, ssh://,"
        " USER@HOST:PATH, or a path that begins with a slash"
    )


def _is_sound(source: str, target: str) -> bool:
    """Whether git takes both sides of a refspec for refs, with a star in each at most."""
    starless = source.replace("*", "x", 1), target.replace("*", "x", 1)
    return (is_ref if source.startswith("refs/") else is_branch)(starless[0]) and (
        target == "refs/tags/" or is_ref(starless[1])
    )


def check_ref(who: str, name: str, text: str) -> str:
    """
    The name of a branch or a tag, or a commit.

    @raises ConfigError: git would take it for something else.
    """
    if not is_branch(text):
        raise ConfigError(
            f"remote {who!r}: {name} {text!r} is not a valid name of a branch, tag or commit"
        )
    return text


def check_path(who: str, name: str, text: str) -> str:
    """
    A directory inside a repository or an environment, without slashes at its ends.

    @raises ConfigError: it leads out.
    """
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in text:
        raise ConfigError(f"remote {who!r}: {name} {text!r} leads out of the tree")
    return "/".join(parts)


def _saltenvs(who: str, value: Any) -> dict[str, dict[str, str]]:
    """
    Environment to its parameters.

    @raises ConfigError: they are none.
    """
    found: dict[str, dict[str, str]] = {}
    for env, parameters in repacked(value).items():
        own: dict[str, str] = {}
        for name, text in repacked(parameters).items():
            if name not in PER_SALTENV:
                near = _near(name, PER_SALTENV)
                raise ConfigError(f"{who}: {env}: invalid parameter {name!r}{near}")
            if name == "ref":
                own[name] = check_ref(who, "ref", str(text))
            else:
                own[name] = check_path(who, name, str(text).removeprefix("salt://"))
        found[env] = own
    return found


def repacked(value: Any) -> dict[str, Any]:
    """A map, or a list of maps, as one map with text for keys."""
    found: dict[str, Any] = {}
    for each in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(each, Mapping):
            found.update((str(key), given) for key, given in each.items())
    return found


def _named(text: Any) -> str:
    """A text that may be a URL, for a message."""
    return shown(str(text))[:200]


def _near(name: Any, names: Sequence[str]) -> str:
    # Nearly nobody misspells: the command line is not to wait for this
    from difflib import get_close_matches

    near = get_close_matches(str(name)[:64], list(names), 1)
    return f", did you mean {near[0]!r}?" if near else f"; there are {listed(names)}"
