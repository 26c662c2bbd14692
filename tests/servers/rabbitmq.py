"""
RabbitMQ: a server, and what is asked of it.
"""

from __future__ import annotations

import os
import subprocess

from tests.servers.script import Script, Server

_BINS = "/usr/lib/rabbitmq/bin"
_PORTS = ("RABBITMQ_NODE_PORT", "RABBITMQ_DIST_PORT", "ERL_EPMD_PORT")


class RabbitMq(Server):
    """
    A node with names, ports and files of its own.

    @ivar environment: how programs find it.
    """

    user = "rabbitmq"

    @classmethod
    def lacking(cls) -> str:
        return "" if os.access(f"{_BINS}/rabbitmqctl", os.X_OK) else "rabbitmq-server"

    def start(self) -> None:
        # Imported here: it needs nothing, but stock's Python has no package of ours
        from saltwisted.testing.ports import reserve_ports

        home = self.owned("home")
        self.environment = {
            **dict(zip(_PORTS, map(str, reserve_ports(3)), strict=True)),
            "RABBITMQ_NODENAME": f"t{os.getpid()}@localhost",
            "RABBITMQ_MNESIA_BASE": f"{home}/data",
            "RABBITMQ_LOG_BASE": f"{home}/logs",
            "RABBITMQ_PID_FILE": f"{home}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/plugins",
            "RABBITMQ_CONF_ENV_FILE": "/nonexistent",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        os.environ.update(self.environment)
        self._env = {**os.environ, "HOME": "/var/lib/rabbitmq"}
        self.launch(f"{_BINS}/rabbitmq-server", env=self._env)
        self.wait(lambda: os.path.exists(f"{home}/pid"))
        self.run(f"{_BINS}/rabbitmqctl", "wait", "-q", f"{home}/pid", "--timeout", "100",
                 env=self._env)  # fmt: skip

    def stop(self) -> None:
        """The daemon of Erlang's names is a process of its own, and belongs to no group of ours."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            subprocess.run(["epmd", "-kill"], env=self._env, capture_output=True, check=False)
        super().stop()


def rabbitmq(script: Script) -> None:
    """Users, virtual hosts, policies, permissions and upstreams."""
    call, twice, state = script.call, script.twice, script.state
    call("rabbitmq.add_user", "fred", "word")
    call("rabbitmq.add_user", "fred", "word")
    call("rabbitmq.check_password", "fred", "word")
    call("rabbitmq.check_password", "fred", "other")
    call("rabbitmq.user_exists", "nobody")
    call("rabbitmq.delete_user", "nobody")
    call("rabbitmq.set_user_tags", "fred", ["administrator", "monitoring"])
    twice("rabbitmq_vhost.present", name="shop")
    perms = [{"shop": ["^a.*", ".*", ".*"]}]
    twice("rabbitmq_user.present", name="anna", password="a b", tags="monitoring", perms=perms)
    state("rabbitmq_user.present", name="anna", password="new")
    state("rabbitmq_user.present", name="bad", password="x", perms=[{"nosuch": ["", "", ""]}])
    call("rabbitmq.list_permissions", "shop")
    call("rabbitmq.set_policy", "shop", "HA", "^a", '{"max-length": 5}', 1, None, "queues")
    held = {"pattern": "^a", "apply_to": "queues", "priority": "1"}
    held["definition"] = '{"max-length":5}'
    call("rabbitmq.list_policies", "shop", ours={"shop": {"HA": held}})
    call("rabbitmq.set_policy", "shop", "bad", "^a", '{"nosuch": 5}')
    state("rabbitmq_policy.absent", name="nosuch")
    twice("rabbitmq_user.absent", name="anna")
    twice("rabbitmq_vhost.absent", name="shop")


SCRIPTS = {"rabbitmq": rabbitmq}
