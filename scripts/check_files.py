"""Two checks on files, run by pre-commit: one newline at the end, and no file above 1 MiB."""

import sys
from pathlib import Path

LARGEST_BYTES = 1 << 20
RULES = ("end", "size")


def ends_well(path: Path) -> bool:
    """Whether a text file is empty or ends in exactly one newline."""
    text = path.read_bytes()
    return not text or (text.endswith(b"\n") and not text.endswith(b"\n\n"))


def fault(rule: str, path: Path) -> str | None:
    """What is wrong with the file, or None."""
    if rule == "end":
        return None if ends_well(path) else f"{path}: must end in exactly one newline"
    size = path.stat().st_size
    return None if size <= LARGEST_BYTES else f"{path}: {size} bytes, above {LARGEST_BYTES}"


def main() -> int:
    """Check the files named on the command line; 1 if any is at fault."""
    if len(sys.argv) < len(RULES) or sys.argv[1] not in RULES:
        print(f"usage: check_files.py {'|'.join(RULES)} FILE...", file=sys.stderr)
        return 2
    faults = [found for name in sys.argv[2:] if (found := fault(sys.argv[1], Path(name)))]
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
