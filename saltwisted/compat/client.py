"""
C{salt.client}: jobs from a script or a runner on the master's machine.

The clients ask the master by its control socket, with the rights of the user who runs the script;
so its C{publisher_acl} holds, and root may do everything. Nothing is read from the master's
directories. Answers have stock's shapes: minions that do not answer are not in them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from saltwisted.compat import exceptions
from saltwisted.domain.arguments import in_one_list
from saltwisted.domain.batches import batch_size
from saltwisted.domain.jid import is_jid
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError, SaltInvocationError

MASTER = "/etc/salt/master"
_SILENT = (
    "Minion did not return. [No response]\nThe minions may not have all finished running and any"
    " remaining minions will return upon completion. To look up the return data for this job"
    " later, run the following command:\n\nsalt-run jobs.lookup_jid {}"
)
_PROOF = ("eauth", "username", "password", "token")
_PAUSE = 0.2
"""Seconds between two looks at a job that somebody else has published."""


def get_local_client(
    c_path: str = MASTER, mopts: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any
) -> LocalClient:
    """A client for the master of a configuration file, or of options that were read already."""
    return LocalClient(c_path, mopts)


@contextmanager
def refusals() -> Iterator[None]:
    """What a master refuses, as the exceptions that scripts know."""
    try:
        yield
    except TransportClosed as error:
        raise SaltClientError(
            "Salt request timed out. The master is not responding. Is it running on this machine?"
        ) from error
    except RemoteError as error:
        kind = getattr(exceptions, error.name, SaltClientError)
        raise kind(error.message) from error


def connected(opts: Mapping[str, Any]) -> ControlClient:
    """A connection to the master of these options; it is made at the first question."""
    return ControlClient(path=os.path.join(str(opts["sock_dir"]), "saltwisted.sock"))


def arguments(arg: Any, kwarg: Any) -> list[Any]:
    """What a function is called with, in one list."""
    found = [arg] if isinstance(arg, str) or not isinstance(arg, Iterable) else list(arg)
    texts = [str(each) if type(each) is int and is_jid(str(each)) else each for each in found]
    return in_one_list(texts, kwarg or {})


class LocalClient:
    """
    Publishes jobs and gives their returns.

    @param c_path: the master's configuration file.
    @param mopts: its options, if they were read already.
    """

    def __init__(
        self,
        c_path: str = MASTER,
        mopts: Mapping[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if mopts is None:
            from saltwisted.compat.config import client_config

            mopts = client_config(c_path)
        self.opts = dict(mopts)

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *args: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Nothing is left open between two calls."""

    def _load(
        self, tgt: Any, fun: Any, arg: Any, tgt_type: str, ret: str, jid: str, kwarg: Any, more: Any
    ) -> dict[str, Any]:
        several = isinstance(fun, (list, tuple)) or (isinstance(fun, str) and "," in fun)
        names = fun.split(",") if several and isinstance(fun, str) else fun
        return {
            "tgt": tgt,
            "tgt_type": tgt_type,
            "fun": list(names) if several else fun,
            "arg": [arguments(each, None) for each in arg] if several else arguments(arg, kwarg),
            "ret": ret,
            "jid": jid,
            "kwargs": {"delimiter": ":", **more},
            "user": "",
        }

    def run_job(
        self,
        tgt: Any,
        fun: Any,
        arg: Any = (),
        tgt_type: str = "glob",
        ret: str = "",
        timeout: float | None = None,
        jid: str = "",
        kwarg: Any = None,
        listen: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """
        Publish, and do not wait.

        @return: C{{"jid": ..., "minions": [...]}}; empty when the target means nobody.
        @raises SaltClientError: no master answers.
        @raises AuthorizationError: the user may not.
        """
        load = self._load(tgt, fun, arg, tgt_type, ret, jid, kwarg, kwargs)
        with refusals(), closing(connected(self.opts)) as client:
            answer = client.call("publish", **load)
        if not answer.get("minions"):
            return {}
        return {"jid": answer["jid"], "minions": list(answer["minions"])}

    def cmd_async(
        self,
        tgt: Any,
        fun: Any,
        arg: Any = (),
        tgt_type: str = "glob",
        ret: str = "",
        jid: str = "",
        kwarg: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Publish, and do not wait: the job's id, or 0 when the target means nobody."""
        job = self.run_job(tgt, fun, arg, tgt_type, ret, None, jid, kwarg, **kwargs)
        return job.get("jid", 0)

    def cmd_iter(
        self,
        tgt: Any,
        fun: Any,
        arg: Any = (),
        timeout: float | None = None,
        tgt_type: str = "glob",
        ret: str = "",
        kwarg: Any = None,
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """
        Each minion's return as it comes: C{{id: {"ret": ..., "retcode": ..., "jid": ...}}}.

        Ids of a list that the master does not know are among them at the end, with a text that
        says so, as in stock.
        """
        yield from self._answers(
            self._load(tgt, fun, arg, tgt_type, ret, "", kwarg, kwargs), timeout
        )

    def _answers(self, load: dict[str, Any], timeout: float | None) -> Iterator[dict[str, Any]]:
        """Publish, and give the answers; C{load} has the job's id then."""
        waits = {
            "timeout": timeout or self.opts["timeout"],
            "gather_job_timeout": self.opts["gather_job_timeout"],
        }
        unknown: list[str] = []
        job = ""
        with refusals(), closing(connected(self.opts)) as client:
            for item in client.stream("run", **load, **waits, full=True):
                if item["kind"] == "return":
                    yield {item["id"]: _full(item["data"])}
                elif item["kind"] == "published":
                    unknown = sorted(item.get("missing") or ())
                    load["jid"] = job = item["jid"]
        for name in unknown:
            yield {name: {"out": "no_return", "ret": _SILENT.format(job)}}

    def cmd_iter_no_block(
        self, tgt: Any, fun: Any, *args: Any, **kwargs: Any
    ) -> Iterator[dict[str, Any] | None]:
        """As L{cmd_iter}. Where stock yields C{None} while nothing comes, this waits."""
        yield from self.cmd_iter(tgt, fun, *args, **kwargs)

    def cmd_cli(
        self, tgt: Any, fun: Any, *args: Any, **kwargs: Any
    ) -> Iterator[dict[str, dict[str, Any]]]:
        """As L{cmd_iter}."""
        for name in ("verbose", "progress"):
            kwargs.pop(name, None)
        yield from self.cmd_iter(tgt, fun, *args, **kwargs)

    def cmd(
        self,
        tgt: Any,
        fun: Any,
        arg: Any = (),
        timeout: float | None = None,
        tgt_type: str = "glob",
        ret: str = "",
        jid: str = "",
        full_return: bool = False,
        kwarg: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """
        Publish, wait, and give all returns: ids to values.

        @param full_return: with the return codes: ids to C{{"ret": ..., "retcode": ...}}.
        """
        found: dict[str, Any] = {}
        load = self._load(tgt, fun, arg, tgt_type, ret, jid, kwarg, kwargs)
        for each in self._answers(load, timeout):
            found.update(each)
        return found if full_return else {name: item["ret"] for name, item in found.items()}

    def cmd_full_return(self, tgt: Any, fun: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As L{cmd}, with the return codes."""
        kwargs.pop("verbose", None)
        found: dict[str, Any] = {}
        for each in self.cmd_iter(tgt, fun, *args, **kwargs):
            found.update(each)
        return found

    def cmd_subset(
        self,
        tgt: Any,
        fun: str,
        arg: Any = (),
        tgt_type: str = "glob",
        ret: str = "",
        kwarg: Any = None,
        subset: int = 3,
        cli: bool = False,
        progress: bool = False,
        full_return: bool = False,
        **kwargs: Any,
    ) -> Any:
        """
        As L{cmd}, for a few minions, chosen by chance among those that have the function.

        @param subset: how many; C{sub}, its older name, counts more.
        """
        subset = kwargs.pop("sub", subset)
        having = [
            name
            for name, functions in self.cmd(tgt, "sys.list_functions", tgt_type=tgt_type).items()
            if isinstance(functions, list) and fun in functions
        ]
        random.SystemRandom().shuffle(having)
        chosen = having[: int(subset)]
        if cli:
            return self.cmd_iter(chosen, fun, arg, None, "list", ret, kwarg, **kwargs)
        return self.cmd(chosen, fun, arg, None, "list", ret, "", full_return, kwarg=kwarg, **kwargs)

    def cmd_batch(
        self,
        tgt: Any,
        fun: Any,
        arg: Any = (),
        tgt_type: str = "glob",
        ret: str = "",
        kwarg: Any = None,
        batch: Any = "10%",
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """
        As L{cmd}, for so many minions at a time that answer to C{test.ping}, under one job id:
        C{{id: value}} for each as it comes, and C{{id: {}}} for one that does not return.

        @param batch: a number, or a share in percent. C{failhard}: begin no further part after a
            failure; C{batch_wait}: seconds between two parts; C{raw}: with the return codes.
        @raises SaltInvocationError: C{batch} is none.
        """
        hard = kwargs.pop("failhard", self.opts.get("failhard", False))
        wait, raw = float(kwargs.pop("batch_wait", 0) or 0), kwargs.pop("raw", False)
        timeout = kwargs.pop("timeout", None)
        proof = {key: kwargs[key] for key in _PROOF if key in kwargs}
        there = list(self.cmd(tgt, "test.ping", (), timeout, tgt_type, **proof))
        try:
            size = batch_size(batch, len(there))
        except ValueError as error:
            raise SaltInvocationError(f"Invalid batch size: {error}") from error
        load = self._load(there, fun, arg, "list", ret, "", kwarg, kwargs)
        for first in range(0, len(there), max(1, size)):
            if first and wait:
                time.sleep(wait)
            silent = dict.fromkeys(there[first : first + max(1, size)])
            load["tgt"], failed = list(silent), False
            for answer in self._answers(load, timeout):
                for name, item in answer.items():
                    silent.pop(name, None)
                    failed = failed or bool(item.get("retcode", 1))
                    yield {name: item if raw else item["ret"]}
            for name in silent:
                yield {name: {}}
            if hard and (failed or silent):
                return

    def pub(
        self,
        tgt: Any,
        fun: Any,
        arg: Any = (),
        tgt_type: str = "glob",
        ret: str = "",
        jid: str = "",
        timeout: float | None = None,
        listen: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """
        As L{run_job}, with an empty list when the target means nobody.

        @return: C{{"jid": ..., "minions": [...]}}.
        """
        job = self.run_job(tgt, fun, arg, tgt_type, ret, timeout, jid, None, listen, **kwargs)
        return job or {"jid": "", "minions": []}

    def get_returns(
        self, jid: str, minions: Iterable[str], timeout: float | None = None
    ) -> dict[str, Any]:
        """What these minions have returned for a job within C{timeout} seconds: ids to values."""
        waiting = set(minions)
        end = time.monotonic() + float(timeout or self.opts["timeout"])
        while True:
            found = self.get_cache_returns(jid)
            if waiting <= found.keys() or time.monotonic() >= end:
                return {name: item["ret"] for name, item in found.items()}
            time.sleep(_PAUSE)

    def get_cli_event_returns(
        self,
        jid: str,
        minions: Iterable[str],
        timeout: float | None = None,
        tgt: Any = "*",
        tgt_type: str = "glob",
        verbose: bool = False,
        progress: bool = False,
        show_timeout: bool = False,
        show_jid: bool = False,
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """
        As L{get_cli_returns}, and a text for each minion that did not return.

        @param verbose: print the job's id; likewise C{show_jid}.
        @param progress: before each return, how many there are of how many.
        """
        waiting = dict.fromkeys(minions)
        expected = len(waiting)
        if verbose:
            text = f"Executing job with jid {jid}"
            print(f"{text}\n{'-' * len(text)}\n")  # noqa: T201
        elif show_jid:
            print(f"jid: {jid}")  # noqa: T201
        returned = self.get_cli_returns(jid, list(waiting), timeout)
        for count, answer in enumerate(returned, 1):
            if progress:
                yield {"minion_count": expected, "return_count": count}
            for name in answer:
                waiting.pop(name, None)
            yield answer
        for name in waiting:
            yield {name: {"out": "no_return", "ret": _SILENT.format(jid), "retcode": 1}}

    def get_cli_returns(
        self,
        jid: str,
        minions: Iterable[str],
        timeout: float | None = None,
        tgt: Any = "*",
        tgt_type: str = "glob",
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """
        The returns of a job that was published already, as they come; at most for C{timeout}
        seconds after the last.
        """
        waiting = set(minions)
        patience = float(timeout or self.opts["timeout"])
        end = time.monotonic() + patience
        while waiting:
            for name, item in self.get_cache_returns(jid).items():
                if name in waiting:
                    waiting.discard(name)
                    end = time.monotonic() + patience
                    yield {name: item}
            if time.monotonic() >= end:
                return
            if waiting:
                time.sleep(_PAUSE)

    def get_iter_returns(
        self, jid: str, minions: Iterable[str], timeout: float | None = None, **kwargs: Any
    ) -> Iterator[dict[str, Any]]:
        """As L{get_cli_returns}."""
        yield from self.get_cli_returns(jid, minions, timeout)

    def get_cache_returns(self, jid: str) -> dict[str, Any]:
        """
        The returns of a job so far: ids to C{{"ret": ...}}.

        @raises AuthorizationError: who is not root asks for a job that he has not published.
        """
        with refusals(), closing(connected(self.opts)) as client:
            found = client.call("returns", jid=str(jid))
        return {name: _full(item) for name, item in found.items()}

    def get_full_returns(
        self, jid: str, minions: Iterable[str], timeout: float | None = None
    ) -> dict[str, Any]:
        """The returns of a job, all together."""
        found: dict[str, Any] = {}
        for each in self.get_cli_returns(jid, minions, timeout):
            found.update(each)
        return found


def _full(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {"ret": data.get("return", data.get("ret"))}
    found.update((key, data[key]) for key in ("retcode", "out", "jid") if key in data)
    return found


class Caller:
    """
    Functions of this machine's minion, in this process (stock's C{salt-call}).

    What the master has, such as files and the pillar, is asked of the minion that runs here, by
    its control socket; with C{file_client: local} nobody is asked.

    @param c_path: the minion's configuration file.
    @param mopts: its options, if they were read already.
    """

    def __init__(
        self, c_path: str = "/etc/salt/minion", mopts: Mapping[str, Any] | None = None
    ) -> None:
        from saltwisted.compat.config import minion_config
        from saltwisted.worker.pillar.here import Here

        opts = dict(minion_config(c_path) if mopts is None else mopts)
        self.opts = opts
        alone = opts.get("file_client") == "local" or opts.get("master_type") == "disable"
        self._functions = Here(opts, None if alone else connected(opts)).loaders.called

    def cmd(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        """
        Call a function.

        @raises KeyError: there is none of this name.
        @raises SaltClientError: it needs the master, and no minion runs here, or the user is
            neither root nor the minion's own.
        """
        from saltwisted.worker.masking import answering

        with answering(fun):
            return self._functions[fun](*args, **kwargs)

    def function(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        """As L{cmd}, with words such as C{"a=1"} and C{"[1, 2]"} as arguments, as in a shell."""
        from saltwisted.domain.arguments import keyword_of, yamlify
        from saltwisted.worker.process.call import split_arguments

        words = [
            yamlify(each) if isinstance(each, str) and keyword_of(each) is None else each
            for each in args
        ]
        given, named = split_arguments(self._functions[fun], words)
        return self.cmd(fun, *given, **{**named, **kwargs})
