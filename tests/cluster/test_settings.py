"""
What members compare of their options, and what of it others may see.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.drift import option_of
from saltwisted.config.options import LOGIN_OPTIONS, MasterConfig
from saltwisted.config.secrets import compared
from saltwisted.domain.replica.settings import COMPARED, differences, texts_of


class SecretTests(SynchronousTestCase):
    def test_secrets_are_compared_and_not_shown(self) -> None:
        """A shared secret, and passwords in addresses, differ visibly and cannot be read."""
        texts = {}
        for node, word in (("a", "h0sh"), ("b", "s3cret")):
            config = MasterConfig(
                ext_pillar=[{"git": f"https://bot:{word}@example.com/x"}],
                external_auth={"file": {"fred": [".*"]}},
                extra={"sharedsecret": word},
            )
            texts[node] = texts_of(lambda name, config=config: option_of(config, name), compared)

        rows = differences(texts)

        self.assertEqual([row["option"] for row in rows], ["ext_pillar", "sharedsecret"])
        self.assertNotIn("h0sh", repr(texts))
        self.assertNotIn("s3cret", repr(texts))
        self.assertIn("https://bot:(sha256 ", repr(rows))

    def test_directories(self) -> None:
        """Nodes that ask different directories for logins are told apart, and no password told."""
        texts = {}
        for node, server in (("a", "ldaps://one"), ("b", "ldaps://two")):
            config = MasterConfig(
                extra={"auth.ldap.uri": server, "auth.ldap.bindpw": f"s3cret{node}"}
            )
            texts[node] = texts_of(lambda name, config=config: option_of(config, name), compared)

        options = [row["option"] for row in differences(texts)]

        self.assertEqual(options, ["auth.ldap.bindpw", "auth.ldap.uri"])
        self.assertNotIn("s3cret", repr(texts))

    def test_every_option_of_ldap(self) -> None:
        """Each option of LDAP is compared but for those that are a node's own or do nothing."""
        own = {"auth.ldap.ca_file", "auth.ldap.auth_by_group_membership_only"}

        self.assertEqual({*LOGIN_OPTIONS} - {*COMPARED}, own)

    def test_history_is_kept_alike(self) -> None:
        """Members that keep jobs for different times are told apart."""
        texts = {}
        for node, hours in (("a", 24), ("b", 2)):
            config = MasterConfig(keep_jobs=hours, keep_jobs_seconds=hours * 3600)
            texts[node] = texts_of(lambda name, config=config: option_of(config, name), compared)

        options = [row["option"] for row in differences(texts)]

        self.assertEqual(options, ["keep_jobs", "keep_jobs_seconds"])
