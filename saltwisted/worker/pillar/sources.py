"""
External pillars that are short: commands, minion data, git, gpg and node groups.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from saltwisted.domain.render.yaml import safe_load
from saltwisted.domain.render.yamlex import load_yamlex
from saltwisted.worker.pillar.host import PillarHost

log = logging.getLogger(__name__)


# -- commands ----------------------------------------------------------------------

_HARMLESS = re.compile(r"[\w@%+=:,.][\w@%+=:,.-]*")
"""
Ids that are one plain word to every shell, quoted or not, and no option of a program.

An id may have other characters, and chooses them itself. Quoting it here would not do: the
operator's line may have C{%s} in quotes of its own, or in a line within a line.
"""


_STDERR = 500
"""Characters of a command's standard error that the log shows."""


def _command(
    sources: PillarHost, parse: Callable[[str], Any], form: str, by_shell: bool
) -> Callable[..., Any]:
    """
    @param form: what the command writes, as C{YAML}.
    @param by_shell: with a shell, and without its standard error.
    """

    def ext_pillar(minion_id: str, pillar: Any, command: str) -> Any:
        """Run a command; C{%s} in it is the minion's id. Output that cannot be read is nothing."""
        sources.host.volatile.add("command")
        name = f"cmd_{form.lower()}"

        def wrong(why: str, more: str = "") -> None:
            sources.failing.append(f"ext_pillar {name}: {why}")
            log.critical("ext_pillar %s for %s: %s%s", name, minion_id, why, more)

        if "%s" in command and _HARMLESS.fullmatch(minion_id) is None:
            log.critical(
                "ext_pillar command not run: a shell would interpret the minion id %r",
                minion_id,
            )
            return {}
        functions = sources.functions()
        line = command.replace("%s", minion_id)
        try:
            how: dict[str, Any] = {"python_shell": True} if by_shell else {"redirect_stderr": True}
            # The exit status is said below, with the minion and without what it wrote
            ran = functions["cmd.run_all"](line, ignore_retcode=True, **how)
        except Exception as error:
            wrong("the command could not be run", f": {error}")
            return {}
        retcode = ran.get("retcode")
        if retcode:
            said = str(ran.get("stderr") or "").strip()[:_STDERR]
            wrong(f"the command ended with {retcode}", f": {said}" if said else "")
        try:
            return parse(str(ran.get("stdout", "")))
        except Exception as error:
            # The output may hold secrets, the error may quote it.
            if not retcode:
                wrong(f"what the command wrote is no {form} ({type(error).__name__})")
            return {}

    return ext_pillar


def cmd_json(sources: PillarHost) -> Callable[..., Any]:
    """A command that writes JSON."""
    return _command(sources, json.loads, "JSON", by_shell=False)


def cmd_yaml(sources: PillarHost) -> Callable[..., Any]:
    """A command that writes YAML."""
    return _command(sources, safe_load, "YAML", by_shell=True)


def cmd_yamlex(sources: PillarHost) -> Callable[..., Any]:
    """A command that writes yamlex."""
    return _command(sources, load_yamlex, "yamlex", by_shell=True)


# -- small ones ----------------------------------------------------------------------


def extra_minion_data_in_pillar(sources: PillarHost) -> Callable[..., Any]:
    """What the minion sends of its own configuration (C{pass_to_ext_pillars})."""

    def ext_pillar(minion_id: str, pillar: Any, include: Any, extra_minion_data: Any = None) -> Any:
        """C{include}: C{*}, C{<all>}, or keys as C{a:b}."""
        if not extra_minion_data:
            return {}
        if include in ("*", "<all>"):
            return extra_minion_data
        found: dict[str, Any] = {}
        for key in include:
            *above, last = key.split(":")
            source: Any = extra_minion_data
            made: dict[str, Any] = {}
            here = made
            for word in above:
                if word not in source:
                    break
                source = source[word]
                here = here.setdefault(word, {})
            else:
                if last in source:
                    here[last] = source[last]
                    found.update(made)
        return found

    return ext_pillar


def gpg(sources: PillarHost) -> Callable[..., Any]:
    """Decrypt what other sources brought."""

    def ext_pillar(minion_id: str, pillar: Any, *args: Any, **kwargs: Any) -> Any:
        """Arguments have no meaning."""
        from saltwisted.domain.render.secrets import gpg as decrypt

        return decrypt(pillar, sources.host)

    return ext_pillar


def nodegroups(sources: PillarHost) -> Callable[..., Any]:
    """The node groups that the minion is in."""

    def ext_pillar(minion_id: str, pillar: Any, pillar_name: str | None = None) -> Any:
        """C{pillar_name}: the key, C{nodegroups} by default."""
        return {pillar_name or "nodegroups": sources.groups()}

    return ext_pillar


def git(sources: PillarHost) -> Callable[..., Any]:
    """Branches of git repositories, each a pillar with a top file of its own."""

    def ext_pillar(minion_id: str, pillar: Any, *repos: Any) -> Any:
        """C{repos}: C{"branch url"}, or that as a key with parameters."""
        from saltwisted.worker.pillar.git import compile_branches

        assert sources.compile_roots is not None
        return compile_branches(
            sources.opts,
            list(repos),
            sources.saltenv,
            sources.pillarenv,
            sources.compile_roots,
            sources.host,
        )

    return ext_pillar
