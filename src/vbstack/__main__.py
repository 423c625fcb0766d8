"""`python -m vbstack`."""

from vbstack.cli.commands import main

if __name__ == "__main__":
    main()
