"""
PAM through C{ctypes}: whether a password is that of a user, and whether the account may be used.

Blocks, for seconds if a password is wrong (the modules of PAM wait on purpose). PAM's modules may
do anything to a process, so only worker processes use this module.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_void_p
from ctypes.util import find_library

PROMPT_ECHO_OFF, PROMPT_ECHO_ON = 1, 2
SUCCESS, ACCOUNT_EXPIRED, PROMPTS = 0, 13, 32
SILENT = 0x8000


class PamMissing(Exception):
    """libpam is not installed."""


class _Message(Structure):
    _fields_ = (("style", c_int), ("text", c_char_p))


class _Response(Structure):
    _fields_ = (("text", c_void_p), ("code", c_int))


_Converse = CFUNCTYPE(c_int, c_int, POINTER(POINTER(_Message)), POINTER(c_void_p), c_void_p)


class _Conversation(Structure):
    _fields_ = (("converse", _Converse), ("data", c_void_p))


def ask(username: str, password: str, service: str) -> tuple[bool, bool]:
    """
    Ask PAM.

    @param service: the name of a file in C{/etc/pam.d}.
    @return: whether the user may log in, and if not, whether because the account is closed.
    @raises PamMissing: no libpam.
    """
    pam, libc = _library("pam", "libpam.so.0"), ctypes.CDLL(None)
    libc.calloc.restype, libc.calloc.argtypes = c_void_p, [c_size_t, c_size_t]
    libc.strdup.restype, libc.strdup.argtypes = c_void_p, [c_char_p]
    for name in ("pam_authenticate", "pam_acct_mgmt", "pam_end"):
        getattr(pam, name).argtypes = [c_void_p, c_int]
    pam.pam_start.argtypes = [c_char_p, c_char_p, POINTER(_Conversation), POINTER(c_void_p)]
    who, word = username.encode(), password.encode()

    def converse(count: int, messages: object, responses: object, data: object) -> int:
        """Hidden questions get the password, others the name; PAM frees what it gets."""
        if not 0 < count <= PROMPTS:
            return 19  # PAM_CONV_ERR
        memory = libc.calloc(count, ctypes.sizeof(_Response))
        answers = ctypes.cast(memory, POINTER(_Response))
        for number in range(count):
            style = messages[number].contents.style  # type: ignore[index]
            if style == PROMPT_ECHO_OFF:
                answers[number].text = libc.strdup(word)
            elif style == PROMPT_ECHO_ON:
                answers[number].text = libc.strdup(who)
        responses[0] = memory  # type: ignore[index]
        return SUCCESS

    kept = _Converse(converse)
    conversation = _Conversation(kept, None)
    handle = c_void_p()
    started = pam.pam_start(service.encode(), who, byref(conversation), byref(handle))
    if started != SUCCESS:
        return False, False
    code = pam.pam_authenticate(handle, SILENT)
    known = code == SUCCESS
    if known:
        code = pam.pam_acct_mgmt(handle, SILENT)
    pam.pam_end(handle, code)
    return code == SUCCESS, code != SUCCESS and (known or code == ACCOUNT_EXPIRED)


def why_not() -> str:
    """Why PAM cannot judge others' passwords here; C{""} where it can."""
    try:
        _library("pam", "libpam.so.0")
    except PamMissing as error:
        return str(error)
    if os.geteuid() != 0 and not os.access("/etc/shadow", os.R_OK):
        return (
            f"uid {os.geteuid()} cannot read /etc/shadow, so PAM checks only "
            "that user's own password: run the master as root, or add its user to the group "
            "'shadow'"
        )
    return ""


def _library(name: str, file: str) -> ctypes.CDLL:
    for each in (file, find_library(name)):
        if each:
            try:
                return ctypes.CDLL(each)
            except OSError:
                continue
    raise PamMissing("libpam is not installed on this machine, so nobody can log in with 'pam'")
