
// Adds to a report: sorting and filtering of tables, values of samples in figures, conversion of units. Fetches nothing and
// computes no results: it shows values from data-value and data-values. The page reads the same without it. On a page from
// a server, window.nearfar runs it again after an update of the page.
"use strict";
(() => {
  const make = (name, attributes, ...inside) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  };

  // Formats numbers as the program does: four digits, M for millions and so on, and an interval in the scale of its median.
  const STEPS = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"]];
  const scaleOf = (value) => {
    const size = Math.abs(value);
    const [divisor, suffix] = STEPS.find(([step]) => size >= step * 0.99995) || [1, ""];
    const exponent = size === 0 ? 3 : Number((size / divisor).toExponential(3).split("e")[1]);
    return { divisor, suffix, decimals: Math.min(Math.max(3 - exponent, 0), 12) };
  };
  const written = (value, { divisor, suffix, decimals }) => (value / divisor).toFixed(decimals).replace(/^-(?=[0.]*$)/, "") + suffix;

  // Units that can be converted into each other.
  const FAMILIES = [
    ["Times in", { ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1 }, ["ns", "µs", "ms", "s"]],
    ["Rates in", { "B/s": 1, "kB/s": 1e3, KBps: 1024, "KiB/s": 1024, "MB/s": 1e6, "MiB/s": 2 ** 20, "GB/s": 1e9, "GiB/s": 2 ** 30 }, ["MB/s", "MiB/s", "GB/s", "GiB/s"]],
    ["Sizes in", { B: 1, KiB: 1024, MB: 1e6, MiB: 2 ** 20, GB: 1e9, GiB: 2 ** 30 }, ["MB", "MiB", "GB", "GiB"]],
  ];
  const chosen = new Map(); // selected unit by name of the family
  const converted = (unit) => {
    const family = FAMILIES.find(([, units]) => unit in units);
    const wanted = family && chosen.get(family[0]);
    return wanted ? { unit: wanted, factor: family[1][unit] / family[1][wanted] } : { unit, factor: 1 };
  };

  const asMade = (element) => (element.dataset.made ??= element.textContent);
  const put = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  const showUnits = (root) => {
    for (const cell of root.querySelectorAll("td[data-unit]")) {
      const made = asMade(cell);
      const { unit, factor } = converted(cell.dataset.unit);
      if (factor === 1 && unit === cell.dataset.unit) { put(cell, made); continue; }
      // The first value of a row is the median; its interval and related values are rounded in the same scale.
      const scale = scaleOf(Number(cell.parentElement.querySelector("td[data-unit]").dataset.value) * factor);
      const numbers = [cell.dataset.value, cell.dataset.to].filter((value) => value !== undefined);
      const text = numbers.map((value) => written(Number(value) * factor, scale)).join(" to ");
      put(cell, made.endsWith(cell.dataset.unit) ? `${text}\u00a0${unit}` : text);
    }
    // The unit is next to the numbers or above them.
    for (const named of root.querySelectorAll("[data-names-unit]")) {
      const own = named.dataset.namesUnit;
      put(named, asMade(named).replace(own, () => converted(own).unit));
    }
    for (const heading of root.querySelectorAll("tr.heading > th")) {
      const own = heading.parentElement.nextElementSibling?.querySelector("td[data-unit]")?.dataset.unit;
      if (own) put(heading, asMade(heading).replace(` in ${own},`, () => ` in ${converted(own).unit},`));
    }
  };

  const offerUnits = () => {
    const used = new Set([...document.querySelectorAll("td[data-unit]")].map((cell) => cell.dataset.unit));
    const families = FAMILIES.filter(([, units]) => [...used].some((unit) => unit in units));
    if (families.length === 0) return;
    const tools = make("p", { class: "tools units" });
    for (const [name, , offers] of families) {
      const select = make("select", {}, make("option", { value: "" }, "as measured"), ...offers.map((unit) => make("option", { value: unit }, unit)));
      select.value = chosen.get(name) ?? "";
      select.addEventListener("change", () => {
        chosen.set(name, select.value);
        showUnits(document);
        document.querySelectorAll("figure").forEach((figure) => figure.dispatchEvent(new Event("units")));
      });
      tools.append(make("label", {}, `${name} `, select), " ");
    }
    document.querySelector("header").append(tools);
  };

  // The sort key of a cell: its number, otherwise its text.
  const numberIn = (text) => {
    const found = /^[+-]?\d+(?:\.\d+)?(?=([MGTP]?)(?:\s|$|%))/.exec(text.trim());
    return found ? Number(found[0]) * (STEPS.find(([, suffix]) => suffix === found[1])?.[0] ?? 1) : NaN;
  };
  const keyOf = (cell) => {
    const text = (cell?.dataset.same ?? (cell?.dataset.made ?? cell?.textContent) ?? "").trim();
    return { text, number: cell?.dataset.value !== undefined ? Number(cell.dataset.value) : numberIn(text) };
  };
  const compare = (column, direction) => (one, other) => {
    const [a, b] = [keyOf(one.cells[column]), keyOf(other.cells[column])];
    // Cells without a number come last in both directions.
    if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return direction * (a.number - b.number);
    if (Number.isNaN(a.number) !== Number.isNaN(b.number)) return Number.isNaN(a.number) ? 1 : -1;
    return direction * a.text.localeCompare(b.text, "en", { numeric: true });
  };

  const FILTER_FROM = 8;
  const tables = new Map(); // state of a table by its name and index, kept across updates of the page
  const nameOf = (table, index) => `${table.caption?.textContent ?? table.getAttribute("aria-label") ?? ""}#${index}`;

  const arrange = (table, groups, state, count) => {
    const words = state.filter.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const touched = words.length > 0 || state.column !== null;
    let shown = 0;
    let all = 0;
    const body = table.tBodies[0];
    for (const { heading, rows } of groups) {
      const ordered = state.column === null ? rows : [...rows].sort(compare(state.column, state.direction));
      let here = 0;
      for (const row of ordered) {
        // A name that repeats the row above is omitted; where the row above is hidden, it is shown.
        for (const cell of row.cells) if (cell.dataset.same !== undefined) put(cell, touched ? cell.dataset.same : "");
        const text = `${heading?.textContent ?? ""} ${[...row.cells].map((cell) => cell.dataset.same ?? cell.textContent).join(" ")}`.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        here += row.hidden ? 0 : 1;
      }
      if (heading) heading.hidden = here === 0;
      body.append(...(heading ? [heading] : []), ...ordered);
      shown += here;
      all += rows.length;
    }
    table.querySelectorAll("thead th").forEach((head, column) => {
      if (state.column !== column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending");
    });
    if (count) put(count, words.length > 0 ? `${shown} of ${all} rows` : "");
  };

  const enhance = (table, index) => {
    const groups = [];
    for (const row of table.tBodies[0]?.rows ?? []) {
      if (row.classList.contains("heading")) groups.push({ heading: row, rows: [] });
      else (groups.at(-1) ?? (groups.push({ heading: null, rows: [] }), groups[0])).rows.push(row);
    }
    const all = groups.reduce((sum, { rows }) => sum + rows.length, 0);
    if (all < 2) return;
    for (const { rows } of groups) {
      rows.forEach((row, at) => {
        for (const cell of row.cells) {
          if (at === 0 || cell.textContent !== "") break;
          const above = rows[at - 1].cells[cell.cellIndex];
          cell.dataset.same = above.dataset.same ?? above.textContent;
        }
      });
    }
    const name = nameOf(table, index);
    if (!tables.has(name)) tables.set(name, { column: null, direction: 1, filter: "" });
    const state = tables.get(name);
    let count = null;
    if (all >= FILTER_FROM || state.filter !== "") {
      count = make("output", {});
      const input = make("input", { type: "search", size: "16", "data-focus": `filter ${name}` });
      input.value = state.filter;
      input.addEventListener("input", () => {
        state.filter = input.value;
        arrange(table, groups, state, count);
      });
      table.closest(".scroll").before(make("p", { class: "tools" }, make("label", {}, "Filter rows ", input), " ", count));
    }
    table.querySelectorAll("thead th").forEach((head, column) => {
      if (head.classList.contains("choice")) return;
      const button = make("button", { type: "button", class: "sort", "data-focus": `sort ${column} ${name}` }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Ascending, descending, original order.
        if (state.column !== column) Object.assign(state, { column, direction: 1 });
        else if (state.direction > 0) state.direction = -1;
        else state.column = null;
        arrange(table, groups, state, count);
      });
    });
    arrange(table, groups, state, count);
  };

  // Samples of a figure: the one under the pointer, or selected with a slider, which works with keyboards and screen readers.
  const pointsOf = (svg) => {
    const points = [];
    for (const strip of svg.querySelectorAll("g[data-values]")) {
      const drawn = (kind) => [...(strip.querySelector(`path.${kind}`)?.getAttribute("d") ?? "").matchAll(/M(-?[\d.]+) (-?[\d.]+)/g)];
      const marks = { ":": drawn("dots"), "x": drawn("crosses") };
      // Each is "number:value", or "number x value" without spaces for a disturbed trial, drawn as a cross.
      for (const [, number, kind, value] of strip.dataset.values.matchAll(/(\d+)([:x])(\S+)/g)) {
        const mark = marks[kind].shift();
        if (!mark) continue;
        points.push({ x: Number(mark[1]), y: Number(mark[2]), suspect: kind === "x", number, value: Number(value), name: strip.dataset.name, of: strip.dataset.of });
      }
    }
    return points;
  };

  const tell = (figure) => {
    const svg = figure.querySelector("svg.strips[data-unit]");
    if (!svg) return;
    const points = pointsOf(svg);
    if (points.length === 0) return;
    const slider = make("input", { type: "range", min: "1", max: String(points.length), value: "1", step: "1" });
    const words = make("span", { "aria-hidden": "true" }, "point at a sample, or move the slider");
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "6");
    const show = () => {
      const point = points[Number(slider.value) - 1];
      const { unit, factor } = converted(svg.dataset.unit);
      const value = point.value * factor;
      const text = `${point.name}, trial ${point.number} of ${point.of}: ${written(value, scaleOf(value))} ${unit}${point.suspect ? ", disturbed" : ""}`;
      put(words, text);
      slider.setAttribute("aria-valuetext", text);
      ring.setAttribute("cx", String(point.x));
      ring.setAttribute("cy", String(point.y));
      if (!ring.parentNode) svg.append(ring);
    };
    slider.addEventListener("input", show);
    figure.addEventListener("units", () => { if (ring.parentNode) show(); });
    svg.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      let nearest = -1;
      let least = 14 ** 2;
      points.forEach((point, index) => {
        const distance = (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
        if (distance < least) [nearest, least] = [index, distance];
      });
      if (nearest >= 0) {
        slider.value = String(nearest + 1);
        show();
      }
    });
    const tools = make("p", { class: "tools readout" }, make("label", {}, "Sample ", slider), " ", words);
    svg.closest(".scroll, figure").after(tools);
    if (tools.parentElement !== figure) figure.append(tools);
  };

  const begin = () => {
    offerUnits();
    document.querySelectorAll(".scroll > table").forEach(enhance);
    document.querySelectorAll("figure").forEach(tell);
    if (chosen.size > 0) showUnits(document);
  };
  window.nearfar = { begin, make };
  begin();
})();
