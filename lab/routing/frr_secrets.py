"""The running configuration of an FRR daemon, with a digest in place of each password and key.

Recordings are shared, and a diagnosis prints lines of FRR. Two different secrets still have different digests, so
that a wrong one is found. A plain digest would not protect a password: with a recording, anyone could hash a list of
likely passwords, and compare. So the digest is keyed (RFC 7693 section 2.9). The key is random, and stays in the
directory of the fabric.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.routing.vty import Vty

_SHOW: Final = "write terminal"
_DIGEST: Final = 4
"""Bytes of a digest. Two different secrets of a fabric have the same one in 1 of 4 billion cases."""
_WHOLE: Final = (
    r"(?:neighbor|(?:ip )?msdp peer) \S+ password",
    r"(?:enable )?password",
    r"key-string",
    r"ip rip authentication string",
)
"""Commands whose secret is the rest of the line: it may have spaces."""
_WORD: Final = (
    r"(?:ip )?ospf (?:authentication-key|message-digest-key \d+ md5)",
    r"area \S+ virtual-link (?:.+ )?(?:authentication-key|message-digest-key \d+ md5)",
    r"ipv6 ospf6 authentication (?:.+ )?key",
    r"(?:isis password|(?:area|domain)-password) (?:clear|md5)",
    r"ip nhrp authentication",
    r"tcp-md5-auth",
)
"""Commands whose secret is the next word."""
_SECRET: Final = re.compile(
    rf"^(?P<command> *(?:no )?(?:(?P<whole>{'|'.join(_WHOLE)})|{'|'.join(_WORD)}) )(?P<secret>(?(whole).+|\S+))",
    re.MULTILINE,
)
_HIDDEN: Final = re.compile(r"<secret(?::[0-9a-f]+)?>")


def running_configuration(vty: Vty, key: bytes, timeout: float = 10.0) -> str:
    """Return the running configuration of a daemon without its secrets; see ``without_secrets``.

    Raises OperationFailed if the daemon does not answer within ``timeout`` (seconds).
    """
    return without_secrets(vty.answer_to(_SHOW, timeout), key)


def without_secrets(text: str, key: bytes) -> str:
    """Return a configuration with ``<secret:DIGEST>`` in place of passwords and keys.

    ``key`` has at most 64 bytes. Without a key the digest is left out, and different secrets look alike.
    """

    def hidden(found: re.Match[str]) -> str:
        secret = found["secret"].rstrip().encode()
        digest = f":{blake2b(secret, digest_size=_DIGEST, key=key).hexdigest()}" if key else ""
        return f"{found['command']}<secret{digest}>"

    return _SECRET.sub(hidden, text)


def has_hidden_secret(line: str) -> bool:
    """Return whether a line is one whose secret was replaced: it cannot be entered as it is."""
    return bool(_HIDDEN.search(line))
