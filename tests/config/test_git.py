"""
What C{gitfs_remotes} says, and what of it cannot work.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.git import GitRemote, remotes_of, shown
from saltwisted.config.options import MasterConfig

URL = "https://git.example.org/states.git"


def parsed(remotes: Any, **options: Any) -> tuple[list[GitRemote], list[str]]:
    """As a master reads them."""
    return remotes_of(MasterConfig(gitfs_remotes=remotes, **options).value)


class RemoteTests(SynchronousTestCase):
    """What can work."""

    def test_plain(self) -> None:
        """A URL alone has the global parameters, with Salt's defaults."""
        (remote,), wrong = parsed([URL])

        self.assertEqual(wrong, [])
        self.assertEqual(
            (remote.url, remote.base, remote.root, remote.mountpoint), (URL, "master", "", "")
        )
        self.assertEqual(remote.ref_types, ("branch", "tag", "sha"))
        self.assertEqual(remote.update_interval, 60)
        self.assertTrue(remote.ssl_verify)

    def test_own_before_global(self) -> None:
        """A parameter of a remote holds before its global form; the others have that."""
        remotes, wrong = parsed(
            [{URL: [{"base": "main"}, {"mountpoint": "salt://a/b/"}]}, "/srv/git/other"],
            gitfs_base="trunk",
            gitfs_root="/states/",
            gitfs_ssl_verify=False,
            gitfs_update_interval=5,
        )

        self.assertEqual(wrong, [])
        self.assertEqual([each.base for each in remotes], ["main", "trunk"])
        self.assertEqual([each.mountpoint for each in remotes], ["a/b", ""])
        self.assertEqual([each.root for each in remotes], ["states"] * 2)
        self.assertEqual([each.ssl_verify for each in remotes], [False] * 2)
        self.assertEqual([each.update_interval for each in remotes], [5] * 2)

    def test_saltenv(self) -> None:
        """Environments are mapped by remote and by option; C{ref} of base is the parameter base."""
        saltenv = [{"base": [{"ref": "x"}]}, {"dev": [{"ref": "y"}, {"root": "r"}]}]
        (remote,), wrong = parsed(
            [{URL: [{"saltenv": saltenv}, {"all_saltenvs": "z"}]}],
            gitfs_saltenv=[{"qa": [{"mountpoint": "salt://m"}]}],
        )

        self.assertEqual(wrong, [])
        self.assertEqual((remote.base, remote.all_saltenvs), ("x", "z"))
        self.assertEqual(remote.saltenv["dev"], {"ref": "y", "root": "r"})
        self.assertEqual(remote.saltenv_everywhere, {"qa": {"mountpoint": "m"}})

    def test_every_name(self) -> None:
        """Each parameter of Salt's is taken by a remote."""
        given = {
            "root": "r", "mountpoint": "m", "base": "b", "ref_types": ["branch"], "fallback": "f",
            "all_saltenvs": "a", "disable_saltenv_mapping": True, "saltenv_whitelist": "a,b",
            "saltenv_blacklist": ["c"], "refspecs": ["+refs/heads/*:refs/remotes/origin/*"],
            "user": "u", "password": "p", "pubkey": "k", "privkey": "l", "passphrase": "x",
            "insecure_auth": True, "ssl_verify": False, "proxy": "http://p:1", "depth": 3,
            "update_interval": 7, "name": "n", "saltenv": [{"dev": [{"ref": "r"}]}],
        }  # fmt: skip
        (remote,), wrong = parsed([{URL: [{name: value} for name, value in given.items()]}])

        self.assertEqual(wrong, [])
        self.assertEqual(remote.saltenv_whitelist, ("a", "b"))
        self.assertEqual((remote.name, remote.shown, remote.depth), ("n", "n", 3))

    def test_urls(self) -> None:
        """Each form of a URL that git knows and that runs no program is one."""
        urls = [
            "git@github.com:a/b.git", "github.com:a/b", "ssh://git@h:22/a", "git+ssh://h/a", "git://h/a",
            "file:///a b", "/srv/git/a", "http://[::1]:80/a", "https://u@h/a", "git@h:/abs/path",
        ]  # fmt: skip
        remotes, wrong = parsed(urls)

        self.assertEqual(wrong, [])
        self.assertEqual([each.url for each in remotes], urls)


class WrongTests(SynchronousTestCase):
    """What cannot."""

    def wrong(self, remotes: Any, **options: Any) -> str:
        """The one sentence; nothing is served, and another remote is."""
        good, found = parsed([*remotes, "/other"], **options)
        self.assertEqual([each.url for each in good], ["/other"])
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_urls(self) -> None:
        """T-GIT-2: options, transports that are programs, and hosts that are options are none."""
        for url in (
            "--upload-pack=touch /tmp/x", "-u", "ext::sh -c x", "ext::https://h/a", "fd::7", "a::b",
            "ssh://-oProxyCommand=x/a", "-oProxyCommand=x:a", "ssh://u@-x/a", "ssh://-x@h/a",
            "git@-x:a", "ftp://h/a", "relative/path", "https://",
            "ssh:///a", "https://h/a\nb", "git@h:a\0", "javascript:",
        ):  # fmt: skip
            said = self.wrong([url])
            self.assertIn("left out", said, repr(url))
            self.assertEqual("begin with a minus" in said, url.startswith("-"), said)

    def test_misspelt(self) -> None:
        """A parameter that nobody knows is told with the one that was meant."""
        self.assertIn("did you mean 'mountpoint'?", self.wrong([{URL: [{"mountpiont": "x"}]}]))
        self.assertIn(
            "did you mean 'root'?", self.wrong([{URL: [{"saltenv": [{"dev": [{"rot": "x"}]}]}]}])
        )

    def test_values(self) -> None:
        """A value that leads out, or is of another type, is told by the name of its parameter."""
        for name, value in {
            "root": "../x", "mountpoint": "salt://../x", "base": "-x", "fallback": "a..b",
            "all_saltenvs": "a b", "ssl_verify": "no", "ref_types": ["brunch"],
            "update_interval": "x",
            "refspecs": ["refs/heads/*:refs/heads/*"], "depth": -1, "proxy": "a\nb",
            "saltenv_whitelist": 5, "saltenv_blacklist": {"a": 1},
        }.items():  # fmt: skip
            self.assertIn(name.partition("_")[0], self.wrong([{URL: [{name: value}]}]), name)
        for spec in ("--upload-pack=x:refs/tags/x", "+refs/heads/*:../x", "a b:refs/tags/c", ""):
            self.assertIn("refspec", self.wrong([{URL: [{"refspecs": [spec]}]}]), spec)

    def test_shapes(self) -> None:
        """An entry of another shape is told in words."""
        self.assertIn("remove the colon", self.wrong([{URL: None}]))
        self.assertIn("quotation marks", self.wrong([17]))

    def test_credentials(self) -> None:
        """Half of a login, and a password in the clear, are told."""
        self.assertIn("user is missing", self.wrong([{URL: [{"password": "geheim"}]}]))
        plain = "http://h/a"
        both = [{"user": "u"}, {"password": "geheim"}]
        self.assertIn("insecure_auth", self.wrong([{plain: both}]))
        (remote, _), wrong = parsed([{plain: [*both, {"insecure_auth": True}]}, "/other"])
        self.assertEqual((wrong, remote.user), ([], "u"))
        for url in ("ssh://h/a", "git@h:a"):
            self.assertIn("privkey is not", self.wrong([{url: [{"passphrase": "geheim"}]}]))
            keys = [{"passphrase": "geheim"}, {"privkey": "/k"}]
            self.assertEqual(parsed([{url: keys}])[1], [])

    def test_no_such_parameter(self) -> None:
        """A remote is made of parameters that there are: another one is a mistake of ours."""
        self.assertRaises(TypeError, GitRemote, url=URL, bsae="x")

    def test_verify(self) -> None:
        """T-GIT-7: who asks for signatures in a way that cannot work is served nothing unsigned."""
        self.assertIn("did you mean 'gpg'?", self.wrong([{URL: [{"verify": "gpgs"}]}]))
        self.assertIn("'True' is unknown", self.wrong([{URL: [{"verify": True}]}]))
        self.assertIn("needs verify_keyring", self.wrong([{URL: [{"verify": "gpg"}]}]))
        keys = {"verify": "ssh", "verify_keyring": "/k"}
        self.assertIn("verify_allowed_signers", self.wrong([{URL: [keys]}]))
        (text,) = parsed([URL], gitfs_verify="gpg", gitfs_verify_keyring="keys")[1]
        self.assertIn("needs verify_keyring, the path", text)
        (remote,), wrong = parsed(
            [{URL: [{"verify_keyring": "/own"}]}], gitfs_verify="gpg", gitfs_verify_keyring="/k"
        )
        self.assertEqual((wrong, remote.verify, remote.signers), ([], "gpg", "/own"))
        (remote,), _ = parsed([{URL: [{"verify": False}]}], gitfs_verify="ssh")
        self.assertEqual((remote.verify, remote.signers, remote.judged), ("", "", ()))

    def test_secrets(self) -> None:
        """T-GIT-3: no credential is in a message, in a representation, or in what is shown."""
        url = "https://fred:geheim@h/a?token=geheim#geheim"
        secrets = [{"user": "u"}, {"password": "geheim"}, {"passphrase": "geheim"}]
        (remote, _), _ = parsed([{url: secrets}, "/other"])
        texts = [
            repr(remote),
            remote.shown,
            shown(url),
            self.wrong([{url: [*secrets, {"bsae": 1}]}]),
        ]

        self.assertEqual([text for text in texts if "geheim" in text], [])

    def test_provider(self) -> None:
        """Each provider of Salt's is accepted; another is told with the one that was meant."""
        for name in ("pygit2", "gitpython", "gitcli"):
            self.assertEqual(parsed([URL], extra={"gitfs_provider": name})[1], [])
        (text,) = parsed([URL], extra={"gitfs_provider": "pygti2"})[1]
        self.assertIn("did you mean 'pygit2'?", text)
