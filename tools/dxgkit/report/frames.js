// The last frames that programs showed, as pictures, each at its time.

/** The frames of the run, by time: {program, number, time, width, height, picture}. Times are those of the page. */
function readFrames(run, start) {
  const frames = run && run.frames ? run.frames : [];
  return frames.map((frame) => ({ ...frame, program: frame.program || 'a program', time: Number(frame.time_ns) - start }));
}

const describeFrame = (frame) => `${frame.program}, frame ${formatCount(frame.number)}`;

/** The panel with the pictures. `show(time)` brings a time into view. */
class Frames {
  constructor(model, show) {
    const panel = document.getElementById('frames-panel');
    const list = document.getElementById('frames');
    panel.hidden = model.frames.length === 0;
    for (const frame of model.frames) {
      const figure = element('figure');
      const image = element('img');
      image.src = frame.picture;
      image.alt = describeFrame(frame);
      image.title = `${frame.width} x ${frame.height} pixels`;
      figure.append(image, element('figcaption', `${describeFrame(frame)}, ${formatTime(frame.time)}`));
      figure.addEventListener('click', () => show(frame.time));
      list.append(figure);
    }
    list.scrollLeft = list.scrollWidth;  // the last one is what most want to see
  }
}
