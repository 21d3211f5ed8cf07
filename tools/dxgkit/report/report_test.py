#!/usr/bin/env python3
"""Opens report pages in headless Chromium and uses them as a person would: report_test.py [PAGE.html ...]

A made-up recording shows that each gesture does what it says; 200,000 packets show that the page stays responsive. Pages named on the
command line (made by `dxgkit run`) must open without an error and answer to the same gestures.
"""
import base64
import os
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import synthetic  # noqa: E402
from page_case import AXE, PageCase  # noqa: E402

PAGES = [argument for argument in sys.argv[1:] if argument.endswith(".html")]
sys.argv = [sys.argv[0]] + [argument for argument in sys.argv[1:] if not argument.endswith(".html")]


def write_page(folder, packets, run=None):
    path = os.path.join(folder, f"{packets}.html")
    with open(path, "w", encoding="utf-8") as output:
        output.write(synthetic.page(synthetic.recording(packets), run))
    return path


class Report(PageCase):
    def point_of(self, packet_row):
        """Where the middle of a packet's box on the hardware lane is on screen."""
        return self.value(f"""(() => {{
          const {{ timeline, model }} = dxgkit;
          const c = model.packets.columns;
          const lane = timeline.lanes.find((lane) => lane.title === 'hardware' && lane.rows[0].items.some((item) => lane.packet(item) === {packet_row}));
          const box = timeline.canvas.getBoundingClientRect();
          return [box.left + timeline.xOf((c.hw_start[{packet_row}] + c.hw_end[{packet_row}]) / 2), box.top + lane.y + lane.row_height / 2];
        }})()""")

    def check_gestures(self):
        """Zooms, pans and selects with real input; returns the selected packet's row."""
        start, end = self.shown()
        length = end - start
        box = self.value("(() => { const b = dxgkit.timeline.canvas.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        x, y = box[0] + box[2] * 0.5, box[1] + 30

        under = f"dxgkit.timeline.timeAt({x} - {box[0]})"
        before = self.value(under)
        self.browser.wheel(x, y, -240, control=True)
        zoomed = self.shown()
        self.assertLess(zoomed[1] - zoomed[0], length * 0.7, "the wheel did not zoom in")
        self.assertAlmostEqual(self.value(under), before, delta=length * 0.001, msg="the time under the pointer moved")

        self.browser.drag(x, y, 120, 0)
        dragged = self.shown()
        self.assertLess(dragged[0], zoomed[0], "dragging right did not go back in time")
        self.assertAlmostEqual(dragged[1] - dragged[0], zoomed[1] - zoomed[0], delta=1, msg="dragging changed the zoom")

        self.browser.key("+")
        self.assertLess(self.shown()[1] - self.shown()[0], (dragged[1] - dragged[0]) * 0.6)
        self.browser.key("-")
        self.assertAlmostEqual(self.shown()[1] - self.shown()[0], dragged[1] - dragged[0], delta=1)
        before = self.shown()
        self.browser.key("ArrowRight")
        self.assertGreater(self.shown()[0], before[0])
        self.browser.key("0")
        self.assertAlmostEqual(self.shown()[1] - self.shown()[0], length, delta=1)

        row = self.value("dxgkit.model.packets.columns.hw_start.findIndex((t) => t === t)")
        self.value(f"dxgkit.timeline.reveal({row})")
        self.browser.settle()
        self.browser.click(*self.point_of(row))
        self.assertEqual(self.value("dxgkit.timeline.selected"), row, "the click did not select the packet")
        self.browser.key("0")
        return row

    def test_gestures_and_life_of_a_packet(self):
        self.open(write_page(self.folder.name, 3000, {"result": "identical to CPU reference", "driver": "softgpu"}))
        row = self.check_gestures()
        details = self.value("document.getElementById('details').innerText")
        for step in ("queued", "ready", "patched", "submitted", "start", "end", "completed"):
            self.assertIn(step, details)
        self.assertIn(f"Packet {row + 1}", details)  # ids made by hand are the numbers
        self.assertIn("identical to CPU reference", self.value("document.getElementById('facts').innerText"))

        self.browser.key("Escape")
        self.assertEqual(self.value("dxgkit.timeline.selected"), -1)
        self.browser.key("n")
        self.browser.key("n")
        self.assertEqual(self.value("dxgkit.timeline.selected"), 1)

    def test_wheel_and_arrows_scroll_the_page_and_tab_leaves_the_timeline(self):
        self.open(write_page(self.folder.name, 300))
        before = self.shown()
        for canvas in ("lanes", "memory", "overview"):
            self.value(f"window.scrollTo(0, 0); document.getElementById('{canvas}').scrollIntoView({{ block: 'center' }}); document.getElementById('lanes-scroll').scrollTop = 1e6")
            top = self.value("[scrollY, (() => { const b = document.getElementById('%s').getBoundingClientRect(); return b.top + Math.min(20, b.height / 2); })()]" % canvas)
            self.browser.wheel(400, top[1], 120 if top[0] < 100 else -120)
            self.until("scrollY !== %s || document.getElementById('lanes-scroll').scrollTop < 1e5 && %s" % (top[0], "true" if canvas == "lanes" else "false"))
            self.assertEqual(self.shown(), before, f"the wheel over {canvas} changed the time")
        self.value("document.activeElement.blur(); window.scrollTo(0, 0)")
        self.browser.key("ArrowDown")
        self.until("scrollY > 0")
        self.browser.key("ArrowRight")
        self.assertEqual(self.shown(), before, "an arrow moved the timeline, which has not the focus")
        # The focus goes into the timeline, is seen there, and comes out again.
        self.value("document.getElementById('lanes').focus()")
        self.browser.key("+")
        now = self.shown()
        self.browser.key("ArrowRight")
        self.assertGreater(self.shown()[0], now[0])
        self.browser.key("Tab")
        self.assertNotEqual(self.value("document.activeElement.id"), "lanes")

    def test_nothing_is_cut_off(self):
        self.open(write_page(self.folder.name, 300))
        self.value("dxgkit.model.contexts.columns.name.fill('a_program_with_a_name_of_many_letters, context 2 on node 0')")
        try:
            for width in (1280, 1400, 1920):
                self.browser.resize(width, 900)
                self.value("window.scrollTo(0, 0)")
                self.browser.key("n")
                self.assertEqual(self.value("document.documentElement.scrollWidth"), width)
                cut = self.value("""(() => { const pane = document.getElementById('details').getBoundingClientRect();
                  return [...document.querySelectorAll('#details td, #details h2, .panel-head *, header *')].filter((e) => {
                    const box = e.getBoundingClientRect();
                    const inside = e.closest('#details') ? pane : e.closest('.panel-head, header').getBoundingClientRect();
                    return box.width > 0 && (box.right > inside.right + 0.5 || box.left < inside.left - 0.5 || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline');
                  }).map((e) => e.textContent); })()""")
                self.assertEqual(cut, [], f"cut off at {width} pixels")
                # The pane stays beside what it tells about.
                self.value("document.getElementById('memory-panel').scrollIntoView({ block: 'end' })")
                self.assertGreaterEqual(self.value("document.getElementById('details').getBoundingClientRect().top"), 0)
        finally:
            self.browser.resize(1400, 1000)

    def test_dark_and_light(self):
        pixel = "[...dxgkit.timeline.overview.getContext('2d').getImageData(300, 4, 1, 1).data].slice(0, 3).reduce((a, b) => a + b)"
        paper = "getComputedStyle(document.querySelector('.panel')).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"
        try:
            for scheme, other in (("dark", "light"), ("light", "dark")):
                self.browser.prefer(scheme)
                self.open(write_page(self.folder.name, 300))
                self.value("localStorage.removeItem('dxgkit-theme')")
                self.open(write_page(self.folder.name, 300))
                for now in (scheme, other):
                    for value in (pixel, paper):
                        (self.assertLess if now == "dark" else self.assertGreater)(self.value(value), 300, f"{now} by the system's {scheme}")
                    self.browser.click_on("document.getElementById('theme')")
        finally:
            self.value("localStorage.removeItem('dxgkit-theme')")
            self.browser.prefer("light")

    def test_a_packet_has_one_number(self):
        data = synthetic.recording(300)
        slot = 1 << 22  # ids as the kernel makes them: the number, and a slot below
        for table, column in (("packets", 0), ("attempts", 0), ("hardware", 4)):
            for row in data[table]["rows"]:
                row[column] = (row[column] + 40) * slot + 7
        path = os.path.join(self.folder.name, "numbers.html")
        with open(path, "w", encoding="utf-8") as output:
            output.write(synthetic.page(data))
        self.open(path)
        self.value("dxgkit.select(9)")
        self.assertEqual(self.value("document.querySelector('#details h2').innerText"), "Packet 50")
        self.assertNotIn("0x", self.value("document.getElementById('details').innerText"))
        told = self.value("dxgkit.timeline.lanes.filter((l) => l.title === 'hardware').flatMap((l) => [...l.rows[0].items].filter((i) => l.packet(i) === 9).map((i) => [l.label(i), l.describe(i).split('\\n')[0]]))")
        self.assertEqual(told, [["50", told[0][1]]])
        self.assertTrue(told[0][1].startswith("packet 50 "), told)
        self.browser.click_on("document.querySelector('[data-tab=Packets]')")
        self.assertEqual(self.value("document.querySelector('.grid-row.selected div').innerText"), "50")
        self.assertIn("packet 50 selected", self.value("dxgkit.timeline.canvas.getAttribute('aria-label')"))

    @unittest.skipUnless(AXE.exists(), "no axe-core: scripts/bootstrap installs it")
    def test_axe_finds_nothing(self):
        try:
            for scheme in ("light", "dark"):
                self.browser.prefer(scheme)
                self.open(write_page(self.folder.name, 300))
                self.browser.key("n")
                self.assertEqual(self.axe(), [], scheme)
                for tab in self.value("[...document.querySelectorAll('#tabs button')].map((b) => b.dataset.tab)"):
                    self.browser.click_on(f"document.querySelector('[data-tab=\"{tab}\"]')")
                    self.assertEqual(self.axe(), [], f"{scheme}, {tab}")
        finally:
            self.browser.prefer("light")

    def test_tables_show_sort_and_link(self):
        self.open(write_page(self.folder.name, 3000))
        centre = "(() => {{ {0}.scrollIntoView({{ block: 'center' }}); const b = {0}.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        for tab, expected in (("Calls", "DxgkDdiSubmitCommand"), ("Paging", "page-in"), ("Fences", "signal"), ("Findings", "The verifier found nothing"), ("Packets", "render")):
            self.browser.click(*self.value(centre.format(f"document.querySelector('[data-tab={tab}]')")))
            self.assertIn(expected, self.value("document.getElementById('tables-panel').innerText"), tab)
        # Sorting by time on the hardware puts the longest first; clicking that row selects its packet.
        heading = "[...document.querySelectorAll('.grid-head div')].find((cell) => cell.textContent.startsWith('running'))"
        self.browser.click(*self.value(centre.format(heading)))
        longest = self.value("""(() => { const c = dxgkit.model.packets.columns; let best = 0;
          for (let i = 0; i < dxgkit.model.packets.count; ++i) if (c.hw_end[i] - c.hw_start[i] > c.hw_end[best] - c.hw_start[best]) best = i; return best; })()""")
        self.browser.click(*self.value(centre.format("document.querySelector('.grid-row')")))
        self.assertEqual(self.value("dxgkit.timeline.selected"), longest)
        self.assertLess(self.value("document.querySelectorAll('.grid-row').length"), 60, "the table puts every row into the page")

    def test_memory_map_follows_the_timeline(self):
        self.open(write_page(self.folder.name, 3000))
        pixels = "[...dxgkit.memory_map.canvas.getContext('2d').getImageData(0, 0, dxgkit.memory_map.canvas.width, dxgkit.memory_map.canvas.height).data].reduce((sum, v, i) => (sum * 31 + v) % 1000003, 7)"
        self.value("dxgkit.memory_map.canvas.scrollIntoView({ block: 'center' })")
        self.browser.settle()
        before = self.value(pixels)
        self.browser.key("+")
        self.assertNotEqual(self.value(pixels), before)
        found = self.value("""(() => { const map = dxgkit.memory_map; const strip = map.strips[0];
          const row = strip.rows.findIndex((r, i) => strip.to[i] > dxgkit.view.from + 1e5 && strip.from[i] < dxgkit.view.to - 1e5);
          const time = Math.max(strip.from[row], dxgkit.view.from) / 2 + Math.min(strip.to[row], dxgkit.view.to) / 2;
          const r = strip.rows[row];
          const y = strip.y + 150 - (strip.columns.offset[r] + strip.columns.size[r] / 2) / strip.shown * 150;
          const hit = map.hit(dxgkit.timeline.xOf(time), y);
          return hit !== null && hit.index === row; })()""")
        self.assertTrue(found, "the map does not answer for what it shows")

    def test_memory_shows_owners_residency_and_budgets(self):
        self.open(write_page(self.folder.name, 3000))
        self.assertEqual(self.value("document.getElementById('owners').innerText").split(), "app one app two".split())
        self.assertEqual(self.value("[dxgkit.model.owner(1), dxgkit.model.owner(2)].map(dxgkit.model.ownerName)"), ["app two", "app one"])
        # The button colours by allocation instead.
        pixels = "[...{0}.canvas.getContext('2d').getImageData(0, 0, {0}.canvas.width, {0}.canvas.height).data].reduce((sum, v, i) => (sum * 31 + v) % 1000003, 7)"
        before = self.value(pixels.format("dxgkit.memory_map"))
        self.browser.click(*self.value("(() => { const b = document.getElementById('memory-colours'); b.scrollIntoView({ block: 'center' }); const r = b.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"))
        self.browser.settle()
        self.assertIn("allocations", self.value("document.getElementById('memory-colours').innerText"))
        self.assertNotEqual(self.value(pixels.format("dxgkit.memory_map")), before)
        # Lanes: who was evicted most comes first; every stay that ended while its allocation lived is an eviction.
        lanes = self.value("dxgkit.residency.lanes.map((lane) => [lane.id, lane.evictions, lane.stays.length])")
        self.assertEqual([lane[1] for lane in lanes], sorted((lane[1] for lane in lanes), reverse=True))
        ended = self.value("dxgkit.model.placements.columns.to.filter((to) => to === to).length")
        self.assertEqual(sum(lane[1] for lane in lanes), ended)
        self.assertGreater(ended, 0)
        # Budgets: one chart as told by the recording, one from what the other process had placed.
        charts = self.value("dxgkit.budgets.charts.map((chart) => [chart.owner, chart.budget !== null, chart.usage.most()])")
        self.assertEqual(charts[0], [1, True, 8 << 20])
        self.assertEqual(charts[1][:2], [2, False])
        self.assertGreater(charts[1][2], 0)
        for canvas in ("residency", "budgets"):
            self.value(f"dxgkit.{canvas}.canvas.scrollIntoView({{ block: 'center' }})")
            self.until(f"dxgkit.{canvas}.canvas.seen && !dxgkit.{canvas}.dirty")
            before = self.value(pixels.format(f"dxgkit.{canvas}"))
            self.browser.key("+")
            self.assertNotEqual(self.value(pixels.format(f"dxgkit.{canvas}")), before, canvas)
            self.browser.key("0")

    def test_frames_are_pictures_at_their_time(self):
        def picture(width, height):
            def chunk(kind, data):
                return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            rows = b"".join(b"\0" + bytes((200, 30, 60)) * width for _ in range(height))
            png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
            return "data:image/png;base64," + base64.b64encode(png).decode()
        data = synthetic.recording(3000)
        data["start_ns"] = 500
        data["markers"]["rows"] = [[1_000_000, "virtio-gpu: context 2 (gears): the renderer is lost: it has ended", 2], [1_000_050, "gears lost its connection", 3]]
        times = (2_000_000, 9_000_000)
        frames = [{"program": name, "number": 5, "time_ns": 500 + time, "width": 20, "height": 10, "picture": picture(20, 10)} for name, time in zip(("<i>gears", ""), times)]
        path = os.path.join(self.folder.name, "frames.html")
        with open(path, "w", encoding="utf-8") as output:
            output.write(synthetic.page(data, {"frames": frames}))
        self.open(path)
        self.assertEqual(self.value("[...document.querySelectorAll('#frames img')].map((image) => [image.naturalWidth, image.naturalHeight, image.clientHeight > 100])"), [[20, 10, True]] * 2)
        captions = self.value("[...document.querySelectorAll('#frames figcaption')].map((caption) => caption.innerText)")
        self.assertEqual(captions, ["<i>gears, frame 5, 2.000 ms", "a program, frame 5, 9.000 ms"])
        lanes = self.value("dxgkit.timeline.lanes.filter((lane) => lane.group === 'programs').map((lane) => [lane.title, [...lane.rows[0].times], lane.describe(0)])")
        self.assertEqual(lanes, [["last frames", list(times), "<i>gears, frame 5\n2.000 ms"], ["events", [1_000_000, 1_000_050], data["markers"]["rows"][0][1]]])
        centre = "(() => {{ {0}.scrollIntoView({{ block: 'center' }}); const b = {0}.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        self.browser.key("+")
        self.browser.click(*self.value(centre.format("document.querySelectorAll('#frames figure')[1]")))
        shown = self.shown()
        self.assertAlmostEqual((shown[0] + shown[1]) / 2, times[1], delta=1)
        self.browser.click(*self.value(centre.format("document.querySelector('[data-tab=Events]')")))
        self.assertIn("context 2 (gears): the renderer is lost: it has ended", self.value("document.getElementById('table').innerText"))
        # Without frames there is no panel.
        self.open(write_page(self.folder.name, 3000))
        self.assertTrue(self.value("document.getElementById('frames-panel').hidden && document.getElementById('frames-panel').clientHeight === 0"))

    def test_two_hundred_thousand_packets_stay_responsive(self):
        self.open(write_page(self.folder.name, 200000))
        self.check_gestures()
        slowest = 0
        for _ in range(24):
            self.browser.wheel(700, 250, -120, control=True)
            slowest = max(slowest, self.value("dxgkit.timeline.last_draw_ms"))
        print(f"200,000 packets: slowest redraw while zooming {slowest:.1f} ms", file=sys.stderr)
        # About 40 ms on two slow cores; drawing every box would take seconds.
        self.assertLess(slowest, 400)

    def test_given_pages(self):
        for path in PAGES:
            with self.subTest(page=path):
                self.open(path)
                self.assertGreater(self.value("dxgkit.model.packets.count"), 0)
                self.assertGreater(self.value("dxgkit.memory_map.strips.length"), 0)
                self.check_gestures()


if __name__ == "__main__":
    unittest.main()
