"""Bytes sealed with a passphrase: read back by whoever knows it, and by nobody if a single bit was changed.

The key is made from the passphrase by scrypt, which takes time and 128 MB for every guess; AES-256 in GCM mode seals, and
also vouches for the public bytes that go along.
"""

from __future__ import annotations

import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from adaprivate import check

SHORTEST = 12
"""A passphrase has at least so many characters."""
_HEAD = struct.Struct(">BBBB16s12s")
"""Version, scrypt's cost (as a power of two), block size and parallelism, salt, nonce."""
_VERSION, _COST, _BLOCK, _LANES = 1, 17, 8, 1


def sealed(secret: bytes, passphrase: str, public: bytes) -> bytes:
    """The secret, sealed; ``public`` must be shown again, the same, to open it."""
    expect_passphrase(passphrase)
    head = _HEAD.pack(_VERSION, _COST, _BLOCK, _LANES, os.urandom(16), os.urandom(12))
    return head + AESGCM(_key(passphrase, head)).encrypt(head[-12:], secret, head + public)


def opened(data: bytes, passphrase: str, public: bytes) -> bytes:
    """The secret that was sealed with this passphrase and these public bytes; refused in one sentence otherwise."""
    check.expect(len(data) >= _HEAD.size, "file", f"{len(data)} sealed bytes", "to be whole: it is damaged")
    head = data[: _HEAD.size]
    version, cost, block, lanes, _, nonce = _HEAD.unpack(head)
    check.expect(
        version == _VERSION, "version", version, f"== {_VERSION}: a newer adaprivate wrote this file. Use that one"
    )
    known = (cost, block, lanes) == (_COST, _BLOCK, _LANES)  # no file may ask for more memory than its writer had
    check.expect(known, "file", "its seal", "to be one that adaprivate makes: it is damaged")
    try:
        return AESGCM(_key(passphrase, head)).decrypt(nonce, data[_HEAD.size :], head + public)
    except InvalidTag:
        raise check.InputError("Expected passphrase to be the one of this file, and the file to be unchanged.") from None


def expect_passphrase(passphrase: str) -> None:
    """Raise unless it is long enough. It is never repeated."""
    if len(passphrase) < SHORTEST:
        raise check.InputError(f"Expected passphrase to have at least {SHORTEST} characters.")


def _key(passphrase: str, head: bytes) -> bytes:
    _, cost, block, lanes, salt, _ = _HEAD.unpack(head)
    return Scrypt(salt=salt, length=32, n=2**cost, r=block, p=lanes).derive(passphrase.encode())
