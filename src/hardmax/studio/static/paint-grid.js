// A grid of cells to paint on, with mouse, finger or keyboard: tokens of an image, or the pixels of a hole.
// Properties: `data` {height, width, colours, values, label, version}, `backdrop` (address of an image below the cells), `brush`
// (the value that is painted), `radius` (of the brush, in cells). While it is painted on, it sends "change" with
// {values, version}; the version counts changes on both sides, and data that are older than what is painted are ignored.
"use strict";

const PAUSE = 60; // milliseconds between two events while a stroke is drawn

class PaintGrid extends HTMLElement {
  constructor() {
    super();
    this.grid = null;
    this.at = [0, 0];
    this.version = 0;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => this.end());
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    for (const name of ["focus", "blur"]) this.canvas.addEventListener(name, () => this.draw());
    this.image = new Image();
    this.image.addEventListener("load", () => this.draw());
    this.watcher = new ResizeObserver(() => this.draw());
  }

  connectedCallback() {
    this.append(this.canvas);
    this.watcher.observe(this);
  }

  disconnectedCallback() {
    this.watcher.disconnect();
  }

  set data(value) {
    if (this.grid && (this.stroke || value.version < this.version)) return;
    this.version = value.version;
    this.grid = { ...value, values: [...value.values] };
    this.canvas.setAttribute("aria-label", `${value.label}: arrow keys move, space paints, delete erases`);
    this.draw();
  }

  set backdrop(value) {
    if (value && value !== this.image.src) this.image.src = value;
  }

  set brush(value) {
    this.value = value;
  }

  set radius(value) {
    this.size = value;
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.grid.width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.grid.height);
    return [row, column];
  }

  begin(event) {
    if (!this.grid) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus({ preventScroll: true });
    event.preventDefault();
    this.stroke = this.find(event);
    this.paint(...this.stroke);
  }

  move(event) {
    if (!this.stroke) return;
    // A fast pointer skips cells: paint all those on the line.
    const [row, column] = this.find(event);
    const steps = Math.max(Math.abs(row - this.stroke[0]), Math.abs(column - this.stroke[1]));
    for (let i = 1; i <= steps; i++) {
      const share = i / steps;
      this.paint(
        Math.round(this.stroke[0] + share * (row - this.stroke[0])),
        Math.round(this.stroke[1] + share * (column - this.stroke[1])),
      );
    }
    this.stroke = [row, column];
  }

  end() {
    if (!this.stroke) return;
    this.stroke = null;
    this.send();
  }

  press(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (move) {
      this.at = [
        Math.min(Math.max(this.at[0] + move[0], 0), this.grid.height - 1),
        Math.min(Math.max(this.at[1] + move[1], 0), this.grid.width - 1),
      ];
      this.draw();
    } else if (event.key === " " || event.key === "Enter") {
      this.paint(...this.at);
      this.send();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.paint(...this.at, 0);
      this.send();
    } else return;
    event.preventDefault();
  }

  paint(row, column, value = this.value ?? 1) {
    const { height, width, values } = this.grid;
    this.version += 1;
    const reach = (this.size ?? 1) - 1;
    for (let y = row - reach; y <= row + reach; y++)
      for (let x = column - reach; x <= column + reach; x++) {
        const near = (y - row) ** 2 + (x - column) ** 2 <= (reach + 0.3) ** 2;
        if (near && y >= 0 && x >= 0 && y < height && x < width) values[y * width + x] = value;
      }
    this.at = [Math.min(Math.max(row, 0), height - 1), Math.min(Math.max(column, 0), width - 1)];
    this.draw();
    if (!this.timer) this.timer = setTimeout(() => this.send(), PAUSE);
  }

  send() {
    clearTimeout(this.timer);
    this.timer = null;
    this.dispatchEvent(new CustomEvent("change", { detail: { values: [...this.grid.values], version: this.version } }));
  }

  draw() {
    if (!this.grid || !this.isConnected) return;
    const { height, width, colours, values } = this.grid;
    const shown = this.clientWidth || 280;
    const cell = Math.max(1, Math.round((shown * (window.devicePixelRatio || 1)) / width));
    this.canvas.width = cell * width;
    this.canvas.height = cell * height;
    const pen = this.canvas.getContext("2d");
    const hasBackdrop = this.image.complete && this.image.naturalWidth > 0;
    if (hasBackdrop) {
      pen.imageSmoothingEnabled = false;
      pen.drawImage(this.image, 0, 0, this.canvas.width, this.canvas.height);
    }
    const line = getComputedStyle(this).getPropertyValue("--line") || "#888";
    for (let i = 0; i < values.length; i++) {
      const colour = colours[values[i]];
      const [y, x] = [Math.floor(i / width) * cell, (i % width) * cell];
      if (colour) {
        // Tokens leave the middle of the cell to the image below.
        pen.globalAlpha = hasBackdrop && colours[0] ? 0.55 : 0.9;
        pen.fillStyle = colour;
        pen.fillRect(x, y, cell, cell);
        pen.globalAlpha = 1;
      }
      if (cell >= 12) {
        pen.strokeStyle = line;
        pen.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
      }
    }
    if (document.activeElement === this.canvas) {
      const [y, x] = [this.at[0] * cell, this.at[1] * cell];
      pen.lineWidth = 3;
      pen.strokeStyle = "#ffffff";
      pen.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
      pen.lineWidth = 1.5;
      pen.strokeStyle = "#000000";
      pen.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
      pen.lineWidth = 1;
    }
  }
}

customElements.define("paint-grid", PaintGrid);
