// <grid-view>: an image of cells or pixels with layers over it, on which one paints, points and scrolls.
// Events: "cells" with {cells: [[row, column], ...], done}, and "scroll" with {steps}.
"use strict";

const FLUSH = 40; // ms between two events while the pointer moves

const STYLE = `
  :host { display: block; }
  .frame { position: relative; width: 100%; max-width: 100%; overflow: hidden; border-radius: 4px; touch-action: none;
    cursor: crosshair; outline: 1px solid var(--line); }
  .frame:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
  .frame > * { position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; user-select: none; }
  img { display: block; object-fit: fill; }
  img[hidden] { display: none; }
  .sharp img { image-rendering: pixelated; }
  .layer { opacity: var(--layer-opacity, 1); }
  .letters span { position: absolute; font: 600 .8rem/1 system-ui, sans-serif; color: #ffd166; text-shadow: 0 0 3px #000; }
  .letters span:nth-child(1) { left: .3rem; top: 50%; } .letters span:nth-child(2) { right: .3rem; top: 50%; }
  .letters span:nth-child(3) { left: 50%; bottom: .3rem; } .letters span:nth-child(4) { left: 50%; top: .3rem; }
`;

class GridView extends HTMLElement {
  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = `<style>${STYLE}</style><div class="frame" tabindex="0" role="application">
      <img class="base" alt="" draggable="false"><img class="layer" alt="" draggable="false">
      <svg class="drawing" preserveAspectRatio="none"></svg><svg class="hand" preserveAspectRatio="none"></svg>
      <div class="letters"></div></div>`;
    this.frame = root.querySelector(".frame");
    [this.base, this.layer] = root.querySelectorAll("img");
    [this.drawing, this.hand] = root.querySelectorAll("svg");
    this.letters = root.querySelector(".letters");
    this.cells = [];
    this.cursor = [0, 0];
    this.view = { rows: 1, columns: 1 };
    this.frame.addEventListener("pointerdown", (event) => this.begin(event));
    this.frame.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) this.frame.addEventListener(name, () => this.end());
    this.frame.addEventListener("keydown", (event) => this.press(event));
    this.frame.addEventListener("wheel", (event) => this.scroll(event), { passive: false });
  }

  // {rows, columns, aspect, image, layer, drawing, letters, label, brush, radius, mode, cursor, sharp}
  set data(view) {
    this.view = view;
    this.frame.style.aspectRatio = `${view.aspect}`;
    this.frame.classList.toggle("sharp", view.sharp);
    this.frame.setAttribute("aria-label", view.label);
    for (const [element, source] of [[this.base, view.image], [this.layer, view.layer]]) {
      element.hidden = !source;
      if (!source) element.removeAttribute("src");
      else if (element.getAttribute("src") !== source) element.src = source;
    }
    for (const svg of [this.drawing, this.hand]) svg.setAttribute("viewBox", `0 0 ${view.columns} ${view.rows}`);
    this.drawing.innerHTML = view.drawing;
    this.letters.replaceChildren(
      ...[...view.letters].map((letter) => Object.assign(document.createElement("span"), { textContent: letter })),
    );
    if (view.cursor) this.cursor = view.cursor;
    if (!this.last) this.sketch([]);
  }

  find(event) {
    const box = this.frame.getBoundingClientRect();
    const place = (at, low, size, count) => Math.min(count - 1, Math.max(0, Math.floor(((at - low) / size) * count)));
    return [
      place(event.clientY, box.top, box.height, this.view.rows),
      place(event.clientX, box.left, box.width, this.view.columns),
    ];
  }

  begin(event) {
    if (event.button !== 0) return;
    this.frame.setPointerCapture(event.pointerId);
    this.last = null;
    this.done = [];
    this.add(this.find(event));
  }

  move(event) {
    if (this.last) this.add(this.find(event));
  }

  // Adds the cells on the line from the last one, so that a quick stroke has no holes.
  add([row, column]) {
    const [fromRow, fromColumn] = this.last ?? [row, column];
    const steps = Math.max(Math.abs(row - fromRow), Math.abs(column - fromColumn));
    if (this.last && !steps) return;
    for (let i = this.last ? 1 : 0; i <= steps; i++) {
      const share = steps ? i / steps : 0;
      this.cells.push([Math.round(fromRow + share * (row - fromRow)), Math.round(fromColumn + share * (column - fromColumn))]);
    }
    this.last = this.cursor = [row, column];
    this.timer ??= setTimeout(() => this.flush(false), FLUSH);
    this.sketch([...this.done, ...this.cells]);
  }

  end() {
    if (!this.last) return;
    this.last = null;
    this.flush(true);
  }

  flush(done) {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.done?.push(...this.cells);
    const cells = this.view.mode === "point" ? this.cells.slice(-1) : this.cells;
    this.cells = [];
    if (cells.length || done) this.dispatchEvent(new CustomEvent("cells", { detail: { cells, done } }));
  }

  press(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const paints = event.key === " " || event.key === "Enter";
    const page = { PageUp: 1, PageDown: -1 }[event.key];
    if (page && this.view.mode === "point") this.dispatchEvent(new CustomEvent("scroll", { detail: { steps: page } }));
    else if (!step && !paints) return;
    event.preventDefault();
    if (page) return;
    if (step) {
      const limits = [this.view.rows, this.view.columns];
      this.cursor = this.cursor.map((at, i) => Math.min(limits[i] - 1, Math.max(0, at + step[i])));
    }
    if (paints || event.shiftKey || this.view.mode === "point") {
      this.cells.push(this.cursor);
      this.flush(true);
    }
    this.sketch([]);
  }

  scroll(event) {
    if (this.view.mode !== "point") return;
    event.preventDefault();
    this.turned = (this.turned ?? 0) + (event.deltaMode ? 40 * event.deltaY : event.deltaY);
    const steps = -Math.trunc(this.turned / 40);
    if (!steps) return;
    this.turned += 40 * steps;
    this.dispatchEvent(new CustomEvent("scroll", { detail: { steps } }));
  }

  // Shows at once what is being painted, and the cell of the keyboard.
  sketch(cells) {
    if (this.view.mode === "point") return;
    const { brush, radius = 0.5 } = this.view;
    const points = cells.map(([row, column]) => `${column + 0.5},${row + 0.5}`).join(" ");
    const [row, column] = this.cursor;
    const focused = this.shadowRoot.activeElement === this.frame;
    this.hand.innerHTML =
      (points
        ? `<polyline points="${points} ${points.split(" ").at(-1)}" fill="none" stroke="${brush}" stroke-opacity=".8"
            stroke-width="${2 * radius}" stroke-linecap="round" stroke-linejoin="round"/>`
        : "") +
      (focused && !this.last
        ? `<circle cx="${column + 0.5}" cy="${row + 0.5}" r="${radius}" fill="none" stroke="#000" stroke-width="3" vector-effect="non-scaling-stroke"/>
           <circle cx="${column + 0.5}" cy="${row + 0.5}" r="${radius}" fill="none" stroke="#fff" stroke-width="1.5" vector-effect="non-scaling-stroke"/>`
        : "");
  }
}

customElements.define("grid-view", GridView);
