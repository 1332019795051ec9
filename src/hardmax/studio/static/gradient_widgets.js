// The figures of the gradient lab, as custom elements: each draws the object in its property `data`, at its own width.
// They depend on nothing but the colours of the page (--ink, --muted, --line, --card, --paper, --accent): the documentation
// uses them without a server. A block, and not a module: browsers load no modules from pages on disk.
"use strict";

{
const SVG = "http://www.w3.org/2000/svg";
const STYLE = `
drag-bars, outcome-list, component-chart, estimate-cloud, ladder-chart, direct-steps { display: block; }
.hm-chart { display: block; overflow: visible; font-size: 12px; fill: var(--ink); }
.hm-chart .muted { fill: var(--muted); }
.hm-chart [role="slider"] { cursor: ns-resize; touch-action: none; outline: none; }
.hm-chart [role="slider"]:focus-visible rect.column { stroke: var(--accent); stroke-width: 2; }
.hm-outcomes { display: grid; grid-template-columns: auto minmax(4rem, 1fr) auto auto; gap: .1rem .7rem; align-items: center; font-size: .88rem; font-variant-numeric: tabular-nums; }
.hm-outcomes .head { color: var(--muted); font-size: .8rem; }
.hm-outcomes .number { text-align: right; }
.hm-outcomes .bar { height: .8rem; background: var(--accent); border-radius: 2px; min-width: 1px; }
.hm-legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .88rem; }
.hm-legend > span { display: inline-flex; align-items: center; gap: .35rem; }
.hm-steps button { font: inherit; color: var(--accent); background: none; border: 1px solid var(--line); border-radius: 4px; padding: .15rem .7rem; cursor: pointer; }
.hm-steps button:disabled { color: var(--muted); cursor: default; }
.hm-steps .controls { display: flex; gap: .5rem; align-items: center; flex-wrap: wrap; margin: .3rem 0; }
.hm-steps .pending { display: none; }
.hm-steps h4 { margin: .5rem 0 .1rem; font-size: .92rem; font-weight: 600; line-height: 1.3; letter-spacing: 0; }
`;
document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));

function format(value) {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size < 1e-5) return "0";
  return size >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(2))).replace("-", "−");
}

function add(parent, tag, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

function addHtml(parent, tag, className = "", text = null) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

function addSvg(parent, width, height, label) {
  return add(parent, "svg", { class: "hm-chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

// A circle, square, triangle or diamond, by number.
function drawMark(parent, number, x, y, attributes, size = 1) {
  const shape = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-4-4h8v8h-8z", "M0-5L5 4H-5z", "M0-5.500L5.500 0L0 5.500L-5.500 0z"][number % 4];
  add(parent, "path", { d: shape, transform: `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${size.toFixed(2)})`, ...attributes });
}

// An element that is drawn again when its data or its width change.
class Chart extends HTMLElement {
  #data = null;
  #width = 0;
  #observer = new ResizeObserver(() => {
    if (this.clientWidth !== this.#width) this.redraw();
  });

  connectedCallback() {
    this.#observer.observe(this);
    this.redraw();
  }

  disconnectedCallback() {
    this.#observer.disconnect();
  }

  get data() {
    return this.#data;
  }

  set data(value) {
    this.#data = value;
    this.redraw();
  }

  redraw() {
    this.#width = this.clientWidth;
    if (this.isConnected && this.#data && this.#width) this.draw(this.#width, this.#data);
  }
}

// Bars that are dragged, or moved with the arrow keys. data: {name, labels, values, least, most, step, colour, columns};
// columns is the number of bars in a row, or 0: as many as fit. Event "change" with detail {values}.
class DragBars extends Chart {
  #values = [];
  #dragged = false;

  draw(width, data) {
    // While the user drags, the bars follow the pointer.
    if (!this.#dragged) this.#values = [...data.values];
    const focused = [...this.querySelectorAll("[role=slider]")].indexOf(document.activeElement);
    const shape = `${width} ${data.columns} ${data.labels}`;
    if (this.dataset.shape !== shape) {
      this.dataset.shape = shape;
      this.build(width, data);
      if (focused >= 0) this.querySelectorAll("[role=slider]")[focused]?.focus();
    }
    this.update(data);
  }

  build(width, data) {
    this.replaceChildren();
    const count = data.labels.length;
    const columns = data.columns || Math.max(1, Math.min(count, Math.floor(width / 30)));
    const rows = Math.ceil(count / columns);
    this.high = data.columns ? 48 : rows > 1 ? 86 : 120;
    const line = this.high + 34;
    const svg = add(this, "svg", { class: "hm-chart", width, height: rows * line, role: "group", "aria-label": data.name });
    const wide = Math.min(width / columns, 64);
    this.bars = data.labels.map((label, i) => {
      const x = (i % columns) * wide;
      const y = Math.floor(i / columns) * line + 16;
      const group = add(svg, "g", {
        role: "slider", tabindex: 0, "aria-label": `${data.name} ${label}`, "aria-orientation": "vertical",
        "aria-valuemin": data.least, "aria-valuemax": data.most, transform: `translate(${x},${y})`,
      });
      add(group, "rect", { class: "column", x: 2, y: -14, width: wide - 4, height: line - 6, fill: "var(--card)", rx: 4 });
      add(group, "line", { x1: 4, x2: wide - 4, y1: this.toY(0), y2: this.toY(0), stroke: "var(--line)" });
      const bar = add(group, "rect", { x: wide * 0.22, width: wide * 0.56, fill: data.colour ?? "var(--accent)", rx: 2 });
      const knob = add(group, "rect", { x: wide * 0.16, width: wide * 0.68, height: 4, rx: 2, fill: "var(--ink)" });
      const number = add(group, "text", { x: wide / 2, y: -3, "text-anchor": "middle", "font-size": 11 });
      add(group, "text", { x: wide / 2, y: this.high + 13, "text-anchor": "middle", class: "muted" }, label);
      group.addEventListener("pointerdown", (event) => this.drag(event, group, i));
      group.addEventListener("keydown", (event) => this.press(event, i));
      return { group, bar, knob, number };
    });
  }

  toY(value) {
    const { least, most } = this.data;
    return ((most - value) / (most - least)) * this.high;
  }

  update(data) {
    this.bars.forEach(({ group, bar, knob, number }, i) => {
      const value = this.#values[i];
      const [zero, at] = [this.toY(0), this.toY(value)];
      bar.setAttribute("y", Math.min(zero, at));
      bar.setAttribute("height", Math.abs(zero - at));
      knob.setAttribute("y", at - 2);
      number.textContent = format(value);
      group.setAttribute("aria-valuenow", Number(value.toFixed(3)));
      group.setAttribute("aria-valuetext", `${format(value)}`);
    });
    this.dataset.values = this.#values.join(",");
  }

  move(i, value) {
    const { least, most, step } = this.data;
    const rounded = Math.min(most, Math.max(least, Math.round(value / step) * step));
    if (rounded === this.#values[i]) return;
    this.#values[i] = Number(rounded.toFixed(6));
    this.update(this.data);
    this.dispatchEvent(new CustomEvent("change", { detail: { values: [...this.#values] } }));
  }

  drag(event, group, i) {
    event.preventDefault();
    group.focus();
    group.setPointerCapture(event.pointerId);
    this.#dragged = true;
    const follow = (moved) => {
      const { least, most } = this.data;
      const top = group.getBoundingClientRect().top + 14;
      this.move(i, most - ((moved.clientY - top) / this.high) * (most - least));
    };
    const end = () => {
      this.#dragged = false;
      group.removeEventListener("pointermove", follow);
    };
    group.addEventListener("pointermove", follow);
    group.addEventListener("pointerup", end, { once: true });
    group.addEventListener("pointercancel", end, { once: true });
    follow(event);
  }

  press(event, i) {
    const { least, most, step } = this.data;
    const value = this.#values[i];
    const target = {
      ArrowUp: value + step, ArrowRight: value + step, ArrowDown: value - step, ArrowLeft: value - step,
      PageUp: value + 10 * step, PageDown: value - 10 * step, Home: least, End: most,
    }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.move(i, target);
  }
}

// The most probable z. data: {labels, probabilities, values, rest, mean}
class OutcomeList extends Chart {
  draw(width, data) {
    this.replaceChildren();
    const grid = addHtml(this, "div", "hm-outcomes");
    for (const head of ["z", "q(z)", "", "f(z)"]) addHtml(grid, "div", `head${head === "f(z)" ? " number" : ""}`, head);
    const most = Math.max(...data.probabilities);
    data.labels.forEach((label, i) => {
      addHtml(grid, "div", "", label);
      const bar = addHtml(addHtml(grid, "div"), "div", "bar");
      bar.style.width = `${(100 * data.probabilities[i]) / most}%`;
      addHtml(grid, "div", "number", data.probabilities[i].toFixed(3));
      addHtml(grid, "div", "number", format(data.values[i]));
    });
    const rest = data.rest ? ` ${data.rest} more z are less probable.` : "";
    addHtml(this, "div", "studio-note", `The expectation of f is ${data.mean.toFixed(3)}.${rest}`);
  }
}

// Components of the gradient. data: {labels, exact, estimators: [{name, colour, mark, mean, deviation}]}
class ComponentChart extends Chart {
  draw(width, data) {
    this.replaceChildren();
    const [left, high, top] = [40, 190, 10];
    const count = data.labels.length;
    const ends = data.estimators.flatMap((one) => one.mean.flatMap((mean, i) => [mean - one.deviation[i], mean + one.deviation[i]]));
    const inner = Math.max(...data.exact.map(Math.abs), ...data.estimators.flatMap((one) => one.mean.map(Math.abs)), 1e-3);
    // Long whiskers are cut: they must not flatten everything else.
    const most = Math.min(Math.max(inner, ...ends.map(Math.abs)), 4 * inner) * 1.05;
    const toY = (value) => top + ((most - Math.max(-most, Math.min(most, value))) / (2 * most)) * high;
    const exact = data.labels.map((label, i) => `${label}: ${format(data.exact[i])}`).join(", ");
    const svg = addSvg(this, width, high + 34, `Exact gradient by component: ${exact}`);
    for (const tick of [-most / 1.05, 0, most / 1.05]) {
      add(svg, "line", { x1: left, x2: width, y1: toY(tick), y2: toY(tick), stroke: "var(--line)" });
      add(svg, "text", { x: left - 6, y: toY(tick) + 4, "text-anchor": "end", class: "muted" }, format(tick));
    }
    const wide = (width - left) / count;
    data.labels.forEach((label, i) => {
      const x = left + i * wide;
      const [zero, at] = [toY(0), toY(data.exact[i])];
      const bar = { x: x + wide * 0.08, width: wide * 0.84, y: Math.min(zero, at), height: Math.max(Math.abs(zero - at), 1) };
      add(svg, "rect", { ...bar, fill: "var(--muted)", opacity: 0.28 });
      add(svg, "line", { x1: bar.x, x2: bar.x + bar.width, y1: at, y2: at, stroke: "var(--ink)", "stroke-width": 2 });
      data.estimators.forEach((one, j) => {
        const at = x + wide * (0.08 + (0.84 * (j + 0.5)) / data.estimators.length);
        const [low, up] = [one.mean[i] - one.deviation[i], one.mean[i] + one.deviation[i]];
        add(svg, "line", { x1: at, x2: at, y1: toY(low), y2: toY(up), stroke: one.colour, "stroke-width": 1.6 });
        drawMark(svg, one.mark, at, toY(one.mean[i]), { fill: one.colour }, Math.min(1, wide / 40 + 0.2));
      });
      if (wide > 18 || i % 2 === 0) {
        add(svg, "text", { x: x + wide / 2, y: high + top + 18, "text-anchor": "middle", class: "muted" }, label);
      }
    });
    this.dataset.exact = data.exact.map((value) => value.toFixed(6)).join(",");
  }
}

// A cloud of estimates. data: {points: [[x, y, count]], exact: [x, y], mean: [x, y], range, labels: [x, y], colour, draws}
class EstimateCloud extends Chart {
  draw(width, data) {
    this.replaceChildren();
    const size = Math.min(width, 260);
    const middle = size / 2;
    const scale = (0.47 * size) / data.range;
    const toX = (value) => middle + (value - data.exact[0]) * scale;
    const toY = (value) => middle - (value - data.exact[1]) * scale;
    const svg = addSvg(this, size, size, `Estimates: mean ${data.mean.map(format).join(", ")}; exact ${data.exact.map(format).join(", ")}`);
    add(svg, "rect", { x: 0.5, y: 0.5, width: size - 1, height: size - 1, fill: "none", stroke: "var(--line)", rx: 4 });
    add(svg, "line", { x1: 0, x2: size, y1: middle, y2: middle, stroke: "var(--line)" });
    add(svg, "line", { x1: middle, x2: middle, y1: 0, y2: size, stroke: "var(--line)" });
    const total = data.points.reduce((sum, point) => sum + point[2], 0);
    let outside = 0;
    const cloud = add(svg, "g", { fill: data.colour, "fill-opacity": 0.45 });
    for (const [x, y, count] of data.points) {
      if (Math.abs(x - data.exact[0]) > data.range || Math.abs(y - data.exact[1]) > data.range) outside += count;
      else add(cloud, "circle", { cx: toX(x).toFixed(1), cy: toY(y).toFixed(1), r: (1.6 * Math.sqrt(Math.min(count, 100))).toFixed(1) });
    }
    add(svg, "path", { d: `M${middle - 9} ${middle}h18M${middle} ${middle - 9}v18`, stroke: "var(--ink)", "stroke-width": 2 });
    const mean = { cx: toX(data.mean[0]), cy: toY(data.mean[1]), r: 5, fill: "var(--paper)", "stroke-width": 3 };
    add(svg, "circle", { ...mean, stroke: data.colour });
    add(svg, "text", { x: size - 5, y: middle - 5, "text-anchor": "end", class: "muted", "font-size": 11 }, data.labels[0]);
    add(svg, "text", { x: middle + 5, y: 13, class: "muted", "font-size": 11 }, data.labels[1]);
    if (outside) add(svg, "text", { x: 6, y: size - 7, class: "muted", "font-size": 11 }, `${outside < 0.01 * total ? "< 1" : ((100 * outside) / total).toFixed(0)} % outside`);
  }
}

// Bias and standard deviation along epsilon or tau. data: {ladders: [{name, colour, mark, parameter, values, bias, biased, deviation}]}
class LadderChart extends Chart {
  draw(width, data) {
    this.replaceChildren();
    const least = 1e-3;
    const numbers = data.ladders.flatMap((one) => [...one.bias, ...one.deviation]).filter((value) => value > 0);
    if (!numbers.length) return;
    const [left, top, high] = [44, 8, 220];
    const ends = [Math.log10(Math.max(Math.min(...numbers), least)), Math.log10(Math.max(...numbers))];
    const [low, up] = [Math.floor(ends[0] * 2) / 2 - 0.1, Math.ceil(ends[1] * 2) / 2 + 0.1];
    const values = data.ladders.flatMap((one) => one.values).map(Math.log10);
    const [first, last] = [Math.min(...values), Math.max(...values)];
    const right = width - 12;
    const toX = (value) => left + ((Math.log10(value) - first) / (last - first || 1)) * (right - left);
    const toY = (value) => top + ((up - Math.log10(Math.max(value, least))) / (up - low)) * high;
    const svg = addSvg(this, width, high + 50, data.ladders.map((one) => `${one.name}: bias ${one.bias.map(format).join(", ")}; deviation ${one.deviation.map(format).join(", ")}`).join(". "));
    for (let power = Math.ceil(low); power <= up; power++) {
      const y = toY(10 ** power);
      add(svg, "line", { x1: left, x2: right, y1: y, y2: y, stroke: "var(--line)" });
      add(svg, "text", { x: left - 6, y: y + 4, "text-anchor": "end", class: "muted" }, String(10 ** power));
    }
    for (let power = Math.ceil(first); power <= last; power++) {
      add(svg, "text", { x: toX(10 ** power), y: high + top + 18, "text-anchor": "middle", class: "muted" }, String(10 ** power));
    }
    add(svg, "text", { x: (left + right) / 2, y: high + top + 36, "text-anchor": "middle", class: "muted" }, "epsilon or tau");
    // Shapes as well as colours: not everyone tells the colours apart.
    const legend = addHtml(this, "div", "hm-legend");
    for (const one of data.ladders) {
      const key = addHtml(legend, "span");
      drawMark(add(key, "svg", { width: 14, height: 14, "aria-hidden": "true" }), one.mark, 7, 7, { fill: one.colour });
      addHtml(key, "span", "", `${one.name} by ${one.parameter}`);
      const path = (numbers) => numbers.map((value, i) => `${i ? "L" : "M"}${toX(one.values[i]).toFixed(1)} ${toY(value).toFixed(1)}`).join("");
      add(svg, "path", { d: path(one.deviation), fill: "none", stroke: one.colour, "stroke-width": 2, "stroke-dasharray": "5 4" });
      add(svg, "path", { d: path(one.bias), fill: "none", stroke: one.colour, "stroke-width": 2 });
      one.bias.forEach((value, i) => drawMark(svg, one.mark, toX(one.values[i]), toY(value), {
        stroke: one.colour, "stroke-width": 2, fill: one.biased[i] ? one.colour : "var(--paper)",
      }));
    }
  }
}

// One draw of Direct, step by step. data: {labels, epsilon, scores, perturbed, z, raised, z_epsilon, gradient, colour}
class DirectSteps extends Chart {
  #step = 0;

  draw(width, data) {
    this.replaceChildren();
    const root = addHtml(this, "div", "hm-steps");
    const controls = addHtml(root, "div", "controls");
    const steps = [
      ["1. The scores", data.scores, null],
      ["2. Noise is added; the arg max is z*", data.perturbed, data.z],
      [`3. ${format(data.epsilon)} f is added; the arg max is z(epsilon)`, data.raised, data.z_epsilon],
      [`4. The estimate: (z(epsilon) − z*) / ${format(data.epsilon)}`, data.gradient, null],
    ];
    const sections = steps.map(([title, values, chosen]) => {
      const section = addHtml(root, "section");
      addHtml(section, "h4", "", title);
      this.drawBars(section, width, data, values, chosen);
      return section;
    });
    if (data.gradient.every((value) => value === 0)) {
      addHtml(sections[3], "div", "studio-note", "z(epsilon) is z*: this estimate is zero. A larger epsilon makes that rarer.");
    }
    const back = addHtml(controls, "button", "", "Back");
    const next = addHtml(controls, "button", "", "Next step");
    const show = (step) => {
      this.#step = Math.max(0, Math.min(3, step));
      sections.forEach((section, i) => section.classList.toggle("pending", i > this.#step));
      back.disabled = this.#step === 0;
      next.disabled = this.#step === 3;
      this.dataset.step = this.#step;
    };
    back.addEventListener("click", () => show(this.#step - 1));
    next.addEventListener("click", () => show(this.#step + 1));
    show(this.#step);
  }

  restart() {
    this.#step = 0;
    this.redraw();
  }

  drawBars(parent, width, data, values, chosen) {
    const most = Math.max(...values.map(Math.abs), 1e-6);
    const [top, half] = [12, 34];
    const wide = Math.min(width / values.length, 64);
    const svg = addSvg(parent, width, 2 * half + 2 * top + 12, data.labels.map((label, i) => `${label}: ${format(values[i])}${chosen && chosen[i] ? " (chosen)" : ""}`).join(", "));
    values.forEach((value, i) => {
      const size = (Math.abs(value) / most) * half;
      const [x, zero] = [i * wide, top + half];
      const isChosen = chosen !== null && chosen[i] > 0.5;
      const bar = { x: x + wide * 0.2, width: wide * 0.6, y: value > 0 ? zero - size : zero, height: Math.max(size, 1), rx: 2 };
      add(svg, "rect", { ...bar, fill: chosen === null || isChosen ? data.colour : "var(--muted)", opacity: chosen !== null && !isChosen ? 0.45 : 1 });
      if (wide > 22) add(svg, "text", { x: x + wide / 2, y: value > 0 ? zero - size - 3 : zero + size + 11, "text-anchor": "middle", "font-size": 10.5 }, format(value));
      add(svg, "text", { x: x + wide / 2, y: 2 * half + 2 * top + 10, "text-anchor": "middle", "font-size": 11, class: isChosen ? "" : "muted", "font-weight": isChosen ? 700 : 400 }, data.labels[i]);
    });
    add(svg, "line", { x1: 0, x2: wide * values.length, y1: top + half, y2: top + half, stroke: "var(--line)" });
  }
}

for (const [name, kind] of Object.entries({
  "drag-bars": DragBars, "outcome-list": OutcomeList, "component-chart": ComponentChart,
  "estimate-cloud": EstimateCloud, "ladder-chart": LadderChart, "direct-steps": DirectSteps,
})) {
  customElements.define(name, kind);
}
}
