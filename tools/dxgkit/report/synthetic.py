#!/usr/bin/env python3
"""A made-up recording in the report's data format, for working on the page and testing it: synthetic.py PACKETS OUTPUT.html"""
import array
import base64
import json
import math
import random
import sys
import zlib

import embed


def table(columns, rows):
    return {"columns": columns.split(), "rows": rows}


def recording(packet_count, seed=1):
    chance = random.Random(seed)
    contexts = [(0, "system"), (11, "app one, 3D"), (12, "app one, copy"), (21, "app two, 3D"), (22, "app two, copy")]
    node_of = {0: 1, 11: 0, 12: 1, 21: 0, 22: 1}
    free_at = [0, 0]
    recent_ends = {0: [], 1: []}
    packets, attempts, hardware, interrupts, dpcs, calls, transfers, sync = [], [], [], [], [], [], [], []
    queued_at = 0
    counts = {context: 0 for context, _ in contexts}
    for number in range(packet_count):
        context = chance.choices([c for c, _ in contexts], [2, 4, 2, 4, 2])[0]
        node = node_of[context]
        queued_at += chance.expovariate(1 / 9000)
        queued = int(queued_at)
        room = recent_ends[node][-4] if len(recent_ends[node]) >= 4 else 0
        ready = queued + int(chance.expovariate(1 / 3000))
        patched = max(ready, room) + chance.randint(200, 900)
        submitted = patched + chance.randint(100, 400)
        start = max(free_at[node], submitted + 300)
        end = start + int(chance.expovariate(1 / 15000)) + 800
        ended = end + chance.randint(600, 2500)
        free_at[node] = end + 50
        recent_ends[node].append(ended)
        fence = len(recent_ends[node])
        kind = 1 if context == 0 else 0
        counts[context] += 1
        outcome = "completed"
        packets.append([number + 1, context, node, kind, queued, ready, patched, 0 if kind else chance.randint(2, 64), submitted, start, end, ended, outcome, 1, chance.randint(1, 4)])
        attempts.append([number + 1, 0, context, node, fence, submitted, start, end, ended, outcome, chance.randint(1, 4)])
        hardware.append([node, fence, start, end, number + 1])
        interrupts.append([end + 200, node, 1, fence, 2])
        dpcs.append([end + 250, ended - 100, node, 2])
        calls.append([3, 0, "ddi", "DxgkDdiPatch", ready, patched, 0, 0, node])
        calls.append([3, 0, "ddi", "DxgkDdiSubmitCommand", patched + 10, submitted, 0, 0, node])
        if kind:
            transfers.append([submitted, "in" if number % 2 else "out", chance.randint(1, 60), 1, 1 << 20])
        if number % 8 == 0:
            sync.append([ended, "signal", 5, number, context])
            sync.append([queued, "wait", 5, number, context])
    duration = max(row[11] for row in packets) + 1000
    placements = []
    segment_bytes = 64 << 20
    size = 1 << 20
    for slot in range(segment_bytes // size):
        time = chance.randint(0, duration // 20)
        while time < duration:
            stay = int(chance.expovariate(1 / (duration / 12))) + 1
            placements.append([chance.randint(1, 200), 1, slot * size, size, time, None if time + stay > duration else time + stay])
            time += stay + chance.randint(0, duration // 60)
    placements.sort(key=lambda row: row[4])
    names = {}
    for _, _, _, name, begin, end, *_ in calls:
        names.setdefault(name, []).append(end - begin)
    call_stats = [["ddi", name, len(times), 0, sum(times), min(times), sorted(times)[len(times) // 2], sorted(times)[len(times) * 99 // 100], max(times)] for name, times in names.items()]
    calls.sort(key=lambda row: row[4])
    interrupts.sort()
    dpcs.sort()
    hardware.sort(key=lambda row: row[2])
    attempts.sort(key=lambda row: row[5])
    sync.sort()
    return {
        "format": "dxgkit-report", "version": 1, "start_ns": 0, "duration_ns": duration, "events": packet_count * 12, "dropped": 0,
        "threads": ["main", "timer", "device node 0", "lane"],
        "nodes": table("node name busy_ns", [[n, name, sum(r[3] - r[2] for r in hardware if r[0] == n)] for n, name in ((0, "3D"), (1, "copy"))]),
        "contexts": table("context name packets", [[c, name, counts[c]] for c, name in contexts]),
        "processes": table("process name", [[1, "app one"], [2, "app two"]]),
        "packets": table("packet context node kind queued ready patched patches submitted hw_start hw_end ended outcome attempts queue_length", packets),
        "attempts": table("packet attempt context node fence submitted hw_start hw_end ended outcome queue_length", attempts),
        "hardware": table("node fence start end packet", hardware),
        "interrupts": table("time node type fence thread", interrupts),
        "dpcs": table("queued run node thread", dpcs),
        "calls": table("thread depth kind name start end status irql node", calls),
        "call_stats": table("kind name count failed total_ns min_ns p50_ns p99_ns max_ns", call_stats),
        "segments": table("segment base size peak", [[0, 0, 0, 300 << 20], [1, 1 << 36, segment_bytes, segment_bytes - size]]),
        "allocations": table("allocation size created destroyed process", [[i, size, 0, None, 1 + i % 2] for i in range(1, 201)]),
        "placements": table("allocation segment offset size from to", placements),
        "aperture": table("allocation segment offset size from to", []),
        "usage": table("segment time bytes", []),
        "budgets": table("time process group budget usage", [[i * 1_000_000, 1, 0, 6 << 20, (i * 7 % 9) << 20] for i in range(20)]),
        "transfers": table("time direction allocation segment bytes", transfers),
        "paging": table("time operation packet bytes", []),
        "locks": table("allocation from to", []),
        "sync": table("time op object value context", sync),
        "adapter": table("time adapter state", []),
        "findings": table("time rule severity thread", []),
        "markers": table("time text thread", []),
    }


def columns(data, prefix="a"):
    """The tables as ColumnWriter writes them, in its plainest encodings: (head, blocks)."""
    head = {name: data[name] for name in ("start_ns", "duration_ns", "events", "dropped", "threads")}
    head["tables"] = {}
    head["overview"] = []
    part = max(1, data["duration_ns"]) / 2048
    for node, name, _ in data["nodes"]["rows"]:
        parts = [0.0] * 2048
        for each, _, start, end, _ in data["hardware"]["rows"]:
            if each == node:
                for i in range(int(start / part), min(2047, int(end / part)) + 1):
                    parts[i] += min(end, (i + 1) * part) - max(start, i * part)
        busy = bytes(min(255, int(ns / part * 255 + (ns > 0))) for ns in parts)
        head["overview"].append({"node": node, "name": name or "", "busy": base64.b64encode(busy).decode()})
    blocks = []
    for name, source in data.items():
        if not isinstance(source, dict) or not source["rows"]:
            continue
        described, encodings, raw = [], [], b""
        for index, column in enumerate(source["columns"]):
            values = [row[index] for row in source["rows"]]
            if any(isinstance(value, str) for value in values):
                texts = sorted({value for value in values if value is not None})
                numbers = {text: number for number, text in enumerate(texts)}
                described.append({"name": column, "texts": texts})
                values = [None if value is None else numbers[value] for value in values]
            else:
                described.append({"name": column, "width": 8})
            encodings.append("u8")
            raw += array.array("d", [math.nan if value is None else value for value in values]).tobytes()
        head["tables"][name] = {"count": len(source["rows"]), "columns": described, "chunks": [[len(source["rows"]), len(blocks), encodings]]}
        text = base64.b64encode(zlib.compress(raw, 1)).decode()
        blocks.append(f'<script type="application/octet-stream" id="{prefix}{len(blocks)}">{text}</script>')
    return head, "\n".join(blocks)


def page(data, run=None, other=None):
    head, blocks = columns(data)
    second, more = columns(other, "b") if other else (None, "")
    gaps = [blocks + more, *(json.dumps(part, separators=(",", ":")).replace("<", "\\u003c") for part in (head, second, run))]
    parts = embed.page_parts()
    return "".join(part + gap for part, gap in zip(parts, gaps)) + parts[-1]


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as output:
        output.write(page(recording(int(sys.argv[1]))))
