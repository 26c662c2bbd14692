"""
Fetches from real servers on loopback: OpenSSH, and git over https, each in the ways of the page.
"""

from __future__ import annotations

import getpass
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import SkipTest

from saltwisted.cli import backup
from saltwisted.config.git import remotes_of
from saltwisted.master.gitcopies import key_of
from saltwisted.worker.git import repository, work
from saltwisted.worker.process.configio import load_from_disk
from tests.certificates import Authority
from tests.gitrepos import fetch_request
from tests.gitweb import GitWeb
from tests.harness import reserve_ports, write_config
from tests.worker.test_git import MASTER, FetchTestCase

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


class SSHTests(FetchTestCase):
    """A real C{sshd}. Keys that work for git work here (pains-next 3.15)."""

    def setUp(self) -> None:
        """A server with a key of its own, and whoever runs the tests may log in by two keys."""
        super().setUp()
        if SSHD is None:
            raise SkipTest("there is no sshd: install openssh-server")
        self.where = Path(self.folder, "ssh")
        self.where.mkdir(mode=0o700)
        for name, word in (("host", ""), ("plain", ""), ("locked", "geheim"), ("stranger", "")):
            self.run_("ssh-keygen", "-q", "-t", "ed25519", "-N", word, "-f", str(self.where / name))
        known = [(self.where / f"{name}.pub").read_text() for name in ("plain", "locked")]
        (self.where / "authorized").write_text("".join(known))
        (self.port,) = reserve_ports(1)
        self.hosts = self.where / ".ssh/known_hosts"
        self.hosts.parent.mkdir(mode=0o700)
        self.patch(repository, "_home", lambda: str(self.where))
        self.real = shutil.which("ssh")
        # ssh takes its own files from the directory that the machine's users have
        bin_ = Path(self.folder, "bin")
        bin_.mkdir()
        (bin_ / "ssh").write_text(
            f"#!/bin/sh\nexec {self.real} -F none -o UserKnownHostsFile={self.hosts}"
            ' -o GlobalKnownHostsFile=/dev/null "$@"\n'
        )
        (bin_ / "ssh").chmod(0o755)
        (bin_ / "ssh-keygen").write_text(
            f'#!/bin/sh\ncase "$1" in -R) set -- -f {self.hosts} "$@";; esac\n'
            f'exec {shutil.which("ssh-keygen")} "$@"\n'
        )
        (bin_ / "ssh-keygen").chmod(0o755)
        environ = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"}
        environ.pop("SSH_AUTH_SOCK", None)
        self.patch(os, "environ", environ)
        self.serve("host")
        self.url = f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{self.repo.path}"

    def run_(self, *args: str, **environ: str) -> str:
        """Run a program; what it said."""
        done = subprocess.run(
            args, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def serve(self, key: str) -> None:
        """Have a server with this key of its host."""
        assert SSHD is not None
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        config = self.where / f"sshd-{key}"
        config.write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {self.where}/{key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.where}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        )
        process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE, text=True
        )
        self.process = process
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stderr is not None
        self.addCleanup(process.stderr.close)
        for line in process.stderr:
            if "listening on" in line:
                return
        self.fail("sshd does not start")

    def trust(self) -> None:
        """The host is known, by the line that the error tells."""
        text = self.error(self.url)
        command = text.partition("add it: ")[2].splitlines()[0]
        self.assertEqual(command, f"ssh-keyscan -p {self.port} 127.0.0.1 >> {self.hosts}")
        self.run_("sh", "-c", command)

    def test_key(self) -> None:
        """A deploy key of ed25519 fetches; without one, and with a stranger's, it is refused."""
        self.trust()
        self.assertEqual(
            self.refs(self.fetch(self.url, privkey=str(self.where / "plain"))),
            {MASTER: self.first},
        )
        for keys in ({}, {"privkey": str(self.where / "stranger")}):
            self.assertIn("Permission denied (publickey", self.error(self.url, **keys))

    def test_passphrase(self) -> None:
        """A key with a passphrase fetches by it, and a wrong one is refused and not told."""
        self.trust()
        key = {"privkey": str(self.where / "locked")}

        self.assertEqual(
            self.refs(self.fetch(self.url, **key, passphrase="geheim")), {MASTER: self.first}
        )
        self.assertNotIn("falsch", self.error(self.url, **key, passphrase="falsch"))
        self.assertIn("Permission denied", self.error(self.url, **key))

    def test_agent(self) -> None:
        """The key of an agent fetches, as it does for the user in a shell."""
        self.trust()
        told = self.run_("ssh-agent", "-s", "-a", str(self.where / "agent"))
        pid = int(told.partition("SSH_AGENT_PID=")[2].partition(";")[0])
        self.addCleanup(os.kill, pid, 15)
        self.patch(os, "environ", {**os.environ, "SSH_AUTH_SOCK": str(self.where / "agent")})
        self.run_("ssh-add", "-q", str(self.where / "plain"))

        self.assertEqual(self.refs(self.fetch(self.url)), {MASTER: self.first})

    def test_unknown_host(self) -> None:
        """T-GIT-9: a host that nobody knows is refused, with the line that adds its key."""
        text = self.error(self.url, privkey=str(self.where / "plain"))

        self.assertIn("Host key verification failed", text)
        self.assertIn(f"ssh-keyscan -p {self.port} 127.0.0.1 >> {self.hosts}", text)
        self.assertFalse(self.hosts.exists())

    def test_other_host_key(self) -> None:
        """
        T-GIT-9: a host with another key than before is refused; no line is told that adds it, and
        the one that removes the old key does no more.
        """
        self.trust()
        self.process.kill()
        self.process.wait()
        self.serve("stranger")

        text = self.error(self.url, privkey=str(self.where / "plain"))

        self.assertIn("the host's key is not the one in known_hosts", text)
        self.assertIn(f"ssh-keygen -R '[127.0.0.1]:{self.port}'", text)
        self.assertNotIn("ssh-keyscan", text)
        self.run_("sh", "-c", text.partition("remove the old one: ")[2].splitlines()[0])
        self.trust()
        self.assertTrue(self.fetch(self.url, privkey=str(self.where / "plain")))


class HTTPTests(FetchTestCase):
    """Git over http and https, by git's own program behind a web server."""

    def setUp(self) -> None:
        """A server that wants a login, with a certificate of an authority of our own."""
        super().setUp()
        folder = Path(self.folder, "tls")
        folder.mkdir()
        self.authority = Authority(str(folder))
        self.server = self.serve(self.authority.issue("localhost", "localhost"))
        self.secure = f"{self.server.url}/source"
        self.login = {"user": "fred", "password": "ge heim"}

    def serve(self, certificate: Mapping[str, str] = {}) -> GitWeb:
        """A server of the repository."""
        return GitWeb(self, self.folder, "fred:ge heim", certificate)

    def trust(self) -> None:
        """The user whom the master runs as knows our authority, as he tells git."""
        Path(self.folder, ".gitconfig").write_text(f"[http]\n sslCAInfo = {self.authority.ca}\n")

    def test_login(self) -> None:
        """User and password fetch over https, and a certificate of an authority of one's own."""
        self.assertIn("certificate", self.error(self.secure, **self.login))
        self.assertEqual(self.server.paths, [])
        self.trust()

        self.assertEqual(self.refs(self.fetch(self.secure, **self.login)), {MASTER: self.first})

    def test_login_in_url(self) -> None:
        """A login in the URL does as well."""
        self.trust()
        url = self.secure.replace("://", "://fred:ge%20heim@")

        self.assertEqual(self.refs(self.fetch(url)), {MASTER: self.first})

    def test_backup(self) -> None:
        """
        Of a login, configured or in the URL, nothing but the configuration itself has anything in a
        backup; no listing of it, and nothing that the commands say, has any.
        """
        self.trust()
        url = self.secure.replace("://", "://fred:ge%20heim@")
        remotes = [url, {self.secure: [{"user": "fred"}, {"password": "ge heim"}]}]
        home, cache = self.path("etc"), self.path("master")
        values = {"id": "m", "pki_dir": self.path("pki"), "cachedir": cache}
        write_config(f"{home}/master", {**values, "gitfs_remotes": remotes})
        write_config(f"{self.path('pki')}/master.pem", {})
        config = load_from_disk("master", home).master
        found, wrong = remotes_of(config.value)
        self.assertEqual((len(found), wrong), (2, []))
        for remote in found:
            folder = os.path.join(cache, "saltwisted", "git", key_of(remote))
            answer = work.fetch(fetch_request(folder, **remote.reached()))
            self.assertEqual(self.refs(answer), {MASTER: self.first})
        said = io.StringIO()
        file = self.path("backup.tgz")
        with redirect_stdout(said), redirect_stderr(said):
            self.assertEqual(backup.main(["-c", home, file]), 0)
            self.assertEqual(backup.main(["-c", home, "--json", file]), 0)
            for more in ([], ["--json"]):
                args = ["-c", home, "--dry-run", *more, file]
                shutil.rmtree(cache, True)
                self.assertEqual(backup.restore(args, os.environ), 0)
        self.assertIn(key_of(found[0]), said.getvalue())
        with tarfile.open(file) as archive:
            texts = {
                member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
                for member in archive
                if member.isfile()
            }
        self.assertGreater(len(texts), 10)
        having = []
        for secret in ("ge heim", "ge%20heim"):
            self.assertNotIn(secret, said.getvalue())
            self.assertNotIn(secret, "".join(texts))
            having += [name for name, text in texts.items() if secret.encode() in text]
        self.assertEqual({os.path.basename(name) for name in having}, {"master"})

    def test_helper(self) -> None:
        """A helper that the user has configured for git is asked, if nothing else is configured."""
        self.trust()
        with open(Path(self.folder, ".gitconfig"), "a") as file:
            file.write('[credential]\n helper = "!f() { echo username=fred;')
            file.write(" echo 'password=ge heim'; }; f\"\n")

        self.assertEqual(self.refs(self.fetch(self.secure)), {MASTER: self.first})
        named = self.secure.replace("://", "://fred@")
        self.assertEqual(self.refs(self.fetch(named)), {MASTER: self.first})

    def test_wrong_password(self) -> None:
        """A wrong password is refused, and is not told."""
        self.trust()

        text = self.error(self.secure, user="fred", password="ganz-falsch")

        self.assertIn("Authentication failed", text)
        self.assertNotIn("ganz-falsch", text)
        self.assertIn("could not read Username", self.error(self.secure))

    def test_not_verified(self) -> None:
        """With C{ssl_verify: false} any certificate does."""
        answer = self.fetch(self.secure, **self.login, ssl_verify=False)

        self.assertEqual(self.refs(answer), {MASTER: self.first})

    def test_other_name(self) -> None:
        """A certificate for another name is refused."""
        self.trust()
        other = self.serve(self.authority.issue("other", "git.example.org"))

        self.assertIn("certificate", self.error(f"{other.url}/source"))

    def test_proxy(self) -> None:
        """Where a proxy is configured, that is asked."""
        proxy = self.serve()
        url = "http://git.invalid/source"

        answer = self.fetch(url, **self.login, proxy=proxy.url)

        self.assertEqual(self.refs(answer), {MASTER: self.first})
        self.assertTrue(all(path.startswith("http://git.invalid/") for path in proxy.paths))
