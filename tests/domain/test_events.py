"""
Which tags a minion may fire, and how large events are cut.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.events import (
    TRIMMED,
    Standing,
    closed_to_minions,
    minion_may_fire,
    standing,
    trimmed,
    weight,
)

JID = "20260701120000250000"


class TagTests(SynchronousTestCase):
    """T-EVT-1, for the single form and for lists alike."""

    def test_T_EVT_1_refused(self) -> None:
        """T-EVT-1: tags by which a master, a job or another minion speaks are refused."""
        for tag in (
            f"salt/job/{JID}/publish",
            f"salt/job/{JID}/new",
            f"salt/job/{JID}/return",
            f"salt/job/{JID}/ret/web2",
            f"salt/job/{JID}/prog/web2/1",
            f"salt/job/{JID}/start/web2",
            f"salt/job/{JID}/ret",
            f"salt/job/{JID}/sub/web2/error/state.sls",
            f"salt/job/{JID}/sub",
            f"salt/state_result/{JID}/web2/x",
            f"salt/state_result/{JID}/web2",
            "minion/refresh/web2",
            "resource/refresh/web2",
            "salt/job/a/b/new",
            "salt/auth",
            "salt/key",
            "salt/key/accept",
            "salt/keys",
            "salt/wheel/1/new",
            "salt/wheel/1/anything",
            "salt/run/1/ret",
            "salt/cloud/vm/created",
            "salt/cluster/x",
            "salt/presence/present",
            "salt/presence/change",
            "cluster/peer/a",
            "saltwisted/anything",
            "salt/minion/web2/start",
            "salt/beacon/web2/load/",
            "",
            "a\n\nb",
            "x" * 5000,
            None,
            b"my/tag",
            5,
        ):
            self.assertFalse(minion_may_fire("web1", tag), repr(tag))

    def test_T_EVT_1_passed(self) -> None:
        """T-EVT-1: a minion's own tags and whatever a site makes up pass."""
        for tag in (
            f"salt/job/{JID}/ret/web1",
            f"salt/job/{JID}/prog/web1/1",
            f"salt/job/{JID}/start/web1",
            f"salt/job/{JID}/sub/web1/error/state.sls",
            "minion/refresh/web1",
            "resource/refresh/web1",
            "minion/mysite/deploy",
            "salt/minion/web1/start",
            "salt/beacon/web1/load/",
            f"salt/state_result/{JID}/web1/x",
            "minion_start",
            "minion_ping",
            "my/tag",
            "my/salt/auth",
            "salty/auth",
            "key",
            "a b\tc",
            "gr\u00fc\u00dfe/\U0001f9c2",
        ):
            self.assertTrue(minion_may_fire("web1", tag), repr(tag))

    def test_T_EVT_4_stock(self) -> None:
        """T-EVT-4: all that stock's minions, their beacons and their engines fire, passes."""
        for tag in (
            "salt/minion/web1/start",
            "salt/beacon/web1/inotify//etc/passwd",
            "salt/beacon/web1/status/2026-11-29T01:01:01",
            f"salt/state_result/{JID}/web1/mystate/is/finished",
            f"salt/job/{JID}/prog/web1/12",
            f"salt/job/{JID}/start/web1",
            "salt/deltaproxy/start",
            "salt/engines/hook/github/push",
            "salt/engines/docker_events/start",
            "salt/engines/ircbot/test/tag/ircbot",
            "salt/engines/libvirt_events/qemu/domain/lifecycle",
            "salt/engines/slack/message",
            "salt/engine/sqs",
            "salt/engine/redis_sentinel/+odown",
        ):
            self.assertIs(standing("web1", tag), Standing.FREE, tag)

    @given(
        st.lists(
            st.sampled_from(("web1", "web2", JID, "start", "prog", "ret", "hook", "x", "*", ""))
            | st.text(max_size=4),
            max_size=4,
        ),
        st.sampled_from(
            ("netapi", "fileserver", "run", "wheel", "auth", "key", "cloud", "presence", "reactors",
             "cluster", "roots", "batch", "custom", "", "Minion", "minions", "job", "minion",
             "beacon", "state_result")
        ),
    )  # fmt: skip
    def test_T_EVT_4_list(self, words: list[str], second: str) -> None:
        """T-EVT-4: below C{salt/} nothing else passes, whatever stands behind it."""
        tag = "/".join(("salt", second, *words))
        parts = tag.split("/")
        place = {"minion": 2, "beacon": 2, "state_result": 3, "job": 4}.get(second)
        own = place is not None and parts[place : place + 1] == ["web1"] and "\n\n" not in tag
        if second == "job":
            own = own and parts[3] in ("start", "prog", "ret", "sub")
        self.assertEqual(minion_may_fire("web1", tag), own, tag)

    def test_T_EVT_4_opened(self) -> None:
        """T-EVT-4: a site's own words below C{salt/} can be opened, those of a master never."""
        for tag in ("salt/mysite/deploy", "salt/netapi/hook/x", "salt/fileserver/gitfs/update"):
            self.assertIs(standing("web1", tag), Standing.CLOSED, tag)
        for tag in (
            "salt/run/1/ret",
            "salt/wheel/1/new",
            "salt/auth/creds",
            "salt/reactors/manage/add",
            f"salt/job/{JID}/anything",
            f"salt/job/{JID}/anything/web1",
            "salt/minion",
        ):
            self.assertIs(standing("web1", tag), Standing.NEVER, tag)

    def test_T_TEXT_1_tags(self) -> None:
        """T-TEXT-1: a tag that no message can carry is none."""
        for tag in ("\ud800", "my/\udcff", "salt/beacon/web1/\udfff"):
            self.assertIs(standing("web1", tag), Standing.NEVER, repr(tag))

    def test_T_EVT_4_reactions(self) -> None:
        """Reactions to what minions cannot fire any more are told from all others."""
        for pattern in ("salt/custom/*", "salt/netapi/hook/x", "salt/fileserver/*", "salt/c?stom"):
            self.assertTrue(closed_to_minions(pattern), pattern)
        for pattern in (
            "salt/minion/*/start", "salt/beacon/*", "salt/job/*", "salt/auth", "salt/key*",
            "salt/run/*/ret", "salt/engines/hook/*", "salt/*", "*", "my/custom", "salt*",
            "salt/deltaproxy/start", "salt/presence/change",
        ):  # fmt: skip
            self.assertFalse(closed_to_minions(pattern), pattern)

    def test_ids_are_compared_whole(self) -> None:
        """A minion whose id begins like another's does not speak for it."""
        self.assertFalse(minion_may_fire("web", "salt/minion/web1/start"))
        self.assertFalse(minion_may_fire("web1", "salt/minion/web/start"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=50),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


class TrimTests(SynchronousTestCase):
    """Events that are too large."""

    def test_small_ones_stay(self) -> None:
        """Data within the limit are the same object."""
        data = {"id": "web1", "return": True}

        self.assertIs(trimmed(data, 1000), data)

    def test_largest_goes_first(self) -> None:
        """The largest value is replaced, the others stay, and the original is not touched."""
        data = {"id": "web1", "return": "x" * 5000, "fun": "cmd.run"}

        cut = trimmed(data, 1000)

        self.assertEqual(cut, {"id": "web1", "return": TRIMMED, "fun": "cmd.run"})
        self.assertEqual(len(data["return"]), 5000)

    def test_inside_maps(self) -> None:
        """A map loses its large values, and keeps the small ones."""
        cut = trimmed({"id": "web1", "return": {"big": "x" * 5000, "small": 1}}, 1000)

        self.assertEqual(cut["return"], {"big": TRIMMED, "small": 1})

    def test_nothing_left_to_cut(self) -> None:
        """Keys and small values stay, even if they alone are more than the limit."""
        self.assertEqual(trimmed({"k" * 50: 1}, 10), {"k" * 50: 1})

    @given(st.dictionaries(st.text(max_size=8), VALUES, max_size=6), st.integers(200, 2000))
    def test_smaller(self, data: dict[str, object], limit: int) -> None:
        """Trimming keeps the keys and never makes an event heavier."""
        cut = trimmed(data, limit)

        self.assertEqual(list(cut), list(data))
        self.assertLessEqual(weight(cut), max(weight(data), limit))
