// Tables under the timeline: only the visible rows are in the page.

const ROW_HEIGHT = 24;

/** A sortable table of `rows`. columns: {title, value(row) -> number or text, text(row), width, number}. */
class Grid {
  constructor(parent, columns, rows, options) {
    this.columns = columns;
    this.rows = rows;
    this.options = options;
    this.order = { column: -1, down: false };
    parent.replaceChildren();
    const template = columns.map((column) => column.width || '1fr').join(' ');
    this.head = document.createElement('div');
    this.head.className = 'grid-head';
    this.head.setAttribute('role', 'row');
    parent.setAttribute('role', 'table');
    parent.setAttribute('aria-rowcount', String(rows.length + 1));
    this.head.style.gridTemplateColumns = template;
    columns.forEach((column, index) => {
      const cell = document.createElement('div');
      cell.setAttribute('role', 'columnheader');
      const button = element('button', column.title);
      button.type = 'button';
      cell.append(button);
      if (column.number) cell.className = 'num';
      button.addEventListener('click', () => this.sort(index));
      this.head.append(cell);
    });
    this.body = document.createElement('div');
    this.body.className = 'grid-body';
    this.body.setAttribute('role', 'rowgroup');
    this.body.tabIndex = 0;
    this.inner = document.createElement('div');
    this.inner.style.position = 'relative';
    this.inner.style.height = `${rows.length * ROW_HEIGHT}px`;
    this.inner.setAttribute('role', 'presentation');
    this.body.append(this.inner);
    this.body.style.height = `${Math.min(340, Math.max(1, rows.length) * ROW_HEIGHT)}px`;
    this.template = template;
    parent.append(this.head, this.body);
    this.body.addEventListener('scroll', () => this.render());
    this.body.addEventListener('keydown', (event) => this.onKey(event));
    this.render();
  }

  /** In the table Enter takes a row, up and down choose it. */
  onKey(event) {
    if (!this.options.on_click || this.rows.length === 0) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      const next = this.at === undefined ? 0 : Math.min(this.rows.length - 1, Math.max(0, this.at + step));
      if (next === this.at) return;  // at the end the page may scroll
      this.at = next;
      const top = this.at * ROW_HEIGHT;
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      if (top + ROW_HEIGHT > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = top + ROW_HEIGHT - this.body.clientHeight;
      this.render();
    } else if (event.key === 'Enter' && this.at !== undefined) {
      this.options.on_click(this.rows[this.at]);
    } else {
      return;
    }
    event.preventDefault();
  }

  sort(index) {
    this.order = { column: index, down: this.order.column === index ? !this.order.down : Boolean(this.columns[index].number) };
    const { value } = this.columns[index];
    const sign = this.order.down ? -1 : 1;
    this.rows.sort((a, b) => {
      const x = value(a);
      const y = value(b);
      if (typeof x === 'string' || typeof y === 'string') return sign * String(x).localeCompare(String(y));
      return (x === x ? (y === y ? sign * (x - y) : -1) : y === y ? 1 : 0) || a - b;
    });
    [...this.head.children].forEach((cell, i) => {
      cell.firstChild.textContent = this.columns[i].title + (i === index ? (this.order.down ? ' ↓' : ' ↑') : '');
      cell.setAttribute('aria-sort', i !== index ? 'none' : this.order.down ? 'descending' : 'ascending');
    });
    this.render();
  }

  render() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW_HEIGHT) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(340 / ROW_HEIGHT) + 9);
    const nodes = [];
    for (let i = first; i < last; ++i) {
      const row = this.rows[i];
      const line = document.createElement('div');
      line.className = 'grid-row' + (this.options.on_click ? ' link' : '') + (this.options.selected && this.options.selected() === row ? ' selected' : '') + (i === this.at ? ' at' : '');
      line.setAttribute('role', 'row');
      line.style.top = `${i * ROW_HEIGHT}px`;
      line.style.gridTemplateColumns = this.template;
      for (const column of this.columns) {
        const cell = document.createElement('div');
        cell.setAttribute('role', 'cell');
        if (column.number) cell.className = 'num';
        cell.textContent = column.text ? column.text(row) : column.value(row);
        line.append(cell);
      }
      if (this.options.on_click) {
        line.tabIndex = -1;
        line.addEventListener('click', () => this.options.on_click(row));
      }
      nodes.push(line);
    }
    this.inner.replaceChildren(...nodes);
  }
}

const rowNumbers = (count) => Array.from({ length: count }, (_, i) => i);

function element(tag, text, class_name) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (class_name) node.className = class_name;
  return node;
}

/** What the summary tab shows when the tool said nothing: counted from the recording. */
function countedSummary(model) {
  const outcome = (name) => (model.packets.columns.outcome || []).filter((value) => value === name).length;
  const transfers = model.transfers.columns;
  const moved = (direction) => {
    let count = 0;
    let bytes = 0;
    for (let i = 0; i < model.transfers.count; ++i) if (transfers.direction[i] === direction) { ++count; bytes += transfers.bytes[i]; }
    return `${formatCount(count)}, ${formatBytes(bytes)}`;
  };
  const rows = [
    ['recorded time', formatTime(model.duration)], ['events', formatCount(Number(model.events))],
    ['packets', formatCount(model.packets.count)], ['completed', formatCount(outcome('completed'))],
    ['cancelled', formatCount(outcome('cancelled'))], ['faulted', formatCount(outcome('faulted'))],
    ['submissions', formatCount(model.attempts.count)], ['interrupts', formatCount(model.interrupts.count)],
    ['page-ins', moved('in')], ['page-outs', moved('out')],
    ['allocations', formatCount(model.allocations.count)], ['fence operations', formatCount(model.sync.count)],
    ['findings', formatCount(model.findings.count)],
  ];
  for (let i = 0; i < model.nodes.count; ++i) {
    rows.push([`${nodeName(model, model.nodes.columns.node[i])} busy`, `${(100 * model.nodes.columns.busy_ns[i] / model.duration).toFixed(1)} %`]);
  }
  return rows;
}

class Tables {
  constructor(page) {
    this.page = page;
    this.model = page.model;
    const { model } = page;
    this.timeline = page.timeline;
    this.parent = document.getElementById('table');
    this.note = document.getElementById('table-note');
    this.tabs = {
      Summary: () => this.showSummary(),
      Packets: () => this.showPackets(),
      Causes: () => this.showCauses(),
      Calls: () => this.showCalls(),
      Paging: () => this.showPaging(),
      Fences: () => this.showFences(),
      Events: () => this.showEvents(),
      Findings: () => this.showFindings(),
    };
    const nav = document.getElementById('tabs');
    for (const name of Object.keys(this.tabs)) {
      const button = element('button', name === 'Findings' && model.told_findings.length > 0 ? `Findings (${model.told_findings.length})` : name);
      button.type = 'button';
      button.dataset.tab = name;
      button.setAttribute('role', 'tab');
      button.setAttribute('aria-controls', 'table-panel');
      button.addEventListener('click', () => this.show(name));
      nav.append(button);
    }
    this.show('Summary');
  }

  show(name) {
    for (const button of document.getElementById('tabs').children) {
      button.className = button.dataset.tab === name ? 'on' : '';
      button.setAttribute('aria-selected', String(button.dataset.tab === name));
    }
    this.parent.removeAttribute('role');
    this.parent.removeAttribute('aria-rowcount');
    this.grid = null;
    this.note.textContent = '';
    this.tabs[name]();
  }

  refresh() { if (this.grid) this.grid.render(); }

  showSummary() {
    const box = element('div', undefined, 'summary');
    const put = (name, value) => {
      const line = element('div');
      line.append(element('span', name), element('span', value));
      box.append(line);
    };
    const { run } = this.model;
    if (run && run.sections) {
      for (const section of run.sections) {
        box.append(element('h3', section.title));
        for (const [name, value] of section.rows) put(name, value);
      }
      box.append(element('h3', 'Counted from the recording'));
    }
    for (const [name, value] of countedSummary(this.model)) put(name, value);
    this.parent.replaceChildren(box);
  }

  showPackets() {
    const { packets } = this.model;
    const c = packets.columns;
    const time = (title, name) => ({ title, number: true, value: (row) => c[name][row], text: (row) => formatTime(c[name][row]) });
    const span = (title, from, to) => ({ title, number: true, value: (row) => c[to][row] - c[from][row], text: (row) => formatTime(c[to][row] - c[from][row]) });
    this.note.textContent = 'Times from the start of the recording. Click a row to see the packet in the timeline; click a heading to sort.';
    this.grid = new Grid(this.parent, [
      { title: 'packet', number: true, width: '80px', value: (row) => packetNumber(this.model, row) },
      { title: 'kind', width: '70px', value: (row) => KINDS[c.kind[row]] || String(c.kind[row]) },
      { title: 'context', width: '1.5fr', value: (row) => contextName(this.model, c.context[row]) },
      { title: 'node', number: true, width: '60px', value: (row) => c.node[row], text: (row) => c.node[row] === c.node[row] ? c.node[row] : '–' },
      time('queued', 'queued'), span('in queue', 'queued', 'submitted'), span('in hardware queue', 'submitted', 'ended'), span('running', 'hw_start', 'hw_end'),
      { title: 'patches', number: true, width: '80px', value: (row) => c.patches[row], text: (row) => formatCount(c.patches[row]) },
      { title: 'attempts', number: true, width: '80px', value: (row) => c.attempts[row] },
      { title: 'outcome', width: '100px', value: (row) => c.outcome[row] },
    ], rowNumbers(packets.count), {
      on_click: (row) => this.page.select(row),
      selected: () => this.timeline.selected,
    });
  }

  /** Every wait for room, eviction, preemption, timeout, lost device and refused call, by time. */
  showCauses() {
    const { model, page } = this;
    const kinds = causeKinds(page);
    const select = element('select');
    select.id = 'cause-kind';
    for (const [name, kind] of [['everything', null], ...Object.entries(kinds)]) {
      const option = element('option', kind ? `${name} (${formatCount(model[kind.table].count)})` : name);
      option.value = kind ? name : '';
      select.append(option);
    }
    select.value = this.cause_kind || '';
    const label = element('label', 'show ');
    label.append(select);
    this.note.replaceChildren(label, element('span', ' Why the kernel did what it did. Click a row for the whole chain.'));
    select.addEventListener('change', () => { this.cause_kind = select.value; this.show('Causes'); });
    const names = Object.keys(kinds).filter((name) => !this.cause_kind || name === this.cause_kind);
    const rows = [];
    for (const name of names) for (let row = 0; row < model[kinds[name].table].count; ++row) rows.push(row * 8 + Object.keys(kinds).indexOf(name));
    const all = Object.entries(kinds);
    const kindOf = (code) => all[code % 8][1];
    const time = (code) => model[kindOf(code).table].columns.time[Math.floor(code / 8)];
    rows.sort((x, y) => time(x) - time(y) || x - y);
    this.grid = new Grid(this.parent, [
      { title: 'time', number: true, width: '130px', value: time, text: (code) => formatTime(time(code)) },
      { title: 'what', width: '150px', value: (code) => kindOf(code).one },
      { title: 'why', width: '4fr', value: (code) => plainText(model, kindOf(code).tell(Math.floor(code / 8))) },
    ], rows, { on_click: (code) => { page.centre(time(code)); kindOf(code).open(Math.floor(code / 8)); } });
  }

  showCalls() {
    const c = this.model.call_stats.columns;
    const time = (title, name) => ({ title, number: true, value: (row) => c[name][row], text: (row) => formatTime(c[name][row]) });
    this.note.textContent = 'Every DDI, callback and D3DKMT function that was called, by total time.';
    this.grid = new Grid(this.parent, [
      { title: 'name', width: '2.4fr', value: (row) => c.name[row] },
      { title: 'kind', width: '80px', value: (row) => c.kind[row] },
      { title: 'count', number: true, value: (row) => c.count[row], text: (row) => formatCount(c.count[row]) },
      { title: 'failed', number: true, width: '80px', value: (row) => c.failed[row], text: (row) => formatCount(c.failed[row]) },
      { title: 'mean', number: true, value: (row) => c.total_ns[row] / c.count[row], text: (row) => formatTime(c.total_ns[row] / c.count[row]) },
      time('median', 'p50_ns'), time('99 %', 'p99_ns'), time('max', 'max_ns'), time('total', 'total_ns'),
    ], rowNumbers(this.model.call_stats.count), {});
  }

  showPaging() {
    const c = this.model.transfers.columns;
    this.note.textContent = 'Content moved into and out of memory segments.';
    this.grid = new Grid(this.parent, [
      { title: 'time', number: true, value: (row) => c.time[row], text: (row) => formatTime(c.time[row]) },
      { title: 'direction', value: (row) => c.direction[row] === 'in' ? 'page-in' : 'page-out' },
      { title: 'allocation', number: true, value: (row) => numberOfId(c.allocation[row]) },
      { title: 'segment', number: true, value: (row) => c.segment[row] },
      { title: 'size', number: true, value: (row) => c.bytes[row], text: (row) => formatBytes(c.bytes[row]) },
    ], rowNumbers(this.model.transfers.count), { on_click: (row) => this.centre(c.time[row]) });
  }

  showFences() {
    const c = this.model.sync.columns;
    this.note.textContent = 'Operations on synchronization objects.';
    this.grid = new Grid(this.parent, [
      { title: 'time', number: true, value: (row) => c.time[row], text: (row) => formatTime(c.time[row]) },
      { title: 'operation', value: (row) => c.op[row] },
      { title: 'object', number: true, value: (row) => c.object[row] },
      { title: 'value', number: true, value: (row) => c.value[row] },
      { title: 'by', value: (row) => c.context[row] ? contextName(this.model, c.context[row]) : 'CPU' },
    ], rowNumbers(this.model.sync.count), { on_click: (row) => this.centre(c.time[row]) });
  }

  showEvents() {
    const { markers } = this.model;
    const c = markers.columns;
    this.note.textContent = markers.count === 0 ? 'Nothing was marked.' : 'What devices and programs said of themselves: frames, lost renderers and connections, traced registers.';
    this.grid = new Grid(this.parent, [
      { title: 'time', number: true, width: '140px', value: (row) => c.time[row], text: (row) => formatTime(c.time[row]) },
      { title: 'event', width: '4fr', value: (row) => c.text[row] },
      { title: 'thread', value: (row) => this.model.threads[c.thread[row]] || String(c.thread[row]) },
    ], rowNumbers(markers.count), { on_click: (row) => this.centre(c.time[row]) });
  }

  showFindings() {
    const { told_findings } = this.model;
    const time = (row) => told_findings[row].time;
    const told = (row) => told_findings[row].told || {};
    this.note.textContent = told_findings.length === 0 ? 'The verifier found nothing.' : 'What the verifier found, in order. Click one for its rule, its place in the source, and how to mend it.';
    if (told_findings.length === 0) { this.parent.replaceChildren(); return; }
    this.grid = new Grid(this.parent, [
      { title: 'time', number: true, width: '130px', value: time, text: (row) => formatTime(time(row)) },
      { title: 'rule', width: '100px', value: (row) => told_findings[row].rule },
      { title: 'severity', width: '110px', value: (row) => told(row).provoked ? 'provoked' : told(row).waived ? 'waived' : told_findings[row].severity },
      { title: 'where', width: '1.3fr', value: (row) => told(row).ddi || '' },
      { title: 'what', width: '4fr', value: (row) => told(row).actual || '' },
    ], rowNumbers(told_findings.length), { on_click: (row) => { if (time(row) === time(row)) this.page.setCursor(time(row)); this.page.details.showFinding(row); } });
  }

  centre(time) {
    this.page.centre(time);
  }
}
