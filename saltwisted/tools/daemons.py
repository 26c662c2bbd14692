"""
The stock master and ours as services of this machine: starting, stopping, and checking whether they
run.

With systemd they are units; without it there are pid files.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from saltwisted import advice
from saltwisted.config.api import BLOCKS, options_of
from saltwisted.config.load import OWN_DIR
from saltwisted.config.options import MasterConfig
from saltwisted.errors import StoreError, TransportClosed
from saltwisted.tools.places import Places
from saltwisted.tools.ports import listener
from saltwisted.worker.control import ControlClient

ROLES = ("master", "cluster")
API = "salt-api"
API_PIDFILE = "/var/run/salt-api.pid"


def under_systemd() -> bool:
    """Whether services are systemd's business here."""
    return os.path.isdir("/run/systemd/system") and shutil.which("systemctl") is not None


def _systemctl(*words: str) -> bool:
    done = subprocess.run(
        ["systemctl", *words], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode == 0


def stock_pid(config: MasterConfig) -> int:
    """The process of the stock master by its pid file; 0 when it does not run."""
    return _alive(config.pidfile)


def _alive(pidfile: str) -> int:
    try:
        with open(pidfile, encoding="utf-8") as stream:
            pid = int(stream.read().strip())
    except (OSError, ValueError):
        return 0
    return pid if _runs(pid) else 0


def _runs(pid: int) -> bool:
    """Whether there is such a process that has not ended, not even as a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def stop_stock(config: MasterConfig, record: dict[str, Any], service: str) -> None:
    """
    Stop the stock master and wait until its ports are free.

    Its salt-api goes with it, whose port is then ours.

    @raises StoreError: it does not go.
    """
    _stop_api(config, record)
    if under_systemd():
        record["was_enabled"] = _systemctl("--quiet", "is-enabled", service)
        _systemctl("disable", "--now", service)
    pid = stock_pid(config)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    ports = (int(config.publish_port), int(config.ret_port))
    # A stock master ends its children one by one, and may hold a port until the last
    gone = _wait(lambda: not any(listener(p) for p in ports) and not (pid and _runs(pid)), 60)
    if not gone:
        used = {port: listener(port) for port in ports}
        raise StoreError(f"the stock master does not stop; its ports: {used}", service)


def api_port(config: MasterConfig) -> int:
    """The port of a salt-api that this configuration is for, which is ours to serve; or 0."""
    options = options_of({name: config.value(name) for name in BLOCKS})
    return int(options.port) if options is not None else 0


def api_pid(config: MasterConfig) -> int:
    """The process of the stock salt-api by its pid file; 0 when it does not run."""
    given = config.extra.get("api_pidfile")
    path = given if isinstance(given, str) and given else API_PIDFILE
    return _alive(os.path.join(config.root_dir, path.lstrip("/")) if config.root_dir else path)


def _stop_api(config: MasterConfig, record: dict[str, Any]) -> None:
    port = api_port(config)
    if not port:
        return
    if under_systemd() and _systemctl("--quiet", "is-active", API):
        record["api_was_active"] = True
        record["api_was_enabled"] = _systemctl("--quiet", "is-enabled", API)
        _systemctl("disable", "--now", API)
    pid = api_pid(config)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not _wait(lambda: not listener(port) and not (pid and _runs(pid)), 30):
        raise StoreError(f"does not stop; port {port} is used by {listener(port)}", API)


def start_ours(places: Places, role: str) -> None:
    """
    Start ours, as C{master} or C{cluster}, and wait until it answers.

    @raises StoreError: it does not within a minute.
    """
    if under_systemd() and places.config == OWN_DIR:
        unit = f"saltwisted-{role}"
        _systemctl("enable", unit)
        if not _systemctl("start", unit):
            raise StoreError(f"does not start. {advice.of('log.unit', unit=unit)}", unit)
        return
    program = twistd()
    os.makedirs(places.sock, 0o755, exist_ok=True)
    subprocess.run(
        [
            program, f"--pidfile={our_pidfile(places)}", "--rundir=/",
            f"--logfile={os.path.join(places.sock, 'twistd.log')}",
            "saltwisted", "--role", role, "--config", places.config,
        ],
        check=False, timeout=60,
    )  # fmt: skip
    # A node of a cluster may wait for others first, and says so itself
    is_up = serving if role == "master" else _status
    if not _wait(lambda: bool(is_up(places)), 60):
        raise StoreError(
            f"started, but does not serve; see {os.path.join(places.sock, 'twistd.log')}",
            places.config,
        )


def twistd() -> str:
    """
    The twistd of the Python that runs us.

    @raises StoreError: there is none.
    """
    for name in ("twistd", "twistd3"):
        beside = os.path.join(os.path.dirname(sys.executable), name)
        if os.access(beside, os.X_OK):
            return beside
    found = shutil.which("twistd3") or shutil.which("twistd")
    if found is None:
        raise StoreError("neither systemd nor twistd was found", "PATH")
    return found


def our_pidfile(places: Places) -> str:
    """Where twistd writes its process number when there is no systemd."""
    return os.path.join(places.sock, "twistd.pid")


def serving(places: Places) -> bool:
    """Whether the master of the target answers minions."""
    return bool(_status(places).get("serving"))


def _status(places: Places) -> Mapping[str, Any]:
    """What the master answers on the target's socket; empty if it does not run."""
    client = ControlClient(path=os.path.join(places.sock, "saltwisted.sock"), timeout=5)
    try:
        found: Mapping[str, Any] = client.call("status")
        return found
    except (TransportClosed, TimeoutError):
        return {}
    finally:
        client.close()


def stop_ours(places: Places) -> None:
    """
    Stop ours.

    @raises StoreError: it does not go within 15 seconds.
    """
    if under_systemd() and places.config == OWN_DIR:
        for role in ROLES:
            _systemctl("disable", "--now", f"saltwisted-{role}")
    pid = _alive(our_pidfile(places))
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not _wait(lambda: not _status(places), 15):
        raise StoreError("the master does not stop", places.config)


def start_stock(record: Mapping[str, Any], service: str) -> bool:
    """Start the stock master again, if systemd knows it; whether it did."""
    if not under_systemd():
        return False
    if record.get("was_enabled"):
        _systemctl("enable", service)
    started = _systemctl("start", service)
    if record.get("api_was_active"):
        if record.get("api_was_enabled"):
            _systemctl("enable", API)
        started = _systemctl("start", API) and started
    return started
