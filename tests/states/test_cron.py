"""
C{cron.file}: a crontab from a file of the file server.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.states import cron


class CronFileTests(SynchronousTestCase):
    """The state, with functions that answer as those of C{file} do."""

    def setUp(self) -> None:
        for name in ("__salt__", "__opts__"):
            vars(cron).setdefault(name, None)
        self.put: list[str] = []

    def apply(self, problem: str = "", retcode: int = 0) -> dict[str, Any]:
        """Apply the state; the new content differs from the old one."""

        def manage(ret: dict[str, Any], **words: Any) -> dict[str, Any]:
            ret.update(result=True, comment="File updated", changes={"diff": "+new"})
            return ret

        def write(user: str, path: str) -> dict[str, Any]:
            self.put.append(user)
            return {"retcode": retcode, "stderr": "no"}

        self.patch(
            cron,
            "__salt__",
            {
                "user.info": lambda name: {"groups": ["games"]},
                "cron.raw_cron": lambda user: "",
                "file.source_list": lambda *words: ("salt://tab", "hash"),
                "file.get_managed": lambda **words: ("/cache/tab", {"hsum": "1"}, problem),
                "file.manage_file": manage,
                "cron.write_cron_file_verbose": write,
            },
        )
        self.patch(cron, "__opts__", {"test": False})
        return cron.file("salt://tab", user="games")

    def test_put(self) -> None:
        """What was put together becomes the crontab: C{file} fills the very return it is given."""
        ret = self.apply()

        self.assertEqual(self.put, ["games"])
        self.assertEqual(
            (ret["result"], ret["comment"]), (True, "Crontab for user games was updated")
        )
        self.assertEqual(ret["changes"], {"diff": "+new"})

    def test_refused(self) -> None:
        """A crontab that is refused is a failure without changes."""
        ret = self.apply(retcode=1)

        self.assertEqual((ret["result"], ret["changes"]), (False, {}))
        self.assertIn("Unable to update user games crontab", ret["comment"])

    def test_no_source(self) -> None:
        """Without its source nothing is put in place."""
        ret = self.apply(problem="not found")

        self.assertEqual(self.put, [])
        self.assertEqual((ret["result"], ret["comment"]), (False, "not found"))
