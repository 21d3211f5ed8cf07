// Puts the page together: what the first picture needs, the picture, then the calls of threads, which are most of a recording.

startTheme();
const jsonOf = (id) => JSON.parse(document.getElementById(id).textContent);

function showFacts(model) {
  const facts = document.getElementById('facts');
  const fact = (name, value, class_name) => {
    const box = element('span', undefined, class_name);
    box.append(`${name} `, element('b', value));
    facts.append(box);
  };
  const { run } = model;
  if (run && run.name) fact('trace', run.name);
  if (run && run.result) fact('result', run.result, /^(identical|exit code 0$)/.test(run.result) ? 'good' : 'bad');
  if (run && run.driver) fact('driver', run.driver);
  fact('time', formatTime(model.duration));
  fact('packets', formatCount(model.packets.count));
  fact('findings', formatCount(model.findings.count), model.findings.count > 0 ? 'bad' : 'good');
  if (model.dropped > 0) fact('events lost', formatCount(Number(model.dropped)), 'bad');
}

const nextPicture = () => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });

async function start() {
  const head = jsonOf('report-data');
  const timings = [['begun', performance.now()]];  // since the page was asked for, for tests
  const tables = await readTables(head, 'a', TABLES);
  timings.push(['read', performance.now()]);
  const model = makeModel(head, tables, jsonOf('run-data'));
  timings.push(['model', performance.now()]);
  showFacts(model);
  const page = new Page(model);
  page.timings = timings;
  timings.push(['views', performance.now()]);
  await nextPicture();
  page.first_picture_ms = performance.now();
  timings.push(['drawn', page.first_picture_ms]);
  const loading = document.getElementById('loading');
  loading.textContent = 'reading the calls of threads ...';
  Object.assign(model, await readTables(head, 'a', LATE_TABLES));
  page.timeline.rebuild();
  page.filters.refresh();
  await startOther(page);
  loading.textContent = '';
  window.dxgkit = page;  // for tests and the curious
}

start().catch((error) => { document.getElementById('loading').textContent = `This page is damaged: ${error.message}`; throw error; });
