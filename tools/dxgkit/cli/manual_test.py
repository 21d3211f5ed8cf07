#!/usr/bin/env python3
"""Man pages and completions beside what --help says. Arguments: support.py."""
import re
import shutil
import subprocess
import unittest

from support import TOOL, Cli

SHELLS = (("bash", "bash/dxgkit"), ("zsh", "zsh/_dxgkit"), ("fish", "fish/dxgkit.fish"))


class Manual(Cli):
    def setUp(self):
        super().setUp()
        done = self.run_tool("manual", "out")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.out = self.folder / "out"

    def help(self, *command):
        done = self.run_tool(*command, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def commands(self):
        listed = self.help().split("Subcommands:\n")[1].split("\n\n")[0]
        names = re.findall(r"(?m)^  ([a-z-]+) ", listed)
        self.assertGreater(len(names), 20)
        return names

    def options(self, *command):
        """Long options as CLI11 prints them."""
        return re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", self.help(*command))

    def page(self, *command):
        return (self.out / "man1" / ("-".join(("dxgkit", *command)) + ".1")).read_text()

    def test_every_command_and_option_is_in_its_page(self):
        commands = self.commands()
        pages = sorted(["dxgkit.1", *(f"dxgkit-{one}.1" for one in commands)])
        self.assertEqual(sorted(path.name for path in (self.out / "man1").iterdir()), pages)
        for command in [(), *((one,) for one in commands if one != "help")]:
            for option in self.options(*command):
                self.assertIn("\\fB" + option.replace("-", "\\-") + "\\fR", self.page(*command), (command, option))
        for command in commands:
            self.assertIn(".TP\n\\fB" + command.replace("-", "\\-") + "\\fR\n", self.page())
        self.assertIn(".SH OPTIONS OF A RECORDING", self.page("replay"))

    def test_every_command_and_option_is_in_each_completion(self):
        texts = {shell: (self.out / path).read_text() for shell, path in SHELLS}
        for command in self.commands():
            for text in texts.values():
                self.assertRegex(text, rf"\b{command}\b")
            part = {"bash": re.search(rf"(?m)^    '{command} '\*\) (.*)$", texts["bash"]).group(1),
                    "zsh": re.search(rf"(?ms)^    {command}\)\n(.*?)^      ;;$", texts["zsh"]).group(1),
                    "fish": "\n".join(re.findall(rf"(?m)^complete -c dxgkit -n '__fish_seen_subcommand_from {command}'(.*)$", texts["fish"]))}
            for option in self.options(command) if command != "help" else ():
                self.assertIn(f"{option} ", part["bash"].replace("'", " "), command)
                self.assertRegex(part["zsh"], rf"\*{option}(=-)?\[", command)
                self.assertIn(f" -l {option[2:]} ", part["fish"], command)

    def test_shells_and_man_take_them(self):
        for shell, path in SHELLS:
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", self.out / path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)
        if shutil.which("man"):
            for page in sorted((self.out / "man1").iterdir()):
                done = subprocess.run(["man", "--warnings", "--encoding=UTF-8", "-l", page], capture_output=True, text=True,
                                      env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
                self.assertEqual((done.returncode, done.stderr), (0, ""), page)
                self.assertIn("EXAMPLES", done.stdout)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = (f"source {self.out}/bash/dxgkit; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _dxgkit; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("dxgkit", "ver"), ["verify"])
        self.assertEqual(self.complete("dxgkit", "--ver"), ["--version"])
        self.assertEqual(self.complete("dxgkit", "verify", "--until"), ["--until-finding"])
        self.assertEqual(self.complete("dxgkit", "run", "--mode", ""), ["os", "sim"])
        self.assertEqual(self.complete("dxgkit", "run", "--model", "g"), ["gpuva"])
        self.assertEqual(self.complete("dxgkit", "verify", "go"), ["good.png"])
        self.assertEqual(self.complete("dxgkit", "run", "--input", "go"), ["good.png"])
        self.assertEqual(self.complete("dxgkit", "run", "--json", "=", "go"), ["good.png"])
        self.assertEqual(self.complete("dxgkit", "run", "--json", "--inp"), ["--input"])
        self.assertEqual(self.complete("dxgkit", "run", "--vram", ""), [])
        self.assertEqual(self.complete("dxgkit", "replay", "--driv"), ["--driver"])
        self.assertEqual(self.complete("dxgkit", "help", "serve-"), ["serve-device"])
        self.assertEqual(self.complete("dxgkit", "gl", "--", "go"), ["good.png"])
        self.assertNotIn("serve-adapter", self.complete("dxgkit", ""))

    def test_every_command_has_an_example_that_can_be_typed(self):
        for command in self.commands():
            if command == "help":
                continue
            text = self.help(command).split("\nExamples:\n")
            self.assertEqual(len(text), 2, command)
            self.assertIn(f"  dxgkit {command} ", text[1].replace("\n", " "), command)
        done = self.run_tool("manual", "--check-examples")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_place_that_cannot_be_written(self):
        (self.folder / "file").write_text("kept")
        done = self.run_tool("manual", "file")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (5, "", 1), done.stderr)
        self.assertEqual((self.folder / "file").read_text(), "kept")
        self.assertEqual(self.run_tool("manual").returncode, 2)


if __name__ == "__main__":
    unittest.main()
