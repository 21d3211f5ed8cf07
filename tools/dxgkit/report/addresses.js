// GPU virtual addresses at a moment: what a process had mapped, and the walk of an address through its page tables, by the entries that the driver
// was given up to then.

const GPU_PAGE = 4096;
const hex = (value) => `0x${value.toString(16)}`;
const placeText = (segment, offset) => segment === 0 ? `system memory at ${hex(offset)}` : `segment ${segment} at ${hex(offset)}`;

/** What a user writes for an address: hexadecimal behind 0x, else decimal; NaN for anything else. */
function parseAddress(text) {
  const word = text.trim().toLowerCase();
  const value = /^(0x[0-9a-f]+|\d+)$/.test(word) ? Number(word) : NaN;
  return Number.isSafeInteger(value) ? value : NaN;
}

/** Disjoint ranges by address; a new one replaces what it covers. */
class Ranges {
  constructor() { this.list = []; }  // {from, to, ...}, sorted

  cut(from, to) {
    const { list } = this;
    let first = 0;
    let high = list.length;
    while (first < high) {
      const middle = (first + high) >>> 1;
      if (list[middle].to > from) high = middle; else first = middle + 1;
    }
    let last = first;
    const kept = [];
    for (; last < list.length && list[last].from < to; ++last) {
      const range = list[last];
      if (range.from < from) kept.push({ ...range, to: from });
      if (range.to > to) kept.push({ ...range, from: to, offset: range.offset + to - range.from });
    }
    list.splice(first, last - first, ...kept);
    return first + (kept.length > 0 && kept[0].from < from ? 1 : 0);
  }

  set(range) { this.list.splice(this.cut(range.from, range.to), 0, range); }
}

class Addresses {
  constructor(model) {
    this.model = model;
    this.processes = [...new Set(model.va_spaces.columns.process || [])].sort((a, b) => a - b);
  }

  name(process) { return process === 0 ? 'the kernel, for paging' : this.model.ownerName(process); }

  /** The space that a process had at `time`: {levels, bits: of each level's index}; null: none. */
  space(process, time) {
    const c = this.model.va_spaces.columns;
    for (let i = upperBound(c.time || [], time) - 1; i >= 0; --i) {
      if (c.process[i] !== process) continue;
      const bits = [];
      for (let level = 0; level < c.levels[i]; ++level) bits.push(Math.floor(c.index_bits[i] / 2 ** (8 * level)) % 256);
      const sum = bits.reduce((all, one) => all + one, 12);
      return bits.length === 0 || bits.length > 6 || sum > 63 ? null : { levels: bits.length, bits };
    }
    return null;
  }

  /** What the process had mapped and reserved at `time`: {from, to, what, allocation, offset, since}, by address. */
  map(process, time) {
    const c = this.model.va_changes.columns;
    const mapped = new Ranges();
    const reserved = new Ranges();
    const end = upperBound(c.time || [], time);
    for (let i = 0; i < end; ++i) {
      if (c.process[i] !== process) continue;
      const from = c.address[i];
      const range = { from, to: from + c.size[i], what: c.what[i], allocation: c.allocation[i], offset: c.offset[i], protection: c.protection[i], since: c.time[i] };
      if (range.what === 'ended') { mapped.list = []; reserved.list = []; }
      if (!(range.to > from)) continue;
      if (range.what === 'mapped') {
        if (Math.floor(range.protection / 8) % 2 === 1) range.what = 'reserved';  // its driver's protection alone: every access faults
        else if (range.allocation === 0) range.what = 'zeros';
        mapped.set(range);
      } else if (range.what === 'reserved') {
        reserved.set(range);
      } else {
        mapped.cut(from, range.to);
        if (range.what === 'freed') reserved.cut(from, range.to);
      }
    }
    for (const range of mapped.list) reserved.cut(range.from, range.to);
    return [...mapped.list, ...reserved.list].sort((x, y) => x.from - y.from);
  }

  /** The walk of an address at `time`, from the root down: {steps, leads: {segment, offset, zero} or null}. */
  walk(process, address, time) {
    const space = this.space(process, time);
    if (!space) return { steps: [], leads: null };
    const shifts = space.bits.map((_, level) => space.bits.slice(0, level).reduce((all, one) => all + one, 12));
    const written = new Array(space.levels).fill(-1);
    const c = this.model.table_entries.columns;
    const end = upperBound(c.time || [], time);
    for (let i = 0; i < end; ++i) {
      const level = c.level[i];
      if (level !== level) {  // the tables were lost
        if (c.process[i] === 0 || c.process[i] === process) written.fill(-1);
        continue;
      }
      if (c.process[i] !== process || level >= space.levels) continue;
      const entry = Math.floor((address - c.first[i]) / 2 ** shifts[level]);
      if (entry >= 0 && entry < c.count[i]) written[level] = i;
    }
    const steps = [];
    for (let level = space.levels - 1; level >= 0; --level) {
      const row = written[level];
      const above = Math.floor(address / 2 ** shifts[level]);
      const step = { level, index: level === space.levels - 1 ? above : above % 2 ** space.bits[level], written: row >= 0 };
      steps.push(step);
      if (row < 0) return { steps, leads: null };
      const entry = Math.floor((address - c.first[row]) / 2 ** shifts[level]);
      const flags = c.flags[row];
      Object.assign(step, {
        table_segment: c.segment[row], table_offset: c.offset[row], since: c.time[row], page: c.page[row] + entry * c.apart[row],
        valid: (flags & 1) !== 0, zero: (flags & 2) !== 0, read_only: (flags & 8) !== 0, no_execute: (flags & 16) !== 0, segment: flags >>> 5 & 31, large: (flags >>> 10 & 1) !== 0 });
      if (!step.valid) return { steps, leads: null };
      if (level === 0 || step.large) return { steps, leads: { zero: step.zero, segment: step.segment, offset: step.page * GPU_PAGE + address % 2 ** shifts[level] } };
    }
    return { steps, leads: null };
  }

  describeStep(step, levels) {
    const parts = [`level ${step.level}${step.level === levels - 1 ? ' (root)' : ''}, entry ${hex(step.index)}`];
    if (!step.written) return [...parts, ': not written'];
    parts.push(` of the table in ${placeText(step.table_segment, step.table_offset)}: `);
    if (!step.valid) return [...parts, 'not valid, since ', toTime(step.since)];
    const leaf = step.level === 0 || step.large;
    parts.push(step.zero ? 'valid, zeros' : `valid, ${leaf ? 'page' : 'next table'} in ${placeText(step.segment, step.page * GPU_PAGE)}`);
    parts.push(`${step.large ? ', large page' : ''}${step.read_only ? ', read only' : ''}${step.no_execute ? ', no execute' : ''}, since `, toTime(step.since));
    return parts;
  }

  describeRange(range, address, time) {
    const parts = [toAddress(range.from), ` of ${formatBytes(range.to - range.from)}: `];
    if (range.what === 'reserved') return [...parts, 'reserved, every access faults, since ', toTime(range.since)];
    if (range.what === 'zeros') return [...parts, 'zeros, since ', toTime(range.since)];
    const place = this.placeOf(range, address, time);
    return [...parts, toAllocation(range.allocation), ` + ${hex(range.offset + address - range.from)}${range.protection % 2 === 1 ? ', writable' : ', read only'}, in ${place ? placeText(place.segment, place.offset) : 'no segment'}, since `, toTime(range.since)];
  }

  /** Where the byte of a mapped allocation was; null: in no segment. */
  placeOf(range, address, time) {
    const p = this.model.placements.columns;
    for (let i = 0; i < this.model.placements.count; ++i) if (p.allocation[i] === range.allocation && p.from[i] <= time && !(p.to[i] <= time)) return { segment: p.segment[i], offset: p.offset[i] + range.offset + address - range.from };
    return null;
  }

  /** All of one address: lines for the pane. */
  describe(process, address, time) {
    const { steps, leads } = this.walk(process, address, time);
    const range = this.map(process, time).find((each) => each.from <= address && address < each.to);
    const lines = [range ? ['mapped: ', ...this.describeRange(range, address, time)] : ['nothing is mapped there: every access faults']];
    if (steps.length === 0) return [...lines, ['the process had no page tables then']];
    const levels = this.space(process, time).levels;
    lines.push(...steps.map((step) => this.describeStep(step, levels)));
    lines.push([leads ? (leads.zero ? 'the entries lead to zeros' : `the entries lead to ${placeText(leads.segment, leads.offset)}`) : 'the entries lead nowhere: an access faults']);
    const mapped = range && range.what === 'mapped';
    const place = mapped ? this.placeOf(range, address, time) : null;
    if (leads && !range) lines.push(['they translate it although nothing is mapped']);
    if (leads && mapped && !place && !leads.zero && leads.segment !== 0) lines.push(['they translate it although the allocation is in no segment']);
    if (!leads && place) lines.push([`the allocation is in ${placeText(place.segment, place.offset)}, and they do not lead there`]);
    if (leads && place && !leads.zero && (leads.segment !== place.segment || leads.offset !== place.offset)) lines.push([`the allocation is in ${placeText(place.segment, place.offset)}: they lead elsewhere`]);
    return lines;
  }

  /** A fault that hardware reported. */
  describeFault(row) {
    const f = this.model.va_faults.columns;
    const parts = [`${nodeName(this.model, f.node[row])} could not translate ${hex(f.address[row])}`];
    const a = this.model.attempts.columns;
    for (let i = 0; i < this.model.attempts.count; ++i) if (a.node[i] === f.node[row] && a.fence[i] === f.fence[row] && this.model.packetRow.has(a.packet[i])) return [...parts, ' of ', toPacket(this.model.packetRow.get(a.packet[i])), `, fence ${f.fence[row]}; translation ended at level ${f.level[row]}`];
    return [...parts, `, fence ${f.fence[row]}; translation ended at level ${f.level[row]}`];
  }

  processOfFault(row) {
    const f = this.model.va_faults.columns;
    const a = this.model.attempts.columns;
    for (let i = 0; i < this.model.attempts.count; ++i) {
      if (a.node[i] !== f.node[row] || a.fence[i] !== f.fence[row]) continue;
      const found = this.model.packetRow.get(a.packet[i]);
      return found === undefined ? NaN : processOfPacket(this.model, found);
    }
    return NaN;
  }
}
