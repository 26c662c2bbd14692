"""
Why a function is missing, in stock's words, and where it is.

Modules for other systems: stock has their files on every machine, and each says for itself that it
is not for Linux. Here there is nothing to load: their names and reasons are enough for an answer.
For other modules L{saltwisted.domain.moved} knows which package has them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Container, Mapping
from typing import Any

log = logging.getLogger(__name__)

ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "modules": {
        "appx": "Appx module: Only available on Windows systems",
        "auditpol": "Module win_auditpol: module only available on Windows",
        "autoruns": "Module win_autoruns: module only works on Windows systems",
        "certutil": "Module win_certutil: module only works on Windows systems.",
        "chocolatey": "Chocolatey: Requires Windows",
        "dism": "Only available on Windows systems",
        "dsc": "DSC: Only available on Windows systems",
        "dsc_resource": "DSC Resource: Only available on Windows systems",
        "firewall": "Module win_firewall: module only available on Windows",
        "lgpo": "win_lgpo: Not a Windows System",
        "lgpo_reg": "LGPO_REG Module: Only available on Windows",
        "license": "Module win_license: module only works on Windows systems.",
        "macpackage": "Only available on Mac OS systems with pipes",
        "powercfg": "PowerCFG: Module only works on Windows",
        "psget": "Module PSGet: Only available on Windows systems",
        "reg": "reg execution module failed to load: The module will only run on Windows systems",
        "shortcut": "Shortcut module only available on Windows systems",
        "task": "Module win_task: module only works on Windows systems",
        "win_appx": "Appx module: Only available on Windows systems",
        "win_auditpol": "Module win_auditpol: module only available on Windows",
        "win_autoruns": "Module win_autoruns: module only works on Windows systems",
        "win_certutil": "Module win_certutil: module only works on Windows systems.",
        "win_dacl": "Module win_dacl: module only works on Windows systems",
        "win_disk": "Module win_disk: module only works on Windows systems",
        "win_dism": "Only available on Windows systems",
        "win_dns_client": "Module win_dns_client: module only works on Windows systems",
        "win_dsc": "DSC: Only available on Windows systems",
        "win_dsc_resource": "DSC Resource: Only available on Windows systems",
        "win_event": "win_event: Must be on Windows",
        "win_file": "Module win_file: Missing Win32 modules",
        "win_firewall": "Module win_firewall: module only available on Windows",
        "win_groupadd": "win_groupadd: only works on Windows systems",
        "win_iis": "Only available on Windows systems",
        "win_ip": "Module win_ip: Only available on Windows",
        "win_lgpo": "win_lgpo: Not a Windows System",
        "win_lgpo_reg": "LGPO_REG Module: Only available on Windows",
        "win_license": "Module win_license: module only works on Windows systems.",
        "win_network": "Module win_network: Only available on Windows",
        "win_ntp": "Module win_system: module only works on Windows systems",
        "win_path": "Module win_path: module only works on Windows systems",
        "win_pkg": "Module win_pkg: module only works on Windows systems",
        "win_pki": "Only available on Windows Systems",
        "win_powercfg": "PowerCFG: Module only works on Windows",
        "win_psget": "Module PSGet: Only available on Windows systems",
        "win_servermanager": "Module win_servermanager: module only works on Windows systems.",
        "win_service": "Module win_service: module only works on Windows.",
        "win_shadow": "Module win_shadow: module only works on Windows systems.",
        "win_shortcut": "Shortcut module only available on Windows systems",
        "win_smtp_server": "Module win_smtp_server: module only works on Windows systems with wmi.",
        "win_snmp": "Module win_snmp: Requires Windows",
        "win_status": "win_status.py: Requires Windows",
        "win_system": "Module win_system: Requires Windows",
        "win_task": "Module win_task: module only works on Windows systems",
        "win_timezone": "Module win_timezone: Not on Windows client",
        "win_useradd": "Module win_useradd: Windows Only",
        "win_wua": "WUA: Only available on Windows systems",
        "win_wusa": "Only available on Windows systems",
        "wusa": "Only available on Windows systems",
    },
    "states": {
        "appx": "Appx state: Only available on Windows",
        "certutil": "Only Windows supported",
        "chocolatey": "chocolatey module could not be loaded",
        "dism": "Module only available on Windows",
        "dsc_resource": "DSC Resource: Only available on Windows systems",
        "lgpo": "lgpo module could not be loaded",
        "lgpo_reg": "LGPO_REG State: Only available on Windows",
        "license": "Only Windows OS supported",
        "macpackage": "Only supported on Mac OS",
        "powercfg": "PowerCFG: Module only works on Windows",
        "shortcut": "Shortcut state only available on Windows systems.",
        "system": "win_system: Only available on Windows",
        "task": "State task: Not a Windows System",
        "win_appx": "Appx state: Only available on Windows",
        "win_certutil": "Only Windows supported",
        "win_dacl": "win_dacl module could not be loaded",
        "win_dism": "Module only available on Windows",
        "win_dns_client": "win_dns_client module could not be loaded",
        "win_dsc_resource": "DSC Resource: Only available on Windows systems",
        "win_firewall": "firewall module could not be loaded",
        "win_iis": "win_iis module could not be loaded",
        "win_lgpo": "lgpo module could not be loaded",
        "win_lgpo_reg": "LGPO_REG State: Only available on Windows",
        "win_license": "Only Windows OS supported",
        "win_network": "ip module could not be loaded",
        "win_path": "win_path module could not be loaded",
        "win_pki": "win_pki module could not be loaded",
        "win_powercfg": "PowerCFG: Module only works on Windows",
        "win_servermanager": "win_servermanager module could not be loaded",
        "win_shortcut": "Shortcut state only available on Windows systems.",
        "win_smtp_server": "win_smtp_server module could not be loaded",
        "win_snmp": "win_snmp module could not be loaded",
        "win_system": "win_system: Only available on Windows",
        "win_task": "State task: Not a Windows System",
        "win_wua": "WUA: Only available on Window systems",
        "win_wusa": "Only available on Windows systems",
        "wua": "WUA: Only available on Window systems",
        "wusa": "Only available on Windows systems",
    },
}
"""By kind of module and name. A module of the site by such a name is not concerned."""


def why_missing(
    kind: str, function: str, loaded: Container[str], missing: Mapping[str, Any]
) -> str:
    """
    Why a function is not there, and what has it. Where nothing has it these are stock's words
    alone, and the log has what became of it.

    @param loaded: the modules that are there.
    @param missing: the reasons of those that were found and cannot be used.
    """
    module = function.split(".")[0]
    if module in loaded:
        return f"'{function}' is not available."
    if module in missing:
        reason = missing[module]
        said = f"'{module}' __virtual__ returned False"
        return said if reason is None else f"{said}: {reason}"
    from saltwisted.domain.moved import gone, whereabouts

    elsewhere = ELSEWHERE.get(kind, {})
    if module in elsewhere:
        return f"'{module}' __virtual__ returned False: {elsewhere[module]}"
    fate = gone(kind, module)
    if fate:
        _say_once(f"{function}: {fate}")
        return f"'{function}' is not available."
    return f"'{function}' is not available. {whereabouts(kind, module)}".rstrip()


@functools.cache
def _say_once(text: str) -> None:
    log.warning("%s", text)
