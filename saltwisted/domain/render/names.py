"""
Where a template is: the variables C{tplpath tplfile tpldir tpldot slspath ...}.
"""

from __future__ import annotations

import posixpath


def sls_names(tplpath: str | None, sls: str) -> dict[str, str]:
    """
    The variables that tell a template its own place.

    @param tplpath: the local file that is rendered, or nothing for a bare text.
    @param sls: the dotted name it was asked for by; C{""} outside of SLS files. A name
        with slashes that the path does not end in is a file, not an SLS.
    """
    path = sls.replace(".", "/").rstrip("/")
    names: dict[str, str] = {}
    if tplpath:
        whole = tplpath.replace("//", "/")
        if not sls:
            relative = posixpath.basename(whole)
        elif whole.endswith(path + ".sls"):
            relative = path + ".sls"
        elif whole.endswith(path + "/init.sls"):
            relative = path + "/init.sls"
        else:
            above = posixpath.dirname(posixpath.normpath(sls))
            return {"tplpath": tplpath, "tplfile": sls, "tpldir": above or "."}
        path = posixpath.dirname(relative)
        names["tplpath"] = tplpath
        names["tplfile"] = relative
        names["tpldir"] = path or "."
        names["tpldot"] = path.replace("/", ".")
    names["slspath"] = path
    names["slsdotpath"] = path.replace("/", ".")
    names["slscolonpath"] = path.replace("/", ":")
    names["sls_path"] = path.replace("/", "_")
    return names
