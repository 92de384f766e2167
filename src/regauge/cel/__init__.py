"""Not built yet."""

__all__: list[str] = []
