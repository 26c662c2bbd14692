"""
Claims in an etcd 3: the requests, and the meaning of answers.

Under C{prefix} a claimed key has up to four keys in etcd:

 - C{term/KEY} exists while somebody holds it. It depends on the lease of that node, so it goes when
   the node has not renewed the lease. The revision in which it was written is the fencing number.
 - C{open/KEY} and C{plan/KEY} describe a short act that was begun, and has not ended.
 - C{done/KEY} describes one that has ended.

Each change is one transaction of etcd, with the condition under which it is right. etcd has no
clock for us, but its revisions only grow: a node that asks for them every second knows
approximately how long ago something was written (L{Revisions}).
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import asdict, evolve, field, frozen

from saltwisted.domain.claims.copies import LATE, WINDOW, Instance, number_of
from saltwisted.domain.claims.voter import TERM
from saltwisted.errors import ConfigError, WireError
from saltwisted.wire.text import HALVES, escaped, json_has_halves

OPTION = "claims_etcd"
KINDS = ("term", "open", "plan", "done")
RECENT = 20
"""Of the events that are alike, the newest so many are looked at."""
PAGE = 200
"""Receipts that are asked for at a time."""
NO_LEASE = "0"
EXAMPLE = f"{OPTION}: [http://127.0.0.1:2379]"


# -- the options


@frozen(kw_only=True)
class Settings:
    """Where etcd is, and how to connect to it. Files are PEM."""

    endpoints: tuple[str, ...]
    ca: str = ""
    cert: str = ""
    key: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    prefix: str = "saltwisted"


def settings_of(endpoints: Any, values: Mapping[str, Any]) -> Settings:
    """
    What the options say.

    @param values: of C{claims_etcd_NAME}, by name.
    @raises ConfigError: with the option, and what to write instead.
    """
    if not isinstance(endpoints, list) or not endpoints:
        raise ConfigError(f"claims: etcd without {OPTION}: list its addresses, as in {EXAMPLE}")
    texts = {name: str(value or "") for name, value in values.items()}
    settings = Settings(endpoints=tuple(_endpoint(each) for each in endpoints), **texts)
    if not settings.prefix.strip("/"):
        raise ConfigError(
            f"{OPTION}_prefix must not be empty: it is the prefix of all keys in etcd"
        )
    if bool(settings.cert) != bool(settings.key):
        raise ConfigError(f"{OPTION}_cert and {OPTION}_key: give both, or neither")
    if bool(settings.user) != bool(settings.password):
        raise ConfigError(f"{OPTION}_user and {OPTION}_password: give both, or neither")
    is_tls = [each.startswith("https:") for each in settings.endpoints]
    if (settings.ca or settings.cert) and not all(is_tls):
        raise ConfigError(
            f"{OPTION}: {settings.endpoints[is_tls.index(False)]}: certificates are "
            "configured for it, so write https://"
        )
    return evolve(settings, prefix=settings.prefix.strip("/"))


def _endpoint(value: Any) -> str:
    text = str(value)
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
        good = good and text.isascii() and not any(each.isspace() for each in text)
    except ValueError:
        good = False
    if not good or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"{OPTION}: {text!r} is not an address; write it as in {EXAMPLE}")
    return f"{parts.scheme}://{parts.netloc}"


# -- questions


@frozen
class Ask:
    """
    A request: the end of the address, and the JSON to send.

    @ivar is_urgent: whether it does not wait for others.
    """

    path: str
    body: Mapping[str, Any] = field(repr=False)
    is_urgent: bool = False


def _b64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def login(settings: Settings) -> Ask:
    """For a token."""
    return Ask("auth/authenticate", {"name": settings.user, "password": settings.password})


def grant(seconds: int) -> Ask:
    """A new lease."""
    return Ask("lease/grant", {"TTL": str(seconds)}, is_urgent=True)


def keep_alive(lease: str) -> Ask:
    """Renew a lease."""
    return Ask("lease/keepalive", {"ID": lease}, is_urgent=True)


@frozen
class Kv:
    """A key in etcd. C{made} and C{written}: the revisions of its first and last value."""

    key: bytes
    value: bytes
    made: int
    written: int
    lease: str


@frozen(kw_only=True)
class Record:
    """
    The value of C{term/}, C{open/} and C{done/}: JSON, so that people can read it with C{etcdctl}.

    @ivar holder: the node and its present life.
    @ivar planner: the holder whose plan it is.
    @ivar since: the revision in which it was begun, for an ended one.
    @ivar came: the event that it is for, C{node#life/number}.
    @ivar waited: how many seconds before the beginning the event arrived.
    """

    holder: str
    node: str
    planner: str = ""
    what: str = ""
    event: str = ""
    begun: float = 0.0
    ended: float | None = None
    result: str = ""
    since: int = 0
    came: str = ""
    waited: float = 0.0

    @property
    def at_node(self) -> str:
        """The node that the event came to."""
        return self.came.rpartition("#")[0] or self.node


def encode_record(record: Record) -> bytes:
    """As JSON."""
    fields = asdict(record)
    texts = {name: escaped(each) for name, each in fields.items() if isinstance(each, str)}
    return json.dumps({**fields, **texts}).encode()


_TYPES: Mapping[str, tuple[type, ...]] = {
    "begun": (int, float),
    "ended": (int, float, type(None)),
    "since": (int,),
    "waited": (int, float),
}


def decode_record(data: bytes) -> Record:
    """
    @raises WireError: somebody else wrote it.
    """
    try:
        fields = json.loads(data)
        if json_has_halves(data, fields):
            raise ValueError(HALVES)
        record = Record(**fields)
    except (ValueError, TypeError, RecursionError):
        raise WireError("a value that is not ours") from None
    for name, value in fields.items():
        if isinstance(value, bool) or not isinstance(value, _TYPES.get(name, (str,))):
            raise WireError(f"a value with a {name} that makes no sense")
        # Numbers that no clock and no etcd has: to reckon with them fails
        if not isinstance(value, (str, type(None))) and not abs(value) < 1 << 63:
            raise WireError(f"a value with a {name} that makes no sense")
    return record


class Names:
    """The keys of one cluster in etcd, and the questions about them."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode() + b"/"

    def of(self, kind: str, key: str = "") -> bytes:
        """The key of one kind."""
        return self._prefix + kind.encode() + b"/" + key.encode("utf-8", "surrogateescape")

    def key_of(self, kind: str, name: bytes) -> str:
        """
        The other way.

        @raises WireError: it is not of that kind.
        """
        start = self.of(kind)
        if not name.startswith(start):
            raise WireError("a key that was not asked for")
        return name[len(start) :].decode("utf-8", "surrogateescape")

    def _get(self, kind: str, key: str) -> dict[str, Any]:
        return {"request_range": {"key": _b64(self.of(kind, key))}}

    def _all(self, kind: str, key: str = "", **more: Any) -> dict[str, Any]:
        start = self.of(kind, key)
        end = start[:-1] + bytes([start[-1] + 1])
        return {"request_range": {"key": _b64(start), "range_end": _b64(end), **more}}

    def _newest(self, kind: str, key: str, limit: int, **more: Any) -> dict[str, Any]:
        order = {"sort_order": "DESCEND", "sort_target": "CREATE"}
        return self._all(kind, key, limit=str(limit), **order, **more)

    def _put(self, kind: str, key: str, value: bytes, lease: str) -> dict[str, Any]:
        put = {"key": _b64(self.of(kind, key)), "value": _b64(value), "lease": lease}
        return {"request_put": put}

    def _delete(self, kind: str, key: str) -> dict[str, Any]:
        return {"request_delete_range": {"key": _b64(self.of(kind, key))}}

    def _is(self, kind: str, key: str, written: int) -> dict[str, Any]:
        """A condition: this revision of it, 0 for none."""
        name = {"key": _b64(self.of(kind, key)), "result": "EQUAL", "target": "MOD"}
        return {**name, "mod_revision": str(written)}

    def _look(self, key: str) -> list[dict[str, Any]]:
        found = [self._get(kind, key) for kind in KINDS]
        if number_of(key)[1] is not None:
            kind = key.rpartition("/")[0] + "/"
            found += [self._newest(each, kind, RECENT) for each in ("open", "done")]
        return found

    def look(self, key: str) -> Ask:
        """All that is known of a key."""
        return _txn([], self._look(key))

    def take(
        self,
        key: str,
        lease: str,
        record: Record,
        plan: bytes | None = None,
        kept: str = NO_LEASE,
        state: State | None = None,
    ) -> Ask:
        """
        Hold a key, if it is still as in C{state}: without one, if there is nothing of it. If not,
        the answer is that of L{look}.

        @param plan: of a short act.
        @param kept: the lease on which hangs how long the act is remembered.
        """
        term = state.term.written if state is not None and state.term is not None else 0
        opened = state.open.written if state is not None and state.open is not None else 0
        put = [self._put("term", key, encode_record(record), lease)]
        if plan is not None:
            put.append(self._put("open", key, encode_record(record), kept))
            if state is None or state.plan != plan:
                put.append(self._put("plan", key, plan, kept))
        same = [self._is("term", key, term), self._is("open", key, opened)]
        return _txn([*same, self._is("done", key, 0)], put, self._look(key))

    def end(self, key: str, term: int, record: Record, kept: str) -> Ask:
        """A short act has ended, if nobody took it over."""
        gone = [self._delete(kind, key) for kind in ("term", "open", "plan")]
        done = self._put("done", key, encode_record(record), kept)
        return _txn([self._is("open", key, term)], [*gone, done])

    def drop(self, key: str, state: State, is_unbegun: bool) -> Ask:
        """Release a key; with the act, if nobody can have begun it."""
        term = state.term.written if state.term is not None else 0
        kinds = ("term", "open", "plan") if is_unbegun else ("term",)
        return _txn([self._is("term", key, term)], [self._delete(kind, key) for kind in kinds])

    def poll(self) -> Ask:
        """Who holds what, and which short acts have not ended."""
        ask = _txn([], [self._all("term"), self._all("open", keys_only=True)])
        return evolve(ask, is_urgent=True)

    def receipts(self, kind: str, below: int = 0) -> Ask:
        """The newest acts of a kind; those made before the revision C{below}, if given."""
        older = {"max_create_revision": str(below - 1)} if below else {}
        return _txn([], [self._newest(kind, "", PAGE, **older)])


def _txn(
    compare: Sequence[Mapping[str, Any]],
    success: Sequence[Mapping[str, Any]],
    failure: Sequence[Mapping[str, Any]] = (),
) -> Ask:
    body = {"compare": list(compare), "success": list(success), "failure": list(failure)}
    return Ask("kv/txn", body)


# -- answers


@frozen(kw_only=True)
class Lease:
    """
    A lease; C{seconds} is 0 if it is gone.

    @ivar raft: the term of etcd's own leader, according to the member that answered.
    """

    id: str
    seconds: int
    raft: int


@frozen(kw_only=True)
class Done:
    """
    The answer to a transaction.

    @ivar revision: the revision of etcd.
    @ivar found: what each range has found, in the order of the requests.
    @ivar count: the number of parts of the answer.
    """

    is_granted: bool
    revision: int
    raft: int
    found: tuple[tuple[Kv, ...], ...] = ()
    count: int = 0

    def answers(self, ask: Ask) -> bool:
        """Whether it has a part for each part of the question."""
        return self.count == len(ask.body["success" if self.is_granted else "failure"])


def _map(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WireError("an answer that makes no sense")
    return value


def _number(value: Any) -> int:
    """etcd writes 64 bits as text, and leaves zeros out."""
    try:
        number = int(str(value or 0))
    except ValueError:
        raise WireError("an answer with a number that is none") from None
    if not -(1 << 63) <= number < 1 << 64:
        raise WireError("an answer with a number that is none")
    return number


def _list(value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise WireError("an answer that makes no sense")
    return value or []


def decode_token(answer: Any) -> str:
    """@raises WireError: it is invalid."""
    token = _map(answer).get("token")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise WireError("an answer without a token")
    return token


def decode_lease(answer: Any, wanted: int = 0) -> Lease:
    """
    @param wanted: the requested seconds.
    @raises WireError: it is invalid.
    """
    # What streams answers puts each into C{result}
    found = _map(_map(answer).get("result", answer))
    lease = Lease(
        id=str(_number(found.get("ID"))),
        seconds=_number(found.get("TTL")),
        raft=_number(_map(found.get("header")).get("raft_term")),
    )
    if lease.id == NO_LEASE or lease.seconds < wanted:
        raise WireError(f"a lease of {lease.seconds} seconds where {wanted} were asked for")
    return lease


def decode_done(answer: Any) -> Done:
    """@raises WireError: it is invalid."""
    body = _map(answer)
    header = _map(body.get("header"))
    found = []
    for each in _list(body.get("responses")):
        if "response_range" in _map(each):
            rows = _list(_map(each["response_range"]).get("kvs"))
            found.append(tuple(_kv(_map(row)) for row in rows))
    revision = _number(header.get("revision"))
    if revision < 1:
        raise WireError("an answer without a revision")
    return Done(
        is_granted=body.get("succeeded") is True,
        revision=revision,
        raft=_number(header.get("raft_term")),
        found=tuple(found),
        count=len(_list(body.get("responses"))),
    )


def _kv(row: Mapping[str, Any]) -> Kv:
    try:
        key = b64decode(row.get("key", ""), validate=True)
        value = b64decode(row.get("value", ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise WireError("an answer with a value that is none") from None
    return Kv(
        key=key,
        value=value,
        made=_number(row.get("create_revision")),
        written=_number(row.get("mod_revision")),
        lease=str(_number(row.get("lease"))),
    )


# -- what it means


@frozen(kw_only=True)
class State:
    """
    What is known of one key. C{recent}: number, node and first revision of identical events, and
    when each was begun by the time of day.
    """

    term: Kv | None = None
    open: Kv | None = None
    plan: bytes | None = None
    done: Kv | None = None
    recent: tuple[tuple[int, str, int, float], ...] = ()


def state_of(names: Names, done: Done) -> State:
    """
    Read the answer to L{Names.look}.

    @raises WireError: it is invalid.
    """
    if len(done.found) not in (4, 6):
        raise WireError("an answer to another request")
    term, opened, plan, ended = (rows[0] if rows else None for rows in done.found[:4])
    recent = []
    for kind, rows in zip(("open", "done"), done.found[4:], strict=False):
        for row in rows:
            record = decode_record(row.value)
            number = number_of(names.key_of(kind, row.key))[1]
            if number is not None:
                since = record.since or row.made
                recent.append((number, record.at_node, since, float(record.begun)))
    return State(
        term=term,
        open=opened,
        plan=plan.value if plan is not None else None,
        done=ended,
        recent=tuple(sorted(recent)),
    )


@frozen
class Over:
    """It has been done."""

    record: Record
    since: int


@frozen
class Busy:
    """Somebody else holds it."""

    record: Record
    since: int


@frozen
class Free:
    """
    It can be taken. C{planned} is a plan of somebody else (or of another life of this node) that
    has not ended; C{since} is its time.
    """

    planned: bytes | None = None
    record: Record | None = None
    since: int = 0


@frozen
class Later:
    """Not now."""

    why: str


Meaning = Over | Busy | Free | Later


def meaning(state: State, holder: str, lease: str, can_begin: bool) -> Meaning:
    """
    What a state means for this node.

    @param lease: its present lease.
    @param can_begin: whether it would begin this itself, rather than finish what others began.
    @raises WireError: the stored data is invalid.
    """
    if state.done is not None:
        record = decode_record(state.done.value)
        return Over(record, record.since or state.done.made)
    if state.term is not None:
        record = decode_record(state.term.value)
        if record.holder != holder:
            since = state.open.made if state.open is not None else state.term.made
            return Busy(record, since)
        if state.term.lease != lease:
            return Later("an earlier lease of this node has not run out")
    if state.open is None:
        return Free() if can_begin else Later("nothing is known of it")
    record = decode_record(state.open.value)
    if record.planner == record.holder == holder:
        # The answer was lost, so this node has not begun it
        return Free(None, record, state.open.made)
    if state.plan is None:
        raise WireError("an act without its plan")
    return Free(state.plan, record, state.open.made)


class Revisions:
    """
    etcd's revisions as a clock: which one there was at which second of this node's own clock.

    @ivar newest: the highest revision seen.
    """

    EACH = 0.25
    MOST = 2000

    def __init__(self) -> None:
        self.newest = 0
        self._seen: deque[tuple[float, float, int]] = deque(maxlen=self.MOST)

    def saw(self, revision: int, sent: float, now: float) -> None:
        """
        An answer came now.

        @param sent: when it was asked for.
        """
        if revision < self.newest:
            return
        self.newest = revision
        if not self._seen or sent >= self._seen[-1][0] + self.EACH:
            self._seen.append((sent, now, revision))

    def at_least(self, revision: int, now: float, told: float = 0.0) -> float:
        """
        For how many seconds it has certainly existed, since this node checks.

        @param told: the same by the time of day, which only decides whether something from before
            that is old: somebody may have set it.
        """
        for _, moment, seen in self._seen:
            if seen >= revision:
                age = max(0.0, now - moment)
                is_old = seen == self._seen[0][2]
                return max(age, told) if is_old and age > WINDOW else age
        return 0.0

    def at_most(self, revision: int, now: float) -> float:
        """Within how many seconds it was written; infinite if nobody knows."""
        last = float("-inf")
        for moment, _, seen in self._seen:
            if seen >= revision:
                break
            last = moment
        return now - last

    def instances(
        self, recent: Sequence[tuple[int, str, int, float]], now: float, at: float
    ) -> tuple[Instance, ...]:
        """
        Those that a copy of an event may belong to, and the newest.

        @param at: the time of day.
        """
        newest = max((number for number, *_ in recent), default=0)
        found = (
            Instance(number, node, self.at_least(since, now, at - begun))
            for number, node, since, begun in recent
        )
        return tuple(each for each in found if each.number == newest or each.age <= LATE)


SECONDS = int(TERM)
"""Of the lease on which terms hang."""
