"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const BUTTONS = 34; // pixels of a line of buttons
  const NARROW = 600; // pixels; below it legends stand in one column and names are cut
  const drawn = new Set();
  const plotly = unpackPlotly().then(() => true, () => false); // whether it is there

  function ink(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function shares() {
    return dark.matches
      ? [[0, "#25303c"], [0.5, "#2f6ea8"], [1, "#8fcaff"]]
      : [[0, "#e9eef4"], [0.5, "#6aa5da"], [1, "#0b4580"]];
  }

  function signs(name) { // an escaped character counts as one
    return name.match(/&\w+;|./gu) || [];
  }

  function middle(name, most) { // left out where it is long
    const each = signs(name);
    const half = most / 2;
    if (each.length <= most) { return name; }
    return [...each.slice(0, half), "…", ...each.slice(1 - half)].join("");
  }

  function short(names) { // as far as they stay different
    for (let most = 18; most < 60; most += 6) {
      const cut = names.map((name) => middle(name, most));
      if (new Set(cut).size === new Set(names).size) { return cut; }
    }
    return names;
  }

  function wrapped(name, most) { // lines of a long name, which ends them at + , _ or a space
    const lines = [""];
    for (const part of name.match(/.+?(?:[+,_ ]+|$)/gu) || []) {
      const at = lines.length - 1;
      const fits = lines[at] === "" || signs(lines[at] + part).length <= most;
      if (fits) { lines[at] += part; } else { lines.push(part); }
    }
    return lines;
  }

  // On a narrow screen a row's whole name stands above its mark: beside it, names would be cut
  // until they are alike. Returns the height of a row.
  function nameRows(layout, names, width) {
    const texts = names.map((name) => wrapped(name, Math.floor((width - 30) / 6.5)));
    layout.margin = { ...layout.margin, l: 12 };
    layout.yaxis = { ...layout.yaxis, showticklabels: false };
    layout.annotations = texts.map((lines, at) => ({ xref: "paper", x: 0, xanchor: "left", y: at,
      yanchor: "bottom", yshift: 5, showarrow: false, align: "left", font: { size: 11 },
      borderpad: 0, text: lines.join("<br>") }));
    return Math.max(36, 12 + 15 * Math.max(...texts.map((lines) => lines.length)));
  }

  function axis(given, narrow) {
    const line = ink("--line");
    const made = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true,
      ...structuredClone(given) }; // Plotly writes into ranges
    if (narrow && given.ticktext) {
      made.ticktext = short(given.ticktext);
    }
    if (given.title) { made.title = { ...given.title, standoff: 8 }; }
    return made;
  }

  // Plotly leaves 3 pixels free above and below a text inside a bar, so a bar as high as its text
  // has none: bars that are not seen, a little higher, carry the ids. Zoomed in, they stay centred.
  function withIds(trace, unitPx) {
    const high = trace.width.map((width) => width + Math.min(8 / unitPx, 0.85 * width));
    const { hovertext, hovertemplate, ...ids } = trace;
    return [{ ...trace, textposition: "none" },
      { ...ids, width: high, marker: { color: "rgba(0,0,0,0)" }, hoverinfo: "skip" }];
  }

  function themed(figure, width) {
    const narrow = width < NARROW;
    const layout = {
      margin: { l: narrow ? 44 : 58, r: 14, t: 12, b: 46 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      dragmode: touch ? false : "zoom", ...figure.layout, // a finger on it scrolls the page
      font: { color: ink("--text"), size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: ink("--card"), bordercolor: ink("--line"),
        font: { color: ink("--text") }, namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: ink("--muted"), activecolor: ink("--accent") },
    };
    for (const key of Object.keys(figure.layout)) {
      if (/^[xy]axis/.test(key)) { layout[key] = axis(figure.layout[key], narrow); }
    }
    let height = figure.height;
    const named = narrow && figure.rows.length > 0;
    if (named) { height = 110 + figure.rows.length * nameRows(layout, figure.rows, width); }
    if (touch) { // the buttons have a line of their own: fingers hide what is below them
      height += BUTTONS;
      layout.margin = { ...layout.margin, t: layout.margin.t + BUTTONS };
    }
    if (layout.showlegend) {
      const names = figure.data.filter((t) => t.showlegend !== false).map((t) => t.name.length);
      const widest = 60 + 7 * Math.max(...names);
      const ticks = named ? [] : figure.layout.yaxis.ticktext || [];
      const longest = Math.max(0, ...ticks.map((t) => Math.min(t.length, narrow ? 18 : 34)));
      const room = width - 80 - 6.5 * longest;
      const lines = Math.ceil(names.length / Math.max(1, Math.floor(room / widest)));
      height += 20 * lines;
      const plot = height - 70 - 20 * lines - (touch ? BUTTONS : 0);
      layout.legend = { orientation: "h", x: 0, y: -56 / plot,
        yanchor: "top", font: { size: 11 }, tracegroupgap: 0, maxheight: 24 * lines + 12 };
    }
    const { t: above, b: below } = layout.margin;
    const data = figure.data.flatMap((trace) => {
      if (trace.type === "bar" && trace.text) {
        const [from, to] = figure.layout.yaxis.range;
        return withIds(trace, (height - above - below) / Math.abs(to - from));
      }
      return trace.type !== "heatmap" ? trace : { ...trace, colorscale: shares(),
        colorbar: { ...trace.colorbar, outlinewidth: 0, len: 1, thickness: narrow ? 8 : 12 } };
    });
    return { data, layout, height };
  }

  function buttons(id, width) {
    if (!touch) {
      return { modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
        displayModeBar: width < NARROW ? false : "hover" };
    }
    // Drawn anew it has its first ranges, and a finger on it scrolls the page again.
    const back = { name: "back", title: "Back", icon: Plotly.Icons.home, click: () => draw(id) };
    return { displayModeBar: true,
      modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", back]] };
  }

  // The page holds Plotly's script gzipped and in base64: whole it is nine tenths of a page.
  async function unpackPlotly() {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent),
      (sign) => sign.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  async function draw(id) {
    const card = document.getElementById(id);
    if (!card.open) { return; }
    const box = card.querySelector(".figure");
    if (typeof Plotly === "undefined" && !await plotly) {
      box.style.height = "auto";
      box.textContent = "No figure: this browser cannot unpack Plotly; one of 2023 or later can.";
      return;
    }
    const { data, layout, height } = themed(figures[id], box.clientWidth);
    box.style.height = height + "px";
    const config = { responsive: true, displaylogo: false, ...buttons(id, box.clientWidth) };
    drawn.add(id);
    await Plotly.react(box, data, layout, config);
    const slider = card.querySelector("input[type=range]");
    if (slider) { slide(id, slider); }
  }

  function slide(id, slider) {
    const { moments, frames } = figures[id].slider;
    const card = document.getElementById(id);
    const at = Number(slider.value);
    card.querySelector("output").textContent = moments[at];
    if (!drawn.has(id) || typeof Plotly === "undefined") { return; } // drawing asks for it again
    Plotly.restyle(card.querySelector(".figure"), { z: [frames[at]] }, [0]);
  }

  function value(row, column) {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
  }

  // Numbers before words, whichever way they are sorted: words are "nothing measured".
  function compared(a, b, sign) {
    if (typeof a !== typeof b) { return typeof a === "number" ? -1 : 1; }
    if (typeof a === "number") { return sign * (a - b); }
    return sign * a.localeCompare(b, undefined, { numeric: true });
  }

  function sort(header) {
    const table = header.closest("table");
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) { other.removeAttribute("aria-sort"); }
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    const at = header.cellIndex;
    rows.sort((a, b) => compared(value(a, at), value(b, at), up ? 1 : -1));
    table.tBodies[0].append(...rows);
  }

  // Nothing below moves when a figure is drawn: a link leads to its place, seen or not.
  function keepPlaces() {
    const boxes = Object.keys(figures).map((id) => {
      const box = document.querySelector(`#${id}[open] .figure`);
      return [id, box, box === null ? 0 : box.clientWidth];
    });
    for (const [id, box, width] of boxes) {
      if (box !== null) { box.style.height = themed(figures[id], width).height + "px"; }
    }
  }

  // Drawing costs more than all else, so a card is drawn when it comes near the screen: those on
  // it first, and after each the browser may paint and listen. It tells when the first are there.
  const tell = () => {
    document.documentElement.dataset.drawnMs ||= String(Math.round(performance.now()));
  };
  const watcher = new IntersectionObserver(async (entries) => {
    const near = entries.filter((each) => each.isIntersecting);
    const seen = (each) => each.boundingClientRect.top < window.innerHeight
      && each.boundingClientRect.bottom > 0;
    for (const some of [near.filter(seen), near.filter((each) => !seen(each))]) {
      for (const { target } of some) {
        if (drawn.has(target.id)) { continue; }
        await draw(target.id);
        await new Promise((go) => { setTimeout(go); });
      }
      tell();
    }
  }, { rootMargin: "60% 0px" });

  for (const heading of document.querySelectorAll("h1, h2, .subtitle")) { // of long names
    heading.innerHTML = heading.innerHTML.replace(/[+_]/g, "$&<wbr>");
  }
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sort(button.parentElement));
  }
  for (const id of Object.keys(figures)) {
    const card = document.getElementById(id);
    card.addEventListener("toggle", () => { watcher.unobserve(card); watcher.observe(card); });
    const slider = card.querySelector("input[type=range]");
    if (slider) { slider.addEventListener("input", () => slide(id, slider)); }
  }
  const redraw = () => { for (const id of drawn) { draw(id); } };
  dark.addEventListener("change", redraw);
  window.matchMedia("(max-width: 640px)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => { // without a wait: paper shows what is there now
    for (const id of Object.keys(figures)) { if (!drawn.has(id)) { draw(id); } }
  });
  keepPlaces();
  for (const id of Object.keys(figures)) { watcher.observe(document.getElementById(id)); }
  if (Object.keys(figures).length === 0) { tell(); }
})();
