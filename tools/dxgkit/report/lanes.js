// Rows of the timeline: boxes and ticks sorted by time, with enough prepared to draw any zoom in time proportional to the width.

const rgb_of = new Map();  // '#rrggbb' -> [r, g, b]
function rgbOf(colour) {
  let rgb = rgb_of.get(colour);
  if (!rgb) {
    rgb = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    rgb_of.set(colour, rgb);
  }
  return rgb;
}

/** One row of pixels, painted as a whole: a picture costs the same however much is in it. */
const pixels = { canvas: document.createElement('canvas'), width: 0 };
function beginPixels(width) {
  if (pixels.width !== width) {
    pixels.width = pixels.canvas.width = width;
    pixels.canvas.height = 1;
    pixels.context = pixels.canvas.getContext('2d', { willReadFrequently: true });
    pixels.image = pixels.context.createImageData(width, 1);
  }
  pixels.image.data.fill(0);
  return pixels.image.data;
}
function setPixel(data, x, colour, alpha) {
  const rgb = rgbOf(colour);
  data[4 * x] = rgb[0];
  data[4 * x + 1] = rgb[1];
  data[4 * x + 2] = rgb[2];
  data[4 * x + 3] = 255 * alpha;
}
function paintPixels(context, x, y, height) {
  pixels.context.putImageData(pixels.image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels.canvas, x, y, pixels.width, height);
}

/** How busy an engine was in equal parts of the run: all that the first picture knows. */
class OverviewRow {
  constructor(text, duration) {
    const bytes = atob(text);
    this.parts = Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
    this.duration = duration;
  }

  draw(context, view, x0, width, y, height, colour) {
    const data = beginPixels(Math.floor(width));
    const scale = this.parts.length / this.duration;
    for (let x = 0; x < pixels.width; ++x) {
      const from = view.from + (view.to - view.from) * x / width;
      const first = Math.max(0, Math.floor(from * scale));
      const last = Math.min(this.parts.length, Math.max(first + 1, Math.floor((from + (view.to - view.from) / width) * scale)));
      let most = 0;
      let sum = 0;
      for (let i = first; i < last; ++i) { sum += this.parts[i]; most = Math.max(most, this.parts[i]); }
      if (most > 0 && from < this.duration) setPixel(data, x, colour, 0.25 + 0.75 * sum / (255 * (last - first)));
    }
    paintPixels(context, x0, y, height);
  }
}

/** Non-overlapping boxes of one row. `busy[i]` is the summed length of the boxes before i: coverage of any span in O(log n). */
class BoxRow {
  constructor(starts, ends, items) {
    this.starts = starts instanceof Float64Array ? starts : Float64Array.from(starts);
    this.ends = ends instanceof Float64Array ? ends : Float64Array.from(ends);
    this.items = Uint32Array.from(items);
    this.busy = new Float64Array(this.starts.length + 1);
    for (let i = 0; i < this.starts.length; ++i) this.busy[i + 1] = this.busy[i] + this.ends[i] - this.starts[i];
  }

  /** Fraction of [from, to) that is covered by boxes first..last-1. */
  coverage(from, to, first, last) {
    if (first >= last) return 0;
    let sum = this.busy[last] - this.busy[first];
    sum -= Math.max(0, from - this.starts[first]) + Math.max(0, this.ends[last - 1] - to);
    return Math.min(1, Math.max(0, sum / (to - from)));
  }

  /** Index of the box at `time`, else the nearest within `slack`; -1 if none. */
  find(time, slack) {
    const next = upperBound(this.ends, time);
    let best = -1;
    let distance = slack;
    for (const i of [next - 1, next]) {
      if (i < 0 || i >= this.starts.length) continue;
      const away = Math.max(this.starts[i] - time, time - this.ends[i], 0);
      if (away <= distance) { best = i; distance = away; }
    }
    return best;
  }

  draw(context, view, x0, width, y, height, colour_of, label_of) {
    const scale = width / (view.to - view.from);
    const first = upperBound(this.ends, view.from);
    const last = lowerBound(this.starts, view.to);
    if (last - first <= width * 2) {
      for (let i = first; i < last; ++i) {
        const left = Math.max(0, (this.starts[i] - view.from) * scale);
        const right = Math.min(width, (this.ends[i] - view.from) * scale);
        const box = Math.max(1, right - left);
        context.fillStyle = colour_of(this.items[i]);
        context.fillRect(x0 + left, y, box > 3 ? box - 0.5 : box, height);
        if (box > 34 && height >= 10 && label_of) {
          context.fillStyle = '#fff';
          context.save();
          context.beginPath();
          context.rect(x0 + left, y, box - 3, height);
          context.clip();
          context.fillText(label_of(this.items[i]), x0 + left + 4, y + height / 2 + 0.5);
          context.restore();
        }
      }
      return last - first;
    }
    // More boxes than pixels: one column per pixel, its strength the part of it that is covered.
    const data = beginPixels(Math.floor(width));
    let from_index = first;
    for (let x = 0; x < pixels.width; ++x) {
      const from = view.from + x / scale;
      const to = from + 1 / scale;
      from_index = upperBound(this.ends, from, from_index);
      const to_index = lowerBound(this.starts, to, from_index);
      if (to_index <= from_index) continue;
      setPixel(data, x, colour_of(this.items[(from_index + to_index - 1) >>> 1]), 0.25 + 0.75 * this.coverage(from, to, from_index, to_index));
    }
    paintPixels(context, x0, y, height);
    return 1;
  }
}

/** Points in time. */
class TickRow {
  constructor(times, items) {
    this.times = Float64Array.from(times);
    this.items = Uint32Array.from(items);
  }

  find(time, slack) {
    const next = lowerBound(this.times, time);
    let best = -1;
    let distance = slack;
    for (const i of [next - 1, next]) {
      if (i < 0 || i >= this.times.length) continue;
      const away = Math.abs(this.times[i] - time);
      if (away <= distance) { best = i; distance = away; }
    }
    return best;
  }

  draw(context, view, x0, width, y, height, colour_of) {
    const scale = width / (view.to - view.from);
    const first = lowerBound(this.times, view.from);
    const last = upperBound(this.times, view.to);
    if (last - first <= width * 2) {
      for (let i = first; i < last; ++i) {
        context.fillStyle = colour_of(this.items[i]);
        context.fillRect(x0 + (this.times[i] - view.from) * scale, y, 1.5, height);
      }
      return last - first;
    }
    const data = beginPixels(Math.floor(width));
    let index = first;
    for (let x = 0; x < pixels.width && index < last; ++x) {
      const next = lowerBound(this.times, view.from + (x + 1) / scale, index);
      if (next > index) {
        setPixel(data, x, colour_of(this.items[index]), Math.min(1, 0.35 + (next - index) / 40));
      }
      index = next;
    }
    paintPixels(context, x0, y, height);
    return 1;
  }
}

/**
 * Spreads overlapping intervals (sorted by start) over rows so that no row overlaps. Past `rows_max` rows the rest is counted in `hidden`,
 * not drawn on top of others.
 */
function packRows(count, start_of, end_of, rows_max) {
  const rows = [];
  let hidden = 0;
  for (let i = 0; i < count; ++i) {
    const start = start_of(i);
    if (!(start === start)) continue;
    const end = Math.max(start, end_of(i));
    let row = rows.find((candidate) => candidate.free <= start);
    if (!row) {
      if (rows.length === rows_max) { ++hidden; continue; }
      row = { free: 0, starts: [], ends: [], items: [] };
      rows.push(row);
    }
    row.starts.push(start);
    row.ends.push(end);
    row.items.push(i);
    row.free = end;
  }
  return { rows: rows.map((row) => new BoxRow(row.starts, row.ends, row.items)), hidden };
}

/** Row numbers of `table` for which `keep` holds, in the order of column `by`. */
function selectSorted(count, keep, key) {
  const rows = [];
  let sorted = true;
  let last = -Infinity;
  for (let i = 0; i < count; ++i) {
    if (!keep(i)) continue;
    rows.push(i);
    sorted = sorted && key(i) >= last;
    last = key(i);
  }
  if (!sorted) rows.sort((a, b) => key(a) - key(b) || a - b);
  return rows;
}

/**
 * All lanes of the timeline, top to bottom. A lane: {title, group, rows, row_height, colour(item), label(item), describe(item),
 * packet(item) -> row in packets or -1}.
 */
function buildLanes(page, hidden_groups) {
  const { model } = page;
  const end = (value) => value === value ? value : model.duration;
  // Made once; what the filter hides and where lanes lie changes.
  if (!page.own_lanes) page.own_lanes = finished(page, ownLanes(page));
  if (!page.thread_lanes || page.thread_lanes.calls !== model.calls) page.thread_lanes = { calls: model.calls, lanes: finished(page, threadLanes(model, end)) };
  let lanes = [...page.own_lanes, ...page.thread_lanes.lanes];
  const groups = [...new Set(lanes.map((lane) => lane.kind || lane.group))];
  lanes = lanes.filter((lane) => !hidden_groups.has(lane.kind || lane.group));
  let y = 0;
  let group = null;
  for (const lane of lanes) {
    lane.new_group = lane.group !== group;
    if (lane.new_group) y += group === null ? 20 : 26;
    group = lane.group;
    lane.y = y;
    lane.height = Math.max(14, lane.rows.length * (lane.row_height + 1));
    y += lane.height + 5;
  }
  return { lanes, height: y + 8, groups };
}

/** What all lanes have: a colour, a label, and the packet in front of what they say. */
function finished(page, lanes) {
  const { model } = page;
  for (const lane of lanes) {
    if (!lane.colour) lane.colour = (item) => packetColour(model, lane.packet(item), page.timeline.only);
    if (!lane.label) lane.label = (item) => { const row = lane.packet(item); return row < 0 ? '' : `${packetNumber(model, row)}`; };
    const detail = lane.describe;
    lane.describe = (item) => lane.packet(item) >= 0 ? `${describePacket(model, lane.packet(item))}\n${detail(item)}` : detail(item);
  }
  return lanes;
}

const describePacket = (model, row) =>
  `packet ${packetNumber(model, row)} · ${KINDS[model.packets.columns.kind[row]] || 'kind ' + model.packets.columns.kind[row]}\n${contextName(model, model.packets.columns.context[row])}`;

/** The lanes of everything but threads. */
function ownLanes(page) {
  const { model } = page;
  const lanes = [];
  const { packets, attempts, hardware, interrupts, dpcs, sync } = model;
  const end_or_last = (value) => value === value ? value : model.duration;
  const packetOf = (id) => { const row = model.packetRow.get(id); return row === undefined ? -1 : row; };
  const hardware_rows = Int32Array.from(hardware.columns.packet || [], packetOf);
  const attempt_rows = Int32Array.from(attempts.columns.packet || [], packetOf);

  if (model.frames.length > 0) {
    lanes.push({
      group: 'programs', title: 'last frames', row_height: 11, hidden: 0,
      rows: [new TickRow(model.frames.map((frame) => frame.time), rowNumbers(model.frames.length))],
      colour: () => '#7c3aed', packet: () => -1,
      describe: (item) => `${describeFrame(model.frames[item])}\n${formatTime(model.frames[item].time)}`,
    });
  }
  if (model.markers.count > 0) {
    lanes.push({
      group: 'programs', title: 'events', row_height: 11, hidden: 0,
      rows: [new TickRow(model.markers.columns.time, rowNumbers(model.markers.count))],
      colour: () => '#64748b', packet: () => -1,
      describe: (item) => model.markers.columns.text[item],
    });
  }

  const points = (title, table, colour, tell, open) => {
    if (table.count === 0) return;
    lanes.push({
      group: 'causes', title, row_height: 11, hidden: 0, rows: [new TickRow(table.columns.time, rowNumbers(table.count))],
      colour: () => colour, packet: () => -1, describe: (item) => tell(item), open,
    });
  };
  if (page.details || page.causes) {
    const kinds = causeKinds(page);
    const open = (name) => (item) => causeKinds(page)[name].open(item);
    const tell = (name) => (item) => plainText(model, kinds[name].tell(item));
    points('findings', model.findings, '#d23f3f', (item) => describeFinding(model, item), (item) => { page.setCursor(model.findings.columns.time[item]); page.details.showFinding(item); });
    for (const [name, colour] of [['timeouts', '#d23f3f'], ['lost devices', '#b0578d'], ['preemptions', '#1f6feb'], ['refused calls', '#c2410c'], ['waits for room', '#9a6b00'], ['evictions', '#e08a1e']]) points(name, model[kinds[name].table], colour, tell(name), open(name));
  }

  for (const node of model.nodes.columns.node || []) {
    const name = nodeName(model, node);
    const busy = selectSorted(hardware.count, (i) => hardware.columns.node[i] === node, (i) => hardware.columns.start[i]);
    lanes.push({
      group: name, title: 'hardware', row_height: 20,
      ...packRows(busy.length, (i) => hardware.columns.start[busy[i]], (i) => end_or_last(hardware.columns.end[busy[i]]), 1),
      packet: (item) => hardware_rows[busy[item]],
      describe: (item) => `running, fence ${hardware.columns.fence[busy[item]]}\n${formatTime(end_or_last(hardware.columns.end[busy[item]]) - hardware.columns.start[busy[item]])}`,
    });
    const queue = selectSorted(attempts.count, (i) => attempts.columns.node[i] === node, (i) => attempts.columns.submitted[i]);
    lanes.push({
      group: name, title: 'hardware queue', row_height: 9,
      ...packRows(queue.length, (i) => attempts.columns.submitted[queue[i]], (i) => end_or_last(attempts.columns.ended[queue[i]]), 16),
      packet: (item) => attempt_rows[queue[item]],
      describe: (item) => `in the hardware queue, fence ${attempts.columns.fence[queue[item]]}\n${formatTime(end_or_last(attempts.columns.ended[queue[item]]) - attempts.columns.submitted[queue[item]])}`,
    });
    const raised = selectSorted(interrupts.count, (i) => interrupts.columns.node[i] === node, (i) => interrupts.columns.time[i]);
    lanes.push({
      group: name, title: 'interrupts', row_height: 11, hidden: 0,
      rows: [new TickRow(raised.map((i) => interrupts.columns.time[i]), raised)],
      colour: () => '#c2410c', packet: () => -1,
      describe: (item) => `interrupt, type ${interrupts.columns.type[item]}\nfence ${interrupts.columns.fence[item]}`,
    });
  }

  const ordered = selectSorted(dpcs.count, () => true, (i) => dpcs.columns.queued[i]);
  if (ordered.length > 0) {
    lanes.push({
      group: 'adapter', title: 'DPC', row_height: 10,
      ...packRows(ordered.length, (i) => dpcs.columns.queued[ordered[i]], (i) => end_or_last(dpcs.columns.run[ordered[i]]), 2),
      colour: () => '#0f766e', packet: () => -1,
      describe: (item) => `DPC, queued to run\n${formatTime(end_or_last(dpcs.columns.run[ordered[item]]) - dpcs.columns.queued[ordered[item]])}`,
    });
  }
  if (sync.count > 0) {
    const colours = { signal: '#1b7f4b', wait: '#9a6b00', satisfied: '#1f6feb' };
    for (const op of ['wait', 'signal', 'satisfied']) {
      const rows = selectSorted(sync.count, (i) => sync.columns.op[i] === op, (i) => sync.columns.time[i]);
      if (rows.length === 0) continue;
      lanes.push({
        group: 'fences', title: op, row_height: 9, hidden: 0, rows: [new TickRow(rows.map((i) => sync.columns.time[i]), rows)],
        colour: () => colours[op], packet: () => -1,
        describe: (item) => `${op}: object ${sync.columns.object[item]}, value ${sync.columns.value[item]}\nby ${sync.columns.context[item] ? contextName(model, sync.columns.context[item]) : 'the CPU'}`,
      });
    }
  }

  for (const context of model.contexts.columns.context || []) {
    const mine = selectSorted(packets.count, (i) => packets.columns.context[i] === context, (i) => packets.columns.queued[i]);
    if (mine.length === 0) continue;
    // Waiting in the software queue, until submitted (or until it ended without ever being submitted).
    const leaves = (row) => packets.columns.submitted[row] === packets.columns.submitted[row] ? packets.columns.submitted[row] : end_or_last(packets.columns.ended[row]);
    lanes.push({
      group: contextName(model, context), kind: 'software queues', title: 'software queue', row_height: 7,
      ...packRows(mine.length, (i) => packets.columns.queued[mine[i]], (i) => leaves(mine[i]), 24),
      packet: (item) => mine[item],
      describe: (item) => `in the software queue\n${formatTime(leaves(mine[item]) - packets.columns.queued[mine[item]])}`,
    });
  }

  return lanes;
}

/** Calls of each thread, a row per depth. One pass: they are most of a recording, and sorted by start. */
function threadLanes(model, end_or_last) {
  const { calls } = model;
  const c = calls.columns;
  const depths = 4;
  const sizes = new Uint32Array(model.threads.length * depths);
  for (let i = 0; i < calls.count; ++i) if (c.depth[i] < depths && c.thread[i] < model.threads.length) ++sizes[c.thread[i] * depths + c.depth[i]];
  const parts = Array.from(sizes, (size) => ({ starts: new Float64Array(size), ends: new Float64Array(size), items: new Uint32Array(size), next: 0 }));
  for (let i = 0; i < calls.count; ++i) {
    if (!(c.depth[i] < depths && c.thread[i] < model.threads.length)) continue;
    const part = parts[c.thread[i] * depths + c.depth[i]];
    part.starts[part.next] = c.start[i];
    part.ends[part.next] = end_or_last(c.end[i]);
    part.items[part.next++] = i;
  }
  const colours = { ddi: '#6a7fb5', callback: '#8b9c5b', thunk: '#7f6aa8' };
  const lanes = [];
  for (let thread = 0; thread < model.threads.length; ++thread) {
    const rows = parts.slice(thread * depths, (thread + 1) * depths).filter((part) => part.next > 0).map((part) => new BoxRow(part.starts, part.ends, part.items));
    if (rows.length === 0) continue;
    lanes.push({
      group: 'threads', title: model.threads[thread] || `thread ${thread}`, row_height: 12, hidden: 0, rows,
      colour: (item) => colours[c.kind[item]] || '#888888', packet: () => -1,
      label: (item) => c.name[item].replace(/^DxgkDdi|^D3DKMT/, ''),
      describe: (item) => `${c.name[item]}\n${formatTime(end_or_last(c.end[item]) - c.start[item])}, status ${formatStatus(c.status[item])}`,
    });
  }
  return lanes;
}
