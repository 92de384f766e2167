"""The dashboard: tables about an estate, kept up to date, and the page that shows them. It reads, and changes nothing.

`regauge.observe.dashboard.server` (the ASGI application) and `regauge.observe.dashboard.serving` (the server on an address)
are imported by name: they load an HTTP server, which not every program needs.
"""

from regauge.observe.dashboard.door import SHORTEST_TOKEN, Door
from regauge.observe.dashboard.feed import Feed
from regauge.observe.dashboard.tables import Delta, applied, delta_between
from regauge.observe.dashboard.updating import Dashboard, World, followed_kinds

__all__ = [
    "SHORTEST_TOKEN",
    "Dashboard",
    "Delta",
    "Door",
    "Feed",
    "World",
    "applied",
    "delta_between",
    "followed_kinds",
]
