"""``python -m adaprivate``."""

from adaprivate.cli import main

if __name__ == "__main__":
    main()
