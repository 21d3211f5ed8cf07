// Why: the causes that the kernel noted, put together with the packets, fences and moves of memory around them.

const EVICTION_REASONS = [
  '', 'another allocation needs the place', 'its segment is packed anew, because only that makes room', 'the packet that needs it wants it elsewhere',
  'it moves inside the segment, to join free room', 'no device lists it any more, or the kernel asked for it', 'all of its segment leaves: power, or the segment closes',
  'the adapter was reset'];
const BUSY_REASONS = [
  '', 'no place for it as long as packets in flight hold theirs', 'what its device made resident has no place yet, or a paging request before it waits',
  'its page tables were evicted and have no place'];
const PREEMPTION_REASONS = [
  '', 'a packet of higher priority was ready', 'the context had used its quantum and an equal was waiting', 'the kernel wanted the engine idle: no progress for TdrDelay, or a reset'];
const DEVICE_STATES = ['', 'active', 'reset', 'hung', 'stopped', 'out of memory', 'DMA fault', 'page fault'];
const OBJECT_TYPES = ['adapter', 'device', 'context', 'resource', 'allocation', 'synchronization object', 'paging queue', 'shared resource', 'hardware context',
  'hardware queue', 'shared synchronization object', 'keyed mutex', 'shared keyed mutex', 'overlay', 'protected session', 'shared session', 'sync file'];
const STATUS_NAMES = {};  // by code, as far as the run has them; the tool tells
const REASON_RULES = { 1: 'THUNK-01', 2: 'THUNK-01', 3: 'THUNK-04', 4: 'THUNK-04', 6: 'THUNK-07', 7: 'THUNK-07', 8: 'THUNK-28' };
const EVICTIONS_SHOWN = 5;

const statusText = (status) => `${formatStatus(status)}${STATUS_NAMES[status] ? `, ${STATUS_NAMES[status]}` : ''}`;

/** What a sentence may have beside text: links to a packet, an allocation, a moment. */
const toPacket = (row) => ({ kind: 'packet', row });
const toAllocation = (id) => ({ kind: 'allocation', id });
const toTime = (time) => ({ kind: 'time', time });
const toAddress = (address) => ({ kind: 'address', address });  // of the process whose addresses the pane shows

class Causes {
  constructor(model) {
    this.model = model;
    this.by_packet = new Map();  // table name -> packet id -> rows, made when first asked
    this.orders = new Map();
    Object.assign(STATUS_NAMES, (model.run && model.run.rules && model.run.rules.statuses) || {});
  }

  /** Rows of `table` whose `column` is `id`, in order of the table. */
  rowsOf(table, column, id) {
    const key = `${table} ${column}`;
    let index = this.by_packet.get(key);
    if (!index) {
      index = new Map();
      const values = this.model[table].columns[column] || [];
      for (let row = 0; row < this.model[table].count; ++row) {
        const rows = index.get(values[row]);
        if (rows) rows.push(row); else index.set(values[row], [row]);
      }
      this.by_packet.set(key, index);
    }
    return index.get(id) || [];
  }

  /** Rows of `table` that `keep` takes, sorted by `column`, with the sorted values. */
  order(name, table, column, keep) {
    let made = this.orders.get(name);
    if (!made) {
      const values = this.model[table].columns[column] || [];
      const rows = selectSorted(this.model[table].count, (row) => values[row] === values[row] && keep(row), (row) => values[row]);
      made = { rows, times: Float64Array.from(rows, (row) => values[row]) };
      this.orders.set(name, made);
    }
    return made;
  }

  /** The last of an order at or before `time` and after `since`, or -1. */
  lastBefore(order, time, since) {
    const at = upperBound(order.times, time) - 1;
    return at >= 0 && order.times[at] > since ? order.rows[at] : -1;
  }

  packetRow(id) { const row = this.model.packetRow.get(id); return row === undefined ? -1 : row; }

  /** The last packet that left before `time`; of a node, where one is given; but not `row` itself. */
  lastRetired(time, since, node, row) {
    const c = this.model.packets.columns;
    const name = node === undefined ? 'retired' : `retired on ${node}`;
    const order = this.order(name, 'packets', 'ended', (each) => node === undefined || c.node[each] === node);
    for (let at = upperBound(order.times, time) - 1; at >= 0 && order.times[at] >= since; --at) {
      if (order.rows[at] !== row && c.submitted[order.rows[at]] === c.submitted[order.rows[at]]) return order.rows[at];  // signals and waits hold nothing
    }
    return -1;
  }

  fenceText(row) {
    const attempts = this.rowsOf('attempts', 'packet', this.model.packets.columns.packet[row]);
    return attempts.length === 0 ? '' : ` (fence ${this.model.attempts.columns.fence[attempts[attempts.length - 1]]})`;
  }

  describeEviction(row) {
    const c = this.model.evictions.columns;
    const size = formatBytes(c.size[row]);
    const parts = [toAllocation(c.allocation[row]), ` (${size}, of ${this.model.ownerName(this.model.owner(c.allocation[row]))}) was evicted from segment ${c.segment[row]} at `, toTime(c.time[row])];
    parts.push(', because ');
    if (c.reason[row] === 1 && c.for_allocation[row] > 0) parts.push(toAllocation(c.for_allocation[row]), ' needs the place');
    else parts.push(EVICTION_REASONS[c.reason[row]] || `of reason ${c.reason[row]}`);
    if (c.for_packet[row] > 0 && this.packetRow(c.for_packet[row]) >= 0) parts.push(', for ', toPacket(this.packetRow(c.for_packet[row])));
    const out = this.rowsOf('transfers', 'allocation', c.allocation[row]).find((each) => this.model.transfers.columns.direction[each] === 'out' && this.model.transfers.columns.time[each] >= c.time[row]);
    const next = this.rowsOf('evictions', 'allocation', c.allocation[row]).find((each) => c.time[each] > c.time[row]);
    if (out !== undefined && (next === undefined || this.model.transfers.columns.time[out] <= c.time[next])) parts.push('; its content was written back by ', toTime(this.model.transfers.columns.time[out]));
    return parts;
  }

  /** Why one packet took as long as it did: steps {from, to, name, parts, more: [parts]}. */
  chain(row) {
    const { packets } = this.model;
    const c = packets.columns;
    const id = c.packet[row];
    const steps = [];
    const known = (value) => value === value;
    const add = (from, to, name, parts, more = []) => steps.push({ from, to, name, parts, more });
    const end = known(c.ended[row]) ? c.ended[row] : this.model.duration;
    const submitted = known(c.submitted[row]) ? c.submitted[row] : NaN;
    const ready = known(c.ready[row]) ? c.ready[row] : submitted;

    if (c.kind[row] === 2) {
      this.addFenceWait(row, end, add);
    } else if (known(c.queued[row])) {
      this.addPreparation(row, known(ready) ? ready : end, add);
    }
    if (known(ready) && known(submitted) && submitted > ready) {
      const left = this.lastRetired(submitted, ready, c.node[row], row);
      add(ready, submitted, 'waited for the hardware queue',
        left < 0 ? ['until the scheduler chose it: other contexts had their turn, or the queue was held'] : ['of ', nodeName(this.model, c.node[row]), ', until ', toPacket(left), `${this.fenceText(left)} left it at `, toTime(c.ended[left])]);
    }
    for (const attempt of this.rowsOf('attempts', 'packet', id)) this.addAttempt(attempt, row, add);
    if (c.outcome[row] === 'faulted' || c.outcome[row] === 'cancelled') this.addLoss(row, end, add);
    return steps;
  }

  /** From the queue to where its memory is there. */
  addPreparation(row, ready, add) {
    const { packets, paging } = this.model;
    const c = packets.columns;
    const id = c.packet[row];
    const queued = c.queued[row];
    const busy = this.rowsOf('busy', 'packet', id);
    const evictions = this.rowsOf('evictions', 'for_packet', id);
    const times = this.model.evictions.columns.time;
    const first_busy = busy.length > 0 ? this.model.busy.columns.time[busy[0]] : NaN;
    // When its memory was planned: with the first eviction for it, or the last refusal before it.
    const planned = evictions.length > 0 ? times[evictions[0]] : busy.length > 0 ? ready : NaN;
    const began = busy.length > 0 ? first_busy : planned === planned ? planned : ready;
    if (began > queued) {
      const mine = this.rowsOf('packets', 'context', c.context[row]);
      const before = mine[lowerBound(mine, row) - 1];
      const parts = before === undefined ? ['until the scheduler prepared it'] : ['behind ', toPacket(before), ' of its context'];
      const blocker = this.blockedBy(row, queued, began);
      if (blocker >= 0) parts.push('; meanwhile ', toPacket(blocker), ' waited for room, and others of its priority wait behind it');
      add(queued, began, 'waited in the software queue', parts);
    }
    if (busy.length > 0) {
      const b = this.model.busy.columns;
      const until = planned === planned ? planned : ready;
      const last = busy[busy.length - 1];
      const parts = b.allocation[last] > 0 ? [toAllocation(b.allocation[last]), ': ', BUSY_REASONS[b.reason[last]] || `reason ${b.reason[last]}`] : [BUSY_REASONS[b.reason[last]] || `reason ${b.reason[last]}`];
      parts.push(`; asked ${busy.length === 1 ? 'once' : `${busy.length} times`}`);
      const more = [];
      const freed = this.lastRetired(until, first_busy, undefined, row);
      if (freed >= 0) more.push(['its room came when ', toPacket(freed), ` was done: its fence${this.fenceText(freed)} came at `, toTime(c.hw_end[freed] === c.hw_end[freed] ? c.hw_end[freed] : c.ended[freed]), ', it retired at ', toTime(c.ended[freed])]);
      add(first_busy, until, 'waited for room', parts, more);
    }
    if (evictions.length === 0 && !(ready > (planned === planned ? planned : began))) return;
    const from = planned === planned ? planned : began;
    const more = evictions.slice(0, EVICTIONS_SHOWN).map((each) => this.describeEviction(each));
    if (evictions.length > EVICTIONS_SHOWN) more.push([`and ${evictions.length - EVICTIONS_SHOWN} more evictions`]);
    const pagers = this.order('paging retired', 'packets', 'ended', (each) => c.kind[each] === 1);
    const last = this.lastBefore(pagers, ready, from - 1);
    const operations = this.order('paging operations', 'paging', 'time', () => true);
    const count = paging.count === 0 ? 0 : upperBound(operations.times, ready) - lowerBound(operations.times, from);
    const parts = ready > from ? [`${formatCount(count)} paging operations ran meanwhile`] : ['nothing had to be waited for'];
    if (ready > from && last >= 0) parts.push('; the last, ', toPacket(last), `${this.fenceText(last)}, was done at `, toTime(c.ended[last]));
    add(from, ready, evictions.length > 0 ? 'its memory was made' : 'its memory was brought in', parts, more);
  }

  /** A packet that waited for room while this one was queued, or -1. */
  blockedBy(row, from, to) {
    const order = this.order('busy', 'busy', 'time', () => true);
    for (let at = lowerBound(order.times, from); at < order.rows.length && order.times[at] < to; ++at) {
      const other = this.packetRow(this.model.busy.columns.packet[order.rows[at]]);
      if (other >= 0 && other !== row) return other;
    }
    return -1;
  }

  addFenceWait(row, end, add) {
    const c = this.model.packets.columns;
    const s = this.model.sync.columns;
    const waits = this.rowsOf('sync', 'context', c.context[row]).filter((each) => s.op[each] === 'wait' && s.time[each] >= c.queued[row] && s.time[each] <= end);
    if (waits.length === 0) {
      add(c.queued[row], end, 'waited for a fence', ['which the recording does not show']);
      return;
    }
    const wait = waits[0];
    const object = s.object[wait];
    const signal = this.rowsOf('sync', 'object', object).find((each) => s.op[each] === 'signal' && s.value[each] >= s.value[wait]);
    const parts = [`object ${object} to reach ${s.value[wait]}`];
    if (signal === undefined) parts.push(', which nothing signalled');
    else if (s.time[signal] <= s.time[wait]) parts.push(', which had been signalled at ', toTime(s.time[signal]));
    else parts.push(`, which ${s.context[signal] ? contextName(this.model, s.context[signal]) : 'the CPU'} signalled at `, toTime(s.time[signal]));
    if (s.time[wait] > c.queued[row]) add(c.queued[row], s.time[wait], 'waited in the software queue', ['behind the packets of its context before it']);
    add(s.time[wait], end, 'waited for a fence', parts);
  }

  addAttempt(attempt, row, add) {
    const { attempts, hardware, packets } = this.model;
    const a = attempts.columns;
    const known = (value) => value === value;
    const start = a.hw_start[attempt];
    const end = known(a.ended[attempt]) ? a.ended[attempt] : this.model.duration;
    const fence = a.fence[attempt];
    const node = a.node[attempt];
    if (known(start) && start > a.submitted[attempt]) {
      const order = this.order(`hardware ends on ${node}`, 'hardware', 'end', (each) => hardware.columns.node[each] === node);
      const before = this.lastBefore(order, start, a.submitted[attempt]);
      const other = before < 0 ? -1 : this.packetRow(hardware.columns.packet[before]);
      add(a.submitted[attempt], start, 'waited on the engine', other < 0 ? [`until ${nodeName(this.model, node)} took it`] : ['which ran ', toPacket(other), ' until ', toTime(hardware.columns.end[before])]);
    }
    if (a.outcome[attempt] === 'preempted') {
      this.addPreemption(attempt, start, end, add);
      return;
    }
    if (known(start)) {
      const stopped = known(a.hw_end[attempt]) ? a.hw_end[attempt] : end;
      add(start, stopped, 'ran', [`on ${nodeName(this.model, node)}, fence ${fence}`]);
      if (end > stopped && packets.columns.outcome[row] === 'completed') {
        const interrupt = this.rowsOf('interrupts', 'fence', fence).find((each) => this.model.interrupts.columns.node[each] === node && this.model.interrupts.columns.time[each] >= stopped);
        add(stopped, end, 'was reported', interrupt === undefined ? ['by interrupt and DPC'] : ['its fence came by an interrupt at ', toTime(this.model.interrupts.columns.time[interrupt]), '; the DPC told the kernel']);
      }
    }
  }

  addPreemption(attempt, start, end, add) {
    const a = this.model.attempts.columns;
    const p = this.model.preemptions.columns;
    const node = a.node[attempt];
    const from = start === start ? start : a.submitted[attempt];
    const timeout = this.timeoutOf(node, from, end);
    if (timeout >= 0) {
      add(from, end, 'was given back by a reset', [...this.describeTimeout(timeout), '; it comes again with a new fence']);
      return;
    }
    const asked = this.order(`preemptions of ${node}`, 'preemptions', 'time', (each) => p.node[each] === node);
    const request = this.lastBefore(asked, end, -1);
    if (request < 0) {
      add(from, end, 'was preempted', ['why was not noted']);
      return;
    }
    add(from, end, 'was preempted', this.describePreemption(request, end));
  }

  describePreemption(request, answered) {
    const p = this.model.preemptions.columns;
    const parts = [PREEMPTION_REASONS[p.reason[request]] || `reason ${p.reason[request]}`];
    const other = this.packetRow(p.packet[request]);
    if (other >= 0) parts.push(': ', toPacket(other), ` of ${contextName(this.model, p.context[request])}`);
    parts.push(`; asked with fence ${p.fence[request]} at `, toTime(p.time[request]));
    if (answered === answered) parts.push(`, answered ${formatTime(answered - p.time[request])} later; it comes again`);
    return parts;
  }

  /** The timeout of a node in a span of time, or -1. */
  timeoutOf(node, from, to) {
    const t = this.model.timeouts.columns;
    for (let row = 0; row < this.model.timeouts.count; ++row) if (t.node[row] === node && t.time[row] >= from && t.time[row] <= to) return row;
    return -1;
  }

  describeTimeout(row) {
    const t = this.model.timeouts.columns;
    const parts = [`${nodeName(this.model, t.node[row])} timed out at `, toTime(t.time[row])];
    if (t.preemption[row] > 0) {
      const p = this.model.preemptions.columns;
      const request = this.rowsOf('preemptions', 'fence', t.preemption[row]).filter((each) => p.node[each] === t.node[row] && p.time[each] <= t.time[row]).pop();
      parts.push(`: no answer to the preemption with fence ${t.preemption[row]}`);
      if (request !== undefined) parts.push(`, asked ${formatTime(t.time[row] - p.time[request])} before, because ${PREEMPTION_REASONS[p.reason[request]]}`);
      if (request !== undefined && this.packetRow(p.packet[request]) >= 0) parts.push(' (', toPacket(this.packetRow(p.packet[request])), ')');
    }
    const head = this.packetRow(t.packet[row]);
    if (head >= 0) parts.push('; on the engine was ', toPacket(head), `, fence ${t.fence[row]}`);
    return parts;
  }

  /** What the kernel said of a recovery, step by step: [time, text]. */
  recoverySteps(row) {
    const { markers, timeouts } = this.model;
    const from = timeouts.columns.time[row];
    const to = row + 1 < timeouts.count ? timeouts.columns.time[row + 1] : Infinity;
    const steps = [];
    for (let i = 0; i < markers.count; ++i) {
      const time = markers.columns.time[i];
      if (time >= from && time < to && markers.columns.text[i].startsWith('TDR: ')) steps.push([toTime(time), ' ', markers.columns.text[i].slice(5)]);
    }
    return steps;
  }

  /** A packet that did not complete: whose device was lost, and by what. */
  addLoss(row, end, add) {
    const c = this.model.packets.columns;
    const lost = this.model.lost_devices.columns;
    const context = this.model.contextIndex.get(c.context[row]);
    const process = context === undefined || !this.model.contexts.columns.process ? NaN : this.model.contexts.columns.process[context];
    const device = context === undefined || !this.model.contexts.columns.device ? NaN : this.model.contexts.columns.device[context];
    const begin = c.submitted[row] === c.submitted[row] ? c.submitted[row] : c.queued[row];
    const word = c.outcome[row] === 'faulted' ? 'was faulted' : 'was cancelled';
    let found = -1;
    for (let i = 0; i < this.model.lost_devices.count; ++i) if (lost.process[i] === process && lost.device[i] === device && lost.time[i] <= end) found = i;
    if (found < 0) {
      add(begin, end, word, ['its context ended: its client closed it or ended, or the adapter stopped']);
      return;
    }
    const parts = [`its device, of ${this.model.ownerName(process)}, was lost at `, toTime(lost.time[found]), `: ${DEVICE_STATES[lost.state[found]] || `state ${lost.state[found]}`}`];
    const timeout = this.timeoutOf(c.node[row], begin, end);
    const any = timeout >= 0 ? timeout : this.lastBefore(this.order('timeouts', 'timeouts', 'time', () => true), lost.time[found], -1);
    add(begin, end, word, parts, any < 0 || lost.state[found] > 3 ? [] : [this.describeTimeout(any)]);
  }

  describeRefusal(row) {
    const r = this.model.refusals.columns;
    const type = (number) => OBJECT_TYPES[number] || `type ${number}`;
    const handle = `0x${(r.handle[row] || 0).toString(16)}`;
    const steps = [];
    const reasons = {
      1: 'the pointer to the arguments is null', 2: 'the arguments cannot be read or written',
      3: `the process has no live object with the handle ${handle}; the call wants one of type ${type(r.expected[row])}`,
      4: `the handle ${handle} is of an object of type ${type(r.found[row])}, and the call wants one of type ${type(r.expected[row])}`,
      5: 'the thread belongs to no process of the kernel', 6: 'the process has begun to end', 7: 'the adapter is stopped, removed or failed',
      8: `the device ${handle} is lost` };
    if (r.ddi[row]) {
      steps.push([`the driver refused: ${r.ddi[row]} answered ${statusText(r.ddi_status[row])}`]);
    } else if (reasons[r.reason[row]]) {
      steps.push([reasons[r.reason[row]]]);
    }
    const removed = steps.length === 0 && r.status[row] === 0xC00002B6;  // noticed while the call waited
    if (r.reason[row] === 8 || removed) {
      const lost = this.model.lost_devices.columns;
      const found = this.rowsOf('lost_devices', 'process', r.process[row]).filter((each) => (removed || lost.device[each] === r.handle[row]) && lost.time[each] <= r.end[row]).pop();
      if (found !== undefined) {
        if (removed) steps.push([`the device 0x${lost.device[found].toString(16)} was lost while the call waited`]);
        steps.push(['it was lost at ', toTime(lost.time[found]), `: ${DEVICE_STATES[lost.state[found]]}`]);
        const timeout = this.lastBefore(this.order('timeouts', 'timeouts', 'time', () => true), lost.time[found], -1);
        if (timeout >= 0 && lost.state[found] <= 3) steps.push(this.describeTimeout(timeout));
      }
    }
    const rules = this.rulesOf(row);
    if (steps.length === 0) steps.push([rules.length > 0 ? 'the kernel checked what the call asks and refused it, by one of these rules' : 'the kernel refused what the call asks; no cause was noted inside']);
    return steps;
  }

  /** Rules that may have refused: {id, text}. The tool puts the texts into the page. */
  rulesOf(row) {
    const r = this.model.refusals.columns;
    const known = (this.model.run && this.model.run.rules) || {};
    const own = REASON_RULES[r.reason[row]];
    const ids = own && !r.ddi[row] ? [own] : (known.by_call || {})[`${r.name[row]} ${formatStatus(r.status[row])}`] || [];
    return ids.map((id) => ({ id, text: (known.texts || {})[id] || '' }));
  }
}
