"""
Publishing a job: which minions it is for, its jid, and its record before it is sent.

The order matters: the job record is on disk before the publication is sent, so if the master is
killed between the two, no minion answers a job that it does not know. The returns arrive through
C{handlers/returns.py}.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.jid import JidMaker, is_jid
from saltwisted.domain.jobids import BEGUN, JobInParts, judged_jid
from saltwisted.domain.secrecy import told
from saltwisted.domain.targeting.nodegroups import unfold
from saltwisted.domain.targeting.selection import (
    Selection,
    Universe,
    guesses_pillar,
    pillar_words,
)
from saltwisted.domain.who import EAUTH, Who, local
from saltwisted.errors import DeniedError, RemoteError, TargetError
from saltwisted.master.asked import origin
from saltwisted.master.chosen import Chosen
from saltwisted.master.ground import Ground
from saltwisted.master.latecomers import LateJobs
from saltwisted.master.loads import check_size, delimiter_of, seconds_of
from saltwisted.master.runs import AwaitedJob
from saltwisted.master.targets import Targets
from saltwisted.master.workers import WorkerPool
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

GENERATION = "generation"
"""The keyword of a publication that names the earlier tree which it is to run on."""
OF_RUN: ContextVar[str] = ContextVar("generation_of_run", default="")
"""The generation of the orchestration of which the present call is a step; empty for none."""
OPTIONAL_KWARGS = ("metadata", "ret_config", "ret_kwargs", "module_executors", "executor_opts")
"""Keys of a publish load's C{kwargs} that stock minions understand inside the job map."""
MOST_PROBLEMS = 3
"""What is wrong with a target, as far as its caller is told."""
MOST_TAGS = 1000
"""Beginnings of tags that one caller may listen for."""
ISSUERS = 10_000
"""Jobs published for minions of which the issuer is remembered."""
REKEY = "saltwisted.next_key"
"""The function name of the publication that makes our own minions fetch the next publish key."""


class Dispatcher:
    """
    Turns Salt's C{publish} load into a job that minions run.

    @ivar chosen: the jids that callers have chosen.
    @ivar latecomers: jobs that are published again after a start or an acceptance, for minions
        that connect later.
    """

    log = Logger()

    def __init__(self, ground: Ground, jids: JidMaker, workers: WorkerPool | None = None) -> None:
        """
        @param workers: where regular expressions are tried that may take for ever; without
            them those mean nobody.
        """
        self._ground = ground
        self._closed = ""
        self.targets = Targets(ground.clock, self.universe, workers)
        self._jids = jids
        self._issuers: OrderedDict[str, str] = OrderedDict()
        self._told: dict[str, Any] = {"tag": "", "data": None}
        self.chosen = Chosen(ground)
        self.latecomers = LateJobs(ground, self.new_jid, self._question)

    def new_jid(self) -> str:
        """A fresh job id: 20 digits of UTC time, growing on this node."""
        return self._jids.make(self._ground.now())

    def universe(self) -> Universe:
        """What target expressions are judged by: accepted ids and cached minion data."""
        ground = self._ground
        return Universe(
            # A copy: the search takes several turns, and keys come and go between them
            accepted=list(ground.keys.accepted_ids()),
            fetch=ground.cache.get,
            part=ground.cache.part,
            cached=ground.cache.ids,
            nodegroups=ground.config.nodegroups or {},
            data_cache=bool(ground.config.minion_data_cache),
        )

    def close(self, why: str) -> None:
        """Accept no more jobs; callers are told why."""
        self._closed = why

    def _see_whether_open(self, own: bool) -> None:
        if self._closed and not own:
            raise RemoteError("ClusterError", self._closed)

    async def publish(
        self,
        load: Mapping[str, Any],
        who: Who,
        jid: str = "",
        exact: bool = False,
        own: bool = False,
        again: bool = False,
        judged: Selection | None = None,
    ) -> dict[str, Any]:
        """
        Publish one job.

        @param load: Salt's publish load: C{tgt tgt_type fun arg ret jid kwargs}. The caller has
            chosen its jid, so it is checked.
        @param jid: one of L{new_jid} for which the caller already listens.
        @param exact: whether a minion calls: the target is read without wildcards for pillar
            values.
        @param own: whether this is a question of this master itself, which is allowed even when it
            accepts no more jobs.
        @param again: whether it had begun before the start; minions that connect a little later get
            it too.
        @param judged: the minions by which rules allowed it: it goes out as a list of them, on this
            node and on others, and is on record so. C{None}: whoever reads the target says whom it
            means.
        @return: C{{jid, minions, missing}}; C{jid} is C{None}, with an C{error}, if nothing
            matched. C{late} are those of the minions that have yet to connect, after a start or
            their acceptance, and get it then.
        @raises RemoteError: the target or function is missing or too large, the jid is invalid, the
            node group does not exist, or this master accepts no more jobs.
        @raises DeniedError: the jid belongs to another job, or the target would guess pillar
            values.
        """
        ground = self._ground
        self._see_whether_open(own)
        kwargs: Mapping[str, Any] = load.get("kwargs") or {}
        tgt_type = str(load.get("tgt_type") or "glob")
        tgt = _target(load)
        delimiter = delimiter_of(load)
        check_size(load)
        chosen = "" if jid else judged_jid(load.get("jid"))
        groups = ground.config.nodegroups or {}
        if exact and guesses_pillar(tgt, tgt_type, groups):
            ground.counters["denied:pillar-guess"] += 1
            raise DeniedError(f"{who} may not target by pillar with wildcards")
        selection = judged
        if selection is None:
            selection = await self.targets.find(tgt, tgt_type, delimiter, exact=exact)
        # It may have begun to hand over what it has while the minions were being found
        self._see_whether_open(own)
        try:
            by_pillar = exact and pillar_words(tgt, tgt_type, groups)
            tgt, tgt_type = unfold(tgt, tgt_type, groups)
        except TargetError as error:
            conf_file = f"{ground.config.config_dir}/master"
            reason = error.reason.replace("the master config file", conf_file)
            raise RemoteError("SaltInvocationError", reason) from None
        minions: Sequence[str] = selection.minions
        if not minions:
            reason = f"Master could not resolve minions for target {load['tgt']}"
            if selection.missing:
                reason = "No minions matched the target."
            # Not to minions: it may name groups of the configuration
            problems = [] if exact else list(selection.problems[:MOST_PROBLEMS])
            return {"jid": None, "minions": [], "error": reason, "problems": problems}
        if by_pillar or judged is not None:
            # Minions would read the words themselves: pillar not exactly, and any expression by the
            # rules of their own release, which need not be those by which it was judged
            tgt, tgt_type = list(minions), "list"
        whole = await self.chosen.part(chosen, load, who) if chosen else None
        jid = jid or chosen or self.new_jid()
        job = self._job_map(load, kwargs, tgt, tgt_type, delimiter, jid, who.name)
        older = await _on_earlier(ground, jid, job["fun"], kwargs, minions)
        if not kwargs.get("nocache"):
            await self._record(job, who, kwargs, minions, whole)
        late = [] if own else await self.latecomers.missing(job, minions)
        if again:
            await self.latecomers.expect(job, minions)
        elif late:
            self.latecomers.first(job, late)
        ground.bus.fire(f"salt/job/{jid}/new", _announced(job, who, minions, selection.missing))
        ground.publisher.publish(job, minions)
        ground.seams.pins.published(jid, minions)
        # Other masters judge by it whose job it is; no minion gets it
        heard = {**job, EAUTH: who.backend}
        # The first part under a chosen jid may have gone out long ago
        ground.seams.hearer.job_published(heard, minions, None if whole is None else ground.now())
        answer = {"jid": jid, "minions": list(minions), "missing": list(selection.missing)}
        if late:
            answer["late"] = late
        return {**answer, "older": list(older)} if older else answer

    async def _question(self, load: Mapping[str, Any], jid: str) -> None:
        """Ask minions about a job, for this master itself."""
        await self.publish(load, local(self._ground.config.user), jid, own=True)

    async def publish_rest(
        self,
        load: Mapping[str, Any],
        who: Who,
        jid: str = "",
        exact: bool = False,
        own: bool = False,
        goes_out: bool = True,
        again: bool = False,
        judged: Selection | None = None,
    ) -> dict[str, Any]:
        """
        Like L{publish}, for a job that may have been published before under the jid of its load, on
        this node or another: the minions for which it was published, which were C{told}, do not get
        it again. The answer also has what they have C{returned}. It exists even if the job is
        published C{again}, because its minions must be given time.

        @param goes_out: whether the others get it; otherwise the whole list was published before,
            even if there is no record of that here.
        @raises DeniedError: the jid belongs to another job.
        """
        chosen = "" if jid else judged_jid(load.get("jid"))
        if chosen and not goes_out:
            return await self._published(chosen, list(load["tgt"]), list(load["tgt"]))
        job = await self._ground.jobs.job(chosen) if chosen else None
        if job is None or job.get("claimed"):
            published = await self.publish(load, who, jid, exact, own, again, judged)
            return {**published, "returned": {}} if again else published
        # It judges whose the jid is as well
        minions = list((await self.chosen.part(chosen, load, who)).minions)
        more: list[str] = []
        if load.get("tgt_type") == "list":
            wanted = load["tgt"] if isinstance(load["tgt"], list) else load["tgt"].split(",")
            before, named = set(minions), set(wanted)
            more = [name for name in wanted if name not in before]
            minions = [name for name in minions if name in named]
        told = list(minions)
        if more:
            rest = await self.publish({**load, "tgt": more}, who, jid, exact, own, again)
            if not minions:
                return {**rest, "returned": {}} if again else rest
            minions += rest["minions"]
        return await self._published(chosen, minions, told)

    async def _published(self, jid: str, minions: list[str], told: list[str]) -> dict[str, Any]:
        """A job that these minions have, as who publishes one is answered."""
        stored = await self._ground.jobs.returns(jid)
        returned = {name: stored[name] for name in minions if name in stored}
        return {
            "jid": jid,
            "minions": minions,
            "missing": [],
            "returned": returned,
            "told": told,
        }

    async def _record(
        self,
        job: Mapping[str, Any],
        who: Who,
        kwargs: Mapping[str, Any],
        minions: Sequence[str],
        whole: JobInParts | None,
    ) -> None:
        """
        Have the job on disk.

        @param whole: what the job is a part of, if its jid was the caller's choice.
        """
        ground, jid = self._ground, job["jid"]
        facts = ground.seams.pins.facts(jid, job["fun"])
        asked = origin(who, ground.node)
        record = {**told(job), **who.facts(), "kwargs": _plain(kwargs), **facts, **asked}
        if whole is None:
            await ground.jobs.save_job(jid, record, list(minions))
        else:
            record[BEGUN] = whole.begun
            await ground.jobs.save_job(jid, record, whole.join(minions), chosen=True)

    def _job_map(
        self,
        load: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        tgt: Any,
        tgt_type: str,
        delimiter: str,
        jid: str,
        user: str,
    ) -> dict[str, Any]:
        fun = load["fun"]
        if isinstance(fun, str) and "," in fun:
            fun = fun.split(",")
        job: dict[str, Any] = {
            "fun": fun,
            "arg": list(load.get("arg") or []),
            "tgt": tgt,
            "jid": jid,
            "ret": load.get("ret") or "",
            "tgt_type": tgt_type,
            "user": user,
        }
        for name in OPTIONAL_KWARGS:
            if kwargs.get(name) is not None:
                job[name] = kwargs[name]
        if delimiter != ":":
            job["delimiter"] = delimiter
        if load.get("id"):
            job["id"] = load["id"]
        return job

    # -- jobs that minions publish -----------------------------------------------------

    def remember_issuer(self, jid: str, minion_id: str) -> None:
        """This job was published for a minion, which alone may ask for its returns."""
        self._issuers[jid] = minion_id
        while len(self._issuers) > ISSUERS:
            self._issuers.popitem(last=False)

    def issuer(self, jid: str) -> str | None:
        """The minion that a job was published for, if any."""
        return self._issuers.get(jid)

    # -- jobs that somebody waits for --------------------------------------------------

    def run(
        self,
        load: Mapping[str, Any],
        who: Who,
        timeout: Any = None,
        gather_job_timeout: Any = None,
        exact: bool = False,
        own: bool = False,
        publish: str = "all",
        again: bool = False,
        judged: Selection | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """
        Publish a job and follow it to its end.

        @param exact: as for L{publish}; so are C{own}, C{again} and C{judged}.
        @param publish: C{rest}: as L{publish_rest} does; C{none}: as L{publish_rest} does when
            nothing is published.
        @param timeout: seconds until silent minions are asked whether they still run it.
        @param gather_job_timeout: seconds that they have to answer.
        @return: items C{published}, C{return} as they arrive, and C{missing} at the end.
        """
        config = self._ground.config
        ways: dict[str, Any] = {
            "all": self.publish,
            "rest": self.publish_rest,
            "none": partial(self.publish_rest, goes_out=False),
        }
        way = partial(ways[publish], exact=exact, own=own, again=again)
        return AwaitedJob(
            self._ground,
            partial(way, judged=judged),
            way,
            self.new_jid,
            dict(load),
            who,
            seconds_of(timeout, config.timeout),
            seconds_of(gather_job_timeout, config.gather_job_timeout),
        ).items()

    # -- the bus, and messages of our own ----------------------------------------------

    async def stream_events(
        self, args: Mapping[str, Any], stream: Callable[[Any], Awaitable[None] | None]
    ) -> None:
        """Send every event whose tag begins with one of C{tags}, until the caller goes away."""
        prefixes: Sequence[str] = args.get("tags") or [""]
        if len(prefixes) > MOST_TAGS:
            raise RemoteError("SaltInvocationError", f"events: more than {MOST_TAGS} tags")
        for_ever: Deferred[None] = Deferred()

        def receive(tag: str, data: Mapping[str, Any]) -> None:
            stream(self._item(tag, data))

        each = dict.fromkeys(map(str, prefixes))
        stops = [self._ground.bus.subscribe(prefix, receive) for prefix in each]
        try:
            stream({"tag": "", "data": {}, "ready": True})
            await for_ever
        finally:
            for stop in stops:
                stop()

    def _item(self, tag: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """An event for those who listen: the same object for all, so that it is packed once."""
        if self._told["tag"] != tag or self._told["data"] is not data:
            self._told = {"tag": tag, "data": data}
        return self._told

    async def ask_running(
        self, minions: Collection[str], answered: Callable[[str, Collection[str]], None]
    ) -> None:
        """
        Ask minions what they run, even when this master accepts no more jobs.

        @param answered: called with each minion that answers, and the jids of the jobs that it
            runs.
        """
        load = {"tgt": sorted(minions), "tgt_type": "list", "fun": "saltutil.running", "arg": []}
        async for item in self.run(load, local(self._ground.config.user), own=True):
            found = item["data"].get("return") if item["kind"] == "return" else None
            if isinstance(found, list) and not item["data"].get("retcode"):
                jids: set[str] = set()
                async for job in in_turns(self._ground.clock, found):
                    if isinstance(job, Mapping) and is_jid(jid := _jid_in(job)):
                        jids.add(jid)
                answered(item["id"], jids)

    def announce_next_key(self) -> None:
        """Tell our own minions to fetch the next publish key; stock ones are not addressed."""
        self._ground.publisher.publish(
            {
                "fun": REKEY,
                "arg": [],
                "tgt": [],
                "tgt_type": "list",
                "jid": self.new_jid(),
                "ret": "",
                "user": "",
            },
            None,
        )

    def ping_all(self) -> None:
        """C{ping_on_rotate}: make every minion sign in again now rather than at the next job."""
        load = {"tgt": "*", "fun": "test.ping", "arg": []}
        let_go(
            self.publish(load, local(self._ground.config.user)), self.log, "ping_on_rotate failed"
        )


async def _on_earlier(
    ground: Ground, jid: str, fun: object, kwargs: Mapping[str, Any], minions: Sequence[str]
) -> Sequence[str]:
    """
    Have a job run on an earlier tree, if somebody wants that or the run does of which it is a step.

    @return: those of its minions that are served for an older job until this has returned.
    @raises RemoteError: it cannot. That is no matter of rights.
    """
    wanted, pins = kwargs.get(GENERATION), ground.seams.pins
    if not wanted and not OF_RUN.get():
        return ()
    try:
        if wanted:
            return await pins.choose(jid, fun, str(wanted), minions)
        await pins.follow(jid, fun, OF_RUN.get())
    except DeniedError as error:
        raise RemoteError("SaltInvocationError", str(error)) from None
    return ()


def _jid_in(job: Mapping[str, Any]) -> Any:
    """The jid of a job that a minion says it runs; some say numbers."""
    jid = job.get("jid")
    return str(jid) if type(jid) is int else jid


def _target(load: Mapping[str, Any]) -> Any:
    if "tgt" not in load or not load.get("fun"):
        raise RemoteError("SaltInvocationError", "a job needs a target and a function")
    return load["tgt"]


def _announced(
    job: Mapping[str, Any], who: Who, minions: Iterable[str], missing: Iterable[str]
) -> dict[str, Any]:
    """What the event of a new job says."""
    shown = told(job)
    said = {name: shown[name] for name in ("jid", "tgt_type", "tgt", "user", "fun", "arg")}
    return {**said, **who.facts(), "minions": list(minions), "missing": list(missing)}


def _plain(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What of the caller's kwargs may be kept in the job record: never credentials."""
    secret = ("password", "token", "key", "username", "eauth", "auth_list")
    return {k: v for k, v in kwargs.items() if k not in secret}
