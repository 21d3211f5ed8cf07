#!/usr/bin/env python3
"""Records runs, has `dxgkit view` make their pages, and asks each page why, with real input: view_test.py DXGKIT

DXGKIT_VIEW_EVENTS is the number of events of the large recording (300,000). DXGKIT_KEEP_SCREENSHOTS=1 writes the pictures of the documentation anew.
"""
import base64
import json
import os
import pathlib
import random
import re
import shlex
import signal
import socket
import struct
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
    "addresses": ("run", "--mode", "sim", "--seed", "3", "--size", "128x128", "--model", "gpuva"),
    "screen": ("run", "--mode", "sim", "--seed", "3", "--size", "64x64", "--scanout", "last.png"),
    "wrong": ("verify", "wrong", "--mode", "sim"),
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
            lines = pathlib.Path(path).read_text().splitlines()
            self.made[name] = ([line for line in lines if not line.startswith("#")], page)
        return self.made[name]

    def events(self, recording, kind, **wanted):
        lines = [line for line in self.trace(recording)[0] if line.split()[2] == kind]
        found = [(line, fields(line)) for line in lines]
        return [(line, got) for line, got in found if all(got.get(key) == value for key, value in wanted.items())]

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
        self.screenshot("view-eviction")
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

    def list_of(self, title):
        """The lines of the pane's list whose heading begins so."""
        return self.value(f"""(() => {{ const head = [...document.querySelectorAll('#details h3')].find((h) => h.innerText.startsWith({title!r}));
          return head ? [...head.nextElementSibling.children].map((line) => line.innerText) : null; }})()""")

    def test_page_tables_of_an_address_at_the_cursor(self):
        """Typed in, walked as `dxgkit va` walks it, at several moments; and found by the search."""
        self.open(self.trace("addresses")[1])
        start = int(self.trace("addresses")[0][0].split()[0])
        trace = os.path.join(self.folder.name, "addresses.txt")
        maps = [got for _, got in self.events("addresses", "gpu_va_mapped") if got["process"] != "0"]
        seen = set()
        # The last page of some mappings, and one within a run of entries, when it is written.
        cases = [(part, maps[pick]["process"], int(maps[pick]["address"]) + int(maps[pick]["size"]) - 0x1000 + 0x123, None) for part, pick in ((0.2, 3), (0.5, len(maps) // 2), (0.9, len(maps) - 2))]
        table = None
        for line in self.trace("addresses")[0]:
            kind, got = line.split()[2], fields(line)
            if kind == "page_table_write":
                table = got
            if kind == "page_table_entries" and table["process"] != "0" and table["level"] == "0" and int(got["count"]) > 3 and int(got["flags"]) >> 32 and int(got["flags"]) & 1:
                cases.append((0.5, table["process"], int(got["address"]) + 2 * 4096, int(line.split()[0]) - start))
                break
        self.assertEqual(len(cases), 4)
        for part, process, address, when in cases:
            self.browser.click(*self.value(f"(() => {{ const box = dxgkit.timeline.axis.getBoundingClientRect(); window.scrollTo(0, 0); return [box.left + 148 + (box.width - 148) * {part}, box.top + 10]; }})()"))
            self.value(f"(() => {{ const s = document.querySelector('#walk select'); s.value = '{process}'; const f = document.querySelector('#walk input'); f.value = ''; f.focus(); }})()")
            self.browser.type(hex(address))
            self.browser.key("Enter", "\r")
            at = round(self.value("dxgkit.cursor")) if when is None else when
            self.value(f"dxgkit.setCursor({at})")
            oracle = json.loads(subprocess.run([TOOL, "va", trace, "--process", process, "--address", hex(address), "--at", str(start + at), "--json"], capture_output=True, text=True, check=True).stdout)
            lines = self.list_of(f"{hex(address)} of ")
            self.assertIsNotNone(lines, self.pane())
            levels = [line for line in lines if line.startswith("level ")]
            self.assertEqual(len(levels), len(oracle["walk"]), (lines, oracle))
            for line, step in zip(levels, oracle["walk"]):
                self.assertTrue(line.startswith(f"level {step['level']}"), line)
                self.assertIn(f"entry {hex(step['index'])}", line)
                self.assertEqual(": valid" in line, step["valid"], (line, step))
                if "page" in step and step["valid"]:
                    self.assertIn(hex(int(step["page"], 16) * 4096), line)
            leads = oracle.get("leads_to")
            wanted = "the entries lead nowhere: an access faults" if not oracle["translates"] else "the entries lead to zeros" if leads["zero"] else "the entries lead to " + (f"segment {leads['segment']} at " if leads["segment"] else "system memory at ") + leads["offset"]
            self.assertIn(wanted, lines)
            mapped = oracle["range"]
            self.assertEqual("nothing is mapped" in lines[0], mapped is None)
            if mapped and mapped["kind"] == "mapped":
                self.assertIn(f"allocation {number(str(mapped['allocation']))} + {hex(mapped['offset'] + address - int(mapped['address'], 16))}", lines[0])
            seen.add(oracle["translates"])
        self.assertIn(True, seen)
        # What is mapped is listed as `va` lists it, and a click on a range walks it.
        ranges = json.loads(subprocess.run([TOOL, "va", trace, "--process", process, "--at", str(start + at), "--json"], capture_output=True, text=True, check=True).stdout)["ranges"]
        self.assertEqual([line.split()[0] for line in self.list_of("Mapped by ")], [one["address"] for one in ranges][:200])
        self.follow(ranges[0]["address"])
        self.assertEqual(self.value("document.querySelector('#walk input').value"), ranges[0]["address"])
        self.browser.key("Escape")
        self.value("document.getElementById('search').focus()")
        self.browser.type(ranges[-1]["address"])
        self.browser.click_on("document.querySelector('#results button')")
        self.assertIsNotNone(self.list_of(f"{ranges[-1]['address']} of "))
        if AXE.exists():
            self.assertEqual(self.axe(), [])
        self.value("document.getElementById('search').focus()")
        self.browser.key("Escape")
        self.screenshot("view-addresses", pane="document.querySelector('#walk').previousElementSibling")

    def test_handles_at_a_moment(self):
        """Early, when some are still to come, and late, when some have gone."""
        self.open(self.trace("evictions")[1])
        start = int(self.trace("evictions")[0][0].split()[0])
        changes = [int(line.split()[0]) for line in self.trace("evictions")[0] if line.split()[2] in ("handle_opened", "handle_closed")]
        closed = [int(line.split()[0]) for line, _ in self.events("evictions", "handle_closed")]
        for at in (sorted(changes)[len(changes) // 4], sorted(closed)[len(closed) // 2]):
            self.value(f"dxgkit.view.set({at - start} - 1000, {at - start} + 1000)")
            self.browser.click(*self.value(f"(() => {{ window.scrollTo(0, 0); const box = dxgkit.timeline.axis.getBoundingClientRect(); return [box.left + dxgkit.timeline.xOf({at - start}), box.top + 10]; }})()"))
            self.look_at_handles(self.value("dxgkit.cursor") + start)
        self.assertIn("synchronization object", self.pane())
        handle = hex(int(self.events("evictions", "handle_opened")[0][1]["handle"]))
        self.value("document.getElementById('search').focus()")
        self.browser.type(handle)
        self.assertIn(f"handle {handle} ", self.value("document.getElementById('results').innerText"))

    def look_at_handles(self, at):
        live, gone, still_to_come = {}, 0, 0
        for line in self.trace("evictions")[0]:
            event_time, _, kind = line.split()[:3]
            got = fields(line)
            if kind == "handle_opened" and int(event_time) <= at:
                live[(got["process"], int(got["handle"]))] = (got["type"], got["names"])
            elif kind == "handle_opened":
                still_to_come += 1
            if kind == "handle_closed" and int(event_time) <= at:
                del live[(got["process"], int(got["handle"]))]
                gone += 1
        self.assertGreater(len(live), 0)
        self.assertGreater(gone + still_to_come, 0)
        for process in {got["process"] for _, got in self.events("evictions", "handle_opened")}:
            lines = self.list_of(f"Handles of {self.value(f'dxgkit.model.ownerName({process})')}: ") or []
            mine = {handle: what for (owner, handle), what in live.items() if owner == process}
            self.assertEqual(sorted(int(line.split()[0], 16) for line in lines), sorted(mine), lines)
            for line in lines:
                kind, what = mine[int(line.split()[0], 16)]
                if kind == "4":
                    self.assertIn(f"allocation {number(what)},", line)

    def test_a_hung_engine_as_a_debugger_shows_it(self):
        self.open(self.trace("timeout")[1])
        self.causes("timeouts")
        self.row(0)
        line, why = self.events("timeout", "why_timeout")[0]
        when = int(line.split()[0])
        buffers = [got for line, got in self.events("timeout", "hung_buffer") if int(line.split()[0]) >= when]
        self.assertEqual(buffers[0]["packet"], why["packet"])
        self.assertRegex(self.pane(), rf"The engine engine 3D \(node 0\) fence on it {why['fence']} last completed fence \d+ packets on it {len(buffers)}")
        self.assertIn(f"packet {number(why['packet'])} of", self.list_of("At its head")[0])
        place = f"segment {buffers[0]['segment']} at " if buffers[0]["segment"] != "0" else "system memory at "
        self.assertIn(f"of commands in {place}{hex(int(buffers[0]['address']))}", self.list_of("At its head")[0])
        wanted = b"".join(int(got["first"]).to_bytes(8, "little") + int(got["second"]).to_bytes(8, "little") for _, got in self.events("timeout", "hung_bytes", packet=why["packet"]))
        dump = self.value("document.querySelector('#details .dump').textContent")
        self.assertEqual(bytes.fromhex("".join(line[6:] for line in dump.splitlines())), wanted)
        self.assertGreater(len(wanted), 15)
        patches = [got for _, got in self.events("timeout", "hung_patch", packet=why["packet"])]
        self.assertEqual(self.list_of("Patched into it"), [f"offset {hex(int(got['offset']))}: allocation {number(got['allocation'])} + {hex(int(got['allocation_offset']))}" for got in patches])
        self.assertGreater(len(patches), 1)
        self.assertIn(f"asked with fence {why['preemption']} at", self.list_of("Preemptions asked of it")[-1])
        self.assertTrue(self.list_of("Preemptions asked of it")[-1].endswith(": not answered"))
        self.screenshot("view-hung", pane="[...document.querySelectorAll('#details h3')].find((h) => h.innerText === 'The engine')")

    def test_a_finding_with_its_place_and_its_rule(self):
        """Of a wrong driver: what verify prints is on the page, at its moment."""
        self.open(self.trace("wrong")[1])
        done = subprocess.run([TOOL, "verify", "wrong", "--mode", "sim", "--json"], capture_output=True, text=True, check=False, cwd=self.folder.name)
        report = json.loads(done.stdout)
        findings = [one for step in report["steps"] for one in step["findings"]]
        self.assertGreater(len(findings), 2)
        self.browser.click_on("document.querySelector('[data-tab=Findings]')")
        shown = self.value("dxgkit.model.told_findings.map((one) => [one.rule, one.time, one.told && one.told.actual, Boolean(one.told && one.told.provoked)])")
        self.assertLessEqual({(one["rule"], one["actual"]) for one in findings}, {(one[0], one[2]) for one in shown if not one[3]})
        counts = re.search(r"(\d+) findings, (\d+) warnings?, (\d+) consequence", report["verdict"])
        self.assertEqual(len([one for one in shown if not one[3]]), sum(map(int, counts.groups())))
        events = self.events("wrong", "finding")
        start = int(self.trace("wrong")[0][0].split()[0])
        self.assertEqual([one[:2] for one in shown], [[got["rule"].strip('"'), int(line.split()[0]) - start] for line, got in events])
        index = next(i for i, one in enumerate(shown) if any(each["actual"] == one[2] and each.get("place", {}).get("source") for each in findings))
        told = next(one for one in findings if one["actual"] == shown[index][2])
        self.value(f"document.querySelector('.grid-body').scrollTop = {max(0, index - 3)} * 24")
        self.browser.settle()
        self.browser.click_on(f"[...document.querySelectorAll('.grid-row')].find((row) => row.style.top === '{index * 24}px')")
        self.assertEqual(self.title(), told["rule"])
        self.assertEqual(self.value("dxgkit.cursor"), shown[index][1])
        for name in ("ddi", "actual", "expected", "fix"):
            self.assertIn(" ".join(told[name].split()), " ".join(self.pane().split()), name)
        source = told["place"]["source"][0]
        self.assertIn(f"In your source {source['file']}:{source['line']}, in {source['function']}", " ".join(self.pane().split()))
        self.browser.click_on("document.querySelector('#details summary')")
        explained = subprocess.run([TOOL, "explain", told["rule"]], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.value("document.querySelector('#details pre.rule').textContent").split(), explained.split())
        if AXE.exists():
            self.assertEqual(self.axe(), [])
        self.screenshot("view-finding")
        # The same from its mark on the time line.
        self.browser.key("Escape")
        self.value("window.scrollTo(0, 0); document.getElementById('lanes-scroll').scrollTop = 0; dxgkit.letGo(); dxgkit.view.all()")
        place = self.value(f"(() => {{ const {{ timeline }} = dxgkit; timeline.view.set({shown[index][1]} - 500, {shown[index][1]} + 500); const lane = timeline.lanes.find((each) => each.title === 'findings'); const box = timeline.canvas.getBoundingClientRect(); return [box.left + timeline.xOf({shown[index][1]}), box.top + lane.y + 5]; }})()")
        self.browser.click(*place)
        self.assertEqual(self.title(), told["rule"])

    def test_the_pictures_of_a_report(self):
        """As `run --report` writes it: the timeline, and memory below it."""
        page = os.path.join(self.folder.name, "report.html")
        subprocess.run([TOOL, *RECORDINGS["evictions"], "--report", page], check=True, stdout=subprocess.DEVNULL, cwd=self.folder.name)
        self.open(page)
        self.assertIn("identical to CPU reference", self.value("document.getElementById('facts').innerText"))
        self.screenshot("report", 1400, 900)
        self.screenshot("memory", 1400, 700, "document.getElementById('memory-panel')")

    def test_pictures_of_a_screen(self):
        self.open(self.trace("screen")[1])
        frames = self.value("[...document.querySelectorAll('#frames img')].map((image) => [image.naturalWidth, image.naturalHeight, image.alt])")
        self.assertGreater(len(frames), 2)
        name = pathlib.Path(self.folder.name, "last.png").read_bytes()
        self.assertEqual({tuple(frame[:2]) for frame in frames}, {struct.unpack(">II", name[16:24])})
        self.assertEqual(frames[-1][2], f"the screen, frame {len(frames)}")
        # The last one is what the run wrote into its file.
        colours = "((source) => new Promise((done) => { const i = new Image(); i.onload = () => { const c = document.createElement('canvas'); c.width = i.naturalWidth; c.height = i.naturalHeight; const x = c.getContext('2d'); x.drawImage(i, 0, 0); done([...x.getImageData(0, 0, c.width, c.height).data].reduce((sum, v, at) => at % 4 === 3 ? sum : (sum * 31 + v) % 1000003, 7)); }; i.src = source; }))"
        self.assertEqual(self.value(f"{colours}([...document.querySelectorAll('#frames img')].pop().src)"), self.value(f"{colours}('data:image/png;base64,{base64.b64encode(name).decode()}')"))
        self.browser.click_on("[...document.querySelectorAll('#frames figure')].pop()")
        self.assertEqual(self.value("dxgkit.cursor"), self.value("dxgkit.model.frames[dxgkit.model.frames.length - 1].time"))
        self.assertEqual(self.title()[:3], "At ")

    def test_the_run_that_sim_says_failed(self):
        """The command that `sim` prints for a failed seed makes the trace of that failure."""
        done = subprocess.run([TOOL, "sim", "--seeds", "1..13", "--canary", "model_lie"], capture_output=True, text=True, check=False, cwd=self.folder.name)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        command = re.search(r"dxgkit (replay \d+ .*)", done.stdout + done.stderr)[1]
        trace = os.path.join(self.folder.name, "failed.txt")
        replayed = subprocess.run([TOOL, *shlex.split(command), "--trace", trace], capture_output=True, text=True, check=False)
        failure = re.search(r"failed: (.*)", replayed.stdout)[1]
        subprocess.run([TOOL, "view", trace], check=True, stdout=subprocess.DEVNULL)
        self.open(trace.replace(".txt", ".html"))
        facts = self.value("document.getElementById('facts').innerText")
        self.assertIn(failure, facts)
        self.assertGreater(self.value("dxgkit.model.packets.count"), 10)

    def test_the_page_is_served_to_who_has_its_address(self):
        trace = os.path.join(self.folder.name, "evictions.txt")
        page = self.trace("evictions")[1]
        os.remove(page)
        server = subprocess.Popen([TOOL, "view", trace, "--serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().strip()
            port, secret = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32})", address).groups()
            idle = socket.create_connection(("127.0.0.1", int(port)))  # asks nothing, and is in nobody's way
            self.open(address)
            self.assertEqual(self.value("[location.href, dxgkit.model.run.name]"), [address, "evictions.txt"])
            self.browser.click(*self.value("(() => { const box = dxgkit.timeline.axis.getBoundingClientRect(); return [box.left + 400, box.top + 10]; })()"))
            self.until("location.hash.includes('at=')")
            self.browser.open(address, self.value("location.hash"))
            self.assertEqual(self.title()[:3], "At ")
            for path, host, status in (("/", "127.0.0.1", 404), ("/evictions.txt", "localhost", 404), (secret, "evil.example", 403), (secret, "localhost:1", 200)):
                with socket.create_connection(("127.0.0.1", int(port))) as client:
                    client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                    answer = b"".join(iter(lambda: client.recv(65536), b""))
                self.assertEqual(int(answer.split()[1]), status, path)
                self.assertEqual(b"report-data" in answer, status == 200)
            with socket.create_connection(("127.0.0.1", int(port))) as client:
                client.sendall(b"x" * 20000)
                self.assertIn(b"431", client.recv(100))
            # Only this computer reaches it: the listener is bound to its loopback address.
            bound = {line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"}
            self.assertIn(f"0100007F:{int(port):04X}", bound)
            self.assertNotIn(f"00000000:{int(port):04X}", bound)
            again = subprocess.run([TOOL, "view", trace, "--serve", port], capture_output=True, text=True, check=False)
            self.assertEqual((again.returncode, again.stderr), (2, f"dxgkit: cannot listen at 127.0.0.1:{port}: Address already in use\n"))
            idle.close()
        finally:
            server.send_signal(signal.SIGINT)
            rest, errors = server.communicate(timeout=60)
        self.assertEqual((server.returncode, rest, errors), (0, "", ""))
        self.assertFalse(os.path.exists(page), "no file is written")
        del self.made["evictions"]

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
