#!/usr/bin/python3
"""
Stands in for systemd in a root of tests: units run by their own ExecStart, as their user.

Knows what the pages and the packages' scripts use: start, stop, restart, reload, enable and
disable (with --now), try-restart, is-active, is-enabled, status, daemon-reload. Start returns when
the unit has told that it is ready, as with C{Type=notify}; Conflicts= stops the other unit.
"""

import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import sys
import time

READY = 60
STOP = 15


def unit_of(name):
    """The settings of a unit, the last of each name."""
    for folder in ("/etc/systemd/system", "/lib/systemd/system"):
        path = f"{folder}/{name}.service"
        if os.path.exists(path):
            with open(path) as stream:
                return dict(re.findall(r"^(\w+)=(.*)$", stream.read(), re.M))
    sys.exit(f"Unit {name}.service not found.")


def pid_of(name):
    """Its main process, or 0."""
    try:
        with open(f"/run/units/{name}.pid") as stream:
            pid = int(stream.read())
        with open(f"/proc/{pid}/stat") as stream:
            return 0 if stream.read().rpartition(")")[2].split()[0] == "Z" else pid
    except (OSError, ValueError):
        return 0


def start(name):
    """Start it, and wait until it is ready."""
    if pid_of(name):
        return
    unit = unit_of(name)
    for other in unit.get("Conflicts", "").split():
        stop(other.removesuffix(".service"))
    user = pwd.getpwnam(unit.get("User", "root"))
    if "RuntimeDirectory" in unit:
        path = f"/run/{unit['RuntimeDirectory']}"
        os.makedirs(path, int(unit.get("RuntimeDirectoryMode", "755"), 8), exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    address = f"/run/units/{name}.notify"
    if os.path.exists(address):
        os.unlink(address)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(address)
    os.chmod(address, 0o777)
    notify.settimeout(READY)
    with open(f"/run/units/{name}.log", "ab") as log:
        process = subprocess.Popen(
            shlex.split(unit["ExecStart"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd="/", user=user.pw_uid, group=user.pw_gid, extra_groups=[user.pw_gid],
            start_new_session=True, env={**os.environ, "NOTIFY_SOCKET": address},
        )  # fmt: skip
    with open(f"/run/units/{name}.pid", "w") as stream:
        stream.write(str(process.pid))
    while unit.get("Type") == "notify" and b"READY=1" not in notify.recv(4096):
        pass


def stop(name):
    """SIGTERM to the main process alone; it has its time."""
    pid = pid_of(name)
    if not pid:
        return
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + STOP
    while pid_of(name):
        if time.monotonic() > end:
            sys.exit(f"{name} did not stop within {STOP} seconds")
        time.sleep(0.05)


def main(argv):
    """One call."""
    words = [word for word in argv if not word.startswith("-")]
    action, names = words[0], [word.removesuffix(".service") for word in words[1:]]
    os.makedirs("/run/units", exist_ok=True)
    done = 0
    for name in names:
        enabled = f"/run/units/{name}.enabled"
        if action == "try-restart" and pid_of(name):
            stop(name)
            start(name)
        if action in ("stop", "restart") or (action == "disable" and "--now" in argv):
            stop(name)
        if action in ("start", "restart") or (action == "enable" and "--now" in argv):
            start(name)
        if action == "enable":
            unit_of(name)
            open(enabled, "w").close()
        elif action == "disable" and os.path.exists(enabled):
            os.unlink(enabled)
        elif action == "reload":
            os.kill(pid_of(name), signal.SIGHUP)
        elif action in ("is-active", "status"):
            done = done or (0 if pid_of(name) else 3)
        elif action == "is-enabled":
            done = done or (0 if os.path.exists(enabled) else 1)
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
