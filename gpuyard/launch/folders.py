"""Where the configuration lies: inside an installed package, beside it in a clone."""

from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (HERE / "conf", HERE.parent / "conf") if path.is_dir())
