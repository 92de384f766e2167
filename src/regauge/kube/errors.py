"""From an API server's refusal to the error that callers know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.kube.port import AlreadyExists, ApiError, Conflict, Forbidden, Gone, Invalid, NotFound, ServerUnavailable

_BY_CODE: dict[int, type[ApiError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}
_BUSY = frozenset({429, 502, 503, 504})


def api_error(code: int, status: Mapping[str, Any] | None, text: str = "") -> ApiError | ServerUnavailable:
    """The error for an HTTP code and the Status that came with it (None: the body was something else, `text`).

    429 of an eviction means the disruption budget, so it stays an `ApiError`; a busy server is `ServerUnavailable`.
    """
    status = status if status and status.get("kind") == "Status" else None
    reason = str((status or {}).get("reason") or "")
    message = str((status or {}).get("message") or text.strip() or f"the API server answered with code {code}")
    causes = ((status or {}).get("details") or {}).get("causes") or []
    budget = any(cause.get("reason") == "DisruptionBudget" for cause in causes if isinstance(cause, Mapping))
    if code in _BUSY and not budget:
        return ServerUnavailable(f"the API server cannot answer now ({code}): {message}")
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists(code, reason, message, status)
    if reason in ("Expired", "Gone"):
        return Gone(code, reason, message, status)
    return _BY_CODE.get(code, ApiError)(code, reason, message, status)
