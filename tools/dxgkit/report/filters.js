// What the timeline shows: which groups of lanes, and whose packets have their colour.

class Filters {
  constructor(page) {
    this.page = page;
    const box = document.getElementById('filters');
    const { model, timeline } = page;
    const owners = [...new Set(model.contexts.columns.process || [])].filter((process) => process === process).sort((a, b) => a - b);
    if (owners.length > 1) {
      const select = element('select');
      select.id = 'only';
      select.append(new Option('all processes', ''), ...owners.map((owner) => new Option(model.ownerName(owner), String(owner))));
      select.addEventListener('change', () => { timeline.only = select.value === '' ? NaN : Number(select.value); page.invalidate(); });
      const label = element('label', 'packets of ');
      label.append(select);
      box.append(label);
    }
    this.boxes = element('span');
    box.append(this.boxes);
    this.refresh();
  }

  /** A box for each group of lanes. */
  refresh() {
    const { timeline } = this.page;
    this.boxes.replaceChildren(...timeline.groups.map((group) => {
      const label = element('label', undefined, 'tick');
      const input = element('input');
      input.type = 'checkbox';
      input.checked = !timeline.hidden_groups.has(group);
      input.dataset.group = group;
      input.addEventListener('change', () => {
        if (input.checked) timeline.hidden_groups.delete(group); else timeline.hidden_groups.add(group);
        timeline.rebuild();
      });
      label.append(input, group);
      return label;
    }));
  }
}
