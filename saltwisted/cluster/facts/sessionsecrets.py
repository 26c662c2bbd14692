"""
What session keys are derived from on a node: nodes with the same knowledge derive the same keys
(C{ISecrets}).
"""

from __future__ import annotations

from attrs import frozen

from saltwisted.domain.replica.acceptance import acceptance_number
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.domain.replica.secrets import SESSION, Secrets
from saltwisted.wire.sessionkey import SessionSecret


@frozen
class SessionSecrets:
    """Secrets from facts of the log."""

    secrets: Secrets
    keyset: KeySet

    def versions(self) -> tuple[SessionSecret, ...]:
        """The secrets that minions' sessions come from, newest first."""
        found = self.secrets.versions(SESSION)
        return tuple(SessionSecret(each.version, each.value, each.born) for each in found)

    def acceptance(self, minion_id: str) -> int | None:
        """Number of the acceptance of a minion's key, or C{None} when it is not accepted."""
        return acceptance_number(self.keyset, minion_id)
