"""
Every request that a Salt master is asked, as a frozen value with checked types.

A load is what was inside the envelope: a map with C{cmd}. L{take_common}
removes what all sealed loads share and judges its types; L{parse_command}
turns the rest into the class of its C{cmd}. Each class carries the whole load
as well (C{load}), for the commands that put it on the event bus as it came,
unknown fields included.

Names and fields are Salt's (3006 to 3008). C{verify_minion} and C{_ext_nodes}
are not commands any more; stock masters answer them as unknown.

To add one: a class with L{command} and fields with L{has}. Its row of who may
ask and who answers is in C{master/table.py}.
"""

# ruff: noqa: RUF009 - has() and free() make attrs fields, not values
from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import attrs
from attrs import field, frozen

from saltwisted.errors import WireError
from saltwisted.wire.rsa import OAEP_SHA1, PKCS1V15_SHA1

MISSING = object()
_TYPES = "types"
_DEFAULT = "default"

TEXT = (str,)
TEXT_OR_NONE = (str, type(None))
INT = (int,)
LIST = (list,)
MAP = (dict,)
MAP_OR_NONE = (dict, type(None))


class UnknownCommand(WireError):
    """
    No such command, or not in the clear.

    @ivar command: its name, cut to 200 characters.
    """

    def __init__(self, name: object) -> None:
        super().__init__("command")
        self.command = str(name)[:200]


@frozen(kw_only=True)
class Common:
    """
    What every sealed load carries beside its own fields.

    @ivar id: the minion that it says it is from; must equal the envelope's.
    @ivar nonce: to be repeated in the reply; C{""} when absent.
    @ivar ts: seconds by the minion's clock, or C{None}.
    @ivar tok: the word C{salt} under the minion's key, C{b""} when absent.
    """

    id: str
    nonce: str
    ts: int | float | None
    tok: bytes = field(repr=False)


def take_common(load: dict[str, Any]) -> Common:
    """
    Take C{nonce} and C{tok} out of a sealed load (they are no business of
    handlers nor of the bus) and read C{id} and C{ts}, which stay.

    @raises WireError: a wrong type, or C{id} missing.
    """
    minion = load.get("id")
    nonce = load.pop("nonce", None)
    tok = load.pop("tok", b"")
    ts = load.get("ts")
    if minion.__class__ is not str or "\0" in minion:
        raise WireError("id")
    if nonce is None:
        nonce = ""
    elif nonce.__class__ is not str or len(nonce) > 64 or not nonce.isascii():
        raise WireError("nonce")
    if tok.__class__ is not bytes:
        raise WireError("tok")
    if ts is not None and ts.__class__ is not int and ts.__class__ is not float:
        raise WireError("ts")
    return Common(id=minion, nonce=nonce, ts=ts, tok=tok)


def has(*types: type, default: Any = MISSING) -> Any:
    """
    A field of a command.

    @param types: the exact classes that its value may have.
    @param default: its value when absent; without one it is required. A factory when callable.
    """
    return field(metadata={_TYPES: frozenset(types), _DEFAULT: default}, repr=False)


def free(default: Any = None) -> Any:
    """A field of any type."""
    return field(metadata={_TYPES: None, _DEFAULT: default}, repr=False)


@frozen
class Command:
    """
    One request.

    @cvar cmd: its name on the wire.
    @cvar unsealed: whether it comes in the clear (and only so).
    @ivar load: the load as it came, without C{nonce} and C{tok}.
    """

    cmd: ClassVar[str] = ""
    unsealed: ClassVar[bool] = False
    load: dict[str, Any] = field(repr=False)


C = TypeVar("C", bound=type[Command])
_parsers: dict[str, tuple[type[Command], list[tuple[str, frozenset[type] | None, Any]]]] = {}


def command(name: str, clear: bool = False) -> Callable[[C], C]:
    """Register a class for a C{cmd}; under C{attrs.frozen}."""

    def register(cls: C) -> C:
        cls.cmd = name
        cls.unsealed = clear
        fields = [
            (one.name, one.metadata[_TYPES], one.metadata[_DEFAULT])
            for one in attrs.fields(cls)
            if one.name != "load"
        ]
        _parsers[name] = (cls, fields)
        return cls

    return register


def commands() -> dict[str, type[Command]]:
    """All commands by name."""
    return {name: cls for name, (cls, _) in _parsers.items()}


def parse_command(load: dict[str, Any], clear: bool = False) -> Command:
    """
    The command in a load.

    @param clear: whether it came unsealed.
    @raises UnknownCommand: no such command on this channel.
    @raises WireError: C{cmd} is missing, or a field is missing or of a wrong type.
    """
    name = load.get("cmd")
    if name.__class__ is not str:
        raise WireError("cmd")
    row = _parsers.get(name)
    if row is None or row[0].unsealed is not clear:
        raise UnknownCommand(name)
    cls, fields = row
    values = [load]
    for key, types, default in fields:
        value = load.get(key, MISSING)
        if value is MISSING:
            if default is MISSING:
                raise WireError(key)
            value = default() if callable(default) else default
        elif types is not None and value.__class__ not in types:
            raise WireError(key)
        values.append(value)
    return cls(*values)


# -- in the clear ----------------------------------------------------------


@command("_auth", clear=True)
@frozen
class Auth(Command):
    """
    Sign-in; see L{saltwisted.wire.handshake}.

    @ivar nonce: C{""} when absent, as in protocol 0 and 1.
    @ivar token: encrypted to the master key that the minion remembers, or C{b""}.
    @ivar join: of our own minion that has a join token: its id, and the proof.
    @ivar patience: of our own minion whose key is pending: seconds for which it would rather
        wait for an acceptance than be told again that it is pending.
    """

    id: str = has(*TEXT)
    pub: str = has(*TEXT)
    nonce: str = has(*TEXT, default="")
    enc_algo: str = has(*TEXT, default=OAEP_SHA1)
    sig_algo: str = has(*TEXT, default=PKCS1V15_SHA1)
    token: bytes = has(bytes, default=b"")
    autosign_grains: dict[str, Any] | None = has(*MAP_OR_NONE, default=None)
    join: list[Any] = has(*LIST, default=list)
    patience: float = has(int, float, default=0)


@command("ping", clear=True)
@frozen
class Ping(Command):
    """Echo of the load."""


@command("publish", clear=True)
@frozen
class Publish(Command):
    """
    A job from a local client that proves itself by C{key} (a user's key file), a token
    or eauth credentials in C{kwargs}.
    """

    fun: str | list[str] = has(str, list)
    tgt: Any = free("")
    arg: list[Any] = has(*LIST, default=list)
    tgt_type: str = has(*TEXT, default="glob")
    ret: Any = free("")
    jid: str = has(str, int, type(None), default="")
    user: str = has(*TEXT_OR_NONE, default="")
    key: str = has(*TEXT_OR_NONE, default="")
    kwargs: dict[str, Any] = has(*MAP, default=dict)
    to: Any = free()


@command("runner", clear=True)
@frozen
class Runner(Command):
    """A runner function for a local client."""

    fun: str = has(*TEXT)
    arg: list[Any] = has(*LIST, default=list)
    kwarg: dict[str, Any] = has(*MAP, default=dict)


@command("wheel", clear=True)
@frozen
class Wheel(Command):
    """A wheel function for a local client; its arguments lie flat in the load."""

    fun: str = has(*TEXT)


@command("mk_token", clear=True)
@frozen
class MakeToken(Command):
    """A token for eauth credentials."""

    eauth: str = has(*TEXT, default="")


@command("get_token", clear=True)
@frozen
class GetToken(Command):
    """What a token stands for."""

    token: str = has(*TEXT)


# -- from minions: jobs and events -----------------------------------------


@command("_return")
@frozen
class Return(Command):
    """
    The result of a job. C{jid} is C{req} when the master is to choose one.

    @ivar fun: maps, when the job had several functions, are in C{ret} and C{retcode}.
    @ivar ret: the field C{return}.
    """

    jid: str = has(str, int)
    fun: Any = free("")
    fun_args: Any = free(list)
    retcode: Any = free(0)
    success: Any = free(True)
    sig: bytes = has(bytes, default=b"")
    nocache: Any = free(False)

    @property
    def ret(self) -> Any:
        """
        What the function gave back.
        """
        return self.load.get("return")


@command("_syndic_return")
@frozen
class SyndicReturn(Command):
    """Returns of the minions below a syndic: a list in the field C{load}."""

    @property
    def returns(self) -> list[Any] | dict[str, Any]:
        """
        @raises WireError: not there, or of a wrong type.
        """
        value = self.load.get("load")
        if not isinstance(value, (list, dict)):
            raise WireError("load")
        return value


@command("_minion_event")
@frozen
class MinionEvent(Command):
    """
    Events for the master's bus: one (C{tag}, C{data}) or several (C{events}).

    @ivar pretag: a syndic's prefix, or C{None}.
    """

    tag: str = has(*TEXT_OR_NONE, default=None)
    data: Any = free()
    events: list[Any] | None = has(list, type(None), default=None)
    pretag: str | None = has(*TEXT_OR_NONE, default=None)


@command("_register_resources")
@frozen
class RegisterResources(Command):
    """The resources that a 3008 minion manages; usually none."""

    resources: dict[str, Any] = has(*MAP, default=dict)
    resource_grains: dict[str, Any] | None = has(*MAP_OR_NONE, default=None)


# -- from minions: pillar, options, tops -----------------------------------


@command("_pillar")
@frozen
class Pillar(Command):
    """Compile my pillar; answered by a private reply unless C{ver} is old."""

    grains: dict[str, Any] = has(*MAP)
    saltenv: str | None = has(*TEXT_OR_NONE, default=None)
    pillarenv: str | None = has(*TEXT_OR_NONE, default=None)
    pillar_override: dict[str, Any] | None = has(*MAP_OR_NONE, default=None)
    extra_minion_data: dict[str, Any] | None = has(*MAP_OR_NONE, default=None)
    ver: str = has(str, int, default="")
    ext: Any = free()
    clean_cache: Any = free()


@command("_master_opts")
@frozen
class MasterOpts(Command):
    """The master's options that matter to state runs."""

    env_only: Any = free(False)


@command("_master_tops")
@frozen
class MasterTops(Command):
    """What the master's top modules assign to this minion."""

    opts: dict[str, Any] = has(*MAP, default=dict)


# -- from minions: files ---------------------------------------------------


@command("_file_envs")
@frozen
class FileEnvs(Command):
    """The environments of the file server."""


@frozen
class _Listing(Command):
    """
    @ivar prefix: only what lies below this path.
    """

    saltenv: str | None = has(*TEXT_OR_NONE, default="base")
    prefix: str = has(*TEXT, default="")


@command("_file_list")
@frozen
class FileList(_Listing):
    """All files of an environment."""


@command("_file_list_emptydirs")
@frozen
class FileListEmptyDirs(_Listing):
    """All empty directories of an environment."""


@command("_dir_list")
@frozen
class DirList(_Listing):
    """All directories of an environment."""


@command("_symlink_list")
@frozen
class SymlinkList(_Listing):
    """All links of an environment, and where they point."""


@frozen
class _OneFile(Command):
    """
    @ivar path: relative, without C{salt://}.
    """

    path: str = has(*TEXT)
    saltenv: str | None = has(*TEXT_OR_NONE, default="base")


@command("_file_hash")
@frozen
class FileHash(_OneFile):
    """Hash and its type."""


@command("_file_hash_and_stat")
@frozen
class FileHashAndStat(_OneFile):
    """Hash, and the result of stat."""


@command("_file_find")
@frozen
class FileFind(_OneFile):
    """Where the file is, and its stat."""


@command("_serve_file")
@frozen
class ServeFile(_OneFile):
    """
    One chunk of a file, from byte C{loc} on.

    @ivar gzip: compression level, or nothing.
    """

    loc: int = has(*INT, default=0)
    gzip: int | None = has(int, type(None), default=None)


@command("_file_recv")
@frozen
class FileRecv(Command):
    """
    A chunk of a file that the minion pushes.

    @ivar path: the components of its name.
    @ivar data: text when the bytes happened to be UTF-8.
    """

    path: list[str] = has(*LIST)
    loc: int = has(*INT, default=0)
    data: str | bytes = has(str, bytes)
    size: Any = free()


# -- from minions: mine ----------------------------------------------------


@command("_mine")
@frozen
class MineStore(Command):
    """Merge into (or with C{clear}, replace) what others may read of me."""

    data: dict[str, Any] = has(*MAP)
    clear: Any = free(False)


@command("_mine_get")
@frozen
class MineGet(Command):
    """
    Read what others have put into the mine.

    @ivar fun: a name, names with commas between, or a list.
    """

    tgt: Any = free()
    fun: str | list[str] = has(str, list)
    tgt_type: str | None = has(*TEXT_OR_NONE, default=None)
    expr_form: str | None = has(*TEXT_OR_NONE, default=None)


@command("_mine_delete")
@frozen
class MineDelete(Command):
    """Remove one function from my mine."""

    fun: str = has(*TEXT)


@command("_mine_flush")
@frozen
class MineFlush(Command):
    """Remove all of my mine."""


# -- from minions: publishing by peers -------------------------------------


@frozen
class _PeerPublish(Command):
    """
    @ivar tmo: seconds to wait, text or number.
    @ivar no_log: whether nobody but those who do it may see what it is given; ours.
    """

    fun: str | list[str] = has(str, list)
    tgt: Any = free("")
    arg: Any = free(list)
    tgt_type: str = has(*TEXT_OR_NONE, default="glob")
    ret: Any = free("")
    tmo: Any = free(5)
    form: Any = free("")
    no_parse: Any = free(list)
    no_log: Any = free(False)


@command("minion_pub")
@frozen
class MinionPub(_PeerPublish):
    """Publish for me, if C{peer} allows; answers with the jid."""


@command("minion_publish")
@frozen
class MinionPublish(_PeerPublish):
    """
    The same, and wait for the returns.
    """

    timeout: Any = free(5)


@command("minion_runner")
@frozen
class MinionRunner(Command):
    """
    Run a runner for me, if C{peer_run} allows.

    @ivar no_log: as of a job; ours.
    """

    fun: str = has(*TEXT)
    arg: Any = free(list)
    tmo: Any = free(5)
    no_parse: Any = free(list)
    no_log: Any = free(False)


@command("pub_ret")
@frozen
class PubRet(Command):
    """The returns so far of a job that I published."""

    jid: str = has(str, int)


@command("revoke_auth")
@frozen
class RevokeAuth(Command):
    """Delete my key."""

    preserve_minion_cache: Any = free(False)


# -- between saltwisted and saltwisted -------------------------------------


@command("_saltwisted_keys")
@frozen
class PublishKeys(Command):
    """
    A saltwisted minion's heartbeat, answered with the publish keys, the next one ahead of
    its use. Only asked of a master that has shown in the sign-in that it is one of ours.
    """
