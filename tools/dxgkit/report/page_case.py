"""What tests of pages share: a browser, and what they ask of every page."""
import pathlib
import shutil
import tempfile
import unittest

import browser

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

    def axe(self):
        """What axe-core says against the page: rule and place of each violation."""
        if not self.value("typeof window.axe === 'object'"):
            self.browser.evaluate(AXE.read_text(encoding="utf-8") + "; true")
        return self.value("""axe.run(document, { resultTypes: ['violations'] }).then((result) =>
          result.violations.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.target.join(' ')}: ${node.failureSummary}`)))""")

    def shown(self):
        return self.value("[dxgkit.view.from, dxgkit.view.to]")
