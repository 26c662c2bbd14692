"""
A reactor worker: renders the SLS files that react to events.

The process is long-lived: compiled templates, parsed texts and loaded execution modules stay.
Templates see C{data} and C{tag}, and what stock's reactor provides: C{salt}, C{grains}, C{opts} of
the master, and no pillar. C{sender} is ours: the minion whose key sent the event. The contents of
an event are always plain values there. Files are checked again in each call, so that an edit
applies to the next event.

Calls are maps with C{do}:

 - C{react}: C{events}, a list of C{{"tag", "data", "sender", "sls": [[ref, saltenv], ...]}}; the
   answer has for each C{{"chunks": [...], "problems": [[sls, text], ...]}};
 - C{look}: C{sls}, a list of C{[ref, saltenv, sample]}; the answer has for each what
   L{Rendering.look} found;
 - C{map}: C{path}, a file with reactor entries; the answer is C{{"value"}} or C{{"error"}};
 - C{caller}: a function on the minion of the master's machine.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from yaml import YAMLError

from saltwisted.domain.reactions.compiling import compile_sls
from saltwisted.domain.reactions.looking import Finding, look
from saltwisted.domain.render.cache import RenderCache
from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.domain.render.yaml import safe_load
from saltwisted.worker.fileclient import FileClient, file_client
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.localcall import run_call
from saltwisted.worker.process.main import NoMaster
from saltwisted.worker.renderhost import RootsHost
from saltwisted.worker.servedfiles import served_by
from saltwisted.worker.servedhost import ServedHost
from saltwisted.worker.templates import written_renderer

log = logging.getLogger(__name__)

SHOWN = 2000
"""Characters of an error that are handed on."""
SALT = "salt://"
FOLDER = ("saltwisted", "read", "reactions")
"""Below C{cachedir}: where copies are of what the master serves."""


class Rendering:
    """
    What a worker process keeps between calls.

    @param opts: the master's Salt-shaped options.
    @param daemon: the socket to the master, which is asked for files if it serves more than
        directories.
    """

    def __init__(self, opts: Mapping[str, Any], daemon: Any = None) -> None:
        self._opts = {**opts, "file_client": "local"}
        served = served_by(daemon, opts)
        files = {**self._opts, "cachedir": os.path.join(str(opts["cachedir"]), *FOLDER)}
        loaders = Loaders(
            self._opts,
            grains=lambda: make_grains(self._opts),
            pillar={},
            master=None,
            fileclient=lambda: file_client(
                files if served else self._opts, NoMaster(), served=served
            ),
        )
        self._loaders = loaders
        of = (self._opts, lambda: loaders.modules, loaders.adopt_salt)
        self._host = (
            ServedHost(FileClient(files, served, local=True), *of)
            if served is not None
            else RootsHost(_roots(opts), *of)
        )
        self._renderer = Renderer(
            self._host,
            RenderSettings.of(opts),
            opts=loaders.opts,
            grains=loaders.grains,
            pillar={},
            functions=loaders.modules,
            cache=RenderCache(),
            custom=partial(written_renderer, loaders),
        )

    def react(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The calls that each event sets off."""
        self._host.forget()
        self._loaders.look_again()
        return [self._one(event) for event in events]

    def _one(self, event: Mapping[str, Any]) -> dict[str, Any]:
        problems: list[tuple[str, str]] = []
        rendered: list[tuple[str, Any]] = []
        for ref, saltenv in event["sls"]:
            paths = self.paths(ref, saltenv)
            if not paths:
                problems.append((ref, "File missing or not found."))
            for path in paths:
                try:
                    data = self.render(path, saltenv, event)
                except Exception as error:
                    problems.append((path, reason(error)))
                else:
                    rendered.append((path, data))
        try:
            chunks, wrong = compile_sls(rendered)
        except Exception as error:
            log.exception("reactions to an event could not be compiled")
            names = ", ".join(path for path, _ in rendered)
            chunks, wrong = [], [(names, reason(error))]
        return {"chunks": chunks, "problems": [list(each) for each in (*problems, *wrong)]}

    def paths(self, ref: str, saltenv: str) -> list[str]:
        """The files that one C{sls} of an entry means, sorted."""
        if not ref.startswith(SALT):
            return sorted(glob.glob(ref)) if glob.has_magic(ref) else [ref] * os.path.isfile(ref)
        path, _, query = ref[len(SALT) :].partition("?")
        for word in query.split("&"):
            name, _, value = word.partition("=")
            saltenv = value if name == "saltenv" and value else saltenv
        if glob.has_magic(path):
            return self._host.matching(path.lstrip("/"), saltenv)
        found = self._host.find(path, saltenv)
        return [] if found is None else [found]

    def render(self, path: str, saltenv: str, event: Mapping[str, Any]) -> Any:
        """What one SLS means for one event."""
        seen = {name: event.get(name, "") for name in ("tag", "data", "sender")}
        return self._renderer.file(path, saltenv, "", **seen)

    # -- looking, before there is an event ------------------------------------------------

    def look(self, wanted: Sequence[Sequence[Any]]) -> list[list[Finding]]:
        """For each SLS with its environment and sample, what can be said of it."""
        self._host.forget()
        self._loaders.look_again()
        return [self._look(ref, saltenv, sample) for ref, saltenv, sample in wanted]

    def _look(self, ref: str, saltenv: str, sample: Any) -> list[Finding]:
        paths = self.paths(ref, saltenv)
        if not paths:
            return [{"sls": ref, "problem": "File missing or not found."}]
        found: list[Finding] = []
        for path in paths:
            try:
                text = self._host.read(path).decode()
            except (OSError, ValueError) as error:
                found.append({"sls": path, "problem": reason(error)})
                continue
            if sample is None:
                wrong = self._renderer.jinja.mistake(text)
                found += [{"sls": path, **wrong}] if wrong else look(path, text)
                continue
            event = {"tag": sample["tag"], "data": sample["data"], "sls": [[path, saltenv]]}
            answer = self._one(event)
            found += [{"sls": sls, "problem": text} for sls, text in answer["problems"]]
            found += [{"sls": path, "chunk": chunk} for chunk in answer["chunks"]]
        return found


def _roots(opts: Mapping[str, Any]) -> dict[str, list[str]]:
    """C{file_roots}, each as a list of texts."""
    return {
        env: [str(path) for path in paths] for env, paths in (opts.get("file_roots") or {}).items()
    }


def reason(error: Exception) -> str:
    """An error in one text, with the line where it is known."""
    text = str(error) or type(error).__name__
    line = getattr(error, "line", None) if isinstance(error, TemplateFailure) else None
    if line and f"line {line}" not in text:
        text = f"{text}; line {line}"
    return text[:SHOWN]


def read_map(path: str) -> dict[str, Any]:
    """A file with reactor entries, as a value or with the error that it gives."""
    try:
        with open(path, encoding="utf-8") as stream:
            return {"value": safe_load(stream.read())}
    except (OSError, ValueError, YAMLError) as error:
        return {"error": reason(error)}


def call_minion(config_dir: str, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any]) -> Any:
    """
    A function on the minion beside this master, as C{salt-call --local} calls it.

    @raises FileNotFoundError: there is none.
    """
    path = os.path.join(config_dir, "minion")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no minion beside this master: {path} does not exist")
    config = load_from_disk("minion", config_dir).minion
    return run_call(config, fun, arg, kwarg)


_rendering: Rendering | None = None


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> Any:
    """
    The entry of a pooled worker process.

    @param facts: C{opts}, as they were when the process was forked.
    """
    global _rendering
    do = payload["do"]
    if do == "map":
        return read_map(str(payload["path"]))
    if _rendering is None:
        niceness = facts["opts"].get("reactor_niceness")
        if niceness:
            os.nice(int(niceness))
        _rendering = Rendering(facts["opts"], daemon)
    if do == "look":
        return _rendering.look(payload["sls"])
    return _rendering.react(payload["events"])


def serve_caller(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> Any:
    """The entry of the process that calls functions of the minion beside this master."""
    return call_minion(
        str(facts["opts"]["config_dir"]),
        str(payload["fun"]),
        payload.get("arg") or (),
        payload.get("kwarg") or {},
    )
