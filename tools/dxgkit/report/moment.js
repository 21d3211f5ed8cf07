// The state at a moment and the sums over a range of time, from the tables.

const IRQL_NAMES = [' PASSIVE_LEVEL', ' APC_LEVEL', ' DISPATCH_LEVEL'];

/** A handle and what it names. */
function describeHandle(model, row) {
  const c = model.handles.columns;
  const type = OBJECT_TYPES[c.type[row]] || `type ${c.type[row]}`;
  const parts = [`0x${c.handle[row].toString(16)} `];
  if (c.names[row] === 0) parts.push(type);
  else if (type === 'allocation') parts.push(toAllocation(c.names[row]));
  else if (type === 'synchronization object') parts.push(`${type} ${c.names[row]}`);
  else parts.push(`${type}: ${contextName(model, c.names[row])}`);
  return [...parts, ', since ', toTime(c.from[row])];
}

/** What ran, waited, was in memory and was called at `time`, as lines of links and text. */
function momentOf(model, time) {
  const covers = (from, to) => from <= time && !(to <= time);
  const causeless = (id) => { const row = model.packetRow.get(id); return row === undefined ? ['work of no packet'] : [toPacket(row), ` of ${contextName(model, model.packets.columns.context[row])}`]; };
  const engines = [];
  const h = model.hardware.columns;
  for (const node of model.nodes.columns.node || []) {
    let running = -1;
    for (let i = 0; i < model.hardware.count; ++i) if (h.node[i] === node && covers(h.start[i], h.end[i])) running = i;
    engines.push(running < 0 ? [`${nodeName(model, node)}: idle`] : [`${nodeName(model, node)}: `, ...causeless(h.packet[running]), `, fence ${h.fence[running]}, for ${formatTime(time - h.start[running])}`]);
  }
  const queues = [];
  const a = model.attempts.columns;
  const waiting = new Map();
  for (let i = 0; i < model.attempts.count; ++i) {
    if (!covers(a.submitted[i], a.ended[i])) continue;
    const list = waiting.get(a.node[i]) || [];
    if (list.length > 0) list.push(', ');
    list.push(...causeless(a.packet[i]).slice(0, 1));
    waiting.set(a.node[i], list);
  }
  for (const [node, list] of waiting) queues.push([`hardware queue of ${nodeName(model, node)}: `, ...list]);
  const p = model.packets.columns;
  const software = new Map();
  for (let i = 0; i < model.packets.count; ++i) {
    const left = p.submitted[i] === p.submitted[i] ? p.submitted[i] : p.ended[i];
    if (!covers(p.queued[i], left)) continue;
    const queue = software.get(p.context[i]) || { count: 0, first: i };
    ++queue.count;
    software.set(p.context[i], queue);
  }
  for (const [context, queue] of software) queues.push([`${contextName(model, context)}: ${formatCount(queue.count)} waiting, first `, toPacket(queue.first)]);

  const memory = new Map();
  for (const [table, what] of [[model.placements, 'segment'], [model.aperture, 'aperture segment']]) {
    const c = table.columns;
    for (let i = 0; i < table.count; ++i) {
      if (!covers(c.from[i], c.to[i])) continue;
      const key = `${what} ${c.segment[i]}`;
      if (!memory.has(key)) memory.set(key, { rows: [], bytes: 0, c });
      const there = memory.get(key);
      there.rows.push(i);
      there.bytes += c.size[i];
    }
  }
  const segments = [...memory].map(([title, { rows, bytes, c }]) => ({
    title: `${title}: ${formatCount(rows.length)} allocations, ${formatBytes(bytes)}`,
    lines: rows.sort((x, y) => c.offset[x] - c.offset[y]).map((i) => [`0x${c.offset[i].toString(16)} `, toAllocation(c.allocation[i]), `, ${formatBytes(c.size[i])}, of ${model.ownerName(model.owner(c.allocation[i]))}, since `, toTime(c.from[i])]),
  }));

  const threads = [];
  const c = model.calls.columns;
  const stacks = new Map();
  const last = upperBound(c.start || [], time);
  for (let i = 0; i < last; ++i) {
    if (!covers(c.start[i], c.end[i])) continue;
    if (!stacks.has(c.thread[i])) stacks.set(c.thread[i], []);
    stacks.get(c.thread[i])[c.depth[i]] = i;
  }
  for (const [thread, stack] of [...stacks].sort((x, y) => x[0] - y[0])) {
    const open = stack.filter((i) => i !== undefined);
    const irql = open.map((i) => c.irql[i]).filter((level) => level === level).pop();
    threads.push([`${model.threads[thread] || `thread ${thread}`}: ${open.map((i) => c.name[i]).join(' → ')}${irql === undefined ? '' : `, IRQL ${irql}${IRQL_NAMES[irql] || ''}`}`]);
  }
  const handles = new Map();
  const k = model.handles.columns;
  for (let i = 0; i < model.handles.count; ++i) {
    if (!covers(k.from[i], k.to[i])) continue;
    if (!handles.has(k.process[i])) handles.set(k.process[i], []);
    handles.get(k.process[i]).push(i);
  }
  const s = model.sync.columns;
  const values = new Map();
  const until = upperBound(s.time || [], time);
  for (let i = 0; i < until; ++i) if (s.op[i] === 'signal') values.set(s.object[i], s.value[i]);
  return {
    engines, queues, memory: segments, threads,
    handles: [...handles].sort((x, y) => x[0] - y[0]).map(([process, rows]) => ({ title: `Handles of ${model.ownerName(process)}: ${formatCount(rows.length)}`, lines: rows.map((i) => describeHandle(model, i)) })),
    fences: [...values].map(([object, value]) => [`object ${object}: ${value}`]),
  };
}

/** Sums over [from, to): GPU time by context, packets, moves. */
function rangeOf(model, from, to) {
  const busy = new Map();
  const h = model.hardware.columns;
  for (let i = 0; i < model.hardware.count; ++i) {
    const end = h.end[i] === h.end[i] ? h.end[i] : model.duration;
    const part = Math.min(end, to) - Math.max(h.start[i], from);
    if (!(part > 0)) continue;
    const row = model.packetRow.get(h.packet[i]);
    const name = row === undefined ? 'no packet' : contextName(model, model.packets.columns.context[row]);
    busy.set(name, (busy.get(name) || 0) + part);
  }
  const range = { completed: 0, evictions: 0, bytes_in: 0, bytes_out: 0 };
  const p = model.packets.columns;
  for (let i = 0; i < model.packets.count; ++i) if (p.outcome[i] === 'completed' && p.ended[i] >= from && p.ended[i] < to) ++range.completed;
  const e = model.evictions.columns.time || [];
  range.evictions = lowerBound(e, to) - lowerBound(e, from);
  const t = model.transfers.columns;
  for (let i = lowerBound(t.time || [], from); i < model.transfers.count && t.time[i] < to; ++i) range[t.direction[i] === 'in' ? 'bytes_in' : 'bytes_out'] += t.bytes[i];
  range.clients = [...busy].map(([name, time]) => ({ name, busy: time })).sort((x, y) => y.busy - x.busy);
  return range;
}
