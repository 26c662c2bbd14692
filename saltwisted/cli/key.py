"""
The C{salt-key} command: accept, reject, delete and show keys.

A running master does the work; without one it is done on the files
(L{saltwisted.cli.keyfiles}), as the master's user. Texts, questions and their default
answers are those of stock Salt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.cli import console, link, options, output
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.worker.control import ControlClient

_ACTIONS = (
    "gen_keys",
    "gen_signature",
    "list",
    "list_all",
    "print",
    "print_all",
    "accept",
    "accept_all",
    "reject",
    "reject_all",
    "delete",
    "delete_all",
    "finger",
    "finger_all",
)
"""In this order the first that is given is done; without any, all keys are listed."""
_LISTS = {
    "acc": "minions",
    "pre": "minions_pre",
    "un": "minions_pre",
    "rej": "minions_rejected",
    "den": "minions_denied",
    "all": "",
}
_STATE_WORDS = (
    ("include_accepted", "accepted"),
    ("include_rejected", "rejected"),
    ("include_denied", "denied"),
)


def _actions(parser: Parser) -> None:
    group = parser.add_option_group("Actions")
    flag = options._flag
    group.add_option(
        "-l",
        "--list",
        metavar="ARG",
        default="",
        help="list keys: acc[epted], pre or un[accepted], rej[ected], den[ied], all",
    )
    flag(group, "-L", "--list-all", help="list all keys")
    group.add_option(
        "-a", "--accept", default="", help="accept the pending keys that match this glob"
    )
    flag(group, "-A", "--accept-all", help="accept all pending keys")
    group.add_option(
        "-r", "--reject", default="", help="reject the pending keys that match this glob"
    )
    flag(group, "-R", "--reject-all", help="reject all pending keys")
    flag(group, "--include-all", help="the same as the next two")
    flag(group, "--include-accepted", help="also reject accepted keys")
    flag(group, "--include-rejected", help="also accept rejected keys")
    flag(group, "--include-denied", help="also accept or reject denied keys")
    group.add_option("-p", "--print", default="", help="print public keys")
    flag(group, "-P", "--print-all", help="print all public keys")
    group.add_option("-d", "--delete", default="", help="delete the keys that match this glob")
    flag(group, "-D", "--delete-all", help="delete all keys")
    group.add_option("-f", "--finger", default="", help="print fingerprints")
    flag(group, "-F", "--finger-all", help="print all fingerprints, including the master's")


def _generation(parser: Parser) -> None:
    group = parser.add_option_group("Key Generation Options")
    group.add_option(
        "--gen-keys", default="", metavar="NAME", help="make a key pair NAME.pem, .pub"
    )
    group.add_option("--gen-keys-dir", default=".", help="where to put it (default: %default)")
    group.add_option("--keysize", type=int, default=2048, help="its bits, 2048 or more")
    options._flag(
        group, "--gen-signature", help="sign the master's public key once, for many masters"
    )
    group.add_option("--priv", default="", help="the private key to sign with")
    group.add_option("--signature-path", default="", help="the directory for the signature")
    group.add_option("--pub", default="", help="the public key to sign")
    options._flag(group, "--auto-create", help="make the signing key pair if there is none")


def _general(parser: Parser) -> None:
    parser.add_option("-u", "--user", help="the user to run as")
    options.hard_crash(parser)
    options._flag(parser, "-q", "--quiet", help="do not print errors")
    options._flag(parser, "-y", "--yes", help="do not ask")
    parser.add_option(
        "--rotate-aes-key",
        default=True,
        help="False: keep the session key after a deletion or rejection, so that the minion can "
        "read on until the next rotation (default: %default)",
    )
    parser.add_option(
        "--preserve-minions",
        default=False,
        help="True: keep the cached data of deleted minions (default: %default)",
    )


def build_parser() -> Parser:
    """The options of C{salt-key}."""
    parser = Parser("salt-key", "%prog [options]", "Shows and changes which minions are trusted.")
    for add in (
        options.saltfile,
        options.config_dir,
        _general,
        options.external_auth(short=False),
        options.outputs,
        _actions,
        _generation,
        options.logs(short=False, file_option="key_logfile"),
    ):
        add(parser)
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{salt-key} with these words; the result is the exit status."""
    parser = build_parser()
    line = options.read(parser, argv, "master", environ, "key_logfile")
    chosen = line.options
    if chosen.list and not chosen.list.startswith(tuple(_LISTS)):
        parser.error(f"'{chosen.list}' is not a valid argument to '--list'")
    if chosen.keysize < 2048:
        parser.error("The minimum value for keysize is 2048")
    if chosen.keysize > 32768:
        parser.error("The maximum value for keysize is 32768")
    if chosen.delete_all and line.args:
        console.write_error(
            "Error: Delete all takes no arguments. Use -d to delete specified keys\n"
        )
        return 0  # as stock
    client = link.connect(line.opts)
    try:
        return SaltKey(line, client).run()
    finally:
        client.close()


class SaltKey:
    """One run of the command."""

    def __init__(self, line: CommandLine, client: ControlClient) -> None:
        self.options = line.options
        self.opts = line.opts
        self.client = client
        self._files: Any = None

    def run(self) -> int:
        """Do the action that was asked for; the result is the exit status."""
        action = next((name for name in _ACTIONS if getattr(self.options, name)), "list_all")
        try:
            return self._do(action)
        except SaltwistedError as error:
            if not self.options.quiet:
                output.display(str(error), "nested", self.opts)
            return 1 if isinstance(error, RemoteError) else 0

    def _do(self, action: str) -> int:
        if action == "gen_keys":
            return self._show({"return": self._generate()})
        if action == "gen_signature":
            return self._show({"return": self._sign()})
        kind = action.removesuffix("_all")
        match = "*" if action.endswith("_all") else getattr(self.options, action)
        if kind == "list":
            keys = self._wheel("list_all")
            keys.pop("local", None)
            wanted = "" if action == "list_all" else _LISTS[_list_word(match)]
            return self._show({wanted: keys.get(wanted, [])} if wanted else keys)
        if kind == "print":
            return self._show(self._wheel("key_str", match=match))
        if kind == "finger":
            hash_type = self.opts.get("hash_type") or "sha256"
            return self._show(self._wheel("finger", match=match, hash_type=hash_type))
        return self._change(kind, match)

    def _show(self, data: Any) -> int:
        output.display(data, "key", self.opts)
        return 0

    def _change(self, kind: str, match: str) -> int:
        """Accept, reject or delete, after showing what and asking."""
        include = self._include(kind)
        found = self._wheel("name_match", match=match)
        if kind != "delete":
            kept = {"minions_pre": found["minions_pre"]} if "minions_pre" in found else {}
            for name, word in _STATE_WORDS:
                state = "minions" if word == "accepted" else f"minions_{word}"
                if include[name] and found.get(state):
                    kept[state] = found[state]
            found = kept
        if not found:
            console.say(_no_match(match, include))
            return 0
        done = kind.rstrip("e") + "ed"
        console.say(f"The following keys are going to be {done}:")
        self._show(found)
        if not self.options.yes and not _confirmed("[N/y]" if kind == "delete" else "[n/Y]"):
            return 0
        if kind == "delete":
            self._wheel(
                "delete_dict",
                match=found,
                rotate_aes_key=bool(self.opts.get("rotate_aes_key", True)),
                preserve_minions=self.opts.get("preserve_minions") is True,
            )
            changed = found
        else:
            changed = self._move(kind, found, include)
        for names in changed.values():
            for name in names:
                console.say(f"Key for minion {name} {done}.")
        return 0

    def _move(
        self, kind: str, found: dict[str, list[str]], include: dict[str, bool]
    ) -> dict[str, list[str]]:
        """Accept or reject; names whose key is not a key are told on stderr."""
        if kind == "accept":
            target = "minions"
            more = {"include_rejected": include["include_rejected"]}
        else:
            target = "minions_rejected"
            more = {
                "include_accepted": include["include_accepted"],
                "rotate_aes_key": bool(self.opts.get("rotate_aes_key", True)),
            }
        more["include_denied"] = include["include_denied"]
        after = self._wheel(f"{kind}_dict", match=found, **more)
        now = set(after.get(target, []))
        changed: dict[str, list[str]] = {}
        for state, names in found.items():
            for name in names:
                if name in now:
                    changed.setdefault(state, []).append(name)
                else:
                    console.write_error(f"Unable to {kind} invalid key for {name}.\n")
        return changed

    def _include(self, kind: str) -> dict[str, bool]:
        """Which states count beside the pending one."""
        chosen = self.options
        include = {name: bool(getattr(chosen, name)) for name, _ in _STATE_WORDS}
        if kind != "delete":
            more, never = "include_rejected", "include_accepted"
            if kind == "reject":
                more, never = never, more
            include[more] = include[more] or bool(chosen.include_all)
            include[never] = False
        return include

    def _wheel(self, name: str, **kwargs: Any) -> Any:
        """A C{key} wheel function: of the master if one runs, else on the files."""
        if self._files is None:
            try:
                return self._ask(f"key.{name}", kwargs)
            except TransportClosed:
                self._files = _key_files(self.opts)
        if name.partition("_")[0] in ("accept", "reject", "delete") and _is_member(self.opts):
            raise RemoteError("ClusterError", str(advice.of("keys.stopped")))
        return getattr(self._files, name)(**kwargs)

    def _ask(self, fun: str, kwargs: dict[str, Any]) -> Any:
        request: dict[str, Any] = {"fun": fun, "kwarg": kwargs}
        if self.options.eauth:
            from saltwisted.cli.credentials import gather

            request.update(gather(self.options, self.opts, self.client))
        answer = self.client.call("wheel", **request)
        if isinstance(answer, dict) and answer.get("success") is False:
            raise RemoteError("WheelError", str(answer.get("return")))
        value = answer["return"]
        late = value.pop("unconfirmed", None) if isinstance(value, dict) else None
        if late:
            console.write_error(
                f"Not confirmed yet by: {', '.join(late)}. The change is in the cluster's log, "
                "and takes effect there as soon as they can be reached.\n"
            )
        return value

    def _generate(self) -> str:
        from saltwisted.cli.keyfiles import generate

        directory = self.options.gen_keys_dir
        os.makedirs(directory, exist_ok=True)
        return generate(directory, self.options.gen_keys, self.options.keysize)

    def _sign(self) -> bool | str:
        from saltwisted.cli.keyfiles import sign_master_key
        from saltwisted.cli.users import become

        chosen = self.options
        become(self.opts)
        return sign_master_key(
            self.opts,
            chosen.priv,
            chosen.pub,
            chosen.signature_path,
            chosen.auto_create,
            chosen.keysize,
        )


def _is_member(opts: Mapping[str, Any]) -> bool:
    """Whether this master is a node of a cluster."""
    path = os.path.join(opts["pki_dir"], "cluster", "node.json")
    try:
        with open(path, encoding="utf-8") as file:
            return bool(json.load(file).get("phase") == "member")
    except (OSError, ValueError, AttributeError):
        return False


def _key_files(opts: Mapping[str, Any]) -> Any:
    from saltwisted.cli.keyfiles import KeyFiles
    from saltwisted.cli.users import become

    become(opts)
    return KeyFiles(opts)


def _list_word(word: str) -> str:
    return next(start for start in _LISTS if word.startswith(start))


def _no_match(match: str, include: Mapping[str, bool]) -> str:
    states = ["unaccepted", *(word for name, word in _STATE_WORDS if include[name])]
    text = states[0] if len(states) == 1 else f"{', '.join(states[:-1])} or {states[-1]}"
    return f"The key glob '{match}' does not match any {text} keys."


def _confirmed(choice: str) -> bool:
    """Ask; the capital letter in C{choice} is what an empty answer means."""
    try:
        answer = input(f"Proceed? {choice} ")
    except KeyboardInterrupt:
        raise SystemExit("\nExiting on CTRL-c") from None
    except EOFError:
        console.say("")
        console.log("error", "No answer on the standard input; nothing was changed. Use -y.")
        return False
    return (answer or choice[1 if choice[1].isupper() else 3]).lower().startswith("y")
