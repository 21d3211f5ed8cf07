"""What tests of pages share: a browser, and what they ask of every page."""
import json
import os
import pathlib
import shutil
import struct
import tempfile
import unittest

import browser
import small_png

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
# Headings, controls, columns and lanes: what a reader of a picture looks for on the page. Numbers differ with every change of the kernel.
LABELS = """[...new Set([...document.querySelectorAll('h1, h2, h3, h4, button:not(.link), label, summary, [role=columnheader]')]
  .filter((node) => node.checkVisibility() && !node.closest('#results')).map((node) => node.innerText)
  .concat(dxgkit.timeline.lanes.flatMap((lane) => [lane.group, lane.title]))
  .map((text) => text.replace(/(0x[0-9a-f]+|[0-9][0-9,.]*)( ([KMG]i)?B\\b| [nµm]?s\\b)?/g, '#').trim()))].filter((text) => text !== '').sort()"""
# What is on the page of any run: one in real time has other lanes each time.
HEADINGS = LABELS.replace(", h3, h4, button:not(.link), label, summary, [role=columnheader]", "").replace(
    ".concat(dxgkit.timeline.lanes.flatMap((lane) => [lane.group, lane.title]))", "")
AXE = pathlib.Path(__file__).resolve().parents[3] / "build/npm/node_modules/axe-core/axe.min.js"


@unittest.skipIf(shutil.which("chromium") is None, "no chromium")
class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def open(self, path):
        self.browser.open(path)
        self.assertEqual(self.browser.errors(), [])
        self.assertEqual(len(self.browser.requests()), 1, "the page asked for more than itself")

    def value(self, expression):
        return self.browser.evaluate(expression)

    def until(self, expression):
        """Scrolling is smooth: it takes frames. A hundred of them without it are a failure."""
        for _ in range(100):
            if self.value(expression):
                return
            self.browser.settle()
        self.fail(f"never: {expression}")

    def screenshot(self, name, width=1120, height=600, top=None, pane=None, labels=LABELS):
        """A picture of the documentation, of the page as it is now. `top`: an element, as an expression, that comes first in it; `pane`: one
        that comes first in the pane; `labels`: what is compared.

        docs/screenshots.json has what the page showed when the picture was made. If the page shows something else now, the picture is old.
        DXGKIT_KEEP_SCREENSHOTS=1 makes it anew.
        """
        kept_path = DOCS / "screenshots.json"
        picture = DOCS / (name + ".png")
        kept = json.loads(kept_path.read_text(encoding="utf-8"))
        labels = self.value(labels)
        if os.environ.get("DXGKIT_KEEP_SCREENSHOTS"):
            self.browser.resize(width, height)
            self.value(f"{top}.scrollIntoView()" if top else "window.scrollTo(0, 0)")
            if pane:
                self.value(f"document.getElementById('details').scrollTop += {pane}.getBoundingClientRect().top - document.getElementById('details').getBoundingClientRect().top - 12")
            self.browser.settle()
            self.browser.screenshot(picture)
            picture.write_bytes(small_png.smaller(picture.read_bytes()))
            self.browser.resize(1400, 1000)
            kept[name] = {"size": [width, height], "labels": labels}
            kept_path.write_text(json.dumps(dict(sorted(kept.items())), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            return
        again = f"docs/{name}.png does not show the page as it is: DXGKIT_KEEP_SCREENSHOTS=1 makes it anew"
        self.assertEqual(kept.get(name), {"size": [width, height], "labels": labels}, again)
        self.assertEqual(struct.unpack(">II", picture.read_bytes()[16:24]), (width, height), again)
        self.assertTrue(any(f"{name}.png" in page.read_text(encoding="utf-8") for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]), f"no page shows {name}.png")

    def axe(self):
        """What axe-core says against the page: rule and place of each violation."""
        if not self.value("typeof window.axe === 'object'"):
            self.browser.evaluate(AXE.read_text(encoding="utf-8") + "; true")
        return self.value("""axe.run(document, { resultTypes: ['violations'] }).then((result) =>
          result.violations.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.target.join(' ')}: ${node.failureSummary}`)))""")

    def shown(self):
        return self.value("[dxgkit.view.from, dxgkit.view.to]")
