#!/usr/bin/env python3
"""scripts/release makes a commit and a tag, or leaves everything as it was."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "release"
CHANGELOG = "# Changelog\n\nWords.\n\n## [Unreleased]\n\n### Added\n- A thing.\n"


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "include/dxgkit").mkdir(parents=True)
        (self.root / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(dxgkit VERSION 0.1.0 LANGUAGES CXX)\n")
        (self.root / "include/dxgkit/version.h").write_text(
            "#define DXGKIT_VERSION_MAJOR 0\n#define DXGKIT_VERSION_MINOR 1\n#define DXGKIT_VERSION_PATCH 0\n")
        (self.root / "CHANGELOG.md").write_text(CHANGELOG)
        (self.root / "Makefile").write_text("test:\n\ttouch tested\npackage-test:\n\ttouch packed\nabi-keep:\n\techo new >> src/api/interface.xml.xz\n")
        (self.root / "src/api").mkdir(parents=True)
        (self.root / "src/api/interface.xml.xz").write_bytes(b"\xfd7zXZ\n")
        (self.root / ".gitignore").write_text("tested\npacked\n")
        self.git("init", "--quiet")
        self.git("config", "user.name", "A")
        self.git("config", "user.email", "a@localhost")
        self.commit()

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", "Begin")

    def release(self, *words, wrong=None):
        before = self.state()
        done = subprocess.run([SCRIPT, "--root", self.root, *words], capture_output=True, text=True)
        if wrong is None:
            self.assertEqual(done.returncode, 0, done.stderr)
        else:
            self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (1, f"release: {wrong}"))
            self.assertEqual(self.state(), before)

    def state(self):
        return (self.git("log", "--format=%H"), self.git("tag"), self.git("status", "--porcelain"), (self.root / "CHANGELOG.md").read_text())

    def test_raises_the_version_and_tags_the_changes(self):
        self.release("0.2.0")
        self.assertEqual(self.git("status", "--porcelain"), "")
        self.assertIn("project(dxgkit VERSION 0.2.0 LANGUAGES CXX)", (self.root / "CMakeLists.txt").read_text())
        self.assertIn("#define DXGKIT_VERSION_MINOR 2\n", (self.root / "include/dxgkit/version.h").read_text())
        self.assertRegex((self.root / "CHANGELOG.md").read_text(), r"## \[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n- A thing\.\n")
        self.assertEqual(self.git("log", "-1", "--format=%s"), "Release 0.2.0")
        self.assertEqual(self.git("tag", "-l", "--format=%(contents)", "v0.2.0"), "dxgkit 0.2.0\n\n### Added\n- A thing.")
        self.assertTrue((self.root / "tested").exists() and (self.root / "packed").exists())
        self.assertEqual(self.git("diff", "--stat", "--name-only", "HEAD~1").splitlines(), ["CHANGELOG.md", "CMakeLists.txt", "include/dxgkit/version.h", "src/api/interface.xml.xz"])
        self.release("0.2.1", wrong="CHANGELOG.md: nothing is under [Unreleased]")
        log = self.root / "CHANGELOG.md"
        log.write_text(log.read_text().replace("## [Unreleased]\n", "## [Unreleased]\n\n### Fixed\n- Another.\n", 1))
        self.commit()
        self.release("0.2.0", wrong="there is a tag v0.2.0 already")
        self.release("0.1.9", wrong="0.1.9 is not newer than 0.2.0")
        self.release("0.2.1")
        self.release("--check")

    def test_the_first_release_may_keep_the_version(self):
        self.release("0.1.0", "--no-tests")
        self.assertFalse((self.root / "tested").exists())
        self.assertEqual(self.git("tag"), "v0.1.0")

    def test_what_is_wrong_changes_nothing(self):
        self.release("0.2", wrong="0.2 is no version like 1.2.3")
        for goal in "test", "package-test", "abi-keep":
            makefile = self.root / "Makefile"
            text = makefile.read_text()
            makefile.write_text(text.replace(f"{goal}:\n\t", f"{goal}:\n\tfalse; exit 1; "))
            self.commit()
            self.release("0.2.0", wrong=f"make {goal} failed")
            makefile.write_text(text)
            self.commit()
        (self.root / "more").write_text("")
        self.release("0.2.0", wrong="the checkout has changes: commit them first")

    def test_versions_and_changelog_that_do_not_agree_are_told(self):
        rows = (("include/dxgkit/version.h", "MINOR 1", "MINOR 2", "include/dxgkit/version.h does not have the version 0.1.0 of CMakeLists.txt"),
                ("CHANGELOG.md", "## [Unreleased]", "## [0.1.0] - 2026-01-01", "CHANGELOG.md does not begin with [Unreleased]"),
                ("CHANGELOG.md", "### Added", "### Done", f"CHANGELOG.md: [Unreleased]: 'Done' is none of Added, Changed, Deprecated, Removed, Fixed, Security"),
                ("CHANGELOG.md", "- A thing.\n", "- A thing.\n## [0.1.0]\n", "CHANGELOG.md: [0.1.0] has no date"),
                ("CHANGELOG.md", "- A thing.\n", "## [0.0.9] - 2026-01-01\n", "CHANGELOG.md: the newest version is 0.0.9, that of the project 0.1.0"),
                ("CHANGELOG.md", "- A thing.\n", "## [0.1.0] - 2026-01-01\n## [0.2.0] - 2026-01-01\n", "CHANGELOG.md: versions are not in their order"))
        for name, old, new, wrong in rows:
            path = self.root / name
            text = path.read_text()
            self.assertIn(old, text)
            path.write_text(text.replace(old, new, 1))
            self.release("--check", wrong=wrong)
            path.write_text(text)
        self.release("--check")

    def test_of_this_repository(self):
        done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
