// The same devices as a table: only the rows in sight are in the document.

import { eachFrame, h } from "./dom.js";
import { STACKS, STATES, healthOf, holdersOf, stackOf, stateOf } from "./words.js";

const ROW = 30;
const AROUND = 6;
const natural = new Intl.Collator("en", { numeric: true });
const COLUMNS = [
  ["device", (id, row) => `${id.split("/").at(-1)} of ${row.source}`],
  ["node", (_, row, node) => (node.trouble ? `${row.node}: ${node.trouble}` : row.node)],
  ["node pool", (_, _row, node) => node.pool ?? ""],
  ["served by", (_, row) => STACKS[stackOf(row)][0]],
  ["state", (_, row) => STATES[stateOf(row)][0]],
  ["health", (_, row) => row.trouble ?? (row.taints?.length ? `tainted ${row.taints.join(", ")}` : "")],
  ["held by", (_, row) => holdersOf(row).join(", ")],
];

export class DeviceTable {
  #ids = [];
  #by = -1;
  #down = false;
  active = "";

  constructor(element, glyphs, calls) {
    this.element = element;
    this.glyphs = glyphs;
    this.calls = calls;
    this.draw = eachFrame(() => this.#draw());
    this.head = h("div", { class: "row head", role: "row" });
    this.body = h("div", { class: "body", role: "rowgroup", tabIndex: -1 }, h("div", { class: "space" }));
    element.append(h("div", { role: "rowgroup" }, this.head), this.body);
    this.body.addEventListener("scroll", () => this.draw(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.#key(event));
    this.#heads();
  }

  show(order) {
    this.#ids = this.#by < 0 ? [...order] : this.#sorted(order);
    this.element.setAttribute("aria-rowcount", String(this.#ids.length + 1));
    this.body.firstChild.style.height = `${this.#ids.length * ROW}px`;
    this.draw();
  }

  mark(id, focus = false) {
    const at = this.#ids.indexOf(id);
    if (at < 0) return false;
    this.active = id;
    const { scrollTop, clientHeight } = this.body;
    if (at * ROW < scrollTop) this.body.scrollTop = at * ROW;
    if ((at + 1) * ROW > scrollTop + clientHeight) this.body.scrollTop = (at + 1) * ROW - clientHeight;
    this.#draw(focus);
    return true;
  }

  focus() {
    this.mark(this.active || this.#ids[0], true);
  }

  #heads() {
    this.head.replaceChildren(
      ...COLUMNS.map(([title], at) => {
        const sorted = at === this.#by ? (this.#down ? "descending" : "ascending") : "none";
        const mark = at === this.#by ? (this.#down ? " ↓" : " ↑") : "";
        const button = h("button", { type: "button", on: { click: () => this.#sortBy(at) } }, title + mark);
        return h("div", { role: "columnheader", "aria-sort": sorted }, button);
      }),
    );
  }

  #sortBy(at) {
    this.#down = at === this.#by && !this.#down;
    this.#by = at;
    this.#heads();
    this.head.children[at].firstChild.focus();
    this.show(this.#ids);
  }

  #sorted(ids) {
    const text = COLUMNS[this.#by][1];
    const keyed = [...ids].map((id) => {
      const row = this.calls.rowOf(id) ?? {};
      return [text(id, row, this.calls.nodeOf(row.node) ?? {}), id];
    });
    const way = this.#down ? -1 : 1;
    return keyed.sort((one, other) => way * natural.compare(one[0], other[0])).map(([, id]) => id);
  }

  #draw(focus = document.activeElement?.dataset?.device !== undefined) {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - AROUND);
    const last = Math.min(this.#ids.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / ROW) + AROUND);
    const active = this.#ids.includes(this.active) ? this.active : this.#ids[first];
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.#row(this.#ids[at], at, active));
    this.body.replaceChildren(this.body.firstChild, ...rows);
    if (focus) rows.find((row) => row.dataset.device === this.active)?.focus({ preventScroll: true });
  }

  #row(id, at, active) {
    const row = this.calls.rowOf(id) ?? { node: "", source: "" };
    const node = this.calls.nodeOf(row.node) ?? {};
    const element = h("div", {
      class: `row${row.trouble ? " bad" : ""}`,
      role: "row",
      tabIndex: id === active ? 0 : -1,
      "aria-rowindex": String(at + 2),
      data: { device: id },
      on: { click: () => this.#open(id), focus: () => (this.active = id) },
    });
    element.style.transform = `translateY(${at * ROW}px)`;
    const glyph = {
      stack: stackOf(row),
      state: stateOf(row),
      health: healthOf(row),
      counted: row.counted,
      tainted: row.taints?.length > 0,
    };
    COLUMNS.forEach(([, text], column) => {
      const words = text(id, row, node);
      const sample = column === 0 ? this.glyphs.sample(glyph, 12) : "";
      element.append(h("div", { role: "gridcell", title: column === 0 ? id : words }, sample, words));
    });
    return element;
  }

  #open(id) {
    this.active = id;
    this.calls.open(id);
  }

  #key(event) {
    const at = this.#ids.indexOf(this.active);
    const screen = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 1);
    const ways = { ArrowDown: 1, ArrowUp: -1, PageDown: screen, PageUp: -screen, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#open(this.active);
    } else if (event.key in ways && at >= 0) {
      event.preventDefault();
      const next = Math.min(this.#ids.length - 1, Math.max(0, at + ways[event.key]));
      this.mark(this.#ids[next], true);
    }
  }
}
