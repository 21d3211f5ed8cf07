// The pane beside the timeline: one packet's life and its causes, an allocation, a timeout, a refused call, a moment, a range of time.

const ROWS_SHOWN = 200;
const PREEMPTIONS_SHOWN = 5;
const VIRTUAL = 0xFFFFFFFF;  // in place of a segment: trace::kVirtual

/** A sentence of causes.js as plain text. */
function plainText(model, parts) {
  return parts.map((part) => {
    if (typeof part === 'string') return part;
    if (part.kind === 'packet') return `packet ${packetNumber(model, part.row)}`;
    if (part.kind === 'address') return hex(part.address);
    return part.kind === 'allocation' ? `allocation ${numberOfId(part.id)}` : formatTime(part.time);
  }).join('');
}

/** The kinds of causes: which table, what one is called, its sentence, and what a click on it opens. */
function causeKinds(page) {
  const { causes, details, model } = page;
  const packetOf = (table) => (row) => { const found = causes.packetRow(model[table].columns.packet[row]); if (found >= 0) page.select(found); };
  return {
    evictions: { table: 'evictions', one: 'eviction', tell: (row) => causes.describeEviction(row), open: (row) => details.showAllocation(model.evictions.columns.allocation[row], row) },
    'waits for room': {
      table: 'busy', one: 'wait for room', open: packetOf('busy'),
      tell: (row) => {
        const c = model.busy.columns;
        const packet = causes.packetRow(c.packet[row]);
        return [packet < 0 ? 'a packet' : toPacket(packet), ' waits: ', ...(c.allocation[row] > 0 ? [toAllocation(c.allocation[row]), ' has '] : []), BUSY_REASONS[c.reason[row]] || `reason ${c.reason[row]}`];
      } },
    preemptions: { table: 'preemptions', one: 'preemption', tell: (row) => [`${nodeName(model, model.preemptions.columns.node[row])}: `, ...causes.describePreemption(row, NaN)], open: (row) => details.showPreemption(row) },
    timeouts: { table: 'timeouts', one: 'timeout', tell: (row) => causes.describeTimeout(row), open: (row) => details.showTimeout(row) },
    'lost devices': {
      table: 'lost_devices', one: 'lost device', open: (row) => page.setCursor(model.lost_devices.columns.time[row]),
      tell: (row) => { const c = model.lost_devices.columns; return [`device 0x${c.device[row].toString(16)} of ${model.ownerName(c.process[row])}: ${DEVICE_STATES[c.state[row]] || c.state[row]}`]; } },
    'page faults': {
      table: 'va_faults', one: 'page fault', tell: (row) => page.addresses.describeFault(row),
      open: (row) => {
        const process = page.addresses.processOfFault(row);
        page.setCursor(model.va_faults.columns.time[row]);
        if (process === process) details.walkTo(process, model.va_faults.columns.address[row]);
      } },
    'refused calls': { table: 'refusals', one: 'refused call', tell: (row) => [`${model.refusals.columns.name[row]}: `, ...causes.describeRefusal(row)[0]], open: (row) => details.showRefusal(row) },
  };
}

class Details {
  constructor(page) {
    this.page = page;
    this.model = page.model;
    this.panel = document.getElementById('details');
    this.process = NaN;  // whose addresses the pane shows
    this.address = NaN;  // and which one it walks
    this.showPacket(-1);
  }

  /** A sentence with its links. */
  sentence(tag, parts, class_name) {
    const node = element(tag, undefined, class_name);
    for (const part of parts) {
      if (typeof part === 'string') {
        node.append(part);
        continue;
      }
      const link = element('button', plainText(this.model, [part]), 'link');
      link.type = 'button';
      link.dataset.to = part.kind;
      link.addEventListener('click', () => {
        if (part.kind === 'packet') this.page.select(part.row);
        else if (part.kind === 'allocation') this.showAllocation(part.id);
        else if (part.kind === 'address') this.walkTo(this.process, part.address);
        else this.page.setCursor(part.time);
      });
      node.append(link);
    }
    return node;
  }

  begin(title, what) {
    this.panel.replaceChildren(element('h2', title));
    this.panel.dataset.packet = '';
    this.panel.dataset.shows = what;
    this.panel.scrollTop = 0;
  }

  table(rows) {
    const table = element('table');
    for (const [name, ...values] of rows) {
      const line = element('tr');
      line.append(element('td', name), ...values.map((value) => typeof value === 'object' ? this.sentence('td', value, 'num') : element('td', String(value), 'num')));
      table.append(line);
    }
    this.panel.append(table);
  }

  list(title, lines, class_name) {
    if (lines.length === 0) return;
    this.panel.append(element('h3', title));
    const list = element('ul', undefined, class_name || 'plain');
    for (const parts of lines.slice(0, ROWS_SHOWN)) list.append(this.sentence('li', parts));
    if (lines.length > ROWS_SHOWN) list.append(element('li', `and ${formatCount(lines.length - ROWS_SHOWN)} more`));
    this.panel.append(list);
  }

  /** The life of one packet, step by step, and why each took so long. */
  showPacket(row) {
    const { model, panel } = this;
    if (row < 0) {
      this.begin('Packet', 'nothing');
      panel.append(element('p', 'Click a box in the timeline, or press n, to see one packet from queue to completion. Click the times above the lanes for everything at that moment.', 'empty'));
      return;
    }
    const c = model.packets.columns;
    this.begin(`Packet ${packetNumber(model, row)}`, 'packet');
    panel.dataset.packet = String(packetNumber(model, row));
    panel.append(element('span', c.outcome[row], c.outcome[row] === 'completed' ? 'chip' : 'chip bad'));
    const facts = [['kind', KINDS[c.kind[row]] || String(c.kind[row])], ['context', contextName(model, c.context[row])]];
    if (c.node[row] === c.node[row]) facts.push(['node', nodeName(model, c.node[row])]);
    if (c.patches[row] === c.patches[row]) facts.push(['patch locations', formatCount(c.patches[row])]);
    facts.push(['queue length', formatCount(c.queue_length[row])]);
    this.table(facts);

    const steps = this.page.causes.chain(row).filter((step) => step.to > step.from || step.more.length > 0 || step.name.startsWith('was '));
    panel.append(element('h3', 'Why it took so long'));
    const chain = element('ol', undefined, 'chain');
    for (const step of steps) {
      const line = element('li');
      const head = element('b', `${step.name} ${formatTime(step.to - step.from)}`);
      line.append(head, ': ', this.sentence('span', step.parts));
      if (step.more.length > 0) {
        const more = element('ul');
        for (const parts of step.more) more.append(this.sentence('li', parts));
        line.append(more);
      }
      chain.append(line);
    }
    if (steps.length === 0) chain.append(element('li', 'It never waited.'));
    panel.append(chain, element('h3', 'Life'));

    const names = [['queued', 'queued', '#c9d3de'], ['ready', 'ready', '#f2b766'], ['patched', 'patched', '#e08a1e'], ['submitted', 'submitted', '#9db7e8'],
      ['start', 'hw_start', '#4c78c8'], ['end', 'hw_end', '#1b7f4b'], ['completed', 'ended', '#1b7f4b']];
    const known = names.map(([name, column, colour]) => ({ name: name === 'completed' ? c.outcome[row] : name, time: c[column][row], colour })).filter((step) => step.time === step.time);
    const bar = element('div', undefined, 'bar');
    for (let i = 0; i + 1 < known.length; ++i) {
      const part = element('div');
      part.style.flexGrow = String(Math.max(0, known[i + 1].time - known[i].time));
      part.style.background = known[i].colour;
      part.title = `${known[i].name} to ${known[i + 1].name}`;
      bar.append(part);
    }
    panel.append(bar);
    this.table(known.map((step, i) => [step.name, [toTime(step.time)], i === 0 ? '' : `+${formatTime(step.time - known[i - 1].time)}`]));

    const attempts = model.attempts.columns;
    const mine = this.page.causes.rowsOf('attempts', 'packet', c.packet[row]);
    if (mine.length === 0) return;
    panel.append(element('h3', mine.length === 1 ? 'Submission' : `${mine.length} submissions`));
    this.table(mine.map((i) => [`fence ${attempts.fence[i]}`, formatTime(attempts.submitted[i]), attempts.outcome[i]]));
  }

  /** Where an allocation was, and why it had to go. `eviction`: the row to begin with, or undefined. */
  showAllocation(id, eviction) {
    const { model, panel } = this;
    const { causes } = this.page;
    this.begin(`Allocation ${numberOfId(id)}`, 'allocation');
    const row = model.allocationRow.get(id);
    const a = model.allocations.columns;
    const facts = [['owner', model.ownerName(model.owner(id))]];
    if (row !== undefined) {
      facts.unshift(['size', formatBytes(a.size[row])]);
      if (a.created[row] === a.created[row]) facts.push(['created', [toTime(a.created[row])]]);
      if (a.destroyed[row] === a.destroyed[row]) facts.push(['destroyed', [toTime(a.destroyed[row])]]);
    }
    this.table(facts);
    const evictions = causes.rowsOf('evictions', 'allocation', id);
    if (eviction !== undefined) {
      this.list('This eviction', [causes.describeEviction(eviction)], 'chain');
      const packet = causes.packetRow(model.evictions.columns.for_packet[eviction]);
      if (packet >= 0) {
        panel.append(element('h3', `What packet ${packetNumber(model, packet)} went through`));
        const chain = element('ol', undefined, 'chain');
        for (const step of causes.chain(packet)) chain.append(this.sentence('li', [`${step.name} ${formatTime(step.to - step.from)}: `, ...step.parts]));
        panel.append(chain);
      }
    }
    this.list(eviction === undefined ? 'Evictions' : 'All its evictions', evictions.map((each) => causes.describeEviction(each)), 'chain');
    const p = model.placements.columns;
    this.list('Where it was', causes.rowsOf('placements', 'allocation', id).map((each) => [`segment ${p.segment[each]} at 0x${p.offset[each].toString(16)}, from `, toTime(p.from[each]), p.to[each] === p.to[each] ? ' to ' : '', ...(p.to[each] === p.to[each] ? [toTime(p.to[each])] : [' on'])]));
  }

  showPreemption(row) {
    const { model } = this;
    const p = model.preemptions.columns;
    const { causes } = this.page;
    const after = model.attempts.columns;
    const hurt = [];
    const done = model.preemptions.columns.time;
    const next = causes.rowsOf('preemptions', 'node', p.node[row]).find((each) => done[each] > done[row]);
    for (let i = 0; i < model.attempts.count; ++i) {
      if (after.node[i] === p.node[row] && after.outcome[i] === 'preempted' && after.ended[i] >= p.time[row] && !(next !== undefined && after.ended[i] > done[next])) hurt.push(i);
    }
    this.begin(`Preemption of ${nodeName(model, p.node[row])}`, 'preemption');
    this.list('Why', [causes.describePreemption(row, hurt.length > 0 ? after.ended[hurt[0]] : NaN)], 'chain');
    this.list('Given back', hurt.map((i) => [toPacket(causes.packetRow(after.packet[i])), `, fence ${after.fence[i]}, at `, toTime(after.ended[i])]));
  }

  showTimeout(row) {
    const { model } = this;
    const t = model.timeouts.columns;
    const { causes } = this.page;
    this.begin(`Timeout of ${nodeName(model, t.node[row])}`, 'timeout');
    this.list('Why', [causes.describeTimeout(row)], 'chain');
    this.showHung(row);
    const p = model.preemptions.columns;
    const asked = [];
    for (let i = 0; i < model.preemptions.count; ++i) if (p.node[i] === t.node[row] && p.time[i] <= t.time[row]) asked.push(i);
    this.list('Preemptions asked of it', asked.slice(-PREEMPTIONS_SHOWN).map((i) => [...causes.describePreemption(i, NaN), t.preemption[row] === p.fence[i] ? ': not answered' : '']));
    this.list('Recovery', causes.recoverySteps(row));
    const lost = model.lost_devices.columns;
    const until = row + 1 < model.timeouts.count ? t.time[row + 1] : Infinity;
    const devices = [];
    for (let i = 0; i < model.lost_devices.count; ++i) if (lost.time[i] >= t.time[row] && lost.time[i] < until && lost.state[i] <= 3) devices.push([`device 0x${lost.device[i].toString(16)} of ${model.ownerName(lost.process[i])}: ${DEVICE_STATES[lost.state[i]]}, at `, toTime(lost.time[i])]);
    this.list('Lost', devices);
  }

  /** What a debugger's extension would print of the engine: its fences, each packet on it with its commands and its patches. */
  showHung(row) {
    const { model } = this;
    const { causes } = this.page;
    const t = model.timeouts.columns;
    const b = model.hung_buffers.columns;
    const h = model.hung_patches.columns;
    const w = model.hung_bytes.columns;
    const until = row + 1 < model.timeouts.count ? t.time[row + 1] : Infinity;
    const then = (times) => (each) => times[each] >= t.time[row] && times[each] < until;
    const buffers = rowNumbers(model.hung_buffers.count).filter((i) => b.node[i] === t.node[row] && then(b.time)(i));
    const a = model.attempts.columns;
    const done = rowNumbers(model.attempts.count).filter((i) => a.node[i] === t.node[row] && a.ended[i] <= t.time[row] && a.outcome[i] === 'completed');
    this.panel.append(element('h3', 'The engine'));
    this.table([
      ['engine', nodeName(model, t.node[row])], ['fence on it', t.packet[row] > 0 ? String(t.fence[row]) : 'none'],
      ['last completed', done.length === 0 ? 'none' : `fence ${done.reduce((most, i) => Math.max(most, a.fence[i]), 0)}`],
      ['packets on it', formatCount(buffers.length)]]);
    for (const i of buffers) {
      const packet = causes.packetRow(b.packet[i]);
      const fence = causes.rowsOf('attempts', 'packet', b.packet[i]).filter((each) => a.submitted[each] <= t.time[row]).pop();
      const commands = b.segment[i] === VIRTUAL ? `at GPU virtual address ${hex(b.address[i])}` : `in ${placeText(b.segment[i], b.address[i])}`;
      this.list(i === buffers[0] ? 'At its head' : 'Behind it', [[...(packet < 0 ? ['a packet'] : [toPacket(packet), ` of ${contextName(model, model.packets.columns.context[packet])}`]), fence === undefined ? '' : `, fence ${a.fence[fence]}`, `: ${formatBytes(b.bytes[i])} of commands ${commands}`]]);
      const bytes = causes.rowsOf('hung_bytes', 'packet', b.packet[i]).filter(then(w.time));
      if (bytes.length > 0) {
        const dump = element('pre', bytes.flatMap((each) => [0, 8].map((half) => `${(w.offset[each] + half).toString(16).padStart(4, '0')}  ${w.bytes[each].match(/../g).reverse().slice(half, half + 8).join(' ')}`)).join('\n'), 'dump');
        dump.tabIndex = 0;
        this.panel.append(dump);
      }
      this.list('Patched into it', causes.rowsOf('hung_patches', 'packet', b.packet[i]).filter(then(h.time)).map((each) => [`offset ${hex(h.offset[each])}: `, ...(h.allocation[each] > 0 ? [toAllocation(h.allocation[each]), ` + ${hex(h.allocation_offset[each])}`] : ['no allocation'])]));
    }
  }

  showRefusal(row) {
    const { model } = this;
    const r = model.refusals.columns;
    this.begin(r.name[row], 'refusal');
    this.panel.append(element('span', 'refused', 'chip bad'));
    this.table([['status', statusText(r.status[row])], ['process', model.ownerName(r.process[row])], ['called', [toTime(r.time[row])]], ['took', formatTime(r.end[row] - r.time[row])], ['thread', model.threads[r.thread[row]] || String(r.thread[row])]]);
    this.list('Why', this.page.causes.describeRefusal(row), 'chain');
    this.list('Rules', this.page.causes.rulesOf(row).map(({ id, text }) => [`${id}: ${text}`]));
  }

  /** A finding as `dxgkit verify` prints it, with the rule's page. */
  showFinding(index) {
    const { model, panel } = this;
    const { time, rule, severity, thread, told } = model.told_findings[index];
    this.begin(rule, 'finding');
    panel.append(element('span', severity, severity === 'warning' ? 'chip' : 'chip bad'));
    const facts = told && told.ddi ? [['in', told.ddi]] : [];
    if (time === time) facts.push(['at', [toTime(time)]], ['thread', model.threads[thread] || String(thread)]);
    this.table(facts);
    const paragraph = (title, text) => { if (text) panel.append(element('h3', title), element('p', text)); };
    if (!told) panel.append(element('p', 'The trace has no more than the rule: it was written by an older dxgkit, or the run was cut short.', 'empty'));
    const { statement, actual, expected, why, fix, windows, because_of, waived, provoked, place, before } = told || {};
    paragraph('Rule', statement);
    paragraph('Actual', actual);
    paragraph('Expected', expected);
    paragraph('Why', why);
    paragraph('Fix', fix);
    paragraph('Windows', windows);
    paragraph('A consequence', because_of && `It would not have happened without ${because_of}.`);
    paragraph('Waived', waived);
    paragraph('Not counted', provoked);
    if (place && place.source.length > 0) {
      const [{ function: name, file, line }] = place.source;
      paragraph('In your source', file && line ? `${file}:${line}, in ${name}` : name);
    }
    if (place) this.list('Calls, innermost first', (place.stack.length > 0 ? place.stack : place.source.map((frame) => `${frame.function} (${frame.file}:${frame.line})`)).map((frame) => [frame]));
    this.list('What the driver did before', (before || []).map((line) => [line]));
    const page = ((model.run && model.run.rules && model.run.rules.explained) || {})[rule];
    if (!page) return;
    const more = element('details');
    more.append(element('summary', `The page of ${rule}`), element('pre', page, 'rule'));
    panel.append(more);
  }

  /** Everything at one moment. */
  showMoment(time) {
    const { model } = this;
    this.begin(`At ${formatTime(time)}`, 'moment');
    const moment = momentOf(model, time);
    this.list('Engines', moment.engines);
    this.list('Queues', moment.queues);
    for (const segment of moment.memory) this.list(`In ${segment.title}`, segment.lines);
    this.list('Threads', moment.threads);
    this.showAddresses(time);
    for (const process of moment.handles) this.list(process.title, process.lines);
    this.list('Fences', moment.fences);
  }

  /** A field for an address of a process, and at `time` its page tables, or all that the process has mapped. */
  showAddresses(time) {
    const { addresses } = this.page;
    if (addresses.processes.length === 0) return;
    if (!addresses.processes.includes(this.process)) this.process = addresses.processes.find((process) => process !== 0) || 0;
    const form = element('form');
    form.id = 'walk';
    const select = element('select');
    select.setAttribute('aria-label', 'Whose addresses');
    for (const process of addresses.processes) select.append(new Option(addresses.name(process), String(process), false, process === this.process));
    const field = element('input');
    field.setAttribute('aria-label', 'GPU virtual address');
    field.placeholder = 'GPU virtual address, 0x24b000';
    if (this.address === this.address) field.value = hex(this.address);
    const button = element('button', 'Walk');
    button.type = 'submit';
    form.append(select, ' ', field, ' ', button);
    form.addEventListener('submit', (event) => { event.preventDefault(); this.walkTo(Number(select.value), parseAddress(field.value)); });
    select.addEventListener('change', () => this.walkTo(Number(select.value), this.address));
    this.panel.append(element('h3', 'GPU virtual addresses'), form);
    if (this.address === this.address) this.list(`${hex(this.address)} of ${addresses.name(this.process)}`, addresses.describe(this.process, this.address, time), 'walk');
    const ranges = addresses.map(this.process, time);
    this.list(`Mapped by ${addresses.name(this.process)}: ${formatCount(ranges.length)} ranges`, ranges.map((range) => addresses.describeRange(range, range.from, time)));
  }

  /** Shows an address (NaN: none) of a process at the cursor, or at the end of the run. */
  walkTo(process, address) {
    const { page } = this;
    this.process = process;
    this.address = address;
    if (page.cursor === page.cursor) this.showMoment(page.cursor); else page.setCursor(this.model.duration);
    this.panel.querySelector('#walk').scrollIntoView({ block: 'nearest' });
    this.panel.querySelector('#walk input').focus();
  }

  /** What happened between two moments. */
  showRange(from, to) {
    const { model } = this;
    const range = rangeOf(model, from, to);
    this.begin(formatTime(to - from), 'range');
    this.table([['from', [toTime(from)]], ['to', [toTime(to)]], ['packets completed', formatCount(range.completed)], ['evictions', formatCount(range.evictions)], ['page-ins', formatBytes(range.bytes_in)], ['page-outs', formatBytes(range.bytes_out)]]);
    this.list('GPU time by client', range.clients.map(({ name, busy }) => [`${name}: ${formatTime(busy)}, ${(100 * busy / Math.max(1, to - from)).toFixed(1)} %`]));
  }
}
