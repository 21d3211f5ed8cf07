// What the views share: who is who in the tables, names, colours, formatting.

const SEVERITIES = ['warning', 'violation', 'start failure', 'bug check'];
const KINDS = ['render', 'paging', 'wait', 'signal'];
const PALETTE = ['#4c78c8', '#2f9e77', '#b0578d', '#7a6bc4', '#3a9bb5', '#a3813f', '#5f8f3e', '#c0605a', '#6b7f99', '#8a6d5c'];
const PAGING_COLOUR = '#e08a1e';
const EVICTED_COLOUR = '#d23f3f';
/** The tables of the first picture, then those that are large and can come later. */
const TABLES = ['nodes', 'contexts', 'processes', 'packets', 'attempts', 'hardware', 'interrupts', 'dpcs', 'call_stats', 'segments', 'allocations', 'placements',
  'aperture', 'usage', 'budgets', 'transfers', 'paging', 'locks', 'sync', 'adapter', 'findings', 'markers', 'evictions', 'busy', 'preemptions', 'timeouts',
  'lost_devices', 'refusals', 'hung_buffers', 'hung_patches', 'hung_bytes', 'handles', 'va_spaces', 'va_changes', 'table_entries', 'va_faults'];
const LATE_TABLES = ['calls'];

/** The engines of the first picture: {name, row}. */
const readOverview = (head) => head.overview.map(({ node, name, busy }) => ({ name: name ? `${name} (node ${node})` : `node ${node}`, row: new OverviewRow(busy, Math.max(1, Number(head.duration_ns))) }));

/** head: what ColumnWriter told of the recording; tables: of readTables; run: what the tool knows of the run. */
function makeModel(head, tables, run) {
  const model = { duration: Math.max(1, Number(head.duration_ns)), start: Number(head.start_ns), events: head.events, dropped: head.dropped, threads: head.threads || [], run };
  model.overview = readOverview(head);
  Object.assign(model, tables, { calls: { count: 0, columns: {}, names: [] } });
  model.packetRow = new Map();
  const ids = model.packets.columns.packet || [];
  for (let row = 0; row < model.packets.count; ++row) model.packetRow.set(ids[row], row);
  // Numbers are unique per adapter; of several with the same the first is meant.
  let by_number = null;
  model.rowOfNumber = (number) => {
    if (!by_number) {
      by_number = new Map();
      for (let row = model.packets.count - 1; row >= 0; --row) by_number.set(numberOfId(ids[row]), row);
    }
    const row = by_number.get(number);
    return row === undefined ? -1 : row;
  };
  model.contextIndex = new Map();
  for (let row = 0; row < model.contexts.count; ++row) model.contextIndex.set(model.contexts.columns.context[row], row);
  // Contexts without a name are told apart by what they do.
  model.contextRole = new Map();
  const { context, node, kind } = model.packets.columns;
  for (let row = 0; row < model.packets.count; ++row) {
    const role = model.contextRole.get(context[row]) || { node: NaN, only_paging: true };
    if (node[row] === node[row]) role.node = node[row];
    if (kind[row] !== 1) role.only_paging = false;
    model.contextRole.set(context[row], role);
  }
  readOwners(model);
  readFindings(model);
  model.frames = readFrames(run, model.start);
  return model;
}

/** model.told_findings: {time, rule, severity, thread, told}, what the run told of each; those that the recording has lost come last. */
function readFindings(model) {
  const c = model.findings.columns;
  const told = ((model.run && model.run.findings) || []).slice();
  model.told_findings = rowNumbers(model.findings.count).map((row) => {
    const at = told.findIndex((one) => one && one.rule === c.rule[row]);  // one event for each, in the same order
    return { time: c.time[row], rule: c.rule[row], severity: SEVERITIES[c.severity[row]] || String(c.severity[row]), thread: c.thread[row], told: at < 0 ? null : told.splice(at, 1)[0] };
  });
  for (const one of told) model.told_findings.push({ time: NaN, rule: one.rule, severity: one.severity || '', thread: NaN, told: one });
}

/** In a few words, for marks and lists. */
function describeFinding(model, index) {
  const { rule, time, told } = model.told_findings[index];
  return `${rule}, ${formatTime(time)}${told ? `\n${told.ddi || ''}: ${told.actual || ''}` : ''}`;
}

/** Who owns which allocation, and when a stay ended because somebody had to leave. */
function readOwners(model) {
  const { allocation, process, destroyed } = model.allocations.columns;
  model.allocationRow = new Map();
  for (let row = 0; row < model.allocations.count; ++row) model.allocationRow.set(allocation[row], row);
  const known = new Set();
  model.owner = (id) => {
    const row = model.allocationRow.get(id);
    const owner = row === undefined || !process ? 0 : process[row];
    return owner === owner ? owner : 0;
  };
  for (const table of [model.placements, model.aperture])
    for (let row = 0; row < table.count; ++row) known.add(model.owner(table.columns.allocation[row]));
  model.owners = [...known].sort((a, b) => a - b);
  model.ownerName = (owner) => {
    if (owner === 0) return 'the kernel';
    const row = Array.prototype.indexOf.call(model.processes.columns.process || [], owner);
    return row < 0 ? `process ${owner}` : model.processes.columns.name[row];
  };
  model.ownerColour = (owner) => owner === 0 ? '#9aa7b5' : PALETTE[(model.owners.indexOf(owner) + (model.owners[0] === 0 ? 0 : 1)) % PALETTE.length];
  model.wasEvicted = (columns, row) => {
    const to = columns.to[row];
    if (to !== to) return false;
    const known_row = model.allocationRow.get(columns.allocation[row]);
    const end = known_row === undefined ? NaN : destroyed[known_row];
    return !(end === end && to >= end);
  };
}

/**
 * The number of a packet: its place in the order in which the kernel made packets. An id has it above 22 bits that are its slot; ids of
 * recordings made by hand are small and are the number.
 */
const SLOT_SIZE = 2 ** 22;
const numberOfId = (id) => id >= SLOT_SIZE ? Math.floor(id / SLOT_SIZE) : id;
const packetNumber = (model, row) => numberOfId(model.packets.columns.packet[row]);

function nodeName(model, node) {
  const row = Array.prototype.indexOf.call(model.nodes.columns.node || [], node);
  const name = row < 0 ? null : model.nodes.columns.name[row];
  return name ? `${name} (node ${node})` : `node ${node}`;
}

function contextName(model, context) {
  const row = model.contextIndex.get(context);
  const name = row === undefined ? null : model.contexts.columns.name[row];
  if (name) return name;
  const role = model.contextRole.get(context);
  if (role && role.only_paging) return `context ${context}, paging`;
  return role && role.node === role.node ? `context ${context}, ${nodeName(model, role.node)}` : `context ${context}`;
}

/** The process of a packet's context; NaN where the recording does not say. */
function processOfPacket(model, row) {
  const context = model.contextIndex.get(model.packets.columns.context[row]);
  const { process } = model.contexts.columns;
  return context === undefined || !process ? NaN : process[context];
}

/** Paging work is orange everywhere; other packets have their context's colour. */
function packetColour(model, row, only = NaN) {
  if (!(row >= 0)) return '#b8c2cc';
  if (only === only && processOfPacket(model, row) !== only) return theme.line;
  if (model.packets.columns.kind[row] === 1) return PAGING_COLOUR;
  const index = model.contextIndex.get(model.packets.columns.context[row]);
  return PALETTE[(index === undefined ? 0 : index) % PALETTE.length];
}

function allocationColour(id) {
  const hue = (id * 137.508) % 360;
  return `hsl(${hue.toFixed(0)} 48% 62%)`;
}

/** First index in sorted `values` whose value is > `limit` (from `low` on). */
function upperBound(values, limit, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

/** First index whose value is >= `limit`. */
function lowerBound(values, limit, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] >= limit) high = middle; else low = middle + 1;
  }
  return low;
}

function formatTime(ns) {
  if (!(ns === ns)) return '–';
  const size = Math.abs(ns);
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(2)} µs`;
  return `${Math.round(ns)} ns`;
}

/** A time for an axis whose ticks are `step` apart: only as many digits as the step needs. */
function formatTick(ns, step) {
  const [unit, size] = step >= 1e8 ? ['s', 1e9] : step >= 1e5 ? ['ms', 1e6] : step >= 100 ? ['µs', 1e3] : ['ns', 1];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ns / size).toFixed(digits)} ${unit}`;
}

function formatBytes(bytes) {
  if (!(bytes === bytes)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) { bytes /= 1024; ++unit; }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

const formatCount = (value) => value === value ? Math.round(value).toLocaleString('en-US') : '–';
const formatStatus = (value) => value === value ? `0x${(value >>> 0).toString(16).toUpperCase().padStart(8, '0')}` : '–';

/** Sizes a canvas for the screen's pixel ratio; returns its context in CSS pixels. */
function prepareCanvas(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
