(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (name) => document.getElementById(name);
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const settings = JSON.parse(byId("settings").textContent);
  const images = byId("images");
  const slices = all(".slice");
  // Without this script the page shows no control, because none would work.
  for (const element of all("[data-script]")) element.hidden = false;

  // Theme. The dark palette is a style sheet of its own; its medium is the switch.
  const dark = byId("dark");
  const preference = matchMedia("(prefers-color-scheme: dark)");
  let isDark = preference.matches;
  function nameTheme() {
    byId("theme").textContent = isDark ? "Light theme" : "Dark theme";
  }
  preference.addEventListener("change", () => {
    if (!dark.media.includes("prefers")) return;
    isDark = preference.matches;
    nameTheme();
  });
  byId("theme").addEventListener("click", () => {
    isDark = !isDark;
    dark.media = isDark ? "screen" : "not all";
    nameTheme();
  });
  nameTheme();

  // Zoom and place are inherited by all panels as style variables, so they cannot disagree.
  const largestZoom = 16;
  const view = { zoom: 1, x: 0, y: 0 };
  function place(zoom, x, y) {
    view.zoom = clamp(zoom, 1, largestZoom);
    view.x = clamp(x, 100 * (1 - view.zoom), 0);
    view.y = clamp(y, 100 * (1 - view.zoom), 0);
    images.style.setProperty("--zoom", view.zoom);
    images.style.setProperty("--x", `${view.x}%`);
    images.style.setProperty("--y", `${view.y}%`);
    images.classList.toggle("zoomed", view.zoom > 1);
    byId("zoom").textContent = `${view.zoom.toFixed(1)}\u00d7`;
  }
  /** Zooms about a point of the panel, (0, 0) top left to (1, 1). */
  function zoomBy(factor, u = 0.5, v = 0.5) {
    const change = clamp(view.zoom * factor, 1, largestZoom) / view.zoom;
    const move = (offset, at) => 100 * at - (100 * at - offset) * change;
    place(view.zoom * change, move(view.x, u), move(view.y, v));
  }
  const pan = (right, down) => place(view.zoom, view.x + right, view.y + down);

  // Numbers of the slice in view, for the readout.
  const unpacked = new Map();
  let values = null;
  async function unpack({ low, step, data }) {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const count = planes.length / 2;
    let code = 0;
    return Float64Array.from({ length: count }, (_, k) => {
      code = (code + planes[k] + 256 * planes[count + k]) & 0xffff;
      return low + step * code;
    });
  }
  async function load(section) {
    const stored = section.querySelector(".values");
    if (!stored) return null; // a slice without images
    const packed = JSON.parse(stored.textContent);
    const names = ["mean", "std", "reference"].filter((name) => name in packed);
    const arrays = await Promise.all(names.map((name) => unpack(packed[name])));
    const steps = Object.fromEntries(names.map((name) => [name, packed[name].step]));
    return { shape: packed.shape, steps, ...Object.fromEntries(names.map((n, k) => [n, arrays[k]])) };
  }

  // Readout
  const readout = byId("readout");
  let spot = null; // what is read: a place in the picture, (0, 0) top left to (1, 1)
  let hint = "Point at an image to read its values.";
  /** Two digits of the uncertainty that count, but none finer than the stored step. */
  function countDecimals(std, step) {
    const finest = Math.floor(-Math.log10(step));
    return clamp(std > 0 ? Math.min(1 - Math.floor(Math.log10(std)), finest) : finest, 0, 12);
  }
  const write = (value, decimals) => value.toFixed(decimals).replace("-", "\u2212");
  function say(name, text) {
    const part = document.createElement("span");
    const strong = document.createElement("b");
    strong.textContent = text;
    part.append(name, strong);
    return part;
  }
  function describe(index, channel) {
    const [mean, std] = [values.mean[index], values.std[index]];
    const decimals = countDecimals(std, Math.max(values.steps.mean, values.steps.std));
    const parts = [say(`${channel}mean \u00b1 std`,
      `${write(mean, decimals)} \u00b1 ${write(std, decimals)} ${settings.unit}`.trim())];
    if (values.reference) {
      const reference = values.reference[index];
      const error = Math.abs(mean - reference);
      const ratio = std > 0 ? ` = ${(error / std).toFixed(1)} std` : "";
      parts.push(say(`${channel}reference`, write(reference, decimals)));
      parts.push(say(`${channel}error`, write(error, decimals) + ratio));
    }
    return parts;
  }
  function findPixel({ u, v }) {
    const [rows, columns] = values.shape;
    return [clamp(Math.floor(v * rows), 0, rows - 1), clamp(Math.floor(u * columns), 0, columns - 1)];
  }
  function read(place) {
    spot = place;
    images.classList.toggle("reading", Boolean(spot && values));
    if (!spot || !values) {
      readout.replaceChildren(hint);
      return;
    }
    const [rows, columns, channels] = values.shape;
    const [row, column] = findPixel(spot);
    images.style.setProperty("--pixel-x", `${(100 * column) / columns}%`);
    images.style.setProperty("--pixel-y", `${(100 * row) / rows}%`);
    const parts = [say("row, column", `${row}, ${column}`)];
    const names = channels === 1 ? [""] : ["red ", "green ", "blue "];
    names.forEach((name, c) => parts.push(...describe((c * rows + row) * columns + column, name)));
    readout.replaceChildren(...parts);
  }
  function readNeighbour(right, down) {
    const [rows, columns] = values.shape;
    const [row, column] = findPixel(spot ?? { u: 0.5, v: 0.5 });
    read({
      u: (clamp(column + right, 0, columns - 1) + 0.5) / columns,
      v: (clamp(row + down, 0, rows - 1) + 0.5) / rows,
    });
  }
  /** The pointer's place in a panel, (0, 0) top left to (1, 1). */
  function locate(element, event) {
    const box = element.getBoundingClientRect();
    return { u: (event.clientX - box.left) / box.width, v: (event.clientY - box.top) / box.height };
  }

  // Pointer and keys on the panels
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  function pressKey(event) {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const [right, down] = arrows[event.key] ?? [0, 0];
    if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") reset();
    else if ((right || down) && event.shiftKey && values) readNeighbour(right, down);
    else if ((right || down) && view.zoom > 1) pan(-10 * right, -10 * down);
    else return; // unzoomed, arrows scroll the page as ever
    event.preventDefault();
  }
  for (const panels of all(".panels")) {
    panels.addEventListener("keydown", pressKey);
    // A finger leaves the screen with every touch; what it read stays to be seen.
    panels.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") read(null); });
    for (const kind of ["pointerdown", "pointermove"]) {
      panels.addEventListener(kind, (event) => {
        const target = event.target.closest(".linked .view");
        if (!target) return read(null);
        const { u, v } = locate(target, event);
        read({ u: (u - view.x / 100) / view.zoom, v: (v - view.y / 100) / view.zoom });
      });
    }
  }
  for (const element of all(".linked .view")) {
    let grip = null;
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      grip = { x: event.clientX, y: event.clientY };
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (!grip) return;
      const box = element.getBoundingClientRect();
      pan((100 * (event.clientX - grip.x)) / box.width, (100 * (event.clientY - grip.y)) / box.height);
      grip = { x: event.clientX, y: event.clientY };
    });
    for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => { grip = null; });
    element.addEventListener("wheel", (event) => {
      // A page that scrolls past must not zoom: the images are clicked first, or Ctrl is held.
      if (!event.ctrlKey && document.activeElement !== element.closest(".panels")) return;
      event.preventDefault();
      const { u, v } = locate(element, event);
      const turn = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY : 40 * event.deltaY;
      zoomBy(Math.exp(-clamp(turn, -100, 100) / (event.ctrlKey ? 100 : 400)), u, v);
    }, { passive: false });
  }

  // Level and width: one linear map, shared by all grey images.
  const [black, white] = settings.window;
  const format = (value) => String(Number(value.toPrecision(3))).replace("-", "\u2212");
  function setWindow() {
    const level = black + (Number(byId("level").value) / 100) * (white - black);
    const width = (Number(byId("width").value) / 100) * (white - black);
    for (const map of all("#window feComponentTransfer > *")) {
      map.setAttribute("slope", (white - black) / width);
      map.setAttribute("intercept", 0.5 - (level - black) / width);
    }
    const isWhole = byId("level").value === "50" && byId("width").value === "100";
    images.classList.toggle("windowed", !isWhole);
    for (const [name, value] of [["level", level], ["width", width]]) {
      byId(`${name}-value`).textContent = format(value);
      byId(name).setAttribute("aria-valuetext", `${format(value)} ${settings.unit}`.trim());
    }
    for (const ticks of all(".grey .ticks")) {
      [...ticks.children].forEach((tick, k) => { tick.textContent = format(level + ((k - 1) / 2) * width); });
    }
  }
  function reset() {
    byId("level").value = 50;
    byId("width").value = 100;
    setWindow();
    place(1, 0, 0);
  }
  byId("level").addEventListener("input", setWindow);
  byId("width").addEventListener("input", setWindow);
  byId("in").addEventListener("click", () => zoomBy(1.5));
  byId("out").addEventListener("click", () => zoomBy(1 / 1.5));
  byId("reset").addEventListener("click", reset);

  // Players: samples go round. None starts by itself.
  const stops = [];
  for (const figure of all(".stack")) {
    const player = figure.querySelector(".player");
    if (!player) continue;
    const pictures = all(".layer img", figure);
    const [button, slider, output] = ["button", "input", "output"].map((name) => player.querySelector(name));
    let timer = 0;
    const show = (index) => {
      pictures.forEach((picture, k) => picture.classList.toggle("shown", k === index));
      slider.value = index + 1;
      output.textContent = `${index + 1} of ${pictures.length}`;
      slider.setAttribute("aria-valuetext", output.textContent);
    };
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      player.querySelector(".verb").textContent = "Play";
    };
    const step = () => show(Number(slider.value) % pictures.length);
    stops.push(stop);
    slider.addEventListener("input", () => { stop(); show(Number(slider.value) - 1); });
    button.addEventListener("click", () => {
      if (timer) { stop(); return; }
      if (Number(slider.value) === pictures.length) show(0);
      player.querySelector(".verb").textContent = "Pause";
      timer = setInterval(step, 400);
    });
    show(pictures.findIndex((picture) => picture.classList.contains("shown")));
  }

  // Slices
  const lights = all(".lights a");
  async function choose(index) {
    slices.forEach((section, k) => { section.hidden = k !== index; });
    for (const stop of stops) stop();
    lights.forEach((light) => light.setAttribute("aria-current", light.hash === `#slice-${index}`));
    const section = slices[index];
    values = null;
    try {
      if (!unpacked.has(section)) unpacked.set(section, load(section));
      const loaded = await unpacked.get(section);
      if (!section.hidden) values = loaded;
    } catch {
      hint = "This browser is too old to unpack the values behind the images.";
    }
    read(spot);
  }
  const chooser = byId("slice");
  if (chooser) {
    const go = (index) => {
      chooser.selectedIndex = clamp(index, 0, slices.length - 1);
      choose(chooser.selectedIndex);
    };
    chooser.addEventListener("change", () => go(chooser.selectedIndex));
    byId("previous").addEventListener("click", () => go(chooser.selectedIndex - 1));
    byId("next").addEventListener("click", () => go(chooser.selectedIndex + 1));
    for (const light of lights) {
      light.addEventListener("click", () => {
        // The tools stay at the top and must not cover the heading that the browser scrolls to.
        document.documentElement.style.scrollPaddingTop = `${images.querySelector(".tools").offsetHeight + 16}px`;
        go(Number(light.hash.slice("#slice-".length)));
      });
    }
    chooser.selectedIndex = 0;
  }

  // Provenance
  byId("copy")?.addEventListener("click", async () => {
    const record = byId("record");
    try {
      await navigator.clipboard.writeText(record.textContent);
      byId("copied").textContent = "Copied";
    } catch { // some browsers refuse pages opened from a disk
      getSelection().selectAllChildren(record);
      byId("copied").textContent = "Selected: copy with Ctrl+C";
    }
  });
  addEventListener("beforeprint", () => {
    for (const details of all(".provenance")) details.open = true;
  });

  reset();
  choose(0);
})();
