"""`python -m foretide` is the command line too."""

from foretide.cli import app

if __name__ == "__main__":
    app()
