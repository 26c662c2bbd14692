"""
Runs of C{apt-get} and its kin for the module C{pkg}: how they are called, and fresh lists.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from saltwisted.modules import _data, _packages, _systemd
from saltwisted.modules._injected import Injected
from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
)

log = logging.getLogger(__name__)

APT_LISTS_PATH = "/var/lib/apt/lists"

DPKG_ENV_VARS = {
    "APT_LISTBUGS_FRONTEND": "none",
    "APT_LISTCHANGES_FRONTEND": "none",
    "DEBIAN_FRONTEND": "noninteractive",
    "UCF_FORCE_CONFFOLD": "1",
}
"""Nothing that runs below apt may ask."""

_sleep = time.sleep


def as_map(env: Any) -> dict[str, Any]:
    """An environment given as a map, or as a list of maps."""
    if isinstance(env, dict):
        return env
    return _data.repack_dictlist(env) if isinstance(env, list) else {}


@frozen(eq=False)
class Apt(Injected):
    """
    Apt as the functions of a module call it.

    @ivar pillar: gives the pillar, which the loader puts only where a module's own code has it.
    """

    pillar: Callable[[], Any]

    def call(self, args: Iterable[Any], scope: bool = True, **kwargs: Any) -> dict[str, Any]:
        """
        Run C{apt-get} or one of its kin; waits up to half an hour for the lock of another one.

        @param scope: put it into a systemd scope, so that it survives a restart of the minion.
        """
        salt = self.salt
        command: list[Any] = []
        has_scope = scope and _systemd.has_scope(self.context)
        if has_scope and salt["config.get"]("systemd.scope", True):
            command += ["systemd-run", "--scope", "--description", f'"{self.space["__name__"]}"']
        command += args
        given = kwargs.pop("env", None)
        module = _packages.module_environment(self.opts, self.pillar(), ("pkg", "aptpkg"))
        params: dict[str, Any] = {
            "output_loglevel": "trace",
            "python_shell": False,
            "env": {**DPKG_ENV_VARS, **module, **as_map(given)},
            **kwargs,
        }
        done: dict[str, Any] = salt["cmd.run_all"](command, **params)
        tries = 0
        while "Could not get lock" in done.get("stderr", "") and tries < 10:
            tries += 1
            log.warning("Waiting for dpkg lock release: retrying... %s/100", tries)
            _sleep(2**tries)
            done = salt["cmd.run_all"](command, **params)
        return done

    def refresh(
        self, cache_valid_time: Any = 0, failhard: Any = False, **kwargs: Any
    ) -> dict[str, bool | None]:
        """Fetch the package lists, as C{pkg.refresh_db} says."""
        _packages.clear_rtag(self.opts)
        if cache_valid_time:
            try:
                if os.stat(APT_LISTS_PATH).st_mtime + cache_valid_time > time.time():
                    return {}
            except (OSError, TypeError) as error:
                log.warning("Cannot determine the age of the package lists: %s", error)
        timeout = kwargs.get("timeout", self.opts.get("aptpkg_refresh_db_timeout", 30))
        done = self.call(["apt-get", "-q", "update"], scope=False, timeout=timeout)
        if "Timed out" in done["stdout"]:
            self.call(["apt-get", "-q", "clean"], scope=False)
            done = self.call(["apt-get", "-q", "update"], scope=False)
        if done["retcode"] != 0:
            raise CommandExecutionError(done.get("stderr", ""))
        found: dict[str, bool | None] = {}
        failed = []
        for line in done["stdout"].splitlines():
            first, _blank, ident = " ".join(line.split()).partition(" ")
            if "Get" in first:
                found[re.sub(r" \[.+B\]$", "", ident)] = True
            elif "Ign" in first:
                found[ident] = False
            elif "Hit" in first:
                found[ident] = None
            elif "Err" in first:
                found[ident] = False
                failed.append(ident)
        if failed and systools.is_true(failhard):
            raise CommandExecutionError(f"Error getting repos: {', '.join(failed)}")
        return found
