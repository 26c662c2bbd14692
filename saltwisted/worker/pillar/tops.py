"""
States that are assigned outside the top file: Salt's C{master_tops}.

C{ext_nodes} is here: it calls a program with the minion's id, which prints YAML with C{classes} (a
list, or a map by class) and possibly C{environment}, as external node classifiers do. All others
are the site's own: functions C{top} of modules from C{_tops}, C{top_dirs} or C{module_dirs}.
Blocking: it runs in a worker process.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from yaml import YAMLError

from saltwisted.domain.render.tree import merge
from saltwisted.domain.render.yaml import safe_load
from saltwisted.worker.process.loader import Loaders

log = logging.getLogger(__name__)
SECONDS = 60


def master_tops(
    opts: Mapping[str, Any], minion_id: str, minion_opts: Mapping[str, Any] | None = None
) -> dict[Any, Any]:
    """
    Environment to SLS names, from every configured source, in order.

    A source that fails is logged and assigns nothing, as in Salt; one that is
    not known here is named in the log each time, so that nobody waits for it for ever.

    @param minion_opts: what the minion says of its options, its grains among them. Its id is not
        taken from there.
    """
    found: dict[Any, Any] = {}
    modules: Any = None
    theirs = {**(minion_opts or {}), "id": minion_id}
    for name, setting in (opts.get("master_tops") or {}).items():
        if modules is None:
            modules = Loaders(opts, grains={}, pillar={}, stock=False)["tops"]
        function = modules.get(f"{name}.top")
        if function is None and name == "ext_nodes":
            answer: Any = _ext_nodes(str(setting), minion_id)
        elif function is None:
            why = modules.missing_modules.get(name, "there is no module of this name in _tops")
            log.error("master_tops: %s is not used: %s", name, why)
            continue
        else:
            answer = _site_top(name, function, theirs)
        if isinstance(answer, Mapping):
            found = dict(merge(found, answer, lists=True))
        elif answer is not None:
            log.error("master_tops: %s gave %s instead of a map", name, type(answer).__name__)
    return {env: _once(names) for env, names in found.items()}


def _site_top(name: str, function: Callable[..., Any], theirs: Mapping[str, Any]) -> Any:
    try:
        return function(opts=theirs, grains=theirs.get("grains") or {})
    except (Exception, SystemExit) as error:
        log.error(
            "Top function %s (%s) failed with error %s for minion %s",
            name,
            function.__code__.co_filename,
            str(error) or type(error).__name__,
            theirs["id"],
        )
        return None


def _once(names: Any) -> Any:
    """A list in which nothing is twice."""
    if not isinstance(names, list):
        return names
    return [name for at, name in enumerate(names) if name not in names[:at]]


def _ext_nodes(command: str, minion_id: str) -> dict[str, list[str]]:
    words = [*shlex.split(command), minion_id]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
        data = safe_load(done.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired, YAMLError, ValueError) as error:
        log.error("ext_nodes %s for %s: %s", words[0], minion_id, error)
        return {}
    if not isinstance(data, Mapping):
        return {}
    classes = data.get("classes")
    if not isinstance(classes, (Mapping, list)):
        return {}
    return {str(data.get("environment", "base")): [str(c) for c in classes]}
