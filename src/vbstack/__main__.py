"""`python -m vbstack`."""

from vbstack.cli import main

if __name__ == "__main__":
    main()
