// How a device looks: colour says who serves it, filling says what it is doing, a ring is trouble, a corner is a taint.
// A circle is a device that is only counted: there it is not known which one it is.

import { h } from "./dom.js";
import { healthOf, stackOf, stateOf } from "./words.js";

const MARGIN = 2;
const COLOURS = ["plugin", "dra", "bridge", "both", "bad", "taint", "page", "text", "faint", "line", "focus"];

export class Glyphs {
  #sprites = new Map();
  #samples = new Map();
  #cell = 0;
  #ratio = 1;
  colours = {};

  /** Reads the colours of the theme, and forgets what was drawn in others. */
  refresh() {
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.#sprites.clear();
    this.#samples.clear();
  }

  /** Draws the cell of a device with its corner at x, y. */
  draw(context, x, y, cell, row, dim) {
    const ratio = devicePixelRatio || 1;
    if (cell !== this.#cell || ratio !== this.#ratio) {
      this.#sprites.clear();
      this.#cell = cell;
      this.#ratio = ratio;
    }
    const kind = { stack: stackOf(row), state: stateOf(row), health: healthOf(row), counted: row.counted === true };
    const key = `${kind.stack} ${kind.state} ${kind.health} ${kind.counted} ${row.taints?.length > 0}`;
    let sprite = this.#sprites.get(key);
    if (!sprite) {
      sprite = this.#sprite(cell, ratio, kind, row.taints?.length > 0);
      this.#sprites.set(key, sprite);
    }
    if (dim) context.globalAlpha = 0.22;
    context.drawImage(sprite, x - MARGIN, y - MARGIN, cell + 2 * MARGIN, cell + 2 * MARGIN);
    if (dim) context.globalAlpha = 1;
  }

  /** A small picture of one kind, for legends and tables. */
  sample(kind, size = 14) {
    const whole = { stack: "dra", state: "allocated", health: "good", ...kind };
    const key = `${size} ${Object.values(whole).join(" ")}`;
    if (!this.#samples.has(key)) {
      const sprite = this.#sprite(size, devicePixelRatio || 1, whole, kind.tainted);
      this.#samples.set(key, sprite.toDataURL());
    }
    const side = size + 2 * MARGIN;
    return h("img", { class: "sample", src: this.#samples.get(key), width: side, height: side, alt: "" });
  }

  #sprite(cell, ratio, kind, tainted) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.ceil((cell + 2 * MARGIN) * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.translate(MARGIN, MARGIN);
    this.#shape(context, cell, kind);
    if (tainted) this.#corner(context, cell);
    if (kind.health === "trouble") this.#ring(context, cell, kind.counted);
    return canvas;
  }

  #outline(context, cell, counted, inset) {
    const size = cell - 2 * inset;
    context.beginPath();
    if (counted) context.arc(cell / 2, cell / 2, size / 2, 0, 2 * Math.PI);
    else context.roundRect(inset, inset, size, size, Math.max(1, cell / 8));
  }

  #shape(context, cell, { stack, state, counted }) {
    const colour = this.colours[stack];
    const line = Math.max(1, cell / 11);
    context.fillStyle = context.strokeStyle = colour;
    context.lineWidth = line;
    const solid = ["allocated", "shared", "leaked"].includes(state);
    this.#outline(context, cell, counted, solid ? 0 : line / 2);
    if (solid) {
      context.fill();
      context.save();
      context.clip();
      context.strokeStyle = context.fillStyle = this.colours.page;
      if (state === "shared") context.fillRect(cell / 2 - line, 0, 2 * line, cell);
      if (state === "leaked") this.#cross(context, cell, line);
      context.restore();
      return;
    }
    context.globalAlpha = 0.13;
    context.fill();
    context.globalAlpha = 1;
    context.save();
    context.clip();
    if (state === "reserved") context.fillRect(0, cell / 2, cell, cell / 2);
    if (state === "blocked") {
      context.beginPath();
      context.moveTo(0, cell);
      context.lineTo(cell, 0);
      context.stroke();
    }
    context.restore();
    this.#outline(context, cell, counted, line / 2);
    context.stroke();
  }

  #cross(context, cell, line) {
    const inset = cell * 0.26;
    context.lineWidth = 1.7 * line;
    context.beginPath();
    context.moveTo(inset, inset);
    context.lineTo(cell - inset, cell - inset);
    context.moveTo(cell - inset, inset);
    context.lineTo(inset, cell - inset);
    context.stroke();
  }

  #corner(context, cell) {
    const size = Math.max(4, cell * 0.45);
    context.beginPath();
    context.moveTo(cell - size, 0);
    context.lineTo(cell, 0);
    context.lineTo(cell, size);
    context.closePath();
    context.fillStyle = this.colours.taint;
    context.fill();
    context.strokeStyle = this.colours.page;
    context.lineWidth = 1;
    context.stroke();
  }

  #ring(context, cell, counted) {
    context.strokeStyle = this.colours.bad;
    context.lineWidth = Math.max(1.6, cell / 8);
    this.#outline(context, cell, counted, 0);
    context.stroke();
  }
}
