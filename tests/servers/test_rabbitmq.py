"""
RabbitMQ: bad input, secrets, and the states that stock has at fault.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules import _rabbitmq
from saltwisted.worker.exceptions import SaltInvocationError
from tests.modules import harness
from tests.servers.rabbitmq import RabbitMq
from tests.servers.test_recorded import ServerTestCase


class WithoutServerTests(SynchronousTestCase):
    """What needs no server."""

    def test_passwords(self) -> None:
        """A password is in no argument and in no log: it goes to standard input (T-LOG-1)."""
        commands = harness.Commands()
        module = harness.load("rabbitmq", salt=commands.salt())

        module.add_user("fred", "canary")
        module.change_password("fred", "canary")
        module.check_password("fred", "canary")

        self.assertNotIn("canary", json.dumps(commands.ran))
        for _command, kwargs in commands.calls:
            self.assertEqual((kwargs["stdin"], kwargs["output_loglevel"]), ("canary\n", "quiet"))

    def test_options(self) -> None:
        """A name that would be an option is refused (T-ARG-1)."""
        commands = harness.Commands()
        module = harness.load("rabbitmq", salt=commands.salt())

        self.assertRaises(SaltInvocationError, module.delete_vhost, "--node=other")
        self.assertRaises(SaltInvocationError, module.add_user, "-p", "word")
        self.assertRaises(SaltInvocationError, module.add_user, "fred", "one\ntwo")
        self.assertEqual(commands.ran, [])

    def test_lists(self) -> None:
        """What older programs print around a list is no part of it."""
        output = "Listing users ...\nWARNING: old\nfred\t[a, b]\nListing\tx\n...done.\n"

        self.assertEqual(_rabbitmq.table(output), {"fred": ["[a, b]"], "Listing": ["x"]})


class RealRabbitMq(ServerTestCase):
    """One server."""

    def ret(self, functions: Any, state: str, /, **kwargs: Any) -> Any:
        """A state's result, and whether there are changes."""
        (part,) = functions["state.single"](state, **kwargs).values()
        return part["result"], bool(part["changes"])

    def test_real(self) -> None:
        """
        Names and passwords with commands for a shell in them are taken for what they are
        (T-ARG-1); policies, plugins and upstreams are set once.
        """
        self.needed(RabbitMq)
        server = RabbitMq()
        self.addCleanup(server.stop)
        server.start()
        logging.disable(logging.NOTSET)
        logged: list[str] = []
        handler = logging.Handler(1)
        handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
        root = logging.getLogger()
        self.addCleanup(root.setLevel, root.level)
        self.addCleanup(root.removeHandler, handler)
        root.addHandler(handler)
        root.setLevel(1)
        call = self.functions(server)
        mark = server.path("home/mark")
        odd = f"x\"'`touch {mark}`$(touch {mark}) \\"
        secret = f"canary{odd}"
        definition = {"max-length": 5}
        policy = {"name": odd, "pattern": "^a", "definition": json.dumps(definition)}
        steps = [
            ("rabbitmq_vhost.present", {"name": odd}),
            ("rabbitmq_user.present", {"name": odd, "password": secret}),
            ("rabbitmq_policy.present", {**policy, "vhost": odd, "priority": 2}),
            ("rabbitmq_plugin.enabled", {"name": "rabbitmq_federation"}),
            ("rabbitmq_upstream.present", {"name": "up", "uri": "amqp://far", "expires": 3600}),
        ]

        first = [self.ret(call, name, **kwargs) for name, kwargs in steps]
        again = [self.ret(call, name, **kwargs) for name, kwargs in steps]
        checks = [call["rabbitmq.check_password"](odd, each) for each in (secret, "other")]
        gone = [
            self.ret(call, "rabbitmq_upstream.absent", name="up"),
            self.ret(call, "rabbitmq_policy.absent", name=odd, vhost=odd),
            self.ret(call, "rabbitmq_user.absent", name=odd),
            self.ret(call, "rabbitmq_vhost.absent", name=odd),
        ]

        self.assertEqual((first, again), ([(True, True)] * 5, [(True, False)] * 5))
        self.assertEqual((checks, gone), ([True, False], [(True, True)] * 4))
        self.assertFalse(os.path.exists(mark))
        self.assertNotIn("canary", json.dumps(logged))
