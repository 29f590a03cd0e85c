"""Text that was tokenised elsewhere, without the marks that Moses leaves for its own decoder."""

import re

_ENTITIES = {
    "&quot;": '"',
    "&apos;": "'",
    "&lt;": "<",
    "&gt;": ">",
    "&#124;": "|",
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",  # last: what it gives may not be read again
}
_SPLIT_HYPHEN = re.compile(" ?##AT##-##AT## ?")


def unescape_moses(line: str) -> str:
    """A line tokenised by others, without Moses's entities and marks of split hyphens."""
    line = _SPLIT_HYPHEN.sub("-", line)
    if "&" in line:
        for entity, sign in _ENTITIES.items():
            line = line.replace(entity, sign)
    return line
