// The picture of the estate: one canvas as large as the window, that draws what is in sight. The keyboard goes everywhere;
// the device that is marked is also there as text, for those who do not see the picture.

import { calm, eachFrame } from "./dom.js";
import { cornerOf, hit, moved, rowAt } from "./layout.js";
import { many, spoken, stateOf } from "./words.js";

const NEWS_MS = 1600;
const MOST_NEWS = 500;
const INSET = 12;
const KEYS = new Set(["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);

export class Grid {
  #layout = null;
  #news = new Map();
  #box = { width: 0, height: 0 };
  active = "";

  constructor(parts, glyphs, calls) {
    Object.assign(this, parts);
    this.glyphs = glyphs;
    this.calls = calls;
    this.context = this.canvas.getContext("2d");
    this.draw = eachFrame(() => this.#draw());
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.#key(event));
    this.scroller.addEventListener("click", (event) => this.#click(event));
    this.scroller.addEventListener("pointermove", (event) => this.#point(event));
    this.scroller.addEventListener("pointerleave", () => this.calls.pointed(null));
    for (const event of ["focus", "blur"]) this.scroller.addEventListener(event, () => this.draw());
    this.scroller.addEventListener("focus", () => this.mark(this.active || this.#layout?.order[0], false));
  }

  /** The width that tiles may take. */
  get width() {
    return Math.max(100, this.scroller.clientWidth - 2 * INSET);
  }

  show(layout) {
    this.#layout = layout;
    this.space.style.height = `${layout.height + 2 * INSET}px`;
    this.scroller.setAttribute("aria-rowcount", String(layout.rows.length));
    if (!layout.places.has(this.active)) this.active = "";
    this.draw();
  }

  /** Shows for a moment that these have changed. */
  tell(ids) {
    if (ids.size > MOST_NEWS) return;
    const until = performance.now() + NEWS_MS;
    for (const id of ids) this.#news.set(id, until);
    this.draw();
  }

  /** Marks a device, and brings it into sight. */
  mark(id, scroll = true) {
    const place = this.#layout?.places.get(id);
    if (!place) return false;
    this.active = id;
    const row = this.calls.rowOf(id);
    this.text.textContent = row ? spoken(id, row) : id;
    this.text.id = "grid-active";
    this.text.setAttribute("aria-selected", "true");
    this.scroller.setAttribute("aria-activedescendant", "grid-active");
    if (scroll) this.#bring(id);
    this.draw();
    return true;
  }

  /** The corner of a device in the window; what tests and tips point at. */
  cornerOf(id) {
    const corner = this.#layout && cornerOf(this.#layout, id);
    if (!corner) return null;
    const box = this.scroller.getBoundingClientRect();
    const half = this.#layout.size.cell / 2;
    return { x: box.left + INSET + corner.x + half, y: box.top + INSET + corner.y - this.scroller.scrollTop + half };
  }

  #bring(id) {
    const { y } = cornerOf(this.#layout, id);
    const { cell, header } = this.#layout.size;
    const top = this.scroller.scrollTop;
    const above = y + INSET - header - 8;
    const below = y + INSET + cell + 16 - this.scroller.clientHeight;
    if (top > above) this.scroller.scrollTop = Math.max(0, above);
    else if (top < below) this.scroller.scrollTop = below;
  }

  #key(event) {
    if (!this.#layout?.order.length || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.active) this.calls.open(this.active);
      return;
    }
    if (!KEYS.has(event.key)) return;
    event.preventDefault();
    const far = { Home: "First", End: "Last" };
    const key = event.ctrlKey ? (far[event.key] ?? event.key) : event.key;
    this.mark(moved(this.#layout, this.active, key, this.scroller.clientHeight * 0.8));
  }

  #at(event) {
    const box = this.scroller.getBoundingClientRect();
    return hit(this.#layout, event.clientX - box.left - INSET, event.clientY - box.top - INSET + this.scroller.scrollTop);
  }

  #click(event) {
    const found = this.#layout?.rows.length ? this.#at(event) : null;
    if (found?.id) {
      this.mark(found.id, false);
      this.calls.open(found.id);
    } else if (found?.node) this.calls.node(found.node);
  }

  #point(event) {
    const found = this.#layout?.rows.length ? this.#at(event) : null;
    this.scroller.style.cursor = found?.id || found?.node ? "pointer" : "";
    this.calls.pointed(found, event.clientX, event.clientY);
  }

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.scroller;
    const ratio = devicePixelRatio || 1;
    const wide = Math.round(width * ratio);
    const high = Math.round(height * ratio);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.#box = { width, height };
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  #draw() {
    this.#fit();
    const layout = this.#layout;
    if (!layout?.rows.length) return;
    const top = this.scroller.scrollTop - INSET;
    this.context.save();
    this.context.translate(INSET, -top);
    const first = rowAt(layout, top);
    for (let number = first; number < layout.rows.length; number++) {
      const row = layout.rows[number];
      if (row.y > top + this.#box.height) break;
      if (row.kind === "header") this.#header(row, row.y);
      else this.#shelf(row);
    }
    this.#marks();
    this.context.restore();
    this.#stay(first, top);
    this.#later();
  }

  #header(row, y) {
    const { context, glyphs } = this;
    const name = row.group || (row.group === "" ? "all nodes" : "");
    context.textBaseline = "middle";
    context.font = "600 13px system-ui, sans-serif";
    context.fillStyle = glyphs.colours.text;
    context.fillText(name, 0, y + row.height / 2);
    const after = context.measureText(name).width + 10;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = glyphs.colours.faint;
    row.words ??= this.#counted(row);
    context.fillText(row.words, after, y + row.height / 2);
  }

  #counted(row) {
    const free = row.ids.filter((id) => stateOf(this.calls.rowOf(id) ?? { state: "gone" }) === "free").length;
    return `${many(row.nodes, "node")}, ${free.toLocaleString("en")} of ${many(row.ids.length, "device")} free`;
  }

  #shelf(row) {
    const { cell, gap, label, space } = this.#layout.size;
    row.tiles.forEach((tile, at) => {
      const x = at * row.tileWidth;
      if (label) this.#label(tile.node, x, row.y, row.tileWidth - space);
      else if (this.calls.nodeOf(tile.node)?.trouble) this.#strike(x, row.y, row.tileWidth - space);
      tile.ids.forEach((id, index) => {
        const device = id === undefined ? null : this.calls.rowOf(id);
        if (!device) return;
        const left = x + (index % row.columns) * (cell + gap);
        const upper = row.y + label + Math.floor(index / row.columns) * (cell + gap);
        this.glyphs.draw(this.context, left, upper, cell, device, !this.#layout.places.has(id));
      });
    });
  }

  #label(node, x, y, width) {
    const { context, glyphs } = this;
    const trouble = this.calls.nodeOf(node)?.trouble;
    context.textBaseline = "top";
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = trouble ? glyphs.colours.bad : glyphs.colours.faint;
    context.fillText(clipped(context, trouble ? `${node}: ${trouble}` : node, width), x, y);
  }

  /** Trouble of a node where there is no room for its name. */
  #strike(x, y, width) {
    this.context.fillStyle = this.glyphs.colours.bad;
    this.context.fillRect(x, y - 4, width, 2);
  }

  #marks() {
    const { context, glyphs } = this;
    const { cell } = this.#layout.size;
    const now = performance.now();
    for (const [id, until] of this.#news) {
      const corner = cornerOf(this.#layout, id);
      if (now >= until) this.#news.delete(id);
      if (now >= until || !corner) continue;
      const left = (until - now) / NEWS_MS;
      const grown = calm.matches ? 3 : 3 + 5 * (1 - left);
      context.globalAlpha = calm.matches ? 0.6 : 0.6 * left;
      context.strokeStyle = glyphs.colours.text;
      context.lineWidth = 1.5;
      context.strokeRect(corner.x - grown, corner.y - grown, cell + 2 * grown, cell + 2 * grown);
      context.globalAlpha = 1;
    }
    const corner = this.active && cornerOf(this.#layout, this.active);
    if (!corner) return;
    context.strokeStyle = document.activeElement === this.scroller ? glyphs.colours.focus : glyphs.colours.text;
    context.lineWidth = 2;
    context.strokeRect(corner.x - 3, corner.y - 3, cell + 6, cell + 6);
  }

  /** The header of the group in sight stays at the top. */
  #stay(first, top) {
    const { context, glyphs } = this;
    const rows = this.#layout.rows;
    let number = first;
    while (number > 0 && rows[number].kind !== "header") number--;
    const row = rows[number];
    if (row.kind !== "header" || row.y >= top) return;
    context.fillStyle = glyphs.colours.page;
    context.globalAlpha = 0.94;
    context.fillRect(0, 0, this.#box.width, row.height);
    context.globalAlpha = 1;
    context.fillStyle = glyphs.colours.line;
    context.fillRect(0, row.height - 1, this.#box.width, 1);
    context.save();
    context.translate(INSET, 0);
    this.#header(row, 0);
    context.restore();
  }

  #later() {
    if (!this.#news.size) return;
    if (calm.matches) setTimeout(this.draw, NEWS_MS);
    else this.draw();
  }
}

const widths = new Map();

function clipped(context, text, width) {
  const key = `${width} ${text}`;
  if (widths.has(key)) return widths.get(key);
  let shown = text;
  if (context.measureText(text).width > width) {
    let keep = text.length;
    while (keep > 1 && context.measureText(`${text.slice(0, keep)}…`).width > width) keep--;
    shown = `${text.slice(0, keep)}…`;
  }
  if (widths.size > 20000) widths.clear();
  widths.set(key, shown);
  return shown;
}
