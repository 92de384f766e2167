"""What the API server is: its version, and the rules that follow from it."""

from __future__ import annotations

from regauge.base import InputError
from regauge.driver.notices import Notice, Tell
from regauge.features import DEFAULT_MINOR, rules
from regauge.kube import KubeClient
from regauge.model import Rules


class Server:
    """Asked once. Gates that differ from their defaults cannot be asked for: they show when a field is dropped."""

    def __init__(self, kube: KubeClient, tell: Tell) -> None:
        self._kube = kube
        self._tell = tell
        self._rules: Rules | None = None

    async def rules(self) -> Rules:
        """The rules of its minor. Raises `RegaugeError` when it does not answer."""
        if self._rules is None:
            version = (await self._kube.version()).git_version
            try:
                self._rules = rules(version)
            except InputError as error:
                self._rules = rules(DEFAULT_MINOR)
                text = f"{error}; taken for {DEFAULT_MINOR}"
                self._tell(Notice("version-unknown", text, "warning", version))
        return self._rules
