"""
The command C{saltwisted roots}: what is served, where it came from, and what waits.

All is asked of the node on this machine. Exit status: 0 if all is well, 1 if the node refused or
something is not in step, 2 if no node runs, 64 for wrong words.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.cli import clusterask, console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.cli.progress import Waiting, in_units
from saltwisted.domain.doctor import MOST_EVIDENCE, Finding, Severity
from saltwisted.domain.roots import health
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.words import counted
from saltwisted.worker.control import ControlClient

EX_REFUSED = 1
EX_NO_NODE = 2
USAGE = """WORD [options]

  status                     what is served here, what waits, and how far the peers are (default)
  log                        the generations that are kept
  diff [GEN]                 what changed since a generation, or since the last
  diff --peer NODE           what a peer has not got yet
  trace PATH                 who wrote a path, when, and which masters have it
  sync [--wait]              take in what was edited; --wait: until every member has it
  update [--wait]            fetch from git now, on whichever node does; --wait: every linked node
                             has to serve it
  push --dry-run             what a look at the directories would commit now
  rollback GEN|COMMIT [--dry-run]
                             make an earlier tree visible again, on all masters
  approve                    let held deletions through
  adopt --restore|--accept   trust a root again: refill it, or take it as it stands
  export DIR [GEN]           write a tree into a new directory
  conflicts                  versions that lost against one that had not seen them
  show PATH [VERSION]        the content of a lost version
  resolve PATH --take WHICH  close the conflicts of a path; WHICH: a version, or 'visible'"""


def _more(parser: Parser) -> None:
    flag = options._flag
    flag(parser, "--json", help="print JSON, for scripts")
    parser.add_option("--share", default="", help="only this share, such as file/base/0")
    parser.add_option(
        "--peer",
        dest="node",
        default="",
        metavar="NODE",
        help=("diff: show what this node does not have yet"),
    )
    parser.add_option(
        "--take",
        default="",
        help=("resolve: the version to make visible, or 'visible' for the present one"),
    )
    flag(parser, "--wait", help="sync, update: wait until every member has it")
    parser.add_option(
        "--timeout", dest="seconds", type=float, default=60.0, help="seconds (default: %default)"
    )
    flag(parser, "--dry-run", help="push, rollback: show what would follow, and change nothing")
    flag(parser, "--restore", help="adopt: restore the directory from the store")
    flag(parser, "--accept", help="adopt: take the directory as it is, deletions included")
    flag(parser, "--all", help="conflicts: also show closed ones")
    parser.add_option(
        "-n", "--most", type=int, default=20, help=("log: how many lines (default: %default)")
    )


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{saltwisted roots} with these words; the result is the exit status."""
    parser = Parser(
        "roots",
        f"%prog {USAGE}",
        ("Shows and changes file_roots and pillar_roots, which are alike on all masters."),
    )
    for add in (options.saltfile, options.config_dir, _more, options.logs()):
        add(parser)
    line = options.read(parser, argv, "master", environ, needs_id=False)
    words = list(line.args) or ["status"]
    command = COMMANDS.get(words[0])
    if command is None:
        parser.error(f"{words[0]!r} is not known; {advice.of('roots.help')}")
    client = link.connect(line.opts)
    try:
        return command(Asked(line, client, words[1:]))
    except TransportClosed:
        how = clusterask.to_start(line)
        console.write_error(f"No node runs with this configuration. {how}\n")
        return EX_NO_NODE
    except RemoteError as error:
        said = error.message
        if error.name == "UnknownOperation":
            said = f"there is no {words[0]!r} on a master that runs alone; {ALONE}"
        console.write_error(f"{said[:1].upper()}{said[1:]}\n")
        return EX_REFUSED
    finally:
        client.close()


ALONE = "it serves its directories as they are, and has only what is in git in generations"


class Asked:
    """One run of the command: its words, and the node that answers."""

    def __init__(self, line: CommandLine, client: ControlClient, words: list[str]) -> None:
        self.line = line
        self.options = line.options
        self.words = words
        self._client = client

    def word(self, number: int, what: str) -> str:
        """A word that must be there."""
        if number >= len(self.words):
            self.line.parser.error(f"this needs {what}")
        return self.words[number]

    def path(self) -> str:
        """The first word as a path; one that exists here is made absolute."""
        path = self.word(0, "a path")
        if not path.startswith("/") and os.path.lexists(path):
            return os.path.abspath(path)
        return path

    def ask(self, what: str, **args: Any) -> Any:
        """One question; a terminal shows how far the answer is, if that takes long."""
        stream = self._client.stream("roots", do=what, share=self.options.share, **args)
        line = Waiting(what, sys.stderr.isatty() and not self.options.json)
        try:
            while True:
                line.show(next(stream))
        except StopIteration as end:
            return end.value
        finally:
            line.end()

    def ask_git(self, what: str) -> Any:
        """A question about git remotes, which every master answers."""
        return self._client.call(f"git.{what}")

    def give(self, value: Any, show: Callable[[Any], None]) -> None:
        """Print as JSON if asked to, else in words."""
        if self.options.json:
            console.say(json.dumps(value, indent=4, sort_keys=True))
        else:
            show(value)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else "never"


def _table(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        console.say("  ".join(cells).rstrip())


def _status(asked: Asked) -> int:
    try:
        value = asked.ask("status")
    except RemoteError as error:
        if error.name != "UnknownOperation":
            raise
        asked.give(asked.ask_git("status"), _show_alone)
        return 0
    value = {**value, "git": asked.ask_git("status")["nodes"]}
    asked.give(value, _show_status)
    troubled = value["clock"] or not value["ready"]
    for share in value["shares"].values():
        troubled = troubled or share["suspended"] or share["held"] or share["alarm"]
    return EX_REFUSED if troubled else 0


def _show_alone(value: Mapping[str, Any]) -> None:
    """Of a master without peers."""
    console.say(f"node {value['node']} runs alone: {ALONE}")
    _show_git(value["nodes"])


def _show_status(value: Mapping[str, Any]) -> None:
    console.say(f"node {value['node']}, {_generations(value)}: {value['state']}")
    if value["clock"]:
        console.say(f"  {value['clock']}")
    if len(value["rights"]) < 3:
        console.say(f"  rights of this node: {', '.join(value['rights'])}")
    for name, share in value["shares"].items():
        console.say(
            f"{name}  {share['root']}\n"
            f"  generation {share['generation']} (#{share['number']}, {_when(share['at'])}), "
            f"{counted(share['files'], 'file')}, {in_units(share['bytes'])}"
        )
        for found in health.of_share(name, share):
            for text in _finding(found):
                console.say(f"  {text}")
    for name, why in value["left_out"].items():
        console.say(f"{name}  not replicated: {why}")
    if value["peers"]:
        rows = [["PEER", "LINK", "LACKS", "IN", "OUT", "LAST ERROR"]]
        for node, peer in value["peers"].items():
            rows.append(
                [
                    node,
                    "up" if peer["connected"] else "down",
                    str(peer.get("lag", "?")),
                    in_units(peer["bytes_in"]),
                    in_units(peer["bytes_out"]),
                    peer["error"],
                ]
            )
        _table(rows)
    _show_git(value["git"])


def _show_git(nodes: Mapping[str, Any]) -> None:
    """Each node's commits of each remote; only what differs is said twice."""
    if not any(said.get("remotes") or "error" in said for said in nodes.values()):
        return
    rows = [["NODE", "GIT", "REMOTE", "REF", "COMMIT"]]
    for node, said in sorted(nodes.items()):
        if "error" in said:
            rows.append([node, "?", said["error"], "", ""])
        for remote, one in said.get("remotes", {}).items():
            name = "pillar" if one["pillar"] else said["generation"]
            back = one.get("rolled_back", {})
            for ref, commit in one["refs"].items() or [("nothing yet", "")]:
                short = ref.removeprefix("refs/remotes/origin/").removeprefix("refs/")
                was = f" (rolled back, {back[ref][:12]} was fetched)" if ref in back else ""
                rows.append([node, name, remote, short, commit[:12] + was])
            if one["error"]:
                rows.append([node, name, remote, "ERROR", one["error"]])
    _table(rows)


def _update(asked: Asked) -> int:
    value = asked.ask_git("update")
    asked.give(value, _show_update)
    if any("error" in one for one in value.values()):
        return EX_REFUSED
    late = any(not all(one.get("nodes", {}).values()) for one in value.values())
    return EX_REFUSED if asked.options.wait and late else 0


def _show_update(remotes: Mapping[str, Any]) -> None:
    for remote, one in remotes.items():
        by = f", fetched by {one['fetched_by']}" if one.get("fetched_by") else ""
        console.say(f"{remote}: {counted(len(one['changed']), 'change')}{by}")
        for ref, (old, new) in one["changed"].items():
            console.say(f"  {ref}: {old[:12] or 'new'} -> {new[:12] or 'gone'}")
        late = sorted(node for node, serves in one.get("nodes", {}).items() if not serves)
        if late:
            console.say(f"  not there yet: {', '.join(late)}")
        if "error" in one:
            console.say(f"  ERROR: {one['error']}")
    if not remotes:
        console.say("No git remotes are configured.")


def _finding(found: Finding) -> Iterator[str]:
    """Lines about one thing that is wrong; errors stand out."""
    yield f"{'ERROR: ' if found.severity is Severity.ERROR else ''}{found.text}"
    for line in found.evidence[:MOST_EVIDENCE]:
        yield f"    {line}"
    if len(found.evidence) > MOST_EVIDENCE:
        yield f"    and {len(found.evidence) - MOST_EVIDENCE} more"
    if found.command:
        yield f"    > {found.command}"


def _log(asked: Asked) -> int:
    value = asked.ask("log", most=asked.options.most)

    def show(rows: list[dict[str, Any]]) -> None:
        table = [["GENERATION", "WHEN", "SHARE", "BY", "FILES", "SIZE", "NOTE"]]
        for row in rows:
            table.append(
                [
                    row["generation"],
                    _when(row["at"]),
                    row["share"],
                    row["origin"],
                    "" if row["files"] is None else str(row["files"]),
                    "" if row["bytes"] is None else in_units(row["bytes"]),
                    row["note"],
                ]
            )
        _table(table)

    asked.give(value, show)
    return 0


def _show_changes(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        console.say(f"{row['change']:<8} {row['share']}  {row['path']}")
    if not rows:
        console.say("Nothing differs.")


def _diff(asked: Asked) -> int:
    generation = asked.words[0] if asked.words else ""
    value = asked.ask("diff", generation=generation, peer=asked.options.node)
    asked.give(value, _show_changes)
    return 0


def _trace(asked: Asked) -> int:
    value = asked.ask("trace", path=asked.path())

    def show(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            state = "visible" if row["visible"] else "in conflict"
            kind = row["entry"]["kind"] if row["entry"] else "gone"
            console.say(
                f"{row['share']}  {row['path']}: {kind}, {state}, version {row['version']}\n"
                f"  written on {row['master']}, {_when(row['written'])}\n"
                f"  on {', '.join(row['on'])}"
            )

    asked.give(value, show)
    return 0


def _sync(asked: Asked) -> int:
    value = asked.ask("sync", wait=asked.options.wait, timeout=asked.options.seconds)

    def show(result: Mapping[str, Any]) -> None:
        console.say(_generations(result))
        for node, one in result["peers"].items():
            console.say(f"  {node}: {_peer(one)}")
        for name, why in result["problems"].items():
            console.say(f"  {name}: {why}")

    asked.give(value, show)
    if asked.options.wait:
        return 0 if value["done"] else EX_REFUSED
    return EX_REFUSED if value["problems"] else 0


def _generations(value: Mapping[str, Any]) -> str:
    """What is served: the files, and the pillar where this node has one."""
    pillar = f", pillar generation {value['pillar']}" if value["pillar"] else ""
    return f"generation {value['generation']}{pillar}"


def _peer(one: Mapping[str, Any]) -> str:
    """How far a member is."""
    if one["ok"]:
        return "has everything"
    parts = [f"{counted(one['lacks'], 'change')} missing"] if one["lacks"] else []
    return ": ".join([*parts, *([one["error"]] if one["error"] else [])]) or "not yet in step"


def _push(asked: Asked) -> int:
    if not asked.options.dry_run:
        asked.line.parser.error("changes are taken in automatically: use sync, or push --dry-run")
    asked.give(asked.ask("dry"), _show_changes)
    return 0


def _rollback(asked: Asked) -> int:
    dry = {"dry_run": True} if asked.options.dry_run else {}
    value = asked.ask("rollback", generation=asked.word(0, "the name of a generation"), **dry)

    def show(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            changes = counted(row["changed"], "change")
            console.say(f"{row['share']}: {changes}; it is now as it was in {row['to']}")
        clusterask.nothing_changed(asked.line)

    asked.give(value, show)
    return 0


def _approve(asked: Asked) -> int:
    value = asked.ask("approve")

    def show(counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            console.say(f"{name}: {counted(count, 'deletion')} approved")

    asked.give(value, show)
    return 0


def _adopt(asked: Asked) -> int:
    if asked.options.restore and asked.options.accept:
        asked.line.parser.error("use either --restore or --accept")
    how = "accept" if asked.options.accept else "restore"
    value = asked.ask("adopt", how=how)

    def show(counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            done = "taken as it is" if count < 0 else f"{counted(count, 'path')} restored"
            console.say(f"{name}: {done}")
        if not counts:
            console.say("No share is suspended, and none has deletions held.")

    asked.give(value, show)
    return 0


def _export(asked: Asked) -> int:
    directory = os.path.abspath(asked.word(0, "a directory"))
    generation = asked.words[1] if len(asked.words) > 1 else ""
    value = asked.ask("export", directory=directory, generation=generation)
    asked.give(
        value,
        lambda one: console.say(
            f"{counted(one['entries'], 'entry', 'entries')} written to {one['directory']}"
        ),
    )
    return 0


def _conflicts(asked: Asked) -> int:
    value = asked.ask("conflicts", all=bool(asked.options.all))

    def show(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            entry = row["entry"]
            what = entry["kind"] if entry else "gone"
            size = f", {in_units(entry['size'])}" if entry and "size" in entry else ""
            console.say(
                f"{row['share']}  {row['path']}\n"
                f"  lost: {row['version']} ({what}{size}), written on {row['master']}, "
                f"{_when(row['written'])}; {row['state']}"
            )
        if not rows:
            console.say("There are no conflicts.")

    asked.give(value, show)
    return 0


def _show(asked: Asked) -> int:
    version = asked.words[1] if len(asked.words) > 1 else ""
    value = asked.ask("show", path=asked.path(), version=version)

    def show(one: Mapping[str, Any]) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(base64.b64decode(one["content"]))
        sys.stdout.buffer.flush()
        if not one["whole"]:
            console.write_error("(only the beginning; export a generation to see the whole file)\n")

    asked.give(value, show)
    return 0


def _resolve(asked: Asked) -> int:
    if not asked.options.take:
        asked.line.parser.error("this needs --take VERSION, or --take visible")
    value = asked.ask("resolve", path=asked.path(), take=asked.options.take)
    asked.give(
        value,
        lambda one: console.say(f"{one['path']}: {counted(one['closed'], 'conflict')} closed"),
    )
    return 0


COMMANDS: dict[str, Callable[[Asked], int]] = {
    "status": _status,
    "log": _log,
    "diff": _diff,
    "trace": _trace,
    "sync": _sync,
    "update": _update,
    "push": _push,
    "rollback": _rollback,
    "approve": _approve,
    "adopt": _adopt,
    "export": _export,
    "conflicts": _conflicts,
    "show": _show,
    "resolve": _resolve,
}
