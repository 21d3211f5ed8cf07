// A second run beside the first: the first difference, with the lines before it.

/** Shows what `dxgkit view --compare` found; without it there is no panel. */
async function startOther(page) {
  const told = page.model.run && page.model.run.compare;
  const panel = document.getElementById('compare-panel');
  panel.hidden = !told;
  if (!told) return;
  const head = jsonOf('other-data');
  const other = makeModel(head, await readTables(head, 'b', [...TABLES, ...LATE_TABLES]), null);
  page.other = other;
  const text = document.getElementById('difference');
  if (!told.difference) {
    text.append(element('p', `${told.a} and ${told.b} have the same events.`));
  } else {
    const line = element('p', 'The first difference is at ');
    for (const [name, time] of [[told.a, told.difference.a_ns], [told.b, told.difference.b_ns]]) {
      if (time === null) {
        line.append(`the end of ${name}; `);
        continue;
      }
      const link = element('button', formatTime(time - page.model.start), 'link');
      link.type = 'button';
      link.dataset.difference = name;
      link.addEventListener('click', () => page.setCursor(time - page.model.start));
      line.append(link, ` in ${name}; `);
    }
    const list = element('pre', told.difference.text);
    list.tabIndex = 0;
    text.append(line, list);
  }
  const rows = [['', told.a, told.b]];
  const sums = (model) => [model.packets.count, model.evictions.count, model.preemptions.count, model.timeouts.count, model.refusals.count, model.findings.count];
  const [mine, theirs] = [sums(page.model), sums(other)];
  ['packets', 'evictions', 'preemptions', 'timeouts', 'refused calls', 'findings'].forEach((name, i) => rows.push([name, formatCount(mine[i]), formatCount(theirs[i])]));
  rows.splice(1, 0, ['time', formatTime(page.model.duration), formatTime(other.duration)]);
  const table = element('table');
  rows.forEach((cells, index) => {
    const row = element('tr', undefined, index > 1 && cells[1] !== cells[2] ? 'differs' : '');
    cells.forEach((cell, i) => row.append(element(index === 0 && i > 0 ? 'th' : 'td', cell)));
    table.append(row);
  });
  text.append(table);
  page.other_lanes = new OtherLanes(page, other);
}

/** The engines of both runs, one below the other, in the time of the timeline. */
class OtherLanes {
  constructor(page, other) {
    this.page = page;
    this.view = page.view;
    this.canvas = document.getElementById('other-lanes');
    this.sides = [page.model, other].map((model, side) => finished({ model, timeline: { only: NaN } }, ownLanes({ model })).filter((lane) => lane.title === 'hardware').map((lane) => ({ lane, model, side })));
    page.view.listeners.push(() => this.invalidate());
    theme.listeners.push(() => this.invalidate());
    window.addEventListener('resize', () => this.invalidate());
    wheelOnTime(this.canvas, page.view);
    const { a, b } = page.model.run.compare;
    this.names = [a, b];
    this.canvas.setAttribute('aria-label', `The engines of ${a} and ${b}, one below the other`);
    this.invalidate();
  }

  invalidate() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  draw() {
    const nodes = Math.max(...this.sides.map((side) => side.length));
    const { context, width, height } = prepareCanvas(this.canvas, nodes * 46 + 6);
    const plot = width - LABEL_WIDTH;
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    this.sides.forEach((lanes, side) => lanes.forEach(({ lane }, i) => {
      const y = 4 + i * 46 + side * 19;
      context.fillStyle = theme.soft;
      context.fillText(`${lane.group}, ${this.names[side]}`, 10, y + 8, LABEL_WIDTH - 16);
      context.fillStyle = theme.strip;
      context.fillRect(LABEL_WIDTH, y, plot, 17);
      lane.rows.forEach((row) => row.draw(context, this.view, LABEL_WIDTH, plot, y, 17, lane.colour, lane.label));
    }));
    drawMoment(context, this.page, this.view, LABEL_WIDTH, plot, 0, height);
  }
}
