"""
C{token} and C{join}: how a machine comes into a cluster, as a master or as a minion.

Both ask the daemon on this machine, through its control socket. C{join} also works on a machine
whose daemon has never run: the token is then laid where it looks at its start.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saltwisted import advice
from saltwisted.cli import clusterask, console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.cli.progress import Waiting
from saltwisted.errors import RemoteError, StoreError, TransportClosed, WireError
from saltwisted.words import are, counted
from saltwisted.worker.control import ControlClient

if TYPE_CHECKING:
    from saltwisted.domain.replica.tokens import Token

EX_NOT_READY = 3
READY_TIME = 120.0
"""Seconds that C{join} waits for the node to serve, or to get on."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """
    C{30m}, C{2h}, C{1d}, or a number of seconds.

    @raises ValueError: anything else.
    """
    word = text.strip().lower()
    unit = UNITS.get(word[-1:], 0.0)
    return float(word[:-1]) * unit if unit else float(word)


# token


def _token_options(parser: Parser) -> None:
    parser.add_option(
        "--ttl", default="30m", help=("how long the token is valid (default: %default)")
    )
    parser.add_option(
        "--uses", type=int, default=1, help=("how often the token can be used (default: %default)")
    )
    parser.add_option(
        "--role",
        default="master",
        help=("who may join with it: master or minion (default: %default)"),
    )
    parser.add_option(
        "--id",
        default="",
        dest="pattern",
        metavar="PATTERN",
        help="only for nodes or minions whose names match (glob). Stock minions whose ids "
        "match a minion token are accepted without showing it",
    )
    parser.add_option(
        "--rights",
        default="all",
        metavar="WORDS",
        help="what a master that joins with it may do with the roots: all, or read, write, "
        "pillar, separated by commas (default: %default)",
    )
    options._flag(
        parser,
        "--approve",
        help="a node that joins with it waits until a member approves it",
    )
    clusterask.json_option(parser)


def token(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted token create|list|revoke}."""
    line = clusterask.read(
        argv,
        environ,
        "token",
        "create | list | revoke ID",
        "Creates, lists and revokes the tokens with which other machines join this cluster.",
        _token_options,
    )
    words = line.args
    if words == ["create"]:
        return _token_create(line)
    if words == ["list"]:
        return _token_list(line)
    if len(words) != 2 or words[0] != "revoke":
        line.parser.error("use create, list, or revoke with the beginning of an id")
    done = clusterask.ask(line, "token_revoke", id=words[1])
    console.say(f"Token {done['revoked']} admits nobody any more.")
    clusterask.not_told(done)
    return 0


def _token_create(line: CommandLine) -> int:
    chosen = line.options
    try:
        ttl = seconds_of(chosen.ttl)
    except ValueError:
        line.parser.error(f"--ttl {chosen.ttl}: write something like 30m, 2h or 1d")
    done = clusterask.ask(
        line,
        "token_create",
        ttl=ttl,
        uses=chosen.uses,
        role=chosen.role,
        pattern=chosen.pattern,
        approve=chosen.approve,
        rights=chosen.rights,
    )
    if chosen.json:
        clusterask.print_json(done)
        return 0
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(done["expiry"]))
    held = ", ".join(done["held_by"])
    if chosen.rights != "all":
        console.say(f"Masters that join with it have these rights on the roots: {chosen.rights}.")
    console.say(f"Valid until {until}, for {counted(chosen.uses, 'use')}. " + (
        f"Also known to {held}." if held else (
            "No other member has it: keep this node running until it is used."
        )
    ))  # fmt: skip
    if chosen.role == "minion" and chosen.pattern:
        console.say(
            f"Stock minions whose id matches {chosen.pattern} are accepted when they connect. "
            "Nothing has to be done on them."
        )
    what = "machine" if chosen.role == "master" else "minion"
    console.say(str(advice.of("token.use", machine=what, token=done["token"])))
    return 0


def _token_list(line: CommandLine) -> int:
    rows = clusterask.ask(line, "token_list")
    if line.options.json:
        clusterask.print_json(rows)
        return 0
    if not rows:
        console.say("There are no tokens.")
        return 0
    table = [["ID", "ROLE", "STATE", "USED", "VALID UNTIL", "BY", "PATTERN"]]
    for row in rows:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["expiry"]))
        used = f"{row['used']}/{row['uses']}"
        state = row["state"] + (", approve" if row["approve"] else "")
        table.append([row["id"][:12], row["role"], state, used, until, row["by"], row["pattern"]])
    clusterask.print_table(table)
    return 0


# join


def _join_options(parser: Parser) -> None:
    parser.add_option("--token-file", metavar="FILE", help="read the token from a file")
    clusterask.dry_run_option(parser)
    options._flag(
        parser,
        "--discard-identity",
        help="join even if that cuts off accepted minions of this master",
    )
    options._flag(parser, "--no-wait", help="do not wait until the node serves")
    clusterask.json_option(parser)


def join(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted join TOKEN}."""
    line = clusterask.read(
        argv,
        environ,
        "join",
        "TOKEN | -",
        "Joins the node on this machine to a cluster, or has the minion here accepted by one. "
        "Any member makes such a token; - reads it from standard input.",
        _join_options,
    )
    word = _token_word(line)
    from saltwisted.domain.replica.tokens import MASTER, parse

    try:
        found = parse(word)
    except WireError as error:
        line.parser.error(error.reason)
    if found.expiry < time.time():
        line.parser.error("this token has expired (or this machine's clock is wrong)")
    if found.role != MASTER:
        return _join_minion(argv, environ, line, found)
    client = link.connect(line.opts)
    try:
        done = client.call(
            "cluster_join",
            token=word,
            dry_run=line.options.dry_run,
            discard=line.options.discard_identity,
        )
    except TransportClosed:
        return _foresee(line, found) if line.options.dry_run else _lay_down(line, word)
    except RemoteError as error:
        raise SystemExit(clusterask.told(error)) from None
    finally:
        client.close()
    if line.options.dry_run:
        return _say_preview(line, done)
    if done.get("waits"):
        console.say(f"The cluster knows this node, and now waits for {done['waits']}")
        return 0
    how = "is a member of" if done.get("already") else "has joined"
    if not line.options.json:
        console.say(f"This node {how} cluster {done['joined']}.")
    if line.options.no_wait:
        return 0
    return _wait_ready(line, str(done["joined"]))


def _token_word(line: CommandLine) -> str:
    words, path = line.args, line.options.token_file
    if path:
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            line.parser.error(f"{path}: {error}")
    if words == ["-"]:
        return sys.stdin.readline().strip()
    if len(words) != 1:
        line.parser.error("give one token, -, or --token-file")
    console.write_error(
        "Other users of this machine can see a token on the command line while the command "
        "runs. Use - or --token-file to hide it.\n"
    )
    return words[0]


def _say_preview(line: CommandLine, found: Mapping[str, Any]) -> int:
    if line.options.json:
        clusterask.print_json(found)
        return 1 if found.get("refused") else 0
    members = ", ".join(found["members"])
    console.say(
        f"Cluster {found['cluster']}: {members}; "
        f"{counted(int(found['minions']), 'accepted minion')}."
    )
    if found.get("refused"):
        console.say(f"It would refuse: {found['refused']}.")
        clusterask.nothing_changed(line)
        return 1
    if found["identity_changes"]:
        console.say(
            "This master's identity key would be replaced (the present one is kept beside "
            f"it). That would cut off {counted(int(found['cut_off']), 'accepted minion')}."
        )
        if found["cut_off"]:
            console.say("Therefore it is refused without --discard-identity.")
    clusterask.nothing_changed(line)
    return 0


def _foresee(line: CommandLine, found: Token) -> int:
    """Nobody runs here who could ask the cluster: say what the token and the disk say."""
    from saltwisted.cli.keyfiles import accepted_here

    minions = accepted_here(str(line.opts["pki_dir"]))
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.expiry))
    if line.options.json:
        clusterask.print_json(
            {"cluster": found.cluster, "peers": list(found.peers), "own_minions": minions}
        )
        return 0
    console.say(f"Cluster {found.cluster} at {', '.join(found.peers)}; valid until {until}.")
    console.say(
        "No node runs here, so the cluster was not asked. The node would join when it starts, "
        "and take the cluster's identity key in place of its own."
    )
    if minions:
        console.say(
            f"{are(minions, 'minion')} accepted here: unless the keys are the same, the join "
            "is refused without --discard-identity."
        )
    clusterask.nothing_changed(line)
    return 0


def _lay_down(line: CommandLine, word: str) -> int:
    """The daemon does not run: leave the token where it looks at its start."""
    from saltwisted.cli.keyfiles import lay_down_token
    from saltwisted.cli.users import become

    become(line.opts)
    try:
        lay_down_token(str(line.opts["pki_dir"]), word, bool(line.options.discard_identity))
    except StoreError as error:
        raise SystemExit(str(error)) from None
    how = link.start(line.opts, "cluster")
    console.say(f"The token is saved. The node will join when it starts.\n{how}")
    return 0


def _wait_ready(line: CommandLine, cluster: str) -> int:
    """
    The node leaves the phase it was in, and is built again as a member: wait for that. A terminal
    shows what it does meanwhile.
    """
    end = time.monotonic() + READY_TIME
    problem = "it does not answer"
    work: Any = ()
    waiting = Waiting("join", sys.stderr.isatty() and not line.options.json)
    try:
        while time.monotonic() < end:
            client = ControlClient(path=link.socket_path(line.opts), timeout=10.0)
            try:
                state = client.call("members")
                if state["ready"] and state["cluster"] == cluster:
                    waiting.end()
                    _say_ready(line, state)
                    return 0
                problem = state["problem"] or "it is catching up"
                if work != (work := state.get("work", ())):
                    end = time.monotonic() + READY_TIME
                waiting.show({"work": work, "problem": problem})
            except (TransportClosed, RemoteError, TimeoutError) as error:
                problem = str(error)
            finally:
                client.close()
            time.sleep(0.1)
    finally:
        waiting.end()
    console.write_error(f"The node does not serve yet: {problem}\n")
    return EX_NOT_READY


def _say_ready(line: CommandLine, state: Mapping[str, Any]) -> None:
    if line.options.json:
        clusterask.print_json(state["members"])
    else:
        names = ", ".join(row["node"] for row in state["members"])
        console.say(f"It serves minions. Members: {names}")


# join, of a minion


def _join_minion(
    argv: Sequence[str], environ: Mapping[str, str], master: CommandLine, found: Token
) -> int:
    """Give the minion on this machine the token, and the masters in it."""
    line = options.read(master.parser, argv, "minion", environ)
    masters = ", ".join(found.peers)
    if line.options.dry_run:
        console.say(
            f"The minion {line.opts['id']} would show the token to {masters} at its next sign-in, "
            f"and trust the master's key {found.pin} alone."
        )
        clusterask.nothing_changed(line)
        return 0
    client = link.connect(line.opts)
    try:
        done = client.call("join", token=found.line)
    except TransportClosed:
        return _lay_down_minion(line, found)
    except RemoteError as error:
        raise SystemExit(clusterask.told(error)) from None
    finally:
        client.close()
    console.say(f"The minion {done['id']} now shows the token to {masters}.")
    return 0


def _lay_down_minion(line: CommandLine, found: Token) -> int:
    from saltwisted.cli.keyfiles import lay_down_minion_token
    from saltwisted.cli.users import become

    become(line.opts)
    try:
        lay_down_minion_token(str(line.opts["pki_dir"]), str(line.opts["cachedir"]), found)
    except StoreError as error:
        raise SystemExit(str(error)) from None
    how = link.start(line.opts, "minion")
    console.say(f"The token is saved. The minion will show it when it starts.\n{how}")
    return 0
