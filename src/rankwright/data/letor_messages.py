"""Error messages for lines of LETOR text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rankwright.data.letor_kernel import Fault

__all__ = ["NO_QID", "bad_label", "explain", "shown"]

NO_QID = "qid: without a query id; expected qid:Q"
_TOKEN = re.compile(rb"[^\s#]*")


def shown(text: bytes | None) -> str:
    """A piece of the file for a message: short and printable."""
    text = text or b""
    return repr((text[:40] + b"..." if len(text) > 40 else text).decode("utf-8", "replace"))


def bad_label(token: bytes) -> str:
    return f"label {shown(token)} is not a finite number; expected label qid:Q id:value ..."


def explain(chunk: bytes, fault: Fault, n_features: int | None, dtype: np.dtype[Any]) -> str:
    from rankwright.data import letor_kernel as kernel

    token = _TOKEN.match(chunk, fault.at)[0]  # type: ignore[index]  # it matches the empty string
    name, colon, value = token.partition(b":")
    if fault.code == kernel.BAD_LABEL:
        return bad_label(token)
    if fault.code == kernel.NO_QID:
        return NO_QID
    if fault.code == kernel.ID_RANGE:
        if name.strip(b"0") == b"":
            return "feature id 0; ids start at 1"
        if n_features is None:
            return f"feature id {shown(name)}; expected at most {kernel.MAX_ID}"
        return f"feature id {shown(name)}; expected at most {n_features}, the n_features given"
    if fault.code == kernel.ID_ORDER:
        return f"feature id {int(name)} after {fault.before}; expected each id once, in increasing order"
    if fault.code == kernel.VALUE_RANGE:
        return f"feature {int(name)} has the value {shown(value)}; expected a number that fits {dtype}"
    if fault.code == kernel.BAD_VALUE and value:
        return f"feature {int(name)} has the value {shown(value)}; expected a finite number"
    if fault.code == kernel.BAD_VALUE:
        return f"feature {int(name)} has no value; expected id:value"
    if name == b"qid" and colon:
        return f"{shown(token)} is among the features; expected it right after the label"
    if not colon:
        return f"{shown(token)} is not a feature; expected id:value"
    return f"feature id {shown(name)}; expected a positive integer"
