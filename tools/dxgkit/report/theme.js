// Dark and light: the colours of canvases are those of the style sheet, read anew when the theme changes.

const COLOURS = ['ink', 'soft', 'line', 'paper', 'strip', 'stripe', 'veil', 'mark', 'accent', 'bad', 'good', 'cursor'];
const theme = { listeners: [] };

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of COLOURS) theme[name] = style.getPropertyValue(`--${name}`).trim();
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.name = name;
  document.getElementById('theme').textContent = name === 'dark' ? 'light' : 'dark';
  readTheme();
  for (const listener of theme.listeners) listener();
}

/** What the reader chose the last time, else what the system says. Pages without storage work as well. */
function startTheme() {
  let name = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  try { name = localStorage.getItem('dxgkit-theme') || name; } catch (error) { /* no storage */ }
  document.getElementById('theme').addEventListener('click', () => {
    const next = theme.name === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('dxgkit-theme', next); } catch (error) { /* no storage */ }
    setTheme(next);
  });
  setTheme(name);
}
