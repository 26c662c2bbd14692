"""
C{salt-key}, on files and through a master: the texts are those of stock Salt 3008.2.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any
from unittest import mock

from saltwisted.cli.keyfiles import KeyFiles, generate
from saltwisted.wire.rsa import PrivateKey, PublicKey, fingerprint
from tests.cli.support import CommandTestCase, Refusal

KEYS = [PrivateKey.generate(2048).public.pem for _ in range(2)]
ALL = ("minions_pre", "minions_rejected", "minions", "minions_denied")


class FileTests(CommandTestCase):
    """No master runs: the key directories are worked on."""

    def put(self, state: str, *names: str, text: str = KEYS[0]) -> None:
        """Keys in a state."""
        directory = f"{self.root}/pki/{state}"
        os.makedirs(directory, exist_ok=True)
        for name in names:
            with open(f"{directory}/{name}", "w", encoding="ascii") as file:
                file.write(text + "\n")

    def states(self) -> dict[str, list[str]]:
        """What is in the directories now."""
        found = {}
        for state in ALL:
            path = f"{self.root}/pki/{state}"
            names = sorted(os.listdir(path)) if os.path.isdir(path) else []
            if names:
                found[state] = names
        return found

    def test_list(self) -> None:
        """All four headings stand in Salt's order, with the ids below them."""
        self.put("minions_pre", "beta", "alpha")
        self.put("minions", "gamma")

        result = self.command("salt-key", "-L")

        self.assertEqual(
            result.out,
            "Accepted Keys:\ngamma\nDenied Keys:\nUnaccepted Keys:\nalpha\nbeta\nRejected Keys:\n",
        )
        self.assertEqual((result.status, result.err), (0, ""))

    def test_no_action_lists(self) -> None:
        """Without an action the keys are listed, also where there is no directory yet."""
        result = self.command("salt-key")

        self.assertEqual(
            result.out, "Accepted Keys:\nDenied Keys:\nUnaccepted Keys:\nRejected Keys:\n"
        )

    def test_list_json(self) -> None:
        """JSON holds the four groups and nothing else."""
        self.put("minions_denied", "evil")

        result = self.command("salt-key", "-L", "--out=json")

        self.assertEqual(
            json.loads(result.out), {**{state: [] for state in ALL}, "minions_denied": ["evil"]}
        )

    def test_list_one_state(self) -> None:
        """-l takes the beginning of a state's name."""
        self.put("minions", "a")
        self.put("minions_pre", "b")

        self.assertEqual(self.command("salt-key", "-l", "acc").out, "Accepted Keys:\na\n")
        self.assertEqual(self.command("salt-key", "-l", "unacc").out, "Unaccepted Keys:\nb\n")
        wrong = self.command("salt-key", "-l", "xx")
        self.assertEqual(wrong.status, 64)
        self.assertIn("salt-key: error: 'xx' is not a valid argument to '--list'\n", wrong.err)

    def test_colors(self) -> None:
        """Each state has Salt's colour, and ids with escape sequences lose them."""
        self.put("minions", "a")

        result = self.command("salt-key", "-l", "acc", "--force-color")

        self.assertEqual(result.out, "\033[0;1;32mAccepted Keys:\033[0;0m\n\033[0;32ma\033[0;0m\n")

    def test_accept(self) -> None:
        """-a shows what it will do, does it, and says so."""
        self.put("minions_pre", "alpha", "beta")

        result = self.command("salt-key", "-y", "-a", "al*")

        self.assertEqual(
            result.out,
            "The following keys are going to be accepted:\nUnaccepted Keys:\nalpha\n"
            "Key for minion alpha accepted.\n",
        )
        self.assertEqual(self.states(), {"minions_pre": ["beta"], "minions": ["alpha"]})

    def test_empty_answer(self) -> None:
        """An empty answer accepts, and does not delete."""
        self.put("minions_pre", "a")

        accepted = self.command("salt-key", "-A", stdin="\n")
        deleted = self.command("salt-key", "-d", "a", stdin="\n")

        self.assertTrue(
            accepted.out.endswith("Proceed? [n/Y] Key for minion a accepted.\n"), accepted.out
        )
        self.assertTrue(deleted.out.endswith("Proceed? [N/y] "), deleted.out)
        self.assertEqual(self.states(), {"minions": ["a"]})

    def test_no_answer(self) -> None:
        """Without anybody to answer nothing changes."""
        self.put("minions_pre", "a")

        result = self.command("salt-key", "-A", stdin="")

        self.assertIn("nothing was changed", result.err)
        self.assertEqual(self.states(), {"minions_pre": ["a"]})

    def test_no_match(self) -> None:
        """A glob that means no key of the asked states is said, with the states."""
        self.put("minions", "a")

        plain = self.command("salt-key", "-r", "a")
        more = self.command("salt-key", "-a", "a", "--include-all", "--include-denied")

        self.assertEqual(plain.out, "The key glob 'a' does not match any unaccepted keys.\n")
        self.assertEqual(
            more.out, "The key glob 'a' does not match any unaccepted, rejected or denied keys.\n"
        )
        self.assertEqual((plain.status, more.status), (0, 0))

    def test_reject_accepted(self) -> None:
        """--include-accepted rejects an accepted key; the session key is asked to change."""
        self.put("minions", "a")
        os.mkdir(f"{self.root}/cache")

        result = self.command("salt-key", "-y", "-r", "a", "--include-accepted")

        self.assertTrue(result.out.endswith("Accepted Keys:\na\nKey for minion a rejected.\n"))
        self.assertEqual(self.states(), {"minions_rejected": ["a"]})
        self.assertEqual(stat.S_IMODE(os.stat(f"{self.root}/cache/.dfn").st_mode), stat.S_IRUSR)

    def test_delete_without_rotation(self) -> None:
        """--rotate-aes-key=False leaves the session key alone."""
        self.put("minions", "a")
        os.mkdir(f"{self.root}/cache")

        self.command("salt-key", "-y", "-D", "--rotate-aes-key=False")

        self.assertEqual(self.states(), {})
        self.assertFalse(os.path.exists(f"{self.root}/cache/.dfn"))

    def test_no_key_in_the_file(self) -> None:
        """A file that holds no key stays pending, and stderr says so."""
        self.put("minions_pre", "a", text="nonsense")

        result = self.command("salt-key", "-y", "-a", "a")

        self.assertEqual(result.err, "Unable to accept invalid key for a.\n")
        self.assertEqual(self.states(), {"minions_pre": ["a"]})

    def test_accepting_moves_from_everywhere(self) -> None:
        """After an acceptance of a denied key the id is in no other exclusive state."""
        self.put("minions", "a", text=KEYS[0])
        self.put("minions_denied", "a", text=KEYS[1])

        files = KeyFiles({"pki_dir": f"{self.root}/pki"})
        files.accept_dict({"minions_denied": ["a"]}, include_denied=True)

        self.assertEqual(self.states(), {"minions": ["a"]})
        self.assertEqual(files.key_str("a"), {"minions": {"a": KEYS[1]}})

    def test_fingerprints(self) -> None:
        """-f shows what the minion itself shows; -F the master's own files, too."""
        self.put("minions", "a")
        with open(f"{self.root}/pki/master.pub", "w", encoding="ascii") as file:
            file.write(KEYS[1])

        one = self.command("salt-key", "-f", "a")
        every = self.command("salt-key", "-F", "--out=json")
        none = self.command("salt-key", "-f", "b")

        self.assertEqual(one.out, f"Accepted Keys:\na:  {fingerprint(KEYS[0])}\n")
        self.assertEqual(
            json.loads(every.out),
            {
                "minions": {"a": fingerprint(KEYS[0])},
                "local": {"master.pub": fingerprint(KEYS[1])},
            },
        )
        self.assertEqual(none.out, "")

    def test_print(self) -> None:
        """-p prints the key as it is in the file."""
        self.put("minions_pre", "a")

        result = self.command("salt-key", "-p", "a")

        self.assertEqual(result.out, f"Unaccepted Keys:\na:  {KEYS[0]}\n")

    def test_names_that_are_none(self) -> None:
        """Links and files whose names are not a minion ids are not keys."""
        self.put("minions", "a", ".key_cache")
        os.symlink("/etc/passwd", f"{self.root}/pki/minions/link")

        self.assertEqual(self.command("salt-key", "-l", "acc").out, "Accepted Keys:\na\n")

    def test_delete_all_takes_no_names(self) -> None:
        """-D with a name is refused, as it was surely meant as -d."""
        self.put("minions", "a")

        result = self.command("salt-key", "-y", "-D", "a")

        self.assertIn("Delete all takes no arguments.", result.err)
        self.assertEqual(self.states(), {"minions": ["a"]})

    def test_other_user(self) -> None:
        """Who may not become the master's user is told, with status 67."""
        result = self.command("salt-key", "-L", "--user=nobody-of-this-name")

        self.assertEqual(result.status, 67)
        self.assertIn('run as user "nobody-of-this-name" but unable to switch.', result.err)


class GenerationTests(CommandTestCase):
    """Key pairs and the signature over the master's key."""

    def test_gen_keys(self) -> None:
        """--gen-keys writes a pair only its owner can read, and prints the fingerprint; again
        it prints the same."""
        words = ("salt-key", "--gen-keys=foo", f"--gen-keys-dir={self.root}/new")
        with mock.patch.object(PrivateKey, "generate", return_value=_PAIR):
            first, second = self.command(*words), self.command(*words)

        with open(f"{self.root}/new/foo.pub", encoding="ascii") as file:
            self.assertEqual(first.out, f"return:\n    {fingerprint(file.read())}\n")
        self.assertEqual(second.out, first.out)
        for end in ("pem", "pub"):
            mode = os.stat(f"{self.root}/new/foo.{end}").st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o400)

    def test_keysize(self) -> None:
        """Below 2048 bits is a usage error."""
        result = self.command("salt-key", "--gen-keys=foo", "--keysize=1024")

        self.assertEqual(result.status, 64)
        self.assertIn("The minimum value for keysize is 2048", result.err)

    def test_signature(self) -> None:
        """--gen-signature signs the text that travels; a minion can verify it."""
        import base64

        os.mkdir(f"{self.root}/pki")
        with mock.patch.object(PrivateKey, "generate", return_value=_PAIR):
            generate(f"{self.root}/pki", "master", 2048)
            missing = self.command("salt-key", "--gen-signature")
            made = self.command("salt-key", "--gen-signature", "--auto-create")
        again = self.command("salt-key", "--gen-signature")

        self.assertEqual(missing.out, "return:\n    No usable private-key found\n")
        self.assertEqual(made.out, "return:\n    True\n")
        self.assertEqual(again.out, "return:\n    False\n")
        with open(f"{self.root}/pki/here_pubkey_signature", "rb") as file:
            signature = base64.b64decode(file.read())
        with open(f"{self.root}/pki/master_sign.pub", encoding="ascii") as text:
            signer = PublicKey.from_pem(text.read())
        self.assertTrue(signer.verify(_PAIR.public.pem.encode(), signature))


_PAIR = PrivateKey.generate(2048)


class MasterTests(CommandTestCase):
    """A master runs: it is asked."""

    def test_delete(self) -> None:
        """The master gets the keys that were shown, by state, and the modifiers."""
        daemon = self.daemon(wheel=lambda args: {"return": {"minions": ["a"]}, "success": True})

        result = self.command(
            "salt-key", "-y", "-d", "a", "--rotate-aes-key=False", "--preserve-minions=True"
        )

        self.assertTrue(result.out.endswith("Accepted Keys:\na\nKey for minion a deleted.\n"))
        self.assertEqual(
            [(args["fun"], args["kwarg"]) for _, args in daemon.asked],
            [
                ("key.name_match", {"match": "a"}),
                (
                    "key.delete_dict",
                    {
                        "match": {"minions": ["a"]},
                        "rotate_aes_key": False,
                        "preserve_minions": True,
                    },
                ),
            ],
        )

    def test_refused(self) -> None:
        """A refusal is printed, and the files are not touched in its place."""

        def refuse(_args: dict[str, Any]) -> None:
            raise Refusal("AuthorizationError", "not you")

        self.daemon(wheel=refuse)
        os.makedirs(f"{self.root}/pki/minions")

        result = self.command("salt-key", "-L")

        self.assertEqual((result.status, result.out), (1, "not you\n"))
