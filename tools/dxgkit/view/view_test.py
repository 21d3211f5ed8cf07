#!/usr/bin/env python3
"""Records runs, has `dxgkit view` make their pages, and asks each page why, with real input: view_test.py DXGKIT

DXGKIT_VIEW_EVENTS is the number of events of the large recording (300,000).
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
import small_png  # noqa: E402
from page_case import AXE, PageCase  # noqa: E402

TOOL = os.path.abspath(sys.argv[1])
sys.argv = sys.argv[:1] + sys.argv[2:]
SLOT = 1 << 22
SMALL = ("run", "--mode", "sim", "--seed", "3", "--size", "256x256")
RECORDINGS = {
    "evictions": (*SMALL, "--vram", "320K"),
    "room": (*SMALL, "--vram", "160K"),
    "timeout": (*SMALL, "--hang", "3d:10"),
    "priority": ("replay", "34"),
    "driver": ("verify", "softgpu", "--mode", "sim"),
}


def number(text):
    """As the page shows an id."""
    return int(text) // SLOT if int(text) >= SLOT else int(text)


def fields(line):
    return dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))


class View(PageCase):
    made = {}

    def trace(self, name):
        if name not in self.made:
            path = os.path.join(self.folder.name, name + ".txt")
            subprocess.run([TOOL, *RECORDINGS[name], "--trace", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder.name, check=False)
            done = subprocess.run([TOOL, "view", path], capture_output=True, text=True, check=True)
            page = path.replace(".txt", ".html")
            self.assertEqual(done.stdout, f"wrote {page}: open it in a browser\n")
            self.made[name] = (pathlib.Path(path).read_text().splitlines(), page)
        return self.made[name]

    def events(self, recording, kind, **wanted):
        lines = [line for line in self.trace(recording)[0] if line.split()[2] == kind]
        found = [(line, fields(line)) for line in lines]
        return [(line, got) for line, got in found if all(got.get(key) == value for key, value in wanted.items())]

    def picture(self, name):
        """DXGKIT_VIEW_PICTURES=docs makes the pictures of the documentation."""
        if "DXGKIT_VIEW_PICTURES" in os.environ:
            self.browser.resize(1120, 600)
            self.value("window.scrollTo(0, 0)")
            self.browser.settle()
            path = pathlib.Path(os.environ["DXGKIT_VIEW_PICTURES"], name + ".png")
            self.browser.screenshot(path)
            path.write_bytes(small_png.smaller(path.read_bytes()))
            self.browser.resize(1400, 1000)

    def pane(self):
        return self.value("document.getElementById('details').innerText").replace("\n", " ").replace("\t", " ")

    def title(self):
        return self.value("document.querySelector('#details h2').innerText")

    def causes(self, kind):
        """Opens the table of causes, of one kind. A choice is made with the keyboard."""
        self.browser.click_on("document.querySelector('[data-tab=Causes]')")
        self.value("document.getElementById('cause-kind').focus()")
        steps = self.value(f"(() => {{ const s = document.getElementById('cause-kind'); return [...s.options].findIndex((o) => o.value === '{kind}') - s.selectedIndex; }})()")
        for _ in range(abs(steps)):
            self.browser.key("ArrowDown" if steps > 0 else "ArrowUp")
            self.value("document.getElementById('cause-kind').focus()")
        self.assertEqual(self.value("document.getElementById('cause-kind').value"), kind)

    def row(self, index):
        self.browser.click_on(f"document.querySelectorAll('.grid-row')[{index}]")

    def follow(self, text):
        """Clicks the first link of the pane that says this."""
        self.browser.click_on(f"[...document.querySelectorAll('#details button.link')].find((link) => link.innerText === {text!r})")

    def test_why_an_allocation_was_evicted(self):
        """The table names victim, needer and packet as the trace has them; the links lead from one to the other."""
        self.open(self.trace("evictions")[1])
        self.causes("evictions")
        _, why = self.events("evictions", "why_evicted")[0]
        self.assertEqual(why["reason"], "1")
        victim, needer, packet = number(why["allocation"]), number(why["for_allocation"]), number(why["for_packet"])
        self.row(0)
        self.assertEqual(self.title(), f"Allocation {victim}")
        self.assertRegex(self.pane(), rf"This eviction allocation {victim} \(.*\) was evicted from segment 1 at .*, because allocation {needer} needs the place, for packet {packet}")
        self.follow(f"packet {packet}")
        self.assertEqual(self.title(), f"Packet {packet}")
        self.assertIn("its memory was made", self.pane())
        self.assertRegex(self.pane(), rf"allocation {victim} \(.*needs the place")
        self.assertRegex(self.pane(), r"paging operations ran meanwhile; the last, packet \d+ \(fence \d+\), was done at")
        self.picture("view-eviction")
        self.follow(f"allocation {needer}")
        self.assertEqual(self.title(), f"Allocation {needer}")
        self.assertIn("Where it was segment 1", self.pane())

    def test_why_a_packet_waited_for_room(self):
        self.open(self.trace("room")[1])
        self.causes("waits for room")
        _, why = self.events("room", "why_busy")[0]
        self.assertEqual(why["reason"], "1")
        packet, allocation = number(why["packet"]), number(why["allocation"])
        times = len(self.events("room", "why_busy", packet=why["packet"]))
        self.row(0)
        self.assertEqual(self.title(), f"Packet {packet}")
        chain = re.search(rf"waited for room [\d.]+ \w+: allocation (\d+): no place for it as long as packets in flight hold theirs; asked (once|(\d+) times) "
                          r"its room came when packet (\d+) was done: its fence \(fence (\d+)\) came at", self.pane())
        self.assertIsNotNone(chain, self.pane())
        self.assertIn(allocation, {number(got["allocation"]) for _, got in self.events("room", "why_busy", packet=why["packet"])})
        self.assertEqual(chain[2], "once" if times == 1 else f"{times} times")
        # What it names did complete with that fence, between the refusal and the packet's start.
        freed = [int(line.split()[0]) for line, got in self.events("room", "packet_completed", fence=chain[5]) if number(got["packet"]) == int(chain[4])]
        asked = [int(line.split()[0]) for line, _ in self.events("room", "why_busy", packet=why["packet"])]
        sent = [int(line.split()[0]) for line, _ in self.events("room", "packet_submitted", packet=why["packet"])]
        self.assertEqual(len(freed), 1)
        self.assertTrue(asked[0] <= freed[0] <= sent[0], (asked, freed, sent))
        self.follow(f"packet {chain[4]}")
        self.assertEqual(self.title(), f"Packet {chain[4]}")
        self.assertIn("completed", self.pane())

    def test_why_a_packet_was_preempted(self):
        """A click on the lane of preemptions, then from the packet that waited to the one that was given back."""
        self.open(self.trace("priority")[1])
        line, why = self.events("priority", "why_preempted", reason="1")[0]
        self.assertGreater(len(self.events("priority", "packet_preempted")), 0)
        self.browser.click(*self.value(f"""(() => {{
          const {{ timeline, model }} = dxgkit;
          const lane = timeline.lanes.find((each) => each.title === 'preemptions');
          const time = model.preemptions.columns.time[[...model.preemptions.columns.fence].indexOf({why["fence"]})];
          timeline.view.set(time - 20000, time + 20000);
          const box = timeline.canvas.getBoundingClientRect();
          return [box.left + timeline.xOf(time), box.top + lane.y + lane.row_height / 2];
        }})()"""))
        self.assertEqual(self.title()[:14], "Preemption of ")
        waiting = number(why["packet"])
        self.assertRegex(self.pane(), rf"a packet of higher priority was ready: packet {waiting} of .*; asked with fence {why['fence']} at .*, answered .* later; it comes again")
        back = re.search(r"Given back packet (\d+), fence (\d+), at", self.pane())
        self.assertIsNotNone(back, self.pane())
        self.assertIn((int(back[1]), back[2]), {(number(got["packet"]), got["fence"]) for _, got in self.events("priority", "packet_preempted")})
        self.follow(f"packet {back[1]}")
        self.assertEqual(self.title(), f"Packet {back[1]}")
        self.assertRegex(self.pane(), rf"was preempted [\d.]+ \w+: a packet of higher priority was ready: packet {waiting} of")
        self.follow(f"packet {waiting}")
        self.assertEqual(self.title(), f"Packet {waiting}")

    def test_why_an_engine_timed_out(self):
        self.open(self.trace("timeout")[1])
        _, why = self.events("timeout", "why_timeout")[0]
        self.causes("timeouts")
        self.row(0)
        self.assertEqual(self.title(), "Timeout of 3D (node 0)")
        guilty = number(why["packet"])
        self.assertRegex(self.pane(), rf"timed out at .*: no answer to the preemption with fence {why['preemption']}, asked 2.000 s before, because .*; on the engine was packet {guilty}, fence {why['fence']}")
        self.assertRegex(self.pane(), r"Recovery .*DxgkDdiResetEngine of node 0.*Recovered|Recovery .*DxgkDdiResetEngine of node 0")
        self.assertRegex(self.pane(), r"Lost device 0x\w+ of client \d: hung, at")
        self.follow(f"packet {guilty}")
        self.assertEqual(self.title(), f"Packet {guilty}")
        self.assertRegex(self.pane(), r"was faulted .*: its device, of client \d, was lost at .*: hung")
        self.assertIn(f"on the engine was packet {guilty}", self.pane())
        # The finding stands on the time line, and leads to its moment.
        self.value("window.scrollTo(0, 0); document.getElementById('lanes-scroll').scrollTop = 0; dxgkit.view.all()")
        rule = self.value("(() => { const lane = dxgkit.timeline.lanes.find((each) => each.title === 'findings'); return [lane.describe(0), lane.rows[0].times[0], lane.y + 5]; })()")
        self.assertTrue(rule[0].startswith("TDR-01, "), rule)
        self.browser.click(*self.value(f"(() => {{ const box = dxgkit.timeline.canvas.getBoundingClientRect(); return [box.left + dxgkit.timeline.xOf({rule[1]}), box.top + {rule[2]}]; }})()"))
        self.assertEqual(self.value("dxgkit.cursor"), rule[1])
        # A call that waited for that device was refused because of it, and leads to the same timeout.
        self.causes("refused calls")
        self.row(0)
        self.assertRegex(self.pane(), r"refused status 0xC00002B6, STATUS_DEVICE_REMOVED .*Why the device 0x\w+ was lost while the call waited it was lost at .*: hung 3D \(node 0\) timed out at")

    def test_why_a_call_was_refused(self):
        """By the kernel, because of a handle; and by the driver, inside the call."""
        self.open(self.trace("priority")[1])
        types = {"2": "context", "1": "device", "5": "synchronization object", "4": "allocation"}
        self.causes("refused calls")
        index = self.value("[...dxgkit.model.refusals.columns.reason].indexOf(4)")
        when = self.value(f"dxgkit.model.refusals.columns.end[{index}]") + int(self.trace("priority")[0][0].split()[0])
        why = [got for line, got in self.events("priority", "why_refused", reason="4") if int(line.split()[0]) <= when][-1]
        self.value(f"document.querySelector('.grid-body').scrollTop = {max(0, index - 3)} * 24")
        self.browser.settle()
        self.browser.click_on(f"[...document.querySelectorAll('.grid-row')].find((row) => row.style.top === '{index * 24}px')")
        self.assertRegex(self.pane(), rf"Why the handle 0x{int(why['handle']):x} is of an object of type [a-z ]+, and the call wants one of type {types.get(why['expected'], '')}")
        self.assertRegex(self.pane(), r"status 0xC\w+, STATUS_INVALID_(PARAMETER|HANDLE)")
        self.assertRegex(self.pane(), r"Rules THUNK-04: Handles of D3DKMT have 32 bits")
        self.assertEqual(self.title()[:7], "D3DKMT" + self.title()[6:7])

        self.open(self.trace("driver")[1])
        self.causes("refused calls")
        self.browser.click_on("[...document.querySelectorAll('.grid-row')].find((row) => row.innerText.includes('the driver refused'))")
        name = self.title()
        self.assertRegex(self.pane(), rf"{name} refused .*Why the driver refused: DxgkDdi\w+ answered 0xC\w+, STATUS_")

    def test_a_moment_can_be_seen_handed_on_and_searched_for(self):
        self.open(self.trace("evictions")[1])
        when = self.value("""(() => { const box = dxgkit.timeline.axis.getBoundingClientRect(); return [box.left + 148 + (box.width - 148) * 0.6, box.top + 10]; })()""")
        self.browser.click(*when)
        at = self.value("dxgkit.cursor")
        self.assertEqual(self.title()[:3], "At ")
        # What the pane lists in memory is what the trace had placed and not yet evicted then.
        start = int(self.trace("evictions")[0][0].split()[0])
        there = set()
        for line in self.trace("evictions")[0]:
            event_time, _, kind = line.split()[:3]
            if int(event_time) - start > at:
                break
            got = fields(line)
            if kind == "placed" and got["segment"] == "1":
                there.add(number(got["allocation"]))
            if kind in ("evicted", "allocation_destroyed") and got.get("segment", "1") == "1":
                there.discard(number(got["allocation"]))
        listed = set(self.value("momentLines = [...document.querySelectorAll('#details h3')].find((h) => h.innerText.startsWith('In segment 1')).nextElementSibling.innerText")
                     .replace("\n", " ").split())
        self.assertEqual({int(word) for word in re.findall(r"allocation (\d+),", self.value("momentLines").replace("\n", " "))}, there, listed)
        self.assertGreater(len(there), 2)
        self.assertIn("Engines", self.pane())
        # The address leads back to the same moment and the same view.
        self.browser.key("+")
        self.until(f"location.hash.includes('at={round(at)}') && location.hash.includes('from=')")
        address = self.value("location.hash")
        shown = self.shown()
        self.browser.open(self.trace("evictions")[1], address)
        self.assertEqual(self.value("dxgkit.cursor"), round(at))
        self.assertAlmostEqual(self.shown()[0], shown[0], delta=1)
        self.assertAlmostEqual(self.shown()[1], shown[1], delta=1)
        # Search: a number, a name, and nothing.
        packet = number(self.events("evictions", "packet_completed")[5][1]["packet"])
        self.browser.key("/")
        self.browser.type(f"packet {packet}")
        self.browser.key("Enter")
        self.assertEqual(self.title(), f"Packet {packet}")
        self.browser.key("Escape")
        self.value("document.getElementById('search').focus()")
        self.browser.type("DxgkDdiSubmitC")
        results = self.value("[...document.querySelectorAll('#results li')].map((line) => line.innerText)")
        self.assertRegex(results[0], r"DxgkDdiSubmitCommand: [\d,]+ calls, the first")
        self.browser.click_on("document.querySelector('#results button')")
        first = int(self.events("evictions", "ddi_enter", name='"DxgkDdiSubmitCommand"')[0][0].split()[0]) - start
        self.assertEqual(self.value("dxgkit.cursor"), first)
        self.value("document.getElementById('search').value = ''; document.getElementById('search').focus()")
        self.browser.type("zzz")
        self.assertEqual(self.value("document.getElementById('results').innerText"), "nothing has this number or name")

    def test_a_range_is_measured_and_lanes_are_chosen(self):
        self.open(self.trace("evictions")[1])
        box = self.value("(() => { const b = dxgkit.timeline.canvas.getBoundingClientRect(); return [b.left + 148, b.top, b.width - 148]; })()")
        self.browser.call("Input.dispatchMouseEvent", type="mousePressed", x=box[0] + 10, y=box[1] + 30, button="left", buttons=1, clickCount=1, modifiers=8)
        for step in range(1, 6):
            self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + 10 + (box[2] - 20) * step / 5, y=box[1] + 30, button="left", buttons=1, modifiers=8)
        self.browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=box[0] + box[2] - 10, y=box[1] + 30, button="left", buttons=0, clickCount=1, modifiers=8)
        self.browser.settle()
        from_time, to_time = self.value("dxgkit.range")
        start = int(self.trace("evictions")[0][0].split()[0])
        inside = [line for line, _ in self.events("evictions", "packet_completed") if from_time <= int(line.split()[0]) - start < to_time]
        self.assertRegex(self.pane(), rf"packets completed {len(inside)} ")
        self.assertRegex(self.pane(), r"GPU time by client .*client \d, context \d+ on node \d: [\d.]+ µs, \d+\.\d %")
        # Only packets of one process keep their colour.
        colours = "(() => { const c = dxgkit.model.contexts.columns; const lane = dxgkit.timeline.lanes.find((each) => each.title === 'hardware'); return [...new Set([...lane.rows[0].items].map((i) => [c.process[dxgkit.model.contextIndex.get(dxgkit.model.packets.columns.context[lane.packet(i)])], lane.colour(i)].join(' ')))].sort(); })()"
        before = self.value(colours)
        self.assertEqual(len(before), 2, before)
        self.value("document.getElementById('only').focus()")
        self.browser.key("ArrowDown")
        after = self.value(colours)
        self.assertEqual([line in before for line in after], [True, False], (before, after))
        self.browser.key("ArrowUp")
        self.assertEqual(self.value(colours), before)
        lanes = self.value("dxgkit.timeline.lanes.map((lane) => lane.group)")
        self.assertIn("threads", lanes)
        self.browser.click_on("document.querySelector('#filters input[data-group=threads]')")
        self.assertNotIn("threads", self.value("dxgkit.timeline.lanes.map((lane) => lane.group)"))
        self.browser.click_on("document.querySelector('#filters input[data-group=threads]')")
        self.assertEqual(self.value("dxgkit.timeline.lanes.map((lane) => lane.group)"), lanes)

    def test_two_runs_and_where_they_part(self):
        lines, _ = self.trace("evictions")
        changed = lines[:]
        at = next(i for i, line in enumerate(lines) if i > len(lines) // 2 and line.split()[2] == "packet_queued")
        changed[at] = re.sub(r"queue_length=\d+", "queue_length=77", lines[at])
        self.assertNotEqual(changed[at], lines[at])
        other = os.path.join(self.folder.name, "other.txt")
        pathlib.Path(other).write_text("\n".join(changed) + "\n")
        page = os.path.join(self.folder.name, "both.html")
        subprocess.run([TOOL, "view", os.path.join(self.folder.name, "evictions.txt"), "--compare", other, "--output", page], check=True, stdout=subprocess.DEVNULL)
        self.open(page)
        text = self.value("document.getElementById('difference').innerText")
        self.assertIn("queue_length=77", text)
        self.browser.click_on("document.querySelector('#difference button')")
        start = int(lines[0].split()[0])
        self.assertEqual(self.value("dxgkit.cursor"), int(lines[at].split()[0]) - start)
        self.assertGreater(self.value("dxgkit.other_lanes.canvas.clientHeight"), 40)
        subprocess.run([TOOL, "view", other, "--compare", other, "--output", page], check=True, stdout=subprocess.DEVNULL)
        self.open(page)
        self.assertIn("have the same events", self.value("document.getElementById('difference').innerText"))

    @unittest.skipUnless(AXE.exists(), "no axe-core: scripts/bootstrap installs it")
    def test_axe_finds_nothing(self):
        try:
            for scheme in ("light", "dark"):
                self.browser.prefer(scheme)
                self.open(self.trace("timeout")[1])
                for kind in ("timeouts", "refused calls", "evictions"):
                    self.causes(kind)
                    self.row(0)
                    self.assertEqual(self.axe(), [], f"{scheme}, {kind}")
                self.value("dxgkit.setCursor(100000); document.getElementById('search').focus()")
                self.browser.type("Submit")
                self.assertEqual(self.axe(), [], f"{scheme}, a moment and a search")
        finally:
            self.browser.prefer("light")

    def test_what_is_no_trace_is_refused(self):
        folder = pathlib.Path(self.folder.name, "runs")
        folder.mkdir()
        for arguments, told in (((str(folder),), "has no trace as text"), ((str(folder / "none.txt"),), "none.txt"),):
            done = subprocess.run([TOOL, "view", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(told, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        (folder / "a.txt").write_text("no trace\n")
        done = subprocess.run([TOOL, "view", str(folder)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1: 'no' is not a time", done.stderr)
        self.assertEqual([entry.name for entry in folder.iterdir()], ["a.txt"], "nothing is written")
        (folder / "b.txt").write_text("")
        done = subprocess.run([TOOL, "view", str(folder)], capture_output=True, text=True, check=False)
        self.assertIn("the folder has 2 text files", done.stderr)
        (folder / "a.txt").write_text('5 t1 thunk_enter name="</script><b>" process=1\n')
        (folder / "b.txt").unlink()
        subprocess.run([TOOL, "view", str(folder)], check=True, stdout=subprocess.DEVNULL)
        self.open(str(folder / "a.html"))
        self.assertEqual(self.value("[dxgkit.model.calls.columns.name[0], document.querySelectorAll('b b').length]"), ["</script><b>", 0])

    def test_a_large_recording_opens_and_zooms_at_once(self):
        """One run repeated until it has so many events. First picture and zooms are measured in the browser."""
        events = int(os.environ.get("DXGKIT_VIEW_EVENTS", "300000"))
        path = os.path.join(self.folder.name, "large.txt")
        self.repeat(path, events)
        began = time.monotonic()
        done = subprocess.run(["/usr/bin/time", "-f", "%M", TOOL, "view", path], capture_output=True, text=True, check=True) if os.path.exists("/usr/bin/time") else subprocess.run([TOOL, "view", path], capture_output=True, text=True, check=True)
        wrote = time.monotonic() - began
        size = os.path.getsize(path.replace(".txt", ".html"))
        os.remove(path)
        self.browser.open(path.replace(".txt", ".html"))
        first = self.value("dxgkit.first_picture_ms")
        whole = self.value("performance.now()")
        box = self.value("(() => { const b = dxgkit.timeline.canvas.getBoundingClientRect(); return [b.left + b.width / 2, b.top + 40]; })()")
        slowest = 0
        for _ in range(30):
            self.browser.wheel(*box, -120, control=True)
            slowest = max(slowest, self.value("dxgkit.last_zoom_ms"))
        print(f"{events:,} events: written in {wrote:.1f} s ({done.stderr.strip()} KiB), page {size / 1e6:.1f} MB, first picture {first:.0f} ms, all read by {whole:.0f} ms, slowest zoom {slowest:.0f} ms", file=sys.stderr)
        self.assertGreater(self.value("dxgkit.model.events"), events * 0.99)
        # Nothing is lost between the blocks: every call is there, in order, and every packet has its own row and completes.
        rounds = -(-events // len(self.trace("evictions")[0]))
        kinds = [line.split()[2] for line in self.trace("evictions")[0]]
        self.assertEqual(self.value("dxgkit.model.calls.count"), rounds * sum(kind in ("ddi_enter", "callback_enter", "thunk_enter") for kind in kinds))
        self.assertGreater(self.value("dxgkit.model.calls.count"), 65536)
        self.assertTrue(self.value("dxgkit.model.calls.columns.start.every((time, i, all) => i === 0 || time >= all[i - 1]) && dxgkit.model.calls.columns.end.every((time, i) => time >= dxgkit.model.calls.columns.start[i])"))
        self.assertEqual(self.value("[dxgkit.model.packets.count, dxgkit.model.packetRow.size]"), [rounds * kinds.count("packet_queued")] * 2)
        self.assertEqual(self.value("dxgkit.model.packets.columns.outcome.filter((outcome) => outcome === 'completed').length"), rounds * kinds.count("packet_completed"))
        # The first picture comes before anything is read, and what is drawn is bounded by the pixels, not by the recording.
        self.assertLess(first, dict(self.value("dxgkit.timings"))["read"])
        self.browser.key("0")
        self.assertLess(self.value("dxgkit.timeline.last_boxes"), self.value("dxgkit.timeline.plot_width * 2 * dxgkit.timeline.lanes.reduce((sum, lane) => sum + lane.rows.length, 0)"))
        if "DXGKIT_VIEW_EVENTS" in os.environ:  # measured by hand: time on a busy machine is no test
            self.assertLess(first, 3000)
            self.assertLess(slowest, 200)

    def repeat(self, path, events):
        lines = self.trace("evictions")[0]
        heads = [(int(line.split(None, 1)[0]), line.split(None, 1)[1]) for line in lines]
        length = heads[-1][0] - heads[0][0] + 1000
        # Ids of packets and allocations go on, names and places stay.
        parts = []
        for at, rest in heads:
            if " object_name " in f" {rest}" or " segment " in f" {rest.split('=')[0]}":
                parts.append((at, [rest], []))
                continue
            pieces = re.split(r"((?:for_)?(?:packet|allocation)=)(\d+)", rest)
            parts.append((at, pieces[0::3], [(pieces[i], int(pieces[i + 1])) for i in range(1, len(pieces), 3)]))
        most = max(number(got[key]) for _, got in ((line, fields(line)) for line in lines) for key in ("packet", "allocation") if key in got)
        chance, drift = random.Random(7), 0  # no two rounds are alike
        with open(path, "w", encoding="utf-8") as output:
            for round_number in range(-(-events // len(lines))):
                shift, more = round_number * length, round_number * (most + 1) * SLOT
                block = []
                for at, texts, ids in parts:
                    line = texts[0]
                    for (key, value), text in zip(ids, texts[1:]):
                        line += f"{key}{value + more if value >= SLOT else value}{text}"
                    drift += chance.getrandbits(6)
                    block.append(f"{at + shift + drift} {line}\n")
                output.write("".join(block))


if __name__ == "__main__":
    unittest.main()
