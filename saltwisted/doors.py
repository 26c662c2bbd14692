"""
What one peer may cost: a row for each door of a daemon.

A door is where bytes come in: a listening port or socket, and each connection that a daemon opens
to somebody whom it does not trust. Transports and handlers take their limits from these rows, so
the table is what is enforced; C{docs/security.md} prints it. A test finds everything that listens
or connects and demands a row (C{tests/doors/test_table.py}), and another one drives each door with
generated input up to its limit (C{tests/doors/test_costs.py}).
"""

from __future__ import annotations

from typing import NamedTuple

KIB = 1024
MIB = 1024 * 1024


class Door(NamedTuple):
    """
    One door. Times are CPU of the reactor's thread, of a processor of about 3 GHz.

    @ivar name: a short name, unique.
    @ivar title: what it is, for a reader.
    @ivar who: who can use it, with what proof.
    @ivar opened: where in the code it is opened, each as C{file:function}.
    @ivar request: the largest request, frame or body, in bytes.
    @ivar per_kib: microseconds that each KiB may cost at most.
    @ivar per_request: microseconds that the smallest request may cost at most.
    @ivar turn: milliseconds of one turn of the reactor at most; the rest waits for further turns,
        or is done in a thread or another process.
    @ivar memory: bytes that are kept for one connection at most.
    @ivar memory_all: bytes that are kept for all connections of this door together at most.
    @ivar holds: seconds that it may hold something unfinished at most.
    @ivar beyond: what happens to who exceeds it.
    @ivar strangers: of C{memory_all}, the bytes that those who have proved nothing may take; 0
        where nobody gets in without a proof.
    """

    name: str
    title: str
    who: str
    opened: tuple[str, ...]
    request: int
    per_kib: float
    per_request: float
    turn: float
    memory: int
    memory_all: int
    holds: float
    beyond: str
    strangers: int = 0


CLEAR = Door(
    name="clear requests",
    title="requests to port 4506 that are not sealed: sign-ins, and local clients",
    who="anybody who can connect",
    opened=(),
    request=256 * KIB,
    per_kib=250,
    per_request=400,
    turn=5.0,
    memory=8 * MIB,
    memory_all=32 * MIB,
    holds=0,
    beyond="it is refused before it is decoded; up to 4 MiB if the key of a local user is in it",
    strangers=32 * MIB,
)

SIGN_INS = Door(
    name="sign-ins",
    title="sign-ins of minions on port 4506, which wait for two threads of RSA",
    who="anybody who can connect",
    opened=(),
    request=64 * KIB,
    per_kib=250,
    per_request=1000,
    turn=5.0,
    memory=256 * KIB,
    memory_all=192 * MIB,
    holds=60,
    beyond="refused; 20 000 of unknown minions wait, and those above 4 KiB share 32 MiB; who has "
    "an accepted key goes first",
    strangers=192 * MIB,
)

CONTROL = Door(
    name="control",
    title="the control socket of a master and of a cluster's node",
    who="every user of the machine, as the kernel names it; root and the daemon's own user have "
    "limits of their own (`TRUSTED` in `transports/ipc.py`)",
    opened=("saltwisted/transports/ipc.py:startService", "saltwisted/transports/ipc.py:adopt"),
    request=1 * MIB,
    per_kib=250,
    per_request=400,
    turn=10,
    memory=48 * MIB,
    memory_all=192 * MIB,
    holds=60,
    beyond="a message that is too long, or has too many containers, ends the connection; so does "
    "one that is not finished in time. A user's further calls are refused. Of users who make it "
    "keep too much, the connection that keeps most is closed. Others than root and the daemon's "
    "own user have half of the 512 connections, and one user an eighth",
    strangers=192 * MIB,
)

CONTROL_MINION = Door(
    name="control-minion",
    title="the control socket of a minion",
    who="every user of the machine; all but root and the minion's own user are only refused",
    opened=("saltwisted/transports/ipc.py:startService", "saltwisted/transports/ipc.py:adopt"),
    request=64 * KIB,
    per_kib=250,
    per_request=400,
    turn=10,
    memory=8 * MIB,
    memory_all=16 * MIB,
    holds=60,
    beyond=CONTROL.beyond,
    strangers=16 * MIB,
)

PEER_STRANGER = Door(
    name="peer-stranger",
    title="the peer port, before somebody is known: TLS handshakes, and the one record of a join",
    who="everybody who reaches the port; a record only while there is a token or a "
    "`cluster_secret` to join by",
    opened=("saltwisted/cluster/links/port.py:startService",),
    request=1 * KIB,
    per_kib=2500,
    per_request=5000,
    turn=5,
    memory=256 * KIB,
    memory_all=32 * MIB,
    holds=10,
    beyond="128 connections that have proved nothing, 16 from one address, 120 failures a minute "
    "from one address: TCP refuses more. A join that proves no secret is not answered; 5 of them "
    "a minute from one address, 60 in all, and no join is heard for a minute",
    strangers=32 * MIB,
)

PEER_MEMBER = Door(
    name="peer-member",
    title="the peer port for members of the cluster: words, bulk bodies and streams of roots",
    who="holders of the key of a member, proved by TLS",
    opened=(
        "saltwisted/cluster/links/port.py:startService",
        "saltwisted/cluster/links/peers.py:_connect",
        "saltwisted/cluster/links/ring.py:reaches",
    ),
    request=16 * MIB,
    per_kib=60,
    per_request=400,
    turn=25,
    memory=192 * MIB,
    memory_all=1024 * MIB,
    holds=10,
    beyond="a body that is too long, or has too many containers, ends the link, and so does a "
    "peer that does not read 64 MiB. One member has 64 connections",
)

PEER_JOIN = Door(
    name="peer-join",
    title="the member that a joining node asks",
    who="whoever answers at the address that the operator gives; it must prove the same secret",
    opened=("saltwisted/cluster/life/join.py:ask",),
    request=16 * MIB,
    per_kib=60,
    per_request=5000,
    turn=25,
    memory=17 * MIB,
    memory_all=17 * MIB,
    holds=20,
    beyond="the connection is closed, and the next address is asked",
)

ETCD = Door(
    name="etcd",
    title="the etcd that keeps the claims, where `claims: etcd` is set",
    who="the servers of `claims_etcd`, by the certificate that the options ask for",
    opened=("saltwisted/transports/etcd.py:__init__",),
    request=4 * MIB,
    per_kib=60,
    per_request=3000,
    turn=45,
    memory=40 * MIB,
    memory_all=640 * MIB,
    holds=1,
    beyond="an answer that is too long, has more than 70 000 parts, or is not whole within a "
    "second: the next address is asked. 16 questions at once; more wait 2.5 seconds",
)

LOGIN_LDAP = Door(
    name="ldap",
    title="directories of logins",
    who="the servers of `auth.ldap`, asked by a worker process; what it says of them is judged "
    "as at the control socket",
    opened=(
        "saltwisted/worker/process/ldap.py:_open",
        "saltwisted/worker/process/ldap.py:_bind",
    ),
    request=1 * MIB,
    # A worker's word comes as one at the control socket does
    per_kib=CONTROL.per_kib,
    per_request=CONTROL.per_request,
    turn=5,
    memory=48 * MIB,
    memory_all=192 * MIB,
    holds=60,
    beyond="4096 groups count; a worker that does not answer in time is ended, and the login fails",
)

LOGIN_WEB = Door(
    name="login-web",
    title="providers of OpenID Connect, and `rest`",
    who="the addresses of `external_auth`, asked by a worker process",
    opened=("saltwisted/worker/process/web.py:ask",),
    request=1 * MIB,
    # A worker's word comes as one at the control socket does
    per_kib=CONTROL.per_kib,
    per_request=CONTROL.per_request,
    turn=5,
    memory=48 * MIB,
    memory_all=192 * MIB,
    holds=60,
    beyond="no more than a MiB of an answer is read, 256 KiB of what a provider says; 64 keys and "
    "4096 groups or rules count. A worker that does not answer in time is ended, and the login "
    "fails",
)

GIT = Door(
    name="git",
    title="git remotes of gitfs and git_pillar, and what is in their repositories",
    who="who may push to one of them, and whoever answers in its place",
    opened=("saltwisted/worker/git/program.py:start",),
    # One fetch; processes receive it, and the option is gitfs_max_size
    request=8192 * MIB,
    # Of directories that libgit2 reads here; those of more than a mebibyte are read by a worker
    per_kib=4.0,
    per_request=100.0,
    turn=5.0,
    # The list of a remote's files, with its directories and small files that were read lately
    memory=128 * MIB,
    # Lists of all remotes together; directories and files have 24 MiB for each remote
    memory_all=256 * MIB,
    # The option is gitfs_timeout
    holds=300.0,
    beyond="a path leads nowhere, a list lacks this remote, or a fetch fails and the commits before"
    " it are served; the log and the status name the remote",
)

FILES = Door(
    name="files",
    title="requests for files: their paths, and lists of them",
    who="accepted minions",
    # They come with other requests
    opened=(),
    # Of a path with its environment, in characters
    request=16 * KIB,
    per_kib=100.0,
    per_request=100.0,
    turn=5.0,
    # A chunk of a file, and its sealed form
    memory=2 * MIB,
    memory_all=16 * MIB,
    holds=120.0,
    beyond="there is no such file",
)

HTTP = Door(
    name="http",
    title="the HTTP API before a login",
    who="everybody who can reach it",
    opened=("saltwisted/web/service.py:startService",),
    request=64 * KIB,
    per_kib=500.0,
    per_request=1000.0,
    turn=5.0,
    memory=160 * KIB,
    memory_all=96 * MIB,
    holds=30.0,
    beyond=(
        "what is larger is answered with 413; where there is no room for all, whoever keeps the "
        "most loses what is oldest of it (503)"
    ),
    strangers=96 * MIB,
)

HTTP_USERS = Door(
    name="http-users",
    title="the HTTP API after a login",
    who="users with a session",
    opened=("saltwisted/web/service.py:startService",),
    request=MIB,
    per_kib=500.0,
    per_request=2000.0,
    turn=5.0,
    memory=2 * MIB,
    memory_all=256 * MIB,
    holds=60.0,
    beyond="max_request_body_size is the limit of a body",
)

STATIC = Door(
    name="static",
    title="files of the HTTP API: static, app, favicon",
    who="everybody who can reach it",
    opened=("saltwisted/web/service.py:startService",),
    request=64 * MIB,
    per_kib=200.0,
    per_request=1000.0,
    turn=5.0,
    memory=128 * KIB,
    memory_all=256 * MIB,
    holds=60.0,
    beyond="a larger file is not served; who reads nothing is cut off",
    strangers=256 * MIB,
)

METRICS = Door(
    name="metrics",
    title="the port of /metrics, /livez and /readyz",
    who="everybody who can reach it",
    opened=("saltwisted/web/measures.py:startService",),
    request=16 * KIB,
    per_kib=200.0,
    per_request=1000.0,
    turn=5.0,
    memory=128 * KIB,
    memory_all=8 * MIB,
    holds=20.0,
    beyond="a body ends the connection; where there are many, the oldest is closed",
    strangers=8 * MIB,
)

EVENTS = Door(
    name="events",
    title="/events and /ws: events for those who listen",
    who="users with a session",
    opened=("saltwisted/web/service.py:startService",),
    request=4 * KIB,
    per_kib=6000.0,
    per_request=3000.0,
    turn=5.0,
    memory=5 * MIB,
    memory_all=96 * MIB,
    holds=30.0,
    beyond=(
        "who has 4 MiB or 8192 events unread is cut off, and where there is no room for all, who "
        "has most unread; a web socket that sends more than 16 KiB in ten seconds is closed"
    ),
)

HOOKS = Door(
    name="hooks",
    title="/hook: events from outside",
    who="users with a session, or who signs his requests",
    opened=("saltwisted/web/service.py:startService",),
    request=MIB,
    per_kib=500.0,
    per_request=1000.0,
    turn=5.0,
    memory=2 * MIB,
    memory_all=HTTP.memory_all,
    holds=30.0,
    beyond="as before a login; max_request_body_size is the limit of a body",
)

REQUESTS_ZMQ = Door(
    name="requests-zeromq",
    title="4506, ZeroMQ",
    who="anyone; what a request may do is decided after it is opened",
    opened=("saltwisted/transports/zeromq/router.py:_bind",),
    request=128 * MIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=128 * MIB,
    memory_all=640 * MIB,
    holds=60,
    beyond="hung up on, the slowest first; strangers share a third of what is unfinished",
    strangers=128 * MIB,
)

PUBLICATIONS_ZMQ = Door(
    name="publications-zeromq",
    title="4505, ZeroMQ",
    who="anyone; a publication can be read by those only who have a key",
    opened=("saltwisted/transports/zeromq/publisher.py:listen",),
    request=1 * KIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=8 * KIB,
    memory_all=32 * MIB,
    holds=60,
    beyond="hung up on",
    strangers=32 * MIB,
)

REQUESTS_TCP = Door(
    name="requests-tcp",
    title="4506, TCP",
    who="anyone; what a request may do is decided after it is opened",
    opened=("saltwisted/transports/tcp/framed.py:bind",),
    request=128 * MIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=256 * MIB,
    memory_all=640 * MIB,
    holds=60,
    beyond="hung up on, the slowest first; strangers share a third of what is unfinished",
    strangers=128 * MIB,
)

REQUESTS_TLS = REQUESTS_TCP._replace(
    name="requests-tls",
    title="4506, TLS",
    who="with `cert_reqs`, whose certificate is of an authority that the master trusts",
)

PUBLICATIONS_TCP = Door(
    name="publications-tcp",
    title="4505, TCP",
    who="anyone; a publication can be read by those only who have a key",
    opened=("saltwisted/transports/tcp/framed.py:bind",),
    request=64 * KIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=256 * KIB,
    memory_all=32 * MIB,
    holds=60,
    beyond="hung up on",
    strangers=32 * MIB,
)

PUBLICATIONS_TLS = PUBLICATIONS_TCP._replace(
    name="publications-tls",
    title="4505, TLS",
    who="with `cert_reqs`, whose certificate is of an authority that the master trusts",
)

MASTERS = Door(
    name="masters",
    title="the masters that a minion connects to",
    who="who has the key of a master that the minion trusts, once it has proved that; before, "
    "whoever answers at its address",
    opened=(
        "saltwisted/transports/zeromq/dealer.py:_start",
        "saltwisted/transports/zeromq/subscriber.py:open",
        "saltwisted/minion/tcp.py:_to",
    ),
    request=128 * MIB,
    per_kib=200,
    per_request=400,
    turn=50,
    memory=256 * MIB,
    memory_all=1024 * MIB,
    holds=60,
    beyond="the message is dropped, and the minion asks again, or another master",
)

MINIONS_DATA = Door(
    name="minions-data",
    title="sealed requests by which minions bring something: returns, events, grains, mine, files",
    who="an accepted minion, by its session key",
    opened=(),
    request=128 * MIB,
    # A list of events of seven bytes each, each of which is fired
    per_kib=1000.0,
    per_request=500.0,
    turn=8.0,
    # What a handler makes of a request, beside the request itself
    memory=4 * 128 * MIB,
    # Of events that wait for reactions, on the disk; a minion has at most half of what is free
    memory_all=1024 * MIB,
    holds=60.0,
    beyond="it is refused; a minion's long requests wait for one another, and if too many events "
    "wait for reactions, it loses its own",
)

MINIONS_ASK = Door(
    name="minions-ask",
    title="sealed requests by which minions ask for something, or have something done; what they "
    "target costs a few microseconds more for each word and minion, in turns",
    who="an accepted minion, by its session key",
    opened=(),
    request=2 * MIB,
    per_kib=1000.0,
    per_request=1000.0,
    turn=8.0,
    memory=32 * MIB,
    memory_all=1024 * MIB,
    holds=60.0,
    beyond="it is refused",
)

PUBLISH = Door(
    name="publish",
    title="jobs of users with rules, and of minions, beside the names that are their target",
    who="a user of publisher_acl or external_auth, a minion of peer",
    opened=(),
    request=MIB,
    # Arguments that are YAML, of functions that call others
    per_kib=1000.0,
    per_request=1000.0,
    turn=15.0,
    memory=32 * MIB,
    memory_all=1024 * MIB,
    holds=60.0,
    beyond="it is refused",
)

DOORS: dict[str, Door] = {
    row.name: row
    for row in (
        CLEAR,
        SIGN_INS,
        CONTROL,
        CONTROL_MINION,
        PEER_STRANGER,
        PEER_MEMBER,
        PEER_JOIN,
        ETCD,
        LOGIN_LDAP,
        LOGIN_WEB,
        GIT,
        FILES,
        HTTP,
        HTTP_USERS,
        STATIC,
        METRICS,
        EVENTS,
        HOOKS,
        REQUESTS_ZMQ,
        PUBLICATIONS_ZMQ,
        REQUESTS_TCP,
        REQUESTS_TLS,
        PUBLICATIONS_TCP,
        PUBLICATIONS_TLS,
        MASTERS,
        MINIONS_DATA,
        MINIONS_ASK,
        PUBLISH,
    )
}
"""All doors, by name."""
