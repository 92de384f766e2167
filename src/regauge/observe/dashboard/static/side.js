// The frame of what is going on beside the devices: tabs, lists that open, and focus that stays when news come.

import { bad, eachFrame, faint, h } from "./dom.js";
import { drawFindings, drawRollouts, drawSupply, drawUnknown, drawWaiting, isPod } from "./panels.js";
import { many } from "./words.js";

const some = (rows, holds) => [...rows.values()].some(holds);

const TABS = {
  waiting: {
    title: "Waiting",
    draw: drawWaiting,
    count: (store) => [...store.table("waiting").keys()].filter(isPod).length,
    isBad: () => false,
  },
  findings: {
    title: "Findings",
    draw: drawFindings,
    count: (store) => store.table("findings").size,
    isBad: (store) => some(store.table("findings"), (row) => row.severity === "error"),
  },
  rollouts: {
    title: "Rollouts",
    draw: drawRollouts,
    count: (store) => store.table("rollouts").size,
    isBad: (store) => some(store.table("steps"), (row) => row.state === "failed"),
  },
  supply: {
    title: "Drivers",
    draw: drawSupply,
    count: (store) => store.table("drivers").size,
    isBad: (store) => some(store.table("drivers"), (row) => row.incompleteCount),
  },
  unknown: {
    title: "Unknown",
    draw: drawUnknown,
    count: (store) => store.table("unknown").size,
    isBad: () => false,
  },
};

export class Side {
  #open = new Set();
  #tab = "waiting";

  /** `store` has the tables; `calls` are `open(kind, id)` and `tab(name)`. */
  constructor(tabs, panel, store, calls) {
    Object.assign(this, { tabs, panel, store, calls });
    this.draw = eachFrame(() => this.#draw());
    tabs.addEventListener("keydown", (event) => this.#key(event));
  }

  set tab(name) {
    this.#tab = name in TABS ? name : "waiting";
    this.draw();
  }

  focus() {
    this.tabs.querySelector("[aria-selected=true]")?.focus();
  }

  #key(event) {
    const ways = { ArrowRight: 1, ArrowLeft: -1 };
    if (!(event.key in ways)) return;
    const names = Object.keys(TABS);
    const next = names[(names.indexOf(this.#tab) + ways[event.key] + names.length) % names.length];
    this.calls.tab(next);
    requestAnimationFrame(() => this.focus());
  }

  #draw() {
    this.#drawTabs();
    const keep = { top: this.panel.scrollTop, key: document.activeElement?.dataset?.key };
    this.panel.setAttribute("aria-labelledby", `tab-${this.#tab}`);
    this.panel.replaceChildren(...TABS[this.#tab].draw(this));
    this.panel.scrollTop = keep.top;
    if (keep.key) this.panel.querySelector(`[data-key="${CSS.escape(keep.key)}"]`)?.focus({ preventScroll: true });
  }

  #drawTabs() {
    const focused = this.tabs.contains(document.activeElement);
    this.tabs.replaceChildren(...Object.entries(TABS).map(([name, tab]) => this.#drawTab(name, tab)));
    if (focused) this.focus();
  }

  #drawTab(name, tab) {
    const on = name === this.#tab;
    const options = {
      type: "button",
      role: "tab",
      id: `tab-${name}`,
      "aria-selected": String(on),
      "aria-controls": "panel",
      tabIndex: on ? 0 : -1,
      on: { click: () => this.calls.tab(name) },
    };
    const count = tab.count(this.store).toLocaleString("en");
    return h("button", options, tab.title, " ", h("span", { class: tab.isBad(this.store) ? "number bad" : "number" }, count));
  }

  /** A list that opens and closes, and stays as it is when news come. */
  fold(key, summary, make) {
    const details = h("details", { open: this.#open.has(key) }, h("summary", { data: { key } }, summary));
    if (details.open) details.append(...make());
    details.addEventListener("toggle", () => {
      if (details.open === this.#open.has(key)) return;
      if (details.open) this.#open.add(key);
      else this.#open.delete(key);
      this.draw();
    });
    return details;
  }

  /** A line that opens something. */
  item(kind, id, ...children) {
    const options = {
      type: "button",
      class: `item ${kind}`,
      data: { key: `${kind} ${id}` },
      on: { click: () => this.calls.open(kind, id) },
    };
    return h("button", options, children);
  }

  /** The first of many items, and how many more there are. */
  first(most, rows, draw) {
    const left = rows.length - most;
    const more = left > 0 ? h("p", { class: "faint" }, `and ${many(left, "more")}: search for one by name`) : "";
    return [...rows.slice(0, most).map(draw), more];
  }

  /** What stands where there is nothing to show. */
  nothing(words) {
    const deep = this.store.row("about", "deep") ?? {};
    if (deep.state === "failed") return [bad(`This could not be worked out (a bug of ours): ${deep.why}`)];
    return [faint(deep.state === "known" ? words : "Still looking …")];
  }
}
