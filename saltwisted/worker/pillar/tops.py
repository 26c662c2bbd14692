"""
States that are assigned outside the top file: Salt's C{master_tops} with C{ext_nodes}.

A program is called with the minion's id and prints YAML, C{classes} (a list, or a map by
class) and perhaps C{environment}, as external node classifiers do. Blocking: it runs in a
worker process.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

from yaml import YAMLError

from saltwisted.domain.render.yaml import safe_load

log = logging.getLogger(__name__)
SECONDS = 60


def master_tops(opts: Mapping[str, Any], minion_id: str) -> dict[str, list[str]]:
    """
    Environment to SLS names, from every configured source.

    A source that fails is logged and assigns nothing, as in Salt; one that is
    not known here is named in the log each time, so that nobody waits for it for ever.
    """
    found: dict[str, list[str]] = {}
    for name, setting in (opts.get("master_tops") or {}).items():
        if name != "ext_nodes":
            log.error("master_tops: %s is not supported, only ext_nodes is", name)
            continue
        for env, classes in _ext_nodes(str(setting), minion_id).items():
            found.setdefault(env, []).extend(c for c in classes if c not in found.get(env, []))
    return found


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
