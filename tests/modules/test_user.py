"""Salt's C{user}, C{group} and C{shadow}: command lines, files below another root, hashes."""

from __future__ import annotations

import grp
import os
import pwd
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules import _accounts
from saltwisted.worker import libcrypt, systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from tests.modules.harness import Commands, load

PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\n"
    "anna:x:1000:1000:Anna B,12,34,56,other,more:/home/anna:/bin/sh\n"
    "short:line\n"
)
GROUP = "root:x:0:\nanna:x:1000:\nstaff:x:50:anna,ben\nbroken\n"
SHADOW = "root:*:19000:0:99999:7:::\nanna:!$6$x:19001:1:90:7:5:20000:\nold:hash\n"


class AccountsCase(SynchronousTestCase):
    """A root directory with a few accounts, and programs that are written down only."""

    name = "useradd"

    def setUp(self) -> None:
        self.commands = Commands()
        salt = self.commands.salt()
        salt["file.group_to_gid"] = lambda name: 4711
        self.module = load(self.name, salt=salt)
        salt["group.info"] = getattr(self.module, "info", None)
        self.programs: Any = None
        self.patch(
            systools,
            "which",
            lambda name: name if self.programs is None or name in self.programs else None,
        )
        self.root = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(self.root, "etc"))
        for name, text in (("passwd", PASSWD), ("group", GROUP), ("shadow", SHADOW)):
            with open(os.path.join(self.root, "etc", name), "w", encoding="utf-8") as file:
                file.write(text)

    def become(self, **fields: Any) -> None:
        """From the next usermod on the entry of anna has other fields."""
        entry = {
            "name": "anna",
            "uid": 1000,
            "gid": 1000,
            "gecos": "Anna B",
            "home": "/home/anna",
            "shell": "/bin/sh",
        }

        def user(name: Any, root: str | None = None) -> pwd.struct_passwd:
            now = {**entry, **fields} if any("mod" in c for c in self.commands.ran) else entry
            if name != now["name"]:
                raise KeyError(name)
            return pwd.struct_passwd(
                (now["name"], "x", now["uid"], now["gid"], now["gecos"], now["home"], now["shell"])
            )

        self.patch(_accounts, "user", user)
        self.patch(_accounts, "group_list", lambda name, include_default=True: ["anna"])


class UserTests(AccountsCase):
    """C{user}."""

    def test_add(self) -> None:
        """Every argument has its option; further data are set one by one afterwards."""
        self.become(gecos="Full")

        self.assertTrue(
            self.module.add(
                "anna",
                uid=0,
                gid="staff",
                home="/h",
                shell="/bin/sh",
                unique=False,
                system=True,
                createhome=False,
                nologinit=True,
                usergroup=False,
                groups="x,y",
                fullname="Full",
            )
        )

        self.assertEqual(
            self.commands.ran,
            [
                "useradd -s /bin/sh -u 0 -g staff -N -M -l -d /h -o -r anna",
                "usermod -G x,y anna",
            ],
        )

    def test_add_below_a_root(self) -> None:
        """Another root is given to useradd; local users go by luseradd."""
        self.module.add("x", root="/mnt", usergroup=True)
        self.module.add("x", local=True, usergroup=True)

        self.assertEqual(self.commands.ran, ["useradd -U -m x -R /mnt", "luseradd x"])

    def test_add_to_its_own_group(self) -> None:
        """A user whose group exists already gets it as primary group."""
        self.module._user_groups_enabled = lambda: True

        self.module.add("x", groups=["x"])

        self.assertEqual(self.commands.ran[0], "useradd -g 4711 -m x")

    def test_add_fails(self) -> None:
        """If useradd fails nothing else is tried."""
        self.commands.answers["useradd"] = 9

        self.assertFalse(self.module.add("x", groups="y"))

        self.assertEqual(len(self.commands.ran), 1)

    def test_missing_program(self) -> None:
        """A missing program is named."""
        self.programs = set()

        error = self.assertRaises(CommandExecutionError, self.module.add, "x")

        self.assertEqual(str(error), "Command 'useradd' cannot be found")

    def test_delete(self) -> None:
        """On Debian a complaint about the mail spool is not a failure, others are."""
        self.assertTrue(self.module.delete("x", remove=True, force=True, root="/m"))
        self.commands.answers["userdel"] = {
            "retcode": 12,
            "stderr": "userdel: x mail spool (/var/mail/x) not found",
        }
        self.assertTrue(self.module.delete("x"))
        self.commands.answers["userdel"] = {"retcode": 12, "stderr": "can't remove home"}
        self.assertFalse(self.module.delete("x"))

        self.assertEqual(self.commands.ran[0], "userdel -r -f x -R /m")

    def test_changes(self) -> None:
        """A change is made once, and is true if the entry says so afterwards."""
        self.become(uid=7, home="/new")

        self.assertTrue(self.module.chuid("anna", 1000))
        self.assertEqual(self.commands.ran, [])
        self.assertTrue(self.module.chuid("anna", 7))
        self.assertFalse(self.module.chuid("anna", 8))
        self.assertTrue(self.module.chhome("anna", "/new", persist=True, root="/m"))
        self.assertEqual(self.commands.ran, ["usermod -u 7 anna", "usermod -u 8 anna"])

    def test_home_is_moved(self) -> None:
        """With C{persist} usermod moves the directory."""
        self.become(home="/new")

        self.assertTrue(self.module.chhome("anna", "/new", persist=True, root="/m"))

        self.assertEqual(self.commands.ran, ["usermod -R /m -m -d /new anna"])

    def test_change_of_nobody(self) -> None:
        """An unknown user is an error."""
        self.become()

        error = self.assertRaises(CommandExecutionError, self.module.chuid, "nope", 1)

        self.assertEqual(str(error), "User 'nope' does not exist")

    def test_personal_data(self) -> None:
        """One field is changed, the others stay, empty ones at the end are dropped."""
        self.become(gecos="Anna B,7")

        self.assertTrue(self.module.chroomnumber("anna", 7))

        self.assertEqual(self.commands.ran, ["usermod -c Anna B,7 anna"])

    def test_groups(self) -> None:
        """Groups are replaced or added; the same ones need no command."""
        self.become()

        self.assertTrue(self.module.chgroups("anna", ["anna"]))
        self.assertTrue(self.module.chgroups("anna", "a,b", append=True))
        self.assertEqual(self.commands.ran, ["usermod -a -G a,b anna"])

    def test_groups_of_a_directory_user(self) -> None:
        """A user who is in no local file is put into each group by gpasswd."""
        self.become()
        self.commands.answers["usermod"] = {"retcode": 6, "stderr": "user not found in /etc/passwd"}
        self.commands.answers["gpasswd -a anna b"] = 1

        self.assertTrue(self.module.chgroups("anna", "a"))
        self.assertFalse(self.module.chgroups("anna", "a,b"))

    def test_info_below_a_root(self) -> None:
        """The files of another root are read; a field of personal data may hold commas."""
        found = self.module.info("anna", root=self.root)

        self.assertEqual((found["uid"], found["gid"], found["home"]), (1000, 1000, "/home/anna"))
        self.assertEqual((found["fullname"], found["other"]), ("Anna B", "other,more"))
        self.assertEqual(self.module.info("nope", root=self.root), {})
        self.assertEqual(self.module.list_users(root=self.root), ["anna", "root"])

    def test_rename(self) -> None:
        """A name that is taken is refused."""
        self.become(name="eve")

        error = self.assertRaises(CommandExecutionError, self.module.rename, "x", "anna")
        self.assertEqual(str(error), "User 'anna' already exists")
        self.assertTrue(self.module._change("anna", "home", "/home/anna", "-d", None))

    def test_getent_is_remembered(self) -> None:
        """The list is kept until a refresh is asked for."""
        first = self.module.getent(root=self.root)
        self.assertEqual([item["name"] for item in first], ["root", "anna"])

        os.unlink(os.path.join(self.root, "etc/passwd"))

        self.assertEqual(self.module.getent(root=self.root), first)
        self.assertRaises(OSError, self.module.getent, refresh=True, root=self.root)

    def test_groups_of_root(self) -> None:
        """root is in its own group, on any system, and in none without it but supplements."""
        primary = grp.getgrgid(pwd.getpwnam("root").pw_gid).gr_name

        self.assertIn(primary, self.module.list_groups("root"))
        self.assertNotIn(primary, _accounts.group_list("root", include_default=False))
        self.assertEqual(_accounts.group_list("no-such-user"), [])


class GroupTests(AccountsCase):
    """C{group}."""

    name = "groupadd"

    def test_add_and_delete(self) -> None:
        """Every argument has its option."""
        self.assertTrue(self.module.add("g", 5, system=True, root="/m", non_unique=True))
        self.assertTrue(self.module.add("g", local=True, non_unique=True))
        self.commands.answers["groupdel"] = 6
        self.assertFalse(self.module.delete("g", root="/m"))

        self.assertEqual(
            self.commands.ran, ["groupadd -g 5 -o -r -R /m g", "lgroupadd g", "groupdel -R /m g"]
        )

    def test_info_below_a_root(self) -> None:
        """Members are a list, broken lines are left out."""
        self.assertEqual(
            self.module.info("staff", root=self.root),
            {"name": "staff", "passwd": "x", "gid": 50, "members": ["anna", "ben"]},
        )
        self.assertEqual(self.module.info("nope", root=self.root), {})
        self.assertEqual(
            [item["name"] for item in self.module.getent(root=self.root)],
            ["root", "anna", "staff"],
        )

    def test_chgid(self) -> None:
        """The same id needs no command, an unknown group is false."""
        self.assertTrue(self.module.chgid("staff", 50, root=self.root))
        self.assertFalse(self.module.chgid("nope", 50, root=self.root))
        self.assertEqual(self.commands.ran, [])
        self.assertFalse(self.module.chgid("staff", 51, root=self.root, non_unique=True))
        self.assertEqual(self.commands.ran, [f"groupmod -R {self.root} -og 51 staff"])

    def test_members(self) -> None:
        """gpasswd adds, removes and replaces; who is not in a group need not be removed."""
        self.module.__salt__["group.info"] = lambda name: {"members": ["anna"]}

        self.assertTrue(self.module.adduser("g", "anna", root="/m"))
        self.assertTrue(self.module.deluser("g", "ben"))
        self.assertTrue(self.module.deluser("g", "anna"))
        self.commands.answers["gpasswd --members"] = 3
        self.assertFalse(self.module.members("g", "a,b"))

        self.assertEqual(
            self.commands.ran,
            ["gpasswd --add anna g --root /m", "gpasswd --del anna g", "gpasswd --members a,b g"],
        )


class ShadowTests(AccountsCase):
    """C{shadow}."""

    name = "linux_shadow"

    def test_info(self) -> None:
        """Empty ages are -1, missing ones too; nobody has empty fields."""
        self.assertEqual(
            self.module.info("anna", root=self.root),
            {
                "name": "anna",
                "passwd": "!$6$x",
                "lstchg": 19001,
                "min": 1,
                "max": 90,
                "warn": 7,
                "inact": 5,
                "expire": 20000,
            },
        )
        self.assertEqual(self.module.info("root", root=self.root)["inact"], -1)
        self.assertEqual(self.module.info("old", root=self.root)["lstchg"], -1)
        self.assertEqual(self.module.info("nope", root=self.root)["name"], "")
        self.assertEqual(self.module.info("x", root="/no/such")["name"], "")
        self.assertEqual(self.module.list_users(root=self.root), ["anna", "old", "root"])

    def test_unreadable(self) -> None:
        """Who may not read the file gets empty fields, and no traceback."""

        def refused(*_: Any) -> Any:
            raise PermissionError(13, "Permission denied")

        self.patch(_accounts, "rows", refused)

        self.assertEqual(set(self.module.info("anna", root=self.root).values()), {""})

    def test_ages(self) -> None:
        """chage is called only for a change, and believed only by what the file says."""
        self.assertTrue(self.module.set_maxdays("anna", 90, root=self.root))
        self.assertEqual(self.commands.ran, [])
        self.assertFalse(self.module.set_maxdays("anna", 91, root=self.root))
        self.assertTrue(self.module.set_expire("anna", "2030-01-01", root=self.root))
        self.assertFalse(self.module.set_mindays("nope", 1, root=self.root))

        self.assertEqual(
            self.commands.ran,
            [f"chage -R {self.root} -M 91 anna", f"chage -R {self.root} -E 2030-01-01 anna"],
        )

    def test_set_password(self) -> None:
        """The hash and the day are set, the rest and the mode of the file stay."""
        path = os.path.join(self.root, "etc/shadow")
        os.chmod(path, 0o640)
        self.patch(pwd, "getpwnam", lambda name: None)

        self.assertTrue(self.module.set_password("anna", "$6$new", root=self.root))
        self.assertTrue(self.module.set_password("fresh", "$6$f", root=self.root))

        found = self.module.info("anna", root=self.root)
        self.assertEqual((found["passwd"], found["max"]), ("$6$new", 90))
        self.assertGreater(found["lstchg"], 19001)
        self.assertEqual(self.module.info("fresh", root=self.root)["passwd"], "$6$f")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)

    def test_set_password_of_nobody(self) -> None:
        """Nobody gets no password."""
        self.assertIs(self.module.set_password("no-such-user", "x"), False)

    def test_lock(self) -> None:
        """A locked password needs no lock; unlocking is judged by the file."""
        self.assertTrue(self.module.lock_password("anna", root=self.root))
        self.assertEqual(self.commands.ran, [])
        self.assertFalse(self.module.unlock_password("anna", root=self.root))
        self.assertFalse(self.module.lock_password("nope", root=self.root))
        self.assertEqual(self.commands.ran, [f"passwd -R {self.root} -u anna"])

    def test_hashes(self) -> None:
        """Hashes are those of crypt(3), with the given salt or a random one."""
        gen = self.module.gen_password

        # As openssl passwd and perl print them.
        self.assertEqual(
            gen("Hello world!", "saltstring", "sha256"),
            "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
        )
        self.assertEqual(
            gen("Hello world!", "saltstring"),
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcb"
            "YEdFCoEOfaS35inz1",
        )
        self.assertNotEqual(gen("pw"), gen("pw"))
        self.assertTrue(gen("pw").startswith("$6$"))
        self.assertTrue(libcrypt.gen_hash(algorithm="md5").startswith("$1$"))
        self.assertRaises(SaltInvocationError, gen, "pw", "x", "rot13")
