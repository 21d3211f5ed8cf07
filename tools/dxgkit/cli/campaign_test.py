#!/usr/bin/env python3
"""Campaigns on this machine: the same bytes whatever the shards and their order, and whatever becomes of tasks: killed, doubled, broken, stopped.

scripts/campaign_test has the same on a real Slurm.
"""
import hashlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import unittest

from support import MUTANTS, TOOL, Cli

SEEDS = "1..24"
SMALL = ("--clients", "1", "--operations", "10")
LONG = ("--clients", "2", "--operations", "3000")  # a seed takes long enough to be killed in the middle


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Campaign(Cli):
    def campaign(self, *arguments, code=0):
        done = self.run_tool("campaign", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def started(self, *arguments):
        return subprocess.Popen([TOOL, "campaign", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tasks(self, campaign, process):
        """Waits for a task of a campaign that runs; the numbers of those that there are."""
        while True:
            self.assertIsNone(process.poll(), "it ended before a task was seen")
            found = [int(path.name.split(".")[2]) for path in (self.folder / campaign / "running").glob("0*.json")]
            if found:
                return found

    def results(self, campaign):
        return digest(self.folder / campaign / "results.sqlite")

    def alone(self, seeds, options):
        """What one process makes."""
        self.run_tool("sim", "--seeds", seeds, "--jobs", "1", "--failures", "1000", "--db", "one.sqlite", *options)
        self.run_tool("merge", "alone.sqlite", "one.sqlite")
        return digest(self.folder / "alone.sqlite")

    def test_results_do_not_depend_on_shards_and_doubles(self):
        wanted = self.alone(SEEDS, SMALL)
        said = self.campaign("run", "a", "--seeds", SEEDS, "--shards", "5", "--jobs", "3", "--", *SMALL).stdout
        self.assertIn("seeds 1..24: 24 passed, 0 failed\n", said)
        self.assertEqual(self.results("a"), wanted)
        self.assertEqual(list((self.folder / "a/running").iterdir()), [])
        self.campaign("run", "b", "--seeds", SEEDS, "--shards", "1", "--", *SMALL)
        self.assertEqual(self.results("b"), wanted)
        # Twice, and in another order.
        for shard in (4, 2):
            self.assertEqual(self.campaign("shard", "a", "--shard", f"{shard}/5", "--again").stdout.splitlines()[-1],
                             f"shard {shard}/5: the same as another task's")
            self.assertEqual(self.campaign("shard", "a", "--shard", f"{shard}/5").stdout, f"shard {shard}/5: its results are there already\n")
        self.campaign("report", "a")
        self.assertEqual(self.results("a"), wanted)

    def test_tasks_run_elsewhere(self):
        self.assertEqual(self.campaign("run", "c", "--engine", "none", "--seeds", SEEDS, "--shards", "3", "--", *SMALL).stdout,
                         f"3 shards for: dxgkit campaign shard {self.folder}/c --shard I/3\n")
        for shard in (3, 1):
            self.campaign("shard", "c", "--shard", f"{shard}/3")
        self.assertIn("1 of 3 shards without results", self.campaign("report", "c", code=1).stdout)
        state = json.loads(self.campaign("status", "c", "--json").stdout)
        self.assertEqual((state["shards_whole"], state["seeds_ended"], state["seeds"], state["tasks"]), (2, 16, 24, []))
        self.campaign("shard", "c", "--shard", "2/3", "--scratch", ".")
        self.campaign("report", "c")
        self.assertEqual(self.results("c"), self.alone(SEEDS, SMALL))

    def test_a_killed_task_runs_again(self):
        process = self.started("run", "k", "--seeds", "1..6", "--shards", "3", "--jobs", "1", "--", *LONG)
        killed = 0
        while not killed:
            task = self.tasks("k", process)[0]
            try:
                os.kill(task, signal.SIGSTOP)  # from here on it cannot end
                words = pathlib.Path(f"/proc/{task}/cmdline").read_text().split("\0")
                shard = int(words[words.index("--shard") + 1].split("/")[0])
            except (OSError, ValueError):  # it has ended
                continue
            if not (self.folder / f"k/shards/{shard:07}.sqlite").exists():
                os.kill(task, signal.SIGKILL)
                killed = shard
            else:
                os.kill(task, signal.SIGCONT)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, out + err)
        self.assertIn(f"dxgkit: 1 task was lost, among them {killed:07}", err)
        self.assertEqual(self.results("k"), self.alone("1..6", LONG))
        self.assertEqual(list((self.folder / "k/running").iterdir()), [])

    def test_a_broken_database_runs_again(self):
        self.campaign("run", "d", "--seeds", SEEDS, "--shards", "4", "--", *SMALL)
        wanted = self.results("d")
        path = self.folder / "d/shards/0000003.sqlite"
        path.write_bytes(path.read_bytes()[:5000])
        done = self.campaign("report", "d", code=1)
        self.assertIn("refused: ", done.stdout)
        self.assertIn("18 passed, 0 failed; 1 of 4 shards without results", done.stdout)
        self.campaign("run", "d")
        self.assertEqual(self.results("d"), wanted)

    def test_two_results_of_a_seed_are_an_error(self):
        self.campaign("run", "e", "--seeds", SEEDS, "--shards", "4", "--", *SMALL)
        wanted = self.results("e")
        path = self.folder / "e/shards/0000002.sqlite"
        with sqlite3.connect(path) as database:
            database.execute("UPDATE seed SET trace_hash = '00000000000000ff' WHERE seed = 6")
        database.close()
        done = self.campaign("shard", "e", "--shard", "2/4", "--again", code=1)
        self.assertEqual(done.stdout.splitlines()[-1], "shard 2/4: other results than another task's: not deterministic")
        done = self.campaign("report", "e", "--json=e.json", code=1)
        self.assertIn("seed 6 has two results, so something in it does not come from the seed:\n  trace 00000000000000ff, passed\n", done.stdout)
        self.assertEqual([one["seed"] for one in json.loads((self.folder / "e.json").read_text())["conflicts"]], [6])
        self.assertNotEqual(self.results("e"), wanted)

    def test_stop_and_go_on(self):
        process = self.started("run", "s", "--seeds", "1..6", "--shards", "3", "--jobs", "1", "--", *LONG)
        self.tasks("s", process)
        self.campaign("stop", "s")
        out, err = process.communicate()
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("stopped: `dxgkit campaign run ", out)
        self.assertIn("it is stopped", self.campaign("status", "s").stdout)
        self.assertEqual(self.campaign("shard", "s", "--shard", "3/3", code=130).stdout, "shard 3/3: the campaign is stopped\n")
        self.assertEqual(list((self.folder / "s/running").iterdir()), [])
        self.campaign("run", "s")
        self.assertEqual(self.results("s"), self.alone("1..6", LONG))

    def test_an_interrupt_leaves_no_task(self):
        process = self.started("run", "i", "--seeds", "1..6", "--shards", "3", "--jobs", "2", "--", *LONG)
        tasks = self.tasks("i", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 130, out + err)
        for task in tasks:
            self.assertFalse(os.path.exists(f"/proc/{task}"))
        self.assertEqual(list((self.folder / "i/running").iterdir()), [])

    def test_seeds_that_fail_are_results(self):
        done = self.campaign("run", "f", "--seeds", "1..8", "--shards", "3", "--", "--canary", "model_lie", "--faults", "none", code=1)
        report = json.loads(self.campaign("report", "f", "--json", code=1).stdout)
        failures = report["failures"]
        self.assertGreater(len(failures), 0, done.stdout)
        self.assertEqual(report["seeds_ended"], 8)
        self.assertEqual(failures[0]["replay"], f"dxgkit replay {failures[0]['seed']} --faults 'none' --canary model_lie")
        self.assertIn(f"replay: {failures[0]['replay']}", done.stdout)
        self.assertIn(f"8 of 8 seeds, {len(failures)} failed", self.campaign("status", "f").stdout)

    def test_verify_as_work(self):
        done = self.campaign("run", "v", "--work", "verify", "--driver", "wrong", "--seeds", "1..2", "--shards", "2", "--", "--step", "start", code=1)
        self.assertRegex(done.stdout, r"(?m)^2 seeds \(1, 2\): ")
        self.assertIn("  replay: dxgkit verify wrong --step start --mode sim --seed 1\n", done.stdout)
        wanted = self.results("v")
        self.campaign("run", "w", "--work", "verify", "--driver", "wrong", "--seeds", "1..2", "--shards", "1", "--", "--step", "start", code=1)
        self.assertEqual(self.results("w"), wanted)

    def test_fuzz_shares_what_was_found(self):
        arguments = ("--work", "fuzz", "--driver", "wrong", "--seeds", "1..4", "--", "--steps", "40")
        done = self.campaign("run", "x", "--shards", "4", "--jobs", "2", *arguments, code=1)
        found = sorted(path.name for path in (self.folder / "x/found").iterdir())
        self.assertIn("LIFE-20-in-DxgkDdiUnload.fuzz", found)
        self.assertTrue(all(name.endswith(".fuzz") for name in found), found)
        self.assertRegex(done.stdout, r"(?m)^  replay: dxgkit fuzz wrong --steps 40 --seeds (\d)\.\.\1$")
        self.campaign("run", "y", "--shards", "1", *arguments, code=1)
        self.assertEqual(self.results("x"), self.results("y"))
        self.assertEqual(sorted(path.name for path in (self.folder / "y/found").iterdir()), found)
        again = self.run_tool("fuzz", "wrong", "--replay", "x/found/LIFE-20-in-DxgkDdiUnload.fuzz")
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)

    def test_bad_input_leaves_nothing(self):
        for arguments, wanted in ((("run", "n"), "no campaign is there, and --seeds A..B begins one"),
                                  (("run", "n", "--seeds", "7..3"), "--seeds is a number or FIRST..LAST"),
                                  (("run", "n", "--seeds", "1..9223372036854775808"), "--seeds is a number or FIRST..LAST"),
                                  (("run", "n", "--seeds", SEEDS, "--driver", "none.sys"), "none.sys: No such file"),
                                  (("run", "n", "--seeds", SEEDS, "--", "--no-such-option"), "--no-such-option"),
                                  (("run", "n", "--seeds", SEEDS, "--", "--shard", "1/2"), "--shard"),
                                  (("run", "n", "--seeds", SEEDS, "--shard", "1/2"), "campaign run takes no --shard"),
                                  (("status", "n", "--seeds", SEEDS), "campaign status takes no --seeds"),
                                  (("status", "n"), "no campaign: "), (("stop", "n"), "no campaign: "), (("report", "n"), "no campaign: "),
                                  (("shard", "n", "--shard", "1/1"), "no campaign: "), (("shard", "n"), "--shard I/N is required")):
            with self.subTest(arguments=arguments):
                done = self.campaign(*arguments, code=2)
                self.assertIn(wanted, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(self.files(), ["good.png"])

    def test_another_campaign_is_refused(self):
        (self.folder / "own.sys").write_bytes(pathlib.Path(MUTANTS, "softgpu.sys").read_bytes())
        self.campaign("run", "o", "--seeds", "1..4", "--shards", "2", "--driver", "own.sys", "--", *SMALL)
        for arguments, wanted in ((("--seeds", "1..5"), "seeds are '1..4', and not '1..5'"), (("--shards", "3"), "number of shards is '2'"),
                                  (("--driver", "softgpu"), "driver is 'own.sys'"), (("--work", "verify"), "work is 'sim'"),
                                  (("--", "--clients", "2"), "options are")):
            self.assertIn(wanted, self.campaign("run", "o", *arguments, code=2).stderr)
        self.campaign("run", "o", "--seeds", "1..4")  # the same one
        with open(self.folder / "own.sys", "ab") as file:
            file.write(b"x")
        self.assertIn("the driver is not the one that the campaign began with", self.campaign("run", "o", code=2).stderr)
        self.assertIn("the driver is not the one", self.campaign("shard", "o", "--shard", "1/2", "--again", code=2).stderr)
        path = self.folder / "o/campaign.json"
        path.write_text(path.read_text().replace('"program": "dxgkit ', '"program": "dxgkit 0'))
        self.assertIn("results could differ", self.campaign("shard", "o", "--shard", "1/2", code=2).stderr)
        self.assertIn("the campaign has 2 shards", self.campaign("shard", "o", "--shard", "1/3", code=2).stderr)
        path.write_text("{}")
        self.assertIn("campaign.json: its format is ''", self.campaign("run", "o", code=2).stderr)

    def test_slurm_that_is_not_there(self):
        bare = {**os.environ, "PATH": "/nowhere"}
        done = subprocess.run([TOOL, "campaign", "run", "q", "--engine", "slurm", "--seeds", "1..4", "--", *SMALL], cwd=self.folder, env=bare,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "dxgkit: sbatch cannot be started: No such file or directory\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
