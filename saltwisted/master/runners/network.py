"""
The C{network} runner: wakes machines up by their hardware addresses.
"""

from __future__ import annotations

import socket
from typing import Any

from saltwisted.domain.hardware import mac_str_to_bytes
from saltwisted.master.runner_table import Run, Runner
from saltwisted.master.runners.cache import grains

MOST = 1024 * 1024
"""Bytes that are read of a list of addresses."""


def _wake(mac: str, bcast: str, destport: Any) -> None:
    """
    Send the packet; a datagram waits for nobody.

    @raises ValueError: this is no hardware address.
    """
    packet = b"\xff" * 6 + mac_str_to_bytes(mac) * 16
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.sendto(packet, (bcast, int(destport)))


async def wol(run: Run, mac: Any, bcast: str = "255.255.255.255", destport: Any = 9) -> bool:
    """
    Wake one machine up.

    CLI Example::

        salt-run network.wol 08-00-27-13-69-77
        salt-run network.wol 080027136977 255.255.255.255 7
    """
    # An address of digits alone has been read as a number.
    await run.ctx.pool(_wake, str(mac).zfill(12), bcast, destport)
    return True


def _listed(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file.read(MOST).splitlines()]


async def wollist(
    run: Run, maclist: str, bcast: str = "255.255.255.255", destport: Any = 9
) -> list[str]:
    """
    Wake up the machines of a file that has one address per line.

    CLI Example::

        salt-run network.wollist '/path/to/maclist'
    """
    woken: list[str] = []
    try:
        for mac in await run.ctx.pool(_listed, maclist):
            await run.ctx.pool(_wake, mac, bcast, destport)
            await run.say(f"Waking up {mac}")
            woken.append(mac)
    except (OSError, ValueError) as error:
        # What is in the file is not repeated: it may be any file.
        reason = str(error) if isinstance(error, OSError) else "Invalid MAC address"
        await run.progress({"error": f"Failed to open the MAC file. Error: {reason}"}, "progress")
        return []
    return woken


async def wolmatch(
    run: Run, tgt: Any, tgt_type: str = "glob", bcast: str = "255.255.255.255", destport: Any = 9
) -> list[str]:
    """
    Wake up the minions that a target means, by the addresses in their cached grains.

    CLI Example::

        salt-run network.wolmatch minion_id
        salt-run network.wolmatch 192.168.0.0/16 tgt_type='ipcidr' bcast=255.255.255.255 destport=7
    """
    woken: list[str] = []
    for minion, known in (await grains(run, tgt, tgt_type)).items():
        addresses = known.get("hwaddr_interfaces")
        for name, mac in addresses.items() if isinstance(addresses, dict) else ():
            if name == "lo":
                continue
            try:
                await run.ctx.pool(_wake, str(mac).strip(), bcast, destport)
            except ValueError:
                await run.complain(f"{minion}: the address of {name} is no hardware address")
                continue
            woken.append(str(mac).strip())
    return woken


FUNCTIONS: dict[str, Runner] = {"wol": wol, "wollist": wollist, "wolmatch": wolmatch}
