#!/usr/bin/env python3
"""scripts/docs_site finds links that lead nowhere, and those of this repository lead somewhere."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "docs_site"
loader = importlib.machinery.SourceFileLoader("docs_site", str(SCRIPT))
docs_site = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs_site", loader))
loader.exec_module(docs_site)


class Links(unittest.TestCase):
    def rewritten(self, text, others=()):
        with tempfile.TemporaryDirectory() as folder:
            root, before = pathlib.Path(folder), docs_site.ROOT
            files = {"docs/page.md": text, "docs/other.md": "# A `code` heading, and more\n", "README.md": "# Top\n", "src/a/README.md": "# A\n",
                     "src/a/a.cpp": "", "docs/p.png": ""} | dict(others)
            for name, content in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            docs_site.ROOT = root
            try:
                site = docs_site.Site([pathlib.PurePosixPath(name) for name in files])
                return site.rewritten(pathlib.PurePosixPath("docs/page.md")), site.wrong
            finally:
                docs_site.ROOT = before

    def test_links_to_pages_and_pictures_stay(self):
        text, wrong = self.rewritten("[a](other.md) [b](../README.md) [c](../src/a) ![d](p.png) [e](https://x.y) [f](other.md#a-code-heading-and-more)")
        self.assertEqual(wrong, [])
        self.assertEqual(text, "[a](../docs/other.md) [b](../README.md) [c](../src/a/README.md) ![d](../docs/p.png) [e](https://x.y) "
                               "[f](../docs/other.md#a-code-heading-and-more)")

    def test_a_source_becomes_its_name(self):
        self.assertEqual(self.rewritten("[the file](../src/a/a.cpp)"), ("the file (`src/a/a.cpp`)", []))

    def test_what_leads_nowhere_is_told(self):
        for link, said in (("missing.md", "docs/page.md: missing.md leads nowhere"), ("../../etc/passwd", "docs/page.md: ../../etc/passwd leads nowhere"),
                           ("other.md#nothing", "docs/page.md: other.md#nothing: there is no such heading"),
                           ("#nothing", "docs/page.md: #nothing: there is no such heading")):
            self.assertEqual(self.rewritten(f"[a]({link})")[1], [said])

    def test_code_is_no_link(self):
        text = "`[a](missing.md)`\n```sh\n[b](missing.md)\n```\n"
        self.assertEqual(self.rewritten(text), (text, []))

    def test_rules_and_bug_checks_of_the_pages_about_wddm_are_links(self):
        with tempfile.TemporaryDirectory() as folder:
            root, before = pathlib.Path(folder), docs_site.ROOT
            book = docs_site.reference_pages.Rulebook(before)
            (root / "docs/wddm").mkdir(parents=True)
            text = "Keep PAGE-05, else bug check 0x10E. `PAGE-06` PAGE-00 bug check 0x1234 [PAGE](other.md)"
            for name in ("docs/wddm/page.md", "docs/page.md", "docs/wddm/other.md", "docs/other.md"):
                (root / name).write_text(text if "page" in name else "# Other\n")
            docs_site.ROOT = root
            try:
                site = docs_site.Site([pathlib.PurePosixPath(path.relative_to(root)) for path in root.rglob("*.md")], book)
                told, elsewhere = (site.rewritten(pathlib.PurePosixPath(name)) for name in ("docs/wddm/page.md", "docs/page.md"))
            finally:
                docs_site.ROOT = before
        self.assertEqual(told, "Keep [PAGE-05](../../book/PAGE-05.md), else bug check [0x10E](../../book/0x10E.md). `PAGE-06` PAGE-00 bug check 0x1234 "
                               "[PAGE](../../docs/wddm/other.md)")
        self.assertEqual(site.wrong, [f"docs/wddm/page.md: {name}: the rulebook has none of that name" for name in ("PAGE-00", "bug check 0x1234")])
        self.assertTrue(elsewhere.startswith("Keep PAGE-05, else bug check 0x10E."))

    def test_of_this_repository(self):
        done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


class RulePages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.book = docs_site.reference_pages.Rulebook(docs_site.ROOT)
        cls.pages, cls.navigation = cls.book.pages()

    def test_each_rule_and_each_bug_check_has_a_page(self):
        for rule in (rule for area in self.book.areas for rule in area["rules"]):
            page = self.pages[f"book/{rule['id']}.md"]
            self.assertTrue(page.startswith(f"# {rule['id']}\n"))
            self.assertIn(docs_site.reference_pages.LEVELS[rule["who"]], page)
        for check in self.book.bug_checks:
            self.assertTrue(self.pages[f"book/{check['code']}.md"].startswith(f"# {check['code']} {check['name']}\n"))
        self.assertEqual(len(self.navigation), len(self.book.areas) + 1)

    def test_their_links_lead_to_each_other_or_to_published_pages(self):
        links = [(page, link) for page, text in self.pages.items() for _, _, link in docs_site.LINK.findall(text)]
        self.assertGreater(len(links), 2000)
        for page, link in links:
            if not link.startswith("https://learn.microsoft.com/"):
                self.assertIn(f"book/{link}", self.pages, page)

    def test_texts_are_no_markup(self):
        plain = docs_site.reference_pages.plain
        self.assertEqual(plain("a_b <c> *d*"), r"a\_b \<c\> \*d\*")
        self.assertEqual(plain("1. Do this. 2. Then 3. 4 times."), "1. Do this. \n2. Then 3. 4 times.")
        self.assertEqual(docs_site.reference_pages.cell("a|b\nc"), "a\\|b c")


if __name__ == "__main__":
    unittest.main()
