"""Says in words what a machine lacks before `make setup` tries to use it."""

import sys


def lacking() -> list[str]:
    """What is missing on this machine, each with what to do about it."""
    missing = []
    if sys.version_info < (3, 11):  # noqa: UP036  (this file must run on the Python that is too old)
        have = ".".join(str(part) for part in sys.version_info[:3])
        missing.append(f"Python 3.11 or newer is needed, this is {have}: set PYTHON=python3.11 (or newer)")
    try:
        import ensurepip  # noqa: F401, PLC0415
        import venv  # noqa: F401, PLC0415
    except ImportError:
        missing.append(
            "this Python cannot make virtual environments: install its venv package"
            " (Debian, Ubuntu: apt-get install python3-venv)"
        )
    return missing


if __name__ == "__main__":
    problems = lacking()
    for problem in problems:
        print(f"regauge: {problem}", file=sys.stderr)
    sys.exit(2 if problems else 0)
