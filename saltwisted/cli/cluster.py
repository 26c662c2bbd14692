"""
The commands of a cluster: C{token}, C{join}, C{members}, C{leave}, C{remove}, C{cluster}.

All ask the node on this machine, through its control socket. C{join} also works on a node that
has never run: the token is then laid where the daemon finds it at its start.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted.cli import console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, StoreError, TransportClosed, WireError
from saltwisted.worker.control import ControlClient

EX_NOT_READY = 3
READY_TIME = 120.0
"""Seconds that C{join} waits for the node to serve."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _parser(name: str, usage: str, description: str, *more: Callable[[Parser], None]) -> Parser:
    parser = Parser(name, f"%prog [options] {usage}".rstrip(), description)
    for add in (options.saltfile, options.config_dir, *more, options.logs()):
        add(parser)
    return parser


def _json(parser: Parser) -> None:
    options._flag(parser, "--json", help="print JSON, for scripts")


def seconds_of(text: str) -> float:
    """
    C{30m}, C{2h}, C{1d}, or a number of seconds.

    @raises ValueError: anything else.
    """
    word = text.strip().lower()
    unit = UNITS.get(word[-1:], 0.0)
    return float(word[:-1]) * unit if unit else float(word)


def _ask(line: CommandLine, op: str, **args: Any) -> Any:
    """One question to the node on this machine; its refusals end the command with a sentence."""
    client = link.connect(line.opts)
    try:
        return client.call(op, **args)
    except TransportClosed:
        how = link.how_to_start(line.opts, "cluster")
        raise SystemExit(f"No node runs with this configuration. Start it: {how}") from None
    except RemoteError as error:
        raise SystemExit(_told(error)) from None
    finally:
        client.close()


def _told(error: RemoteError) -> str:
    if error.name == "UnknownOperation":
        return "This master has no peers: it runs with --role master, and not --role cluster."
    return f"{error.message[:1].upper()}{error.message[1:]}"


def _print_json(value: Any) -> None:
    import json

    console.say(json.dumps(value, indent=4))


def _not_told(done: Mapping[str, Any]) -> None:
    """Say which members have not confirmed."""
    if done.get("unreached"):
        names = ", ".join(done["unreached"])
        console.write_error(f"Not confirmed by {names}: they learn of it when they are back.\n")


# token


def _token_options(parser: Parser) -> None:
    parser.add_option("--ttl", default="30m", help="how long it is valid (default: %default)")
    parser.add_option("--uses", type=int, default=1, help="how often (default: %default)")
    parser.add_option("--role", default="master", help="master or minion (default: %default)")
    parser.add_option(
        "--id",
        default="",
        dest="pattern",
        metavar="PATTERN",
        help="only for nodes or minions of this name (glob)",
    )
    options._flag(parser, "--approve", help="who joins by it waits for 'members approve'")
    _json(parser)


def token(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted token create|list|revoke}."""
    parser = _parser(
        "token",
        "create | list | revoke ID",
        "Tokens by which other machines join this cluster.",
        _token_options,
    )
    line = options.read(parser, argv, "master", environ, needs_id=False)
    words = line.args
    if words == ["create"]:
        return _token_create(line)
    if words == ["list"]:
        return _token_list(line)
    if len(words) != 2 or words[0] != "revoke":
        parser.error("say create, list, or revoke and the beginning of an id")
    done = _ask(line, "token_revoke", id=words[1])
    console.say(f"Token {done['revoked']} admits nobody any more.")
    _not_told(done)
    return 0


def _token_create(line: CommandLine) -> int:
    chosen = line.options
    try:
        ttl = seconds_of(chosen.ttl)
    except ValueError:
        line.parser.error(f"--ttl {chosen.ttl}: something like 30m, 2h or 1d, please")
    done = _ask(
        line,
        "token_create",
        ttl=ttl,
        uses=chosen.uses,
        role=chosen.role,
        pattern=chosen.pattern,
        approve=chosen.approve,
    )
    if chosen.json:
        _print_json(done)
        return 0
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(done["expiry"]))
    held = ", ".join(done["held_by"])
    console.say(f"Valid until {until}, {chosen.uses} use(s). " + (
        f"Also known to {held}." if held else "No other member has it: this node must stay up."
    ))  # fmt: skip
    if chosen.role == "master":
        console.say("To use it, run this line on the new machine:")
        console.say(f"saltwisted join {done['token']}")
    else:
        console.say(f"Minions whose id matches {chosen.pattern} are accepted when they come.")
        console.say(f"Nothing is to be done on them. The token: {done['token']}")
    return 0


def _token_list(line: CommandLine) -> int:
    rows = _ask(line, "token_list")
    if line.options.json:
        _print_json(rows)
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
    _print_table(table)
    return 0


# join


def _join_options(parser: Parser) -> None:
    parser.add_option("--token-file", metavar="FILE", help="read the token from a file")
    options._flag(parser, "--dry-run", help="say what would happen, and change nothing")
    options._flag(
        parser,
        "--discard-identity",
        help="join although accepted minions of this master are cut off",
    )
    options._flag(parser, "--no-wait", help="do not wait until the node serves")
    _json(parser)


def join(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted join TOKEN}."""
    parser = _parser(
        "join",
        "TOKEN | -",
        "Makes the node on this machine a member of a cluster. The token comes from 'saltwisted "
        "token create' on any member; - reads it from the standard input.",
        _join_options,
    )
    line = options.read(parser, argv, "master", environ, needs_id=False)
    word = _token_word(line)
    from saltwisted.domain.replica.tokens import MASTER, parse

    try:
        found = parse(word)
    except WireError as error:
        parser.error(error.reason)
    if found.role != MASTER:
        parser.error("this token is for minions, which are accepted by it without doing anything")
    if found.expiry < time.time():
        parser.error("this token has expired (or this machine's clock is wrong)")
    client = link.connect(line.opts)
    try:
        done = client.call(
            "cluster_join",
            token=word,
            dry_run=line.options.dry_run,
            discard=line.options.discard_identity,
        )
    except TransportClosed:
        return _lay_down(line, word)
    except RemoteError as error:
        raise SystemExit(_told(error)) from None
    finally:
        client.close()
    if line.options.dry_run:
        return _say_preview(line, done)
    if done.get("waits"):
        console.say(f"The cluster knows this node now, and waits for {done['waits']}")
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
        line.parser.error("one token, - or --token-file is needed")
    console.write_error(
        "Other users of this machine can see a token on the command line while this runs; "
        "- and --token-file hide it.\n"
    )
    return words[0]


def _say_preview(line: CommandLine, found: Mapping[str, Any]) -> int:
    if line.options.json:
        _print_json(found)
        return 0
    members = ", ".join(found["members"])
    console.say(f"Cluster {found['cluster']}: {members}; {found['minions']} accepted minion(s).")
    if found["identity_changes"]:
        console.say(
            f"This master's identity key would be replaced (the present one is kept beside it). "
            f"{found['cut_off']} accepted minion(s) would be cut off."
        )
    console.say("Nothing was changed.")
    return 0


def _lay_down(line: CommandLine, word: str) -> int:
    """The daemon does not run: leave the token where it looks at its start."""
    from saltwisted.cli.keyfiles import lay_down_token
    from saltwisted.cli.users import become

    if line.options.dry_run:
        raise SystemExit("Nothing runs here: --dry-run needs the node to ask the cluster.")
    become(line.opts)
    try:
        lay_down_token(str(line.opts["pki_dir"]), word, bool(line.options.discard_identity))
    except StoreError as error:
        raise SystemExit(str(error)) from None
    how = link.how_to_start(line.opts, "cluster")
    console.say(f"The token is kept. The node joins when it starts:\n{how}")
    return 0


def _wait_ready(line: CommandLine, cluster: str) -> int:
    """The node leaves the phase it was in, and is built anew as a member: wait for that."""
    end = time.monotonic() + READY_TIME
    problem = "it does not answer"
    while time.monotonic() < end:
        client = ControlClient(path=link.socket_path(line.opts), timeout=10.0)
        try:
            state = client.call("members")
            if state["ready"] and state["cluster"] == cluster:
                if line.options.json:
                    _print_json(state["members"])
                else:
                    names = ", ".join(row["node"] for row in state["members"])
                    console.say(f"It serves minions. Members: {names}")
                return 0
            problem = state["problem"] or "it catches up"
        except (TransportClosed, RemoteError, TimeoutError) as error:
            problem = str(error)
        finally:
            client.close()
        time.sleep(0.1)
    console.write_error(f"The node does not serve yet: {problem}\n")
    return EX_NOT_READY


# members


def _members_options(parser: Parser) -> None:
    options._flag(parser, "--drift", help="show options in which members differ")
    _json(parser)


def members(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted members}, C{members approve NODE}, C{members --drift}."""
    parser = _parser(
        "members",
        "[approve NODE]",
        "Who belongs to the cluster, and how they are. Leaves with status 3 while the node "
        "on this machine cannot serve.",
        _members_options,
    )
    line = options.read(parser, argv, "master", environ, needs_id=False)
    if len(line.args) == 2 and line.args[0] == "approve":
        done = _ask(line, "members_approve", node=line.args[1])
        console.say(f"{done['approved']} is let in.")
        return 0
    if line.args:
        parser.error("say nothing, or approve and a node")
    if line.options.drift:
        return _drift(line)
    state = _ask(line, "members")
    if line.options.json:
        _print_json(state["members"])
    else:
        _print_members(state)
    return 0 if state["ready"] else EX_NOT_READY


def _print_members(state: Mapping[str, Any]) -> None:
    table = [
        "NODE STATE VERSION UPTIME MINIONS LAG-KEYS LAG-RETURNS LAG-ROOTS SEEN".split()  # noqa: SIM905
    ]
    for row in state["members"]:
        lag = row.get("lag") or {}
        table.append(
            [
                row["node"] + (" *" if row.get("this") else ""),
                row["state"],
                row.get("version") or "",
                _ago(row.get("uptime")),
                _number(row.get("minions")),
                _number(lag.get("keys")),
                _number(lag.get("returns")),
                str(row.get("roots") or ""),
                _seen(row),
            ]
        )
    _print_table(table)
    for row in state["members"]:
        if row.get("problem"):
            console.say(f"{row['node']}: {row['problem']}")


def _seen(row: Mapping[str, Any]) -> str:
    seen = row.get("seen")
    if not seen:
        return "never"
    passed = time.time() - float(seen)
    return "now" if passed < 2 else f"{_ago(passed)} ago"


def _ago(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _number(value: Any) -> str:
    return "" if value is None else str(value)


def _drift(line: CommandLine) -> int:
    rows = _ask(line, "members_drift")
    if line.options.json:
        _print_json(rows)
        return 0
    if not rows:
        console.say("The members do not differ in options that ought to be equal.")
        return 0
    for row in rows:
        console.say(f"{row['option']}:")
        for node, value in sorted(row["values"].items()):
            console.say(f"  {node}: {value}")
    return 0


# leave, remove, cluster


def _leave_options(parser: Parser) -> None:
    _json(parser)


def leave(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted leave}."""
    parser = _parser(
        "leave",
        "",
        "Takes the node on this machine out of its cluster: its minions go to the other members, "
        "and it serves nobody any more.",
        _leave_options,
    )
    line = options.read(parser, argv, "master", environ, needs_id=False)
    if line.args:
        parser.error("there is nothing to say to it")
    done = _ask(line, "cluster_leave")
    if line.options.json:
        _print_json(done)
    else:
        console.say(f"This node has left cluster {done['left']}. It may be stopped.")
        _not_told(done)
    return 0


def _remove_options(parser: Parser) -> None:
    options._flag(
        parser, "--compromised", help="at once, without waiting for members that do not answer"
    )
    _json(parser)


def remove(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted remove NODE}."""
    parser = _parser(
        "remove",
        "NODE",
        "Removes a member for good, while the others go on. The cluster's authority, session "
        "secret, publish key and tokens are made new. The identity key stays: see 'saltwisted "
        "rotate-identity'.",
        _remove_options,
    )
    line = options.read(parser, argv, "master", environ, needs_id=False)
    if len(line.args) != 1:
        parser.error("which node?")
    done = _ask(line, "cluster_remove", node=line.args[0], compromised=line.options.compromised)
    if line.options.json:
        _print_json(done)
        return 0
    console.say(f"{done['removed']} is removed. All tokens are void; secrets were made new.")
    if done["cluster_secret"]:
        console.say(
            "It knows the cluster_secret of the configuration files: that admits nobody any more. "
            "Put a new one into them."
        )
    _not_told(done)
    return 0


def cluster(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted cluster init}."""
    parser = _parser(
        "cluster",
        "init",
        "Founds a cluster although listed peers do not answer. Only for the one node that begins.",
    )
    line = options.read(parser, argv, "master", environ, needs_id=False)
    if line.args != ["init"]:
        parser.error("say init")
    done = _ask(line, "cluster_init")
    if done.get("already"):
        console.say(f"This node is in cluster {done['cluster']} already.")
    else:
        console.say("This node founds the cluster now.")
    return 0


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(str(row[n])) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = (str(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        console.say("  ".join(cells).rstrip())
