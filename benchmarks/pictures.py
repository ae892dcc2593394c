"""Pictures of pages at both widths, from a headless Chromium: in docs/figures.

    python benchmarks/pictures.py demo=runs/demo/report.html [NAME=FILE ...] [--scheme dark]
        [--folder docs/figures] [--height 2000]

It ends with status 1 where a page complains on the console, asks the network for anything or is
wider than the window. Pictures have 255 colours and the first `--height` pixels of a page.
"""

import argparse
import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
WIDTHS = (400, 1600)
NAMES = ("chromium", "chromium-browser", "google-chrome")
COLOURS, PATIENCE_MS = 255, 30_000


def pictured(browser: Any, page: Path, path: Path, *, width: int, height: int, scheme: str) -> str:
    """Open a page, write its picture, and return what it complained of."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1
    )
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: said.append(request.url))
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("html[data-drawn-ms]", state="attached", timeout=PATIENCE_MS)
    if tab.evaluate("document.documentElement.scrollWidth") > width:
        said.append(f"wider than {width} pixels")
    shown = {"x": 0, "y": 0, "width": width}
    shown["height"] = min(height, tab.evaluate("document.body.scrollHeight"))
    image = Image.open(BytesIO(tab.screenshot(clip=shown)))
    image.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    context.close()
    own = ("file:", "data:", "blob:")
    return "; ".join(line for line in said if not line.startswith(own))


def main() -> None:
    """Open each page at both widths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--folder", type=Path, default=FIGURES, help="made where it is not there")
    parser.add_argument("--scheme", choices=["light", "dark"], default="light")
    parser.add_argument("--height", type=int, default=2000)
    options = parser.parse_args()
    found = os.environ.get("GPUYARD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    from playwright.sync_api import sync_playwright

    options.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, _, file in (word.partition("=") for word in options.pages):
            for width in WIDTHS:
                path = options.folder / f"page_{name}_{width}.png"
                said = pictured(
                    browser, Path(file), path,
                    width=width, height=options.height, scheme=options.scheme,
                )  # fmt: skip
                failed |= bool(said)
                size_kb = path.stat().st_size / 1024
                print(f"{path}: {size_kb:.0f} kB; {said or 'no complaint'}")
        browser.close()
    sys.exit(failed)


if __name__ == "__main__":
    main()
