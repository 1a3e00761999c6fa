(() => {
  "use strict";
  const byId = (name) => document.getElementById(name);
  const zone = byId("zone");
  const frame = byId("report");
  const words = { waiting: "Waiting", running: "Drawing", done: "Done", refused: "Refused", failed: "Failed", cancelled: "Cancelled" };
  const lights = { green: "good", amber: "doubtful", red: "bad" };
  const isOpen = (job) => job.state === "waiting" || job.state === "running";
  let shown = null; // the id of the job whose result is in view
  let wanted = null; // the id of the job to show as soon as it is over

  // Theme. The report inside follows.
  const dark = byId("dark");
  const preference = matchMedia("(prefers-color-scheme: dark)");
  let isDark = preference.matches;
  let isChosen = false;
  function applyTheme() {
    byId("theme").textContent = isDark ? "Light theme" : "Dark theme";
    if (!isChosen) return;
    const inner = frame.contentDocument?.getElementById("dark");
    for (const sheet of [dark, inner]) if (sheet) sheet.media = isDark ? "screen" : "not all";
  }
  preference.addEventListener("change", () => {
    if (!isChosen) isDark = preference.matches;
    applyTheme();
  });
  byId("theme").addEventListener("click", () => {
    isDark = !isDark;
    isChosen = true;
    applyTheme();
  });
  applyTheme();

  const say = (text) => { byId("status").textContent = text; };

  /** Asks the service; what it refuses is said, in its own words. */
  async function ask(path, options = {}) {
    try {
      // An address opened with a name and a password in it must not reach fetch, which refuses it.
      const answer = await fetch(new URL(path, window.location.origin), options);
      if (answer.ok) return answer.status === 204 ? {} : await answer.json();
      const problem = await answer.json().catch(() => ({}));
      say(`Refused: ${problem.detail ?? answer.status}`);
    } catch {
      say("The service does not answer.");
    }
    return null;
  }

  async function submit(file) {
    const query = new URLSearchParams({ name: file.name.slice(-200) });
    for (const [name, value] of new FormData(byId("settings"))) {
      if (value.trim()) query.set(name, value.trim());
    }
    say(`Sending ${file.name} \u2026`);
    const job = await ask(`/v1/jobs?${query}`, { method: "POST", body: file });
    if (!job) return;
    say("");
    wanted = job.id;
    refresh();
  }
  byId("file").addEventListener("change", () => {
    for (const file of byId("file").files) submit(file);
    byId("file").value = "";
  });
  for (const kind of ["dragenter", "dragover"]) {
    zone.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  }
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    for (const file of event.dataTransfer.files) submit(file);
  });
  // Beside the zone, a file would replace the page.
  for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

  /** An element with a text: whatever a file is called stays text. */
  function make(tag, text = "", kind = "") {
    const element = document.createElement(tag);
    element.textContent = text;
    if (kind) element.className = kind;
    return element;
  }
  function makeSign(judgement) {
    const space = "http://www.w3.org/2000/svg";
    const sign = document.createElementNS(space, "svg");
    sign.setAttribute("class", `sign ${judgement}`);
    sign.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(space, "use");
    use.setAttribute("href", `#sign-${judgement}`);
    sign.append(use);
    return sign;
  }
  function makeButton(text, job, action) {
    const button = make("button", text);
    button.type = "button";
    button.setAttribute("aria-label", `${text} ${job.asked.name}`);
    button.dataset.key = `${text} ${job.id}`;
    button.addEventListener("click", action);
    return button;
  }
  function makeRow(job) {
    const row = document.createElement("tr");
    row.setAttribute("aria-current", String(job.id === shown));
    const name = make("th", job.asked.name);
    name.scope = "row";
    const state = make("td", words[job.state]);
    if (isOpen(job)) {
      const bar = document.createElement("progress");
      bar.value = job.progress;
      bar.setAttribute("aria-label", `Progress of ${job.asked.name}`);
      state.append(bar);
    }
    const light = make("td");
    if (job.light) {
      const judgement = make("span", "", `judgement ${lights[job.light]}`);
      judgement.append(makeSign(lights[job.light]), job.light);
      light.append(judgement);
    }
    const time = make("td", new Date(1000 * job.created).toLocaleString());
    const actions = make("td");
    if (isOpen(job)) {
      actions.append(makeButton("Cancel", job, async () => {
        await ask(`/v1/jobs/${job.id}/cancel`, { method: "POST" });
        refresh();
      }));
    } else {
      actions.append(makeButton("Show", job, () => show(job)), makeButton("Remove", job, async () => {
        await ask(`/v1/jobs/${job.id}`, { method: "DELETE" });
        if (shown === job.id) hide();
        refresh();
      }));
    }
    row.append(name, state, light, time, actions);
    return row;
  }

  function hide() {
    shown = null;
    byId("result").hidden = true;
    frame.removeAttribute("src");
  }
  function show(job) {
    shown = job.id;
    const address = `/v1/jobs/${job.id}`;
    const hasReport = job.files.includes("report.html");
    byId("result").hidden = false;
    byId("result-title").textContent = job.asked.name;
    // The report says name and summary itself.
    byId("result-title").classList.toggle("unseen", hasReport);
    byId("summary").textContent = hasReport ? "" : job.summary || words[job.state];
    byId("fetch").hidden = frame.hidden = !hasReport;
    if (hasReport) {
      byId("download").href = `${address}/result`;
      byId("alone").href = frame.src = `${address}/report`;
    } else {
      frame.removeAttribute("src");
    }
    for (const row of byId("jobs").children) row.setAttribute("aria-current", String(row.dataset.job === shown));
    byId("result").scrollIntoView({ block: "start" });
  }
  // The report is as high as it is: one scroll bar for all.
  frame.addEventListener("load", () => {
    const inner = frame.contentDocument;
    if (!inner?.body) return;
    const own = inner.getElementById("theme");
    if (own) own.hidden = true; // one button for both
    applyTheme();
    const fit = () => { frame.style.height = `${Math.ceil(inner.documentElement.getBoundingClientRect().height)}px`; };
    new ResizeObserver(fit).observe(inner.documentElement);
    fit();
  });

  let timer = 0;
  async function refresh() {
    clearTimeout(timer);
    const jobs = await ask("/v1/jobs");
    if (jobs) {
      const held = document.activeElement?.dataset?.key; // rows are made anew: focus stays
      const rows = jobs.map((job) => {
        const row = makeRow(job);
        row.dataset.job = job.id;
        return row;
      });
      byId("jobs").replaceChildren(...rows);
      byId("jobs-section").hidden = jobs.length === 0;
      if (held) byId("jobs").querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
      const ready = jobs.find((job) => job.id === wanted && !isOpen(job));
      if (ready) {
        wanted = null;
        show(ready);
      }
    }
    const isBusy = !jobs || jobs.some(isOpen);
    timer = setTimeout(refresh, isBusy ? 500 : 5000);
  }
  refresh();
})();
