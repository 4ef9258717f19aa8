"""Which spellings of an identifier mean one user: the only place that decides it."""

from __future__ import annotations

import re
import unicodedata
from numbers import Integral
from uuid import UUID

_HEX = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UUID = re.compile(rf"({_HEX})|\{{({_HEX})\}}|urn:uuid:({_HEX})", re.IGNORECASE | re.ASCII)
_UUID_LENGTHS = (36, 38, 45)


def user_text(user: str | int | Integral | UUID) -> str:
    """The text under which a user is known, the same for all spellings of one identifier.

    A whole number is its digits: 7 and "7" are one user, "07" is another. A member of an enum of texts is its text. A text
    counts by its characters (Unicode's NFC), however they are encoded. A text that is a UUID with its hyphens counts in
    lower case, without braces or ``urn:uuid:``. Nothing else is made equal: case, spaces and look-alikes tell users apart.
    """
    if isinstance(user, UUID):
        return str(user)
    if not isinstance(user, str):
        return str(int(user))
    text = str.__str__(user)  # not what an enum's own __str__ says
    if not text.isascii():
        return unicodedata.normalize("NFC", text)
    if len(text) in _UUID_LENGTHS and (found := _UUID.fullmatch(text)):
        return str(found[1] or found[2] or found[3]).lower()
    return text
