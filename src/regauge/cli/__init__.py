"""The command line: one file per verb, parsing and printing only.

The programs are `regauge.cli.main` and, for kubectl, `regauge.cli.kubectl` and `regauge.cli.kubectl_complete`.
"""

__all__ = ["main"]


def main() -> None:
    """The entry point of the `regauge` program. The verbs are loaded here, not with the room: the plugin needs few."""
    from regauge.cli.app import main as run

    run()
