"""
The table of operations: what a daemon offers, to whom, with which arguments, and who answers.

The parts of a daemon (its master, its cluster, its roots) each contribute rows; the role that
builds the daemon joins them. Every interface calls L{Operations.call}, so that the same request of
the same person has the same result through each of them. C{docs/operations-table.md} is generated
from the rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from saltwisted.domain.operations.arguments import SHOWN, Argument, checked, nearest
from saltwisted.domain.who import LOCAL, Who
from saltwisted.errors import DeniedError, RemoteError

Stream = Callable[[Any], Any]
"""C{stream(item)}: sends it; may be awaited, to wait for a reader that is slow."""


Admits = Callable[[str], bool]
"""C{admits(name)}: whether somebody of this proven name may come."""


def everybody(name: str) -> bool:
    """Who is proven may come, whatever the name."""
    return True


@frozen(kw_only=True)
class Caller:
    """
    Who asks, as an interface has determined. Only interfaces make one.

    @ivar name: the account on this machine; C{""} if only a login can name the caller.
    @ivar owner: whether that is root or the daemon's own user.
    @ivar source: from where, for the log and for the limit on login attempts: C{uid NUMBER} or an
        address.
    @ivar door: the interface, in words for the log.
    @ivar proof: a token, or a backend, name and password, if the interface has it (a session, a
        header) and not the request. A caller with a proof is judged by it, and never by the
        account.
    @ivar admits: whether somebody of this name may come by this interface from there. It judges
        the name that is proven, however it was typed, and as a part of the proof: a refusal looks
        like that of a wrong password.
    """

    name: str = ""
    owner: bool = False
    source: str = ""
    door: str = ""
    proof: Mapping[str, Any] = field(factory=dict, repr=False)
    admits: Admits = field(default=everybody, repr=False)

    @property
    def account(self) -> Who:
        """The account on this machine, to be compared with others."""
        return Who(self.name, LOCAL)


@frozen
class Permitted:
    """
    What a rule of rights allows, if that is less than all that was asked.

    @ivar who: the user in whose name it is done.
    @ivar bounds: what the handler must keep to, in a form that rule and handler agree on; C{None}:
        nothing.
    """

    who: Who
    bounds: Any = field(default=None, repr=False)


@frozen(kw_only=True)
class Call:
    """
    What an operation gets.

    @ivar args: its arguments, checked, without those that were not given.
    @ivar who: the user in whose name it is done, according to the rule of rights.
    @ivar stream: where items go before the answer, if the operation streams.
    @ivar bounds: what it must keep to, according to the rule of rights (L{Permitted}).
    """

    args: dict[str, Any] = field(repr=False)
    caller: Caller
    who: Who
    stream: Stream
    bounds: Any = field(default=None, repr=False)

    @property
    def user(self) -> str:
        """The user, in words for people: see L{Who}."""
        return str(self.who)


Judge = Callable[[Caller, Mapping[str, Any]], Awaitable[Who | Permitted]]
Handler = Callable[[Call], Awaitable[Any]]


@frozen
class Right:
    """
    A rule of rights.

    @ivar words: who may, as the page of the operations says it.
    @ivar judge: gets the caller and the arguments; returns the user in whose name the call is done,
        or a L{Permitted}, or raises L{DeniedError} or L{RemoteError}.
    """

    words: str
    judge: Judge


def owner_only(refusal: str) -> Right:
    """
    Only root and the daemon's own user may, as the kernel identifies them: no login replaces that.

    @param refusal: the text for others.
    """

    async def judge(caller: Caller, args: Mapping[str, Any]) -> Who:
        if not caller.owner or caller.proof:
            raise DeniedError(refusal)
        return caller.account

    return Right("root and the daemon's own user", judge)


async def _account(caller: Caller, args: Mapping[str, Any]) -> Who:
    if not caller.name or caller.proof:
        raise DeniedError("only local users of this machine may do this")
    return caller.account


async def _anybody(caller: Caller, args: Mapping[str, Any]) -> Who:
    return caller.account


ACCOUNT = Right("every user of this machine", _account)
ANYBODY = Right("everybody: what is given is itself the proof", _anybody)


@frozen(kw_only=True)
class Operation:
    """
    One row.

    @ivar handler: a coroutine function; its docstring says what the operation does.
    @ivar streams: whether items come before the answer.
    @ivar more: what arguments besides C{takes} are for; without it none are allowed.
    @ivar record: which arguments are on record, besides the operation's name: those that say what
        is done and have no secrets. C{None}: it does nothing that is worth a record.
    """

    name: str
    right: Right
    handler: Handler
    takes: tuple[Argument, ...] = ()
    streams: bool = False
    more: str = ""
    record: tuple[str, ...] | None = None


class Operations:
    """
    Rows by name.

    @param where: the owner of the table, as an error says it: C{this master}.
    @param denied: called with each refusal.
    @param recorded: C{recorded(who, what, caller)}: called with each call that is on record, when
        it is allowed and before it is done.
    @param otherwise: awaited with the caller if a name does not exist; it may raise an error that
        is more exact than that the name is unknown.
    """

    def __init__(
        self,
        where: str,
        rows: Iterable[Operation] = (),
        *,
        denied: Callable[[], None] = lambda: None,
        recorded: Callable[[Who, str, Caller], None] = lambda who, what, caller: None,
        otherwise: Callable[[Caller], Awaitable[None]] | None = None,
    ) -> None:
        self._where = where
        self._rows: dict[str, Operation] = {}
        self._families: dict[str, tuple[str, str]] = {}
        self._denied = denied
        self._recorded = recorded
        self._otherwise = otherwise
        self.add(rows)

    def add(
        self, rows: Iterable[Operation], by_word: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """
        Add the rows of another part.

        @param by_word: names that stand for several rows, with the argument that says which, and
            its default: C{roots} with C{do: log} is the row C{roots.log}.
        @raises ValueError: the name exists: a part never replaces another's row.
        """
        for row in rows:
            if row.name in self._rows:
                raise ValueError(f"two operations are called {row.name}")
            self._rows[row.name] = row
        self._families.update(by_word or {})

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._rows.values())

    async def call(self, name: str, args: Mapping[str, Any], caller: Caller, stream: Stream) -> Any:
        """
        Do one operation for somebody.

        @raises RemoteError: unknown, badly asked, refused or failed, with Salt's error names.
        """
        args = dict(args)
        if name in self._families:
            argument, default = self._families[name]
            name = f"{name}.{args.pop(argument, default)}"
        try:
            row = await self._find(name, caller)
            # A rule of rights may read the arguments, so that they are checked first
            given = checked(row.name, row.takes, bool(row.more), args)
            judged = await row.right.judge(caller, given)
            permitted = judged if isinstance(judged, Permitted) else Permitted(judged)
            # What only says what it would do changes nothing
            if row.record is not None and not given.get("dry_run"):
                self._recorded(permitted.who, in_words(row, given), caller)
            return await row.handler(
                Call(
                    args=given,
                    caller=caller,
                    who=permitted.who,
                    stream=stream if row.streams else _no_items,
                    bounds=permitted.bounds,
                )
            )
        except DeniedError as error:
            self._denied()
            raise RemoteError("AuthorizationError", str(error)) from None

    async def _find(self, name: str, caller: Caller) -> Operation:
        row = self._rows.get(name)
        if row is not None:
            return row
        if self._otherwise is not None:
            await self._otherwise(caller)
        shown = name if len(name) <= SHOWN else f"{name[:SHOWN]}..."
        raise RemoteError(
            "UnknownOperation",
            f"{self._where} does not know {shown!r}{nearest(name, [*self._rows, *self._families])}",
        )


def in_words(row: Operation, given: Mapping[str, Any]) -> str:
    """What a call does, on one line, for the record."""
    told = [f"{name}={_shown(given[name])}" for name in row.record or () if name in given]
    return " ".join((row.name, *told))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _no_items(item: Any) -> None:
    """
    For an operation whose row says that it streams nothing.

    @raises TypeError: it does; then its row is wrong.
    """
    raise TypeError("an operation streams, and its row does not say so")
