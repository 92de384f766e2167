"""`python -m regauge` is the `regauge` program."""

from regauge.cli import main

if __name__ == "__main__":
    main()
