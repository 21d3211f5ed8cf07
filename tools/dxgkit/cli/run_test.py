#!/usr/bin/env python3
"""Uses the built tool as a person would: run, va, doctor, tables. Arguments: support.py."""
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import unittest

from support import HERE, MUTANT, MUTANTS, TOOL, Cli, colours, read_png


class BadInput(Cli):
    """One clear line on stderr, exit code 2, nothing written."""

    def refused(self, *arguments, names=None, code=2):
        before = self.files()
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        self.assertEqual(done.stderr.count("\n"), 1, f"{arguments}: {done.stderr}")
        self.assertTrue(done.stderr.startswith("dxgkit: "), done.stderr)
        if names:
            self.assertIn(names, done.stderr)
        self.assertEqual(self.files(), before, arguments)

    OUTPUTS = ("--output", "out.png", "--trace", "out.pftrace", "--report", "out.html")

    def test_command_line(self):
        self.refused("frobnicate", names="frobnicate")
        self.refused("run", "--frobnicate", names="--frobnicate")
        self.refused("run", "extra", names="extra")
        self.refused("run", "--trace")
        self.refused("run", "--mode", "fast", names="fast")
        self.refused("run", "--model", "gpuva:4", names="gpuva:4")
        self.refused("run", "--model", "", names="memory model")
        self.refused("run", "--client-api", "d3d", names="d3dkmt or umd")
        self.refused("run", "--seed", "-1", names="-1")
        self.refused("run", "--seed", "x", names="x")
        self.refused("run", "--power-plan", "at 5", names="line 1, column 5")
        self.refused("run", "--power-plan", "nowhere", names="nowhere")
        self.refused("run", "--hang", "4d:1", names="4d:1")
        self.refused("run", "--hang", "3d:0", names="3d:0")
        self.refused("run", "--hang", "3d:2", "--seeds", "1..2", names="--seeds")
        self.refused("run", "--device", "framebuffer", "--power-plan", "at 5 d3", names="softgpu")
        self.refused("run", "--size", "0x5", names="0x5")
        self.refused("run", "--vram", "lots", names="lots")
        self.refused("run", "--input", "good.png", "--size", "5x5")
        self.refused("explain")
        self.refused("explain", "PATCH-" + "99", names="PATCH-" + "99")
        self.refused("rules", "NOWHERE", names="NOWHERE")

    def test_seed_ranges(self):
        for text in ("5..3", "1..", "..", "a..b", "7"):
            self.refused("run", "--seeds", text, names=text)
        self.refused("run", "--seeds", "1..2", "--seed", "3")
        self.refused("run", "--seeds", "1..2", "--trace", "out.pftrace")

    def test_pictures(self):
        whole = (self.folder / "good.png").read_bytes()
        (self.folder / "cut.png").write_bytes(whole[:len(whole) // 2])
        (self.folder / "text.png").write_text("not a picture")
        (self.folder / "empty.png").write_bytes(b"")
        for name in ("cut.png", "text.png", "empty.png", "missing.png", "."):
            self.refused("run", "--input", name, *self.OUTPUTS, names=name)

    def test_drivers(self):
        (self.folder / "text.so").write_text("not a driver")
        (self.folder / "cut.so").write_bytes(b"\x7fELF\2\1\1" + b"\0" * 30)
        (self.folder / "empty.so").write_bytes(b"")
        for name in ("text.so", "cut.so", "empty.so", "missing.so", ".", "/bin/true"):
            self.refused("run", "--size", "64x64", "--driver", name, *self.OUTPUTS, names=name)

    def test_video_memory(self):
        self.refused("run", "--size", "256x256", "--vram", "16K", *self.OUTPUTS, names="16384")
        self.refused("run", "--size", "64x64", "--vram", "0", *self.OUTPUTS)
        self.refused("run", "--size", "64x64", "--vram", "900G", *self.OUTPUTS)

    def test_outputs_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        for option in ("--output", "--trace", "--report"):
            self.refused("run", "--size", "64x64", option, "no/such/file", names="no/such/file", code=5)
            self.refused("run", "--size", "64x64", option, "folder", names="folder", code=5)


class Run(Cli):
    def test_real_threads_with_paging(self):
        done = self.run_tool("run", "--size", "700x500", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["result"], "identical to CPU reference")
        self.assertGreater(summary["evictions"], 0)
        self.assertGreater(summary["page_ins"], 0)
        self.assertGreater(summary["page_in_bytes"], 0)
        self.assertGreater(summary["page_outs"], 0)
        self.assertGreater(summary["patch_locations"], 0)
        # Per tile an upload and a finished tile are signalled by the GPU, and its way back; per process two stage ends.
        self.assertEqual(summary["fence_signals"], 3 * summary["tiles"] + 2 * 2)
        self.assertEqual(summary["packets_completed"], summary["packets"])
        self.assertEqual(summary["findings"], [])
        self.assertEqual(self.files(), ["good.png"])

    def test_a_picture_of_the_user(self):
        done = self.run_tool("run", "--input", "good.png", "--output", "out.png", "--trace", "out.pftrace", "--report", "out.html")
        self.assert_identical(done)
        self.assertEqual(self.files(), ["good.png", "out.html", "out.pftrace", "out.png"])
        header = (self.folder / "out.png").read_bytes()[:24]
        self.assertEqual(struct.unpack(">II", header[16:24]), (49, 31))

    def test_odd_sizes_and_one_pixel(self):
        for size in ("1x1", "129x1", "1x200", "130x131"):
            self.assert_identical(self.run_tool("run", "--size", size, "--mode", "sim"))

    def test_one_tile_of_video_memory_is_enough(self):
        done = self.run_tool("run", "--size", "256x256", "--vram", "1")
        self.assertEqual(done.returncode, 2)
        least = re.search(r"at least (\d+) bytes", done.stderr).group(1)
        for mode in ("os", "sim"):
            self.assert_identical(self.run_tool("run", "--size", "256x256", "--vram", least, "--mode", mode))

    def test_one_seed_is_one_run(self):
        for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
            self.assert_identical(self.run_tool("run", "--mode", "sim", "--seed", seed, "--size", "256x256", "--trace", name + ".pftrace", "--report", name + ".html"))
        read = lambda name: (self.folder / name).read_bytes()  # noqa: E731
        self.assertEqual(read("a.pftrace"), read("b.pftrace"))
        self.assertEqual(read("a.html"), read("b.html"))
        self.assertNotEqual(read("a.pftrace"), read("c.pftrace"))

    def test_a_quarter_of_the_memory_in_every_model_and_mode(self):
        pictures = set()
        for model in ("patch", "gpuva", "gpuva:1", "gpuva:2", "gpuva:3"):
            for mode in ("os", "sim"):
                with self.subTest(model=model, mode=mode):
                    done = self.run_tool("run", "--model", model, "--mode", mode, "--size", "500x400", "--output", "out.png", "--json")
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    summary = json.loads(done.stdout)
                    self.assertEqual(summary["result"], "identical to CPU reference")
                    # A quarter, in whole pages: of 64 KiB in the third model.
                    page = 65536 if model == "gpuva:3" else 4096
                    self.assertLess(summary["vram_bytes"], summary["working_set_bytes"] // 4 + page)
                    for count in ("evictions", "page_ins", "page_outs"):
                        self.assertGreater(summary[count], 0, count)
                    self.assertEqual(summary["patch_locations"] == 0, model != "patch")
                    pictures.add((self.folder / "out.png").read_bytes())
        self.assertEqual(len(pictures), 1)

    def test_a_client_behind_the_callbacks_of_a_user_mode_driver(self):
        pictures = set()
        for model in ("patch", "gpuva:1", "gpuva:2", "gpuva:3"):
            for mode in ("os", "sim"):
                for api in ("d3dkmt", "umd"):
                    with self.subTest(model=model, mode=mode, api=api):
                        done = self.run_tool("run", "--model", model, "--mode", mode, "--client-api", api, "--size", "300x260", "--output", "out.png",
                                             "--trace", api + ".txt", "--json")
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        summary = json.loads(done.stdout)
                        self.assertEqual((summary["result"], summary["client_api"]), ("identical to CPU reference", api))
                        self.assertGreater(summary["evictions"], 0)
                        pictures.add((self.folder / "out.png").read_bytes())
                if mode == "os":
                    continue
                # Thin: the kernel sees the same calls, but for the older form of one.
                direct, behind = ((self.folder / (api + ".txt")).read_text() for api in ("d3dkmt", "umd"))
                self.assertIn("D3DKMTCreateAllocation2", direct)
                self.assertNotIn("D3DKMTCreateAllocation2", behind)
                self.assertEqual(direct.replace("D3DKMTCreateAllocation2", "D3DKMTCreateAllocation"), behind, model)
        self.assertEqual(len(pictures), 1)

    def test_a_client_behind_callbacks_flips_and_sees_its_device_go(self):
        for model in ("patch", "gpuva"):
            done = self.run_tool("run", "--mode", "sim", "--client-api", "umd", "--model", model, "--size", "128x96", "--scanout", "screen.png")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("result: identical to CPU reference; the screen shows it", done.stdout)
            self.assertIn("callbacks of a user-mode driver", done.stdout)
            self.assertTrue((self.folder / "screen.png").exists())
        done = self.run_tool("run", "--size", "384x384", "--mode", "sim", "--client-api", "umd", "--power-plan", "at 60 remove", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(json.loads(done.stdout)["result"], r"^removed as planned: .*Cb answered D3DDDIERR_DEVICEREMOVED")
        done = self.run_tool("run", "--seeds", "1..6", "--client-api", "umd")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_memory_that_is_not_a_quarter_is_said(self):
        for arguments, said in ((("--size", "64x64"), True), (("--size", "500x400", "--vram", "64M"), True), (("--size", "500x400"), False)):
            done = self.run_tool("run", "--mode", "sim", *arguments)
            self.assert_identical(done)
            self.assertRegex(done.stdout, r"(?m)^ *working set +")
            self.assertEqual("of the working set" in done.stdout, said, done.stdout)

    MODELS = ("gpuva:1", "gpuva:2", "gpuva:3")

    def test_gpu_virtual_addresses_give_the_same_picture(self):
        for model in self.MODELS:
            with self.subTest(model):
                done = self.run_tool("run", "--model", model, "--size", "700x500", "--json")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                summary = json.loads(done.stdout)
                self.assertEqual(summary["result"], "identical to CPU reference")
                self.assertEqual((summary["model"], summary["driver"]), (model, "softgpu_wddm2"))
                self.assertLessEqual(summary["vram_bytes"], summary["working_set_bytes"] // 4 + 65536)
                # Nothing is patched, and memory was short.
                self.assertEqual(summary["patch_locations"], 0)
                self.assertGreater(summary["evictions"], 0)
                self.assertGreater(summary["page_ins"], 0)
                self.assertGreater(summary["page_outs"], 0)
                self.assertEqual(summary["packets_completed"], summary["packets"])
                self.assertEqual(summary["findings"], [])
        self.assert_identical(self.run_tool("run", "--model", "gpuva", "--input", "good.png"))

    def test_gpu_virtual_addresses_in_many_interleavings(self):
        for model in self.MODELS:
            with self.subTest(model):
                done = self.run_tool("run", "--model", model, "--seeds", "1..12")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, r"^seeds 1\.\.12: 12 passed, 0 failed")
                for size in ("1x1", "129x1", "130x131"):
                    self.assert_identical(self.run_tool("run", "--model", model, "--size", size, "--mode", "sim"))
                for name in ("a", "b"):
                    self.assert_identical(self.run_tool("run", "--model", model, "--mode", "sim", "--seed", "7", "--size", "128x128", "--trace", name))
                self.assertEqual((self.folder / "a").read_bytes(), (self.folder / "b").read_bytes())

    def test_least_memory_with_gpu_virtual_addresses(self):
        for model in self.MODELS:
            with self.subTest(model):
                done = self.run_tool("run", "--model", model, "--size", "256x256", "--vram", "1")
                self.assertEqual(done.returncode, 2)
                least = re.search(r"at least (\d+) bytes", done.stderr).group(1)
                for mode in ("sim", "os"):
                    self.assert_identical(self.run_tool("run", "--model", model, "--size", "256x256", "--vram", least, "--mode", mode))

    def test_page_tables_survive_sleep(self):
        plan = "at 20 standby; at 60 hibernate; at 90 hybrid; at 120 d3; at 150 d1"
        for model in self.MODELS:
            with self.subTest(model):
                done = self.run_tool("run", "--model", model, "--size", "384x384", "--mode", "sim", "--seed", "3", "--power-plan", plan)
                self.assert_identical(done)
                self.assertIn("standby at ", done.stdout)

    def test_a_driver_that_does_not_follow_the_model(self):
        # Built for WDDM 1.3: it never looks at the value.
        done = self.run_tool("run", "--model", "gpuva", "--size", "64x64", "--driver", MUTANT)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("does not follow --model gpuva:2", done.stderr)
        self.assert_identical(self.run_tool("run", "--model", "patch", "--size", "64x64", "--driver", "softgpu_wddm2"))

    def test_power_plans_change_no_pixel(self):
        plan = "at 20 standby; at 60 hibernate; at 90 hybrid; at 120 d3; at 150 d1"
        for device in ("softgpu", "softgpu,standby=all", "softgpu,standby=all,hibernate=all", "softgpu,standby=all,hibernate=256K"):
            for mode in (("--mode", "sim", "--seed", "3"), ("--mode", "os")):
                done = self.run_tool("run", "--size", "384x384", *mode, "--device", device, "--power-plan", plan)
                self.assert_identical(done)
                self.assertIn("standby at ", done.stdout)
                self.assertEqual(re.search(r"standby at \d+ +(\d+) kept", done.stdout).group(1) == "0", device == "softgpu", done.stdout)
        done = self.run_tool("run", "--mode", "sim", "--seeds", "1..8", "--power-plan", plan)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_engine_that_hangs_is_recovered(self):
        for engine in ("3d", "copy"):
            for mode in (("--mode", "sim", "--seed", "3"), ("--mode", "os")):
                run = ("run", "--size", "256x256", "--vram", "64M", *mode, "--hang", f"{engine}:20", "--json", "--report", "report.html")
                done = self.run_tool(*run)
                result = json.loads(done.stdout)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                event = result["timeouts"][0]
                self.assertTrue(event["recovered"], event)
                self.assertEqual(event["engine"], engine)
                if event["event"] == "0x141":  # not paging: one client only is hurt
                    self.assertRegex(result["result"], r"client \d lost its device")
                    self.assertIn("identical to CPU reference", result["result"])
                    self.assertEqual([device["hurt"] for device in event["devices"]].count(True), 1, event)
                self.assertLessEqual(event["detected_ns"] - event["asked_ns"], 2_100_000_000 if "sim" in mode else 60_000_000_000)
                page = (self.folder / "report.html").read_text()
                self.assertIn("DxgkDdiResetEngine", page)
                if event["event"] == "0x141":
                    # As the command line named it. Threads preempt when they will: what left the engine before it began was given to it twice.
                    (self.assertEqual if "sim" in mode else self.assertGreaterEqual)(event["packet"], 20)
                    texts = [step["text"] for step in event["steps"]]
                    steps = ["reported nothing|did not answer", "DxgkDdiQueryEngineStatus", "DxgkDdiQueryDependentEngineGroup", "DxgkDdiCollectDbgInfo",
                             f"DxgkDdiResetEngine of node .: LastAbortedFenceId {event['fence']};", f"Fence {event['fence']} was of client .*lost"]
                    self.assertEqual(len(texts), len(steps), texts)
                    for text, step in zip(texts, steps):
                        self.assertRegex(text, step)
                        self.assertIn(text, page)
                    times = [event["asked_ns"], event["detected_ns"]] + [step["at_ns"] for step in event["steps"]] + [event["ended_ns"]]
                    self.assertEqual(times, sorted(times))
                    self.assertGreater(event["preemption"], 0)
                if "sim" in mode:  # real threads may hang another packet the second time
                    told = self.run_tool(*[one for one in run if one != "--json"]).stdout
                    if event["event"] == "0x141":
                        self.assertRegex(told, r"(?s)SubmissionFenceId \d+.*PreemptionFenceId \d+: no answer.*QueryEngineStatus.*ResetEngine.*is lost"
                                               ".*Recovered")
                    self.assertEqual(self.run_tool(*run).stdout, done.stdout)
        # Without per-engine recovery everybody is hurt, and the adapter goes on.
        (self.folder / "off.toml").write_text("[service]\nPerEngineTdr = 0\n")
        done = self.run_tool("run", "--size", "256x256", "--mode", "sim", "--registry", "off.toml", "--hang", "3d:20")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the adapter was reset; client 1 lost its device; client 2 lost its device", done.stdout)
        self.assertIn("DxgkDdiRestartFromTimeout", done.stdout)

    def test_a_device_that_is_pulled_out(self):
        (self.folder / "plan").write_text("at 30 standby  # first it sleeps\nat 60 remove\n")
        for mode in ("sim", "os"):
            done = self.run_tool("run", "--size", "384x384", "--mode", mode, "--power-plan", "plan", "--json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            result = json.loads(done.stdout)
            self.assertTrue(result["result"].startswith("removed as planned: "), result["result"])
            # A function that does not document this status answers another one, and the device's state tells the reason.
            self.assertRegex(result["result"], r"(answered|for the device it is) STATUS_DEVICE_REMOVED( \(its adapter was stopped\))?$")
            self.assertEqual([one["step"] for one in result["power"]], ["standby", "remove"])
            self.assertLessEqual({finding["rule"] for finding in result["findings"]}, {"LIFE-21"})
        # Whoever is where when it goes: the client's end and the adapter's meet in many orders.
        for model in ("patch", "gpuva:1", "gpuva:2"):
            done = self.run_tool("run", "--mode", "sim", "--seeds", "1..60", "--size", "256x256", "--model", model, "--power-plan", "at 60 remove")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_many_seeds(self):
        done = self.run_tool("run", "--mode", "sim", "--seeds", "1..12")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^seeds 1\.\.12: 12 passed, 0 failed \(\d+\.\d s\)\n$")
        self.assertEqual(self.files(), ["good.png"])

    def test_progress_is_not_in_the_result(self):
        done = self.run_tool("run", "--size", "256x256")
        self.assertNotIn("tile steps", done.stdout)

    def test_report_page_in_a_browser(self):
        self.assert_identical(self.run_tool("run", "--size", "512x512", "--report", "out.html"))
        done = subprocess.run([sys.executable, str(HERE / "report/report_test.py"), str(self.folder / "out.html"), "Report.test_given_pages"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Addresses(Cli):
    """dxgkit va: what a run's GPU virtual addresses showed."""

    TIMES = [f"{at}us" for at in range(300, 1500, 100)]

    def record(self, model):
        self.assert_identical(
            self.run_tool("run", "--model", model, "--size", "256x256", "--mode", "sim", "--trace", "t.txt"))

    def va(self, *arguments):
        done = self.run_tool("va", "t.txt", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_range_in_memory_is_walked_to_its_place(self):
        for model in ("gpuva:1", "gpuva:2", "gpuva:3"):
            self.record(model)
            listed = self.va()
            clients = [one for one in listed["processes"] if one["process"] != 0]
            self.assertEqual([one["name"] for one in clients], ["client 1", "client 2"])
            reached = most = 0
            for at in self.TIMES:  # at some of them the tables have given way to others
                ranges = self.va("--process", "client 1", "--at", at)["ranges"]
                most = max(most, len(ranges))
                for one in ranges[:3]:
                    walked = self.va("--process", str(clients[0]["process"]), "--at", at, "--address", one["address"])
                    self.assertEqual(walked["range"], one)
                    self.assertIn("mapped", [each["what"] for each in walked["history"]])
                    if walked["translates"] and "difference" not in walked:
                        reached += 1
            self.assertGreater(most, 4, model)
            self.assertGreater(reached, 3, model)
            self.assertEqual(self.va("--process", "client 1")["ranges"], [])  # all freed in the end

    def test_says_in_words_what_happened(self):
        self.record("gpuva")
        told = []
        for at in self.TIMES:
            done = self.run_tool("va", "t.txt", "--process", "client 1", "--at", at, "--address", "0x200000")
            self.assertEqual(done.returncode, 0, done.stderr)
            told.append(done.stdout)
        walked = [one for one in told if "leads to segment" in one]
        self.assertTrue(walked, told)
        for words in ("level 3 index 0", "mapped", "in D3DKMTMapGpuVirtualAddress", "freed"):
            self.assertIn(words, walked[0])

    def test_refuses_what_is_no_trace_and_what_it_does_not_show(self):
        self.assert_identical(self.run_tool("run", "--size", "64x64", "--trace", "patch.txt"))
        self.assert_identical(self.run_tool("run", "--size", "64x64", "--trace", "t.pftrace"))
        self.record("gpuva")
        (self.folder / "garbage").write_bytes(b"\x00\xff\n" * 1000)
        for arguments, words in ((("nothing",), "nothing"), (("garbage",), "not a trace as text"), (("t.pftrace",), "not a trace as text"),
                                 (("patch.txt",), "nobody has GPU virtual addresses"),
                                 (("t.txt", "--process", "7777"), "7777"),
                                 (("t.txt", "--address", "0x200000"), "--process"),
                                 (("t.txt", "--address", "elsewhere"), "elsewhere"), (("t.txt", "--at", "noon"), "noon")):
            done = self.run_tool("va", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "", arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(words, done.stderr)


class RunWithoutAClient(Cli):
    FRAMEBUFFER = [os.path.join(MUTANTS, "framebuffer" + form) for form in (".so", ".sys")]

    def test_a_display_driver_shows_a_picture(self):
        for driver in self.FRAMEBUFFER:
            for mode in ("os", "sim"):
                done = self.run_tool("run", "--size", "64x64", "--driver", driver, "--device", "framebuffer", "--mode", mode, "--scanout", "screen.png")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("the screen is identical", done.stdout)
                header = (self.folder / "screen.png").read_bytes()[:24]
                self.assertEqual(struct.unpack(">II", header[16:24]), (1024, 768))

    def test_no_screen_to_write(self):
        # The same sources built without a screen.
        done = self.run_tool("run", "--size", "64x64", "--scanout", "screen.png", "--driver", "softgpu_wddm2")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("--scanout", done.stderr)
        self.assertEqual(self.files(), ["good.png"])

    def test_the_job_is_shown_by_flips(self):
        (self.folder / "frames").mkdir()
        simulated = ("--mode", "sim", "--seed", "5")
        models = [(*simulated, "--model", model) for model in ("gpuva", "gpuva:1", "gpuva:3")]
        for mode in (simulated, ("--mode", "os"), *models):
            run = ("run", "--size", "256x192", *mode, "--output", "result.png", "--scanout")
            done = self.run_tool(*run, "screen.png")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("identical to CPU reference; the screen shows it", done.stdout)
            width, height, result = read_png(self.folder / "result.png")
            self.assertEqual((width, height), (128, 96))
            shown = read_png(self.folder / "screen.png")
            self.assertEqual(shown[:2], (width, height))
            self.assertEqual(colours(shown[2]), colours(result))
            # The kernel's own picture, the client's first, then one more quarter of the rows each.
            done = self.run_tool(*run, "frames")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            frames = [read_png(path)[2] for path in sorted((self.folder / "frames").iterdir())]
            self.assertEqual(colours(frames[-1]), colours(result))
            row = width * 4
            for part in (1, 2, 3):
                frame, end = frames[part - 5], height * part // 4 * row
                self.assertEqual(colours(frame[:end]), colours(result[:end]), part)
                self.assertFalse(any(colours(frame[end:])), part)

    def test_devices_and_registries(self):
        for arguments in (("--device", "toaster"), ("--registry", "missing.toml"), ("--scanout", "no/such/file")):
            done = self.run_tool("run", "--size", "64x64", *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (5 if "--scanout" in arguments else 2, "", 1), arguments)
        done = self.run_tool("run", "--size", "64x64", "--device", "none")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("DxgkDdi", done.stderr)

    def test_both_forms_do_the_same_work(self):
        packets = set()
        for form in (".so", ".sys"):
            done = self.run_tool("run", "--size", "256x256", "--mode", "sim", "--driver", os.path.join(MUTANTS, "softgpu" + form),
                                 "--special-pool", "--json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            packets.add(json.loads(done.stdout)["packets"])
        self.assertEqual(len(packets), 1, packets)


class FaultyDrivers(Cli):
    def test_a_start_that_fails_is_explained(self):
        for mode in ("os", "sim"):
            done = self.run_tool("run", "--size", "64x64", "--driver", MUTANT, *self.choose_fault("start_fails"), "--mode", mode, "--output", "out.png")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("DxgkDdiStartDevice", done.stderr)
            self.assertRegex(done.stderr, r"STATUS_NO_SUCH_DEVICE|0xC000000E")
            self.assertRegex(done.stderr, r"LIFE-\d\d")
            self.assertNotIn("result:", done.stdout)
            self.assertEqual(self.files(), ["good.png", "mutant.json"])

    def test_a_driver_that_breaks_a_rule_stops_its_adapter_only(self):
        for mode in ("os", "sim"):
            done = self.run_tool("run", "--size", "64x64", "--driver", MUTANT, *self.choose_fault("patch_fails"), "--mode", mode, "--report", "out.html", "--output", "out.png")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("DxgkDdiPatch", done.stderr)
            self.assertRegex(done.stderr, r"PATCH-\d\d")
            self.assertIn("STATUS_DEVICE_REMOVED", done.stderr)
            if mode == "sim":  # with real threads the call may be refused before the device is told
                self.assertIn("(its adapter was stopped)", done.stderr)
            self.assertEqual(self.files(), ["good.png", "mutant.json", "out.html"], "a picture that was never finished was written")

    def test_a_failing_seed_can_be_replayed(self):
        done = self.run_tool("run", "--seeds", "3..4", "--driver", MUTANT, *self.choose_fault("patch_fails"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^seeds 3\.\.4: 0 passed, 2 failed ")
        replay = re.search(r"replay: dxgkit (run --mode sim --seed 3 .*)", done.stderr).group(1)
        self.assertIn("--size 256x256", replay)
        again = subprocess.run([TOOL, *shlex.split(replay)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(again.returncode, 1)
        self.assertIn("DxgkDdiPatch", again.stderr)


class Doctor(Cli):
    def test_a_good_driver(self):
        done = self.run_tool("doctor", "softgpu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("kind: render-only, interface version 0x4002 (WDDM1_3)", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^  filled  DxgkDdiPatch +mandatory$")
        self.assertRegex(done.stdout, r"(?m)^  empty   DxgkDdiPresent$")
        self.assertRegex(done.stdout, r"imports: \d+ supported, \d+ partial, 0 refused, 0 missing")
        self.assertIn("it can be started", done.stdout)

    def test_json(self):
        done = self.run_tool("doctor", "softgpu", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = json.loads(done.stdout)
        self.assertTrue(told["can_start"])
        self.assertEqual((told["kind"], told["interface_version"]), ("render-only", 0x4002))
        ddis = {ddi["name"]: ddi for ddi in told["ddis"]}
        self.assertEqual(ddis["DxgkDdiRender"]["state"], "filled")
        self.assertTrue(ddis["DxgkDdiRender"]["mandatory"])
        self.assertEqual(ddis["DxgkDdiCommitVidPn"]["state"], "not applicable")
        self.assertEqual(told["findings"], [])

    def test_a_refused_table_is_shown(self):
        done = self.run_tool("doctor", MUTANT, *self.choose_fault("entry_missing"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  MISSING DxgkDdiBuildPagingBuffer +mandatory$")
        self.assertIn("LIFE-03", done.stdout)
        self.assertIn("it cannot be started", done.stdout)

    def test_drivers_that_never_return_or_crash_the_kernel(self):
        done = self.run_tool("doctor", MUTANT, *self.choose_fault("entry_faults"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("DriverEntry", done.stdout)
        self.assertIn("it cannot be started", done.stdout)

    def test_what_is_no_driver(self):
        (self.folder / "text.sys").write_text("not a driver")
        (self.folder / "cut.sys").write_bytes(b"MZ" + b"\0" * 30)
        for name in ("text.sys", "cut.sys", "missing.sys", ".", "/bin/true"):
            done = self.run_tool("doctor", name)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), name)
            self.assertIn(name, done.stderr)


class Tables(Cli):
    def test_situations_are_listed_with_their_rules(self):
        done = self.run_tool("situations")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"(?m)^DxgkDdiPatch\n  patch\.part-behind-start +.*\[PATCH-13 ")
        listed = json.loads(self.run_tool("situations", "--json").stdout)
        self.assertEqual(len(listed), len({one["id"] for one in listed}))
        for one in listed:
            self.assertEqual(sorted(one), ["ddi", "id", "needs", "rules", "when"])
            self.assertIn(f"  {one['id']} ", done.stdout)

    def test_support_names_every_table(self):
        done = self.run_tool("support")
        self.assertEqual(done.returncode, 0)
        for text in ("DxgkDdiPatch", "DxgkCbNotifyInterrupt", "KeGetCurrentIrql", "D3DKMTRender", "pfnRenderCb"):
            self.assertRegex(done.stdout, rf"(?m)^  {text} +(supported|partial)", text)
        tables = json.loads(self.run_tool("support", "--json").stdout)
        self.assertEqual(sorted(tables), ["adapter_info", "callbacks", "d3dkmt", "ddis", "nt_exports", "umd_callbacks"])
        self.assertEqual(len(tables["umd_callbacks"]), 68)
        for name, rows in tables.items():
            self.assertEqual(len({row["name"] for row in rows}), len(rows), name)
            for row in rows:
                self.assertIn(row["support"], ("supported", "partial", "refused"))
                if row["support"] == "partial":
                    self.assertNotEqual(row["note"], "", row["name"])

    def test_rules(self):
        done = self.run_tool("rules")
        self.assertRegex(done.stdout, r"total +\d{3,}")
        self.assertEqual(len(re.findall(r"(?m)^PATCH-\d\d ", self.run_tool("rules", "patch").stdout)), 33)
        self.assertIn("start of the whole DMA buffer", self.run_tool("explain", "patch-08").stdout)


if __name__ == "__main__":
    unittest.main()
