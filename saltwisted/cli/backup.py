"""
C{saltwisted backup FILE} and C{saltwisted restore FILE}: all state of a master in one file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from saltwisted.cli import console, link, options
from saltwisted.cli.options import Parser
from saltwisted.cli.progress import Counter
from saltwisted.errors import SaltwistedError, TransportClosed, WrongPlace
from saltwisted.tools import backup as store
from saltwisted.words import counted
from saltwisted.worker.process.configio import load_from_disk

SHOWN = 20


def build_parser() -> Parser:
    """The options of C{saltwisted backup}."""
    parser = Parser(
        "backup",
        "%prog FILE",
        "Saves the configuration, the keys, the job cache and all other state of the master "
        "here in one compressed file, while it runs. The file holds private keys: only its "
        "owner can read it, and it needs a safe place. It does not contain your file_roots, "
        "nor (without --roots) what a cluster keeps of them.",
    )
    options.config_dir(parser)
    options._flag(
        parser,
        "--roots",
        help=(
            "also save the stored generations of the roots; the other members of a cluster "
            "have them, too"
        ),
    )
    options._flag(parser, "--json", help="print JSON, for scripts")
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted backup}."""
    parser = build_parser()
    chosen, rest = parser.parse_args(list(argv))
    if len(rest) != 1:
        parser.error("name the file to write")
    try:
        config = load_from_disk("master", chosen.config_dir, environ, guess_id=False).master
        counter = Counter("{} files, {} MiB")
        manifest = store.backup(
            config, rest[0], bool(chosen.roots), lambda n, size: counter.show(n, size >> 20)
        )
        counter.end()
    except WrongPlace:
        raise
    except SaltwistedError as error:
        console.write_error(f"saltwisted backup: {error}\n")
        return 1
    size = os.path.getsize(rest[0])
    if chosen.json:
        told = {name: value for name, value in manifest.items() if name != "entries"}
        console.say(json.dumps({**told, "files": len(manifest["entries"]), "bytes": size}))
    else:
        console.say(f"{rest[0]}: {counted(len(manifest['entries']), 'file')}, {size >> 10} KiB")
    return 0


def restore(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted restore}."""
    parser = Parser(
        "restore",
        "%prog FILE [--dry-run]",
        "Puts a backup back under the paths where it was taken, and removes what was added to "
        "these directories since. The master must not be running.",
    )
    options.config_dir(parser)
    options._flag(parser, "--dry-run", help="check the backup, and show what would change")
    options._flag(parser, "--json", help="print JSON, for scripts")
    chosen, rest = parser.parse_args(list(argv))
    if len(rest) != 1:
        parser.error("name the backup")
    try:
        if not chosen.dry_run and _runs(chosen.config_dir, environ):
            console.write_error("saltwisted restore: the master is running; stop it first\n")
            return 1
        manifest, changes = store.restore(rest[0], bool(chosen.dry_run))
    except SaltwistedError as error:
        console.write_error(f"saltwisted restore: {error}\n")
        return 1
    if chosen.json:
        told = [{"what": change.what, "path": change.path} for change in changes]
        console.say(json.dumps({"made": manifest["made"], "changes": told}, indent=4))
        return 0
    console.say(f"Backup of {manifest['id'] or manifest['host']}, made {manifest['made']}")
    for what in ("new", "changed", "removed"):
        paths = [change.path for change in changes if change.what == what]
        for path in paths[:SHOWN]:
            console.say(f"  {what:<8} {path}")
        if len(paths) > SHOWN:
            console.say(f"  {what:<8} and {len(paths) - SHOWN} more")
    if chosen.dry_run:
        console.say("Dry run: nothing was changed.")
    return 0


def _runs(directory: str | None, environ: Mapping[str, str]) -> bool:
    """Whether a master with this configuration answers."""
    try:
        config = load_from_disk("master", directory, environ, guess_id=False).master
        with link.connect({"sock_dir": config.sock_dir}) as client:
            client.call_within(5, "status")
    except TransportClosed:
        return False
    except (SaltwistedError, TimeoutError):
        # a configuration that cannot be read may be what is to be restored
        return False
    return True
