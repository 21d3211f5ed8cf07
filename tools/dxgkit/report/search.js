// The search field: packets, allocations and fences by number; calls, contexts, rules and marks by their text.

const RESULTS_MOST = 50;

class Search {
  constructor(page) {
    this.page = page;
    this.field = document.getElementById('search');
    this.list = document.getElementById('results');
    this.field.addEventListener('input', () => this.show());
    this.field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && this.list.querySelector('button')) this.list.querySelector('button').click();
      if (event.key !== 'Escape') return;
      this.field.value = '';
      this.show();
      this.field.blur();
    });
    document.addEventListener('keydown', (event) => {
      if (event.key !== '/' || takesText(event.target)) return;
      event.preventDefault();
      this.field.focus();
    });
  }

  /** What matches: {text, go()}, at most RESULTS_MOST and one more. */
  find(query) {
    const target = this.page;
    const { model } = target;
    const found = [];
    const text = query.trim().toLowerCase();
    if (text === '') return found;
    const add = (line, go) => { if (found.length <= RESULTS_MOST) found.push({ text: line, go }); };
    const hexadecimal = /^(?:(handle|address)\s*)?(0x[0-9a-f]+)$/.exec(text);
    if (hexadecimal) {
      this.findHexadecimal(hexadecimal[1], Number(hexadecimal[2]), add);
      return found;
    }
    const words = /^(?:(packet|allocation|fence)s?\s*)?#?(\d+)$/.exec(text);
    if (words) {
      const number = Number(words[2]);
      const wants = (kind) => !words[1] || words[1] === kind;
      const row = model.rowOfNumber(number);
      if (wants('packet') && row >= 0) add(`packet ${number} of ${contextName(model, model.packets.columns.context[row])}`, () => target.select(row));
      if (wants('allocation')) for (const id of model.allocationRow.keys()) if (numberOfId(id) === number) add(`allocation ${number}, ${formatBytes(model.allocations.columns.size[model.allocationRow.get(id)])}, of ${model.ownerName(model.owner(id))}`, () => target.details.showAllocation(id));
      const a = model.attempts.columns;
      if (wants('fence')) for (const i of target.causes.rowsOf('attempts', 'fence', number)) add(`fence ${number} of ${nodeName(model, a.node[i])}: packet ${numberOfId(a.packet[i])}`, () => target.select(target.causes.packetRow(a.packet[i])));
      return found;
    }
    const matches = (name) => name && name.toLowerCase().includes(text);
    const { contexts, call_stats, calls, markers, refusals } = model;
    for (let i = 0; i < contexts.count; ++i) {
      const name = contextName(model, contexts.columns.context[i]);
      const first = target.causes.rowsOf('packets', 'context', contexts.columns.context[i])[0];
      if (matches(name) && first !== undefined) add(`${name}: first packet`, () => target.select(first));
    }
    const jumps = (table, column, what) => {
      for (let i = 0; i < table.count; ++i) if (matches(table.columns[column][i])) add(`${what}: ${table.columns[column][i]}, at ${formatTime(table.columns.time[i])}`, () => target.setCursor(table.columns.time[i]));
    };
    model.told_findings.forEach(({ rule, time, told }, i) => {
      if (matches(rule) || (told && (matches(told.ddi) || matches(told.actual)))) add(`finding: ${rule}${told ? `, ${told.ddi}` : ''}, at ${formatTime(time)}`, () => { if (time === time) target.setCursor(time); target.details.showFinding(i); });
    });
    for (let i = 0; i < refusals.count; ++i) if (matches(refusals.columns.name[i])) add(`refused: ${refusals.columns.name[i]}, ${statusText(refusals.columns.status[i])}, at ${formatTime(refusals.columns.time[i])}`, () => { target.centre(refusals.columns.time[i]); target.details.showRefusal(i); });
    for (let i = 0; i < call_stats.count; ++i) {
      const name = call_stats.columns.name[i];
      if (!matches(name)) continue;
      add(`${name}: ${formatCount(call_stats.columns.count[i])} calls, the first`, () => target.setCursor(calls.columns.start[calls.columns.name.indexOf(name)]));
    }
    jumps(markers, 'text', 'event');
    return found;
  }

  /** Handles of any time, and addresses at the cursor or the end. */
  findHexadecimal(kind, value, add) {
    const { model, addresses, details } = this.page;
    const time = this.page.cursor === this.page.cursor ? this.page.cursor : model.duration;
    const h = model.handles.columns;
    if (kind !== 'address') for (let i = 0; i < model.handles.count; ++i) if (h.handle[i] === value) add(`handle ${plainText(model, describeHandle(model, i))}, of ${model.ownerName(h.process[i])}`, () => this.page.setCursor(h.from[i]));
    if (kind !== 'handle') for (const process of addresses.processes) if (kind || addresses.map(process, time).some((range) => range.from <= value && value < range.to)) add(`address ${hex(value)} of ${addresses.name(process)}`, () => details.walkTo(process, value));
  }

  show() {
    const found = this.find(this.field.value);
    this.list.hidden = this.field.value.trim() === '';
    const lines = found.slice(0, RESULTS_MOST).map(({ text, go }) => {
      const line = element('li');
      const button = element('button', text, 'link');
      button.type = 'button';
      button.addEventListener('click', () => { this.list.hidden = true; go(); });
      line.append(button);
      return line;
    });
    if (found.length > RESULTS_MOST) lines.push(element('li', `more than ${RESULTS_MOST}: say more`));
    if (found.length === 0) lines.push(element('li', 'nothing has this number or name'));
    this.list.replaceChildren(...lines);
  }
}
