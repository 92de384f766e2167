// What is going on beside the devices: what waits and why, what is wrong, how rollouts go, what is not known.

import { eachFrame, h } from "./dom.js";
import { LAYERS, SEVERITIES, ageOf, many } from "./words.js";

const MOST = 60;
const natural = new Intl.Collator("en", { numeric: true });
const DONE = new Set(["done", "undone"]);

export class Side {
  #open = new Set();
  #tab = "waiting";

  /** `store` has the tables; `calls` are `open(kind, id)` and `tab(name)`. */
  constructor(tabs, panel, store, calls) {
    Object.assign(this, { tabs, panel, store, calls });
    this.draw = eachFrame(() => this.#draw());
    tabs.addEventListener("keydown", (event) => this.#key(event));
  }

  get tab() {
    return this.#tab;
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
    this.#tabs();
    const keep = { top: this.panel.scrollTop, key: document.activeElement?.dataset?.key };
    this.panel.setAttribute("aria-labelledby", `tab-${this.#tab}`);
    this.panel.replaceChildren(...TABS[this.#tab].draw(this));
    this.panel.scrollTop = keep.top;
    if (keep.key) this.panel.querySelector(`[data-key="${CSS.escape(keep.key)}"]`)?.focus({ preventScroll: true });
  }

  #tabs() {
    const focused = this.tabs.contains(document.activeElement);
    const buttons = Object.entries(TABS).map(([name, tab]) => {
      const on = name === this.#tab;
      return h(
        "button",
        {
          type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(on), "aria-controls": "panel",
          tabIndex: on ? 0 : -1, on: { click: () => this.calls.tab(name) },
        },
        tab.title, " ", h("span", { class: `number${tab.bad(this) ? " bad" : ""}` }, tab.count(this).toLocaleString("en")),
      );
    });
    this.tabs.replaceChildren(...buttons);
    if (focused) this.focus();
  }

  /** A list that opens and closes, and stays as it is when news come. */
  fold(key, summary, ...children) {
    const details = h("details", { open: this.#open.has(key) }, h("summary", { data: { key } }, summary));
    if (details.open) details.append(...children.flatMap((make) => make()));
    details.addEventListener("toggle", () => {
      if (details.open === this.#open.has(key)) return;
      if (details.open) this.#open.add(key);
      else this.#open.delete(key);
      this.draw();
    });
    return details;
  }

  item(kind, id, ...children) {
    return h("button", { type: "button", class: `item ${kind}`, data: { key: `${kind} ${id}` }, on: { click: () => this.calls.open(kind, id) } }, children);
  }

  more(count) {
    return count > MOST ? h("p", { class: "faint" }, `and ${many(count - MOST, "more")}: search for one by name`) : "";
  }

  nothing(words) {
    const deep = this.store.row("about", "deep") ?? {};
    if (deep.state === "failed") return [h("p", { class: "bad" }, `This could not be worked out (a bug of ours): ${deep.why}`)];
    return [h("p", { class: "faint" }, deep.state === "known" ? words : "Still looking …")];
  }
}

export const layerTag = (layer) => h("span", { class: "tag", title: `the layer it concerns: ${layer}` }, layer);

function groupedBy(rows, key) {
  const groups = new Map();
  for (const [id, row] of rows) {
    const name = key(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push([id, row]);
  }
  return groups;
}

// -- what waits

const waits = (side) => [...side.store.table("waiting")];

function drawWaiting(side) {
  const groups = groupedBy(waits(side), (row) => row.reason ?? "");
  if (!groups.size) return side.nothing("Nothing that asks for devices waits.");
  const pods = (rows) => rows.filter(([id]) => id.startsWith("pod/")).length;
  const sorted = [...groups].sort((one, other) => pods(other[1]) - pods(one[1]) || natural.compare(one[0], other[0]));
  return sorted.map(([reason, rows]) => {
    const claims = rows.length - pods(rows);
    const counts = [many(pods(rows), "pod"), claims ? many(claims, "claim") : ""].filter(Boolean).join(", ");
    const list = () => [
      ...rows.slice(0, MOST).map(([id, row]) =>
        side.item("waiting", id, h("b", {}, id.replace("/", " ")), h("span", { class: "faint" }, ` ${row.state}${row.sinceS ? `, for ${ageOf(row.sinceS)}` : ""}`)),
      ),
      side.more(rows.length),
    ];
    return side.fold(`reason ${reason}`, h("span", { class: "summary" }, layerTag(rows[0][1].layer), h("b", {}, counts), h("span", {}, reason)), list);
  });
}

// -- what is wrong

const findings = (side) => [...side.store.table("findings")].sort((one, other) => one[1].rank - other[1].rank);

function drawFindings(side) {
  const groups = groupedBy(findings(side), (row) => row.layer);
  if (!groups.size) return side.nothing("The audit finds nothing wrong.");
  return LAYERS.filter((layer) => groups.has(layer)).map((layer) => {
    const rows = groups.get(layer);
    return h(
      "section", { "aria-label": layer },
      h("h3", {}, layerTag(layer), ` ${SEVERITIES.map((one) => [rows.filter(([, row]) => row.severity === one).length, one]).filter(([count]) => count).map(([count, one]) => many(count, one)).join(", ")}`),
      rows.slice(0, MOST).map(([id, row]) =>
        side.item("finding", id, h("span", { class: `severity ${row.severity}` }, row.severity), h("b", {}, ` ${row.code}`), h("span", { class: "faint" }, ` ${row.what}`)),
      ),
      side.more(rows.length),
    );
  });
}

// -- rollouts

function drawRollouts(side) {
  const rollouts = [...side.store.table("rollouts")].sort((one, other) => natural.compare(one[0], other[0]));
  if (!rollouts.length) return [h("p", { class: "faint" }, "There is no record of a rollout in the cluster.")];
  const steps = groupedBy(side.store.table("steps"), (row) => row.rollout);
  return rollouts.map(([name, row]) => {
    const own = (steps.get(name) ?? []).sort((one, other) => one[1].number - other[1].number);
    const done = own.filter(([, step]) => DONE.has(step.state)).length;
    const list = () => own.map(([id, step]) => {
      const time = step.endedS ? `took ${ageOf(step.beganS, step.endedS)}` : step.beganS ? `for ${ageOf(step.beganS)}` : "";
      return side.item("step", id, h("span", { class: `state ${step.state}` }, step.state), h("b", {}, ` ${step.name}`), h("span", { class: "faint" }, ` ${time}`));
    });
    const bar = h("progress", { max: Math.max(own.length, 1), value: done, "aria-label": `${done} of ${own.length} steps done` });
    return h(
      "section", { "aria-label": name },
      h("h3", {}, layerTag("installation"), name, " ", h("span", { class: `state ${row.state.replaceAll(" ", "-")}` }, row.state)),
      row.reason ? h("p", {}, row.reason) : "",
      own.length ? h("p", { class: "progress" }, bar, ` ${done} of ${own.length} steps`) : "",
      own.length ? side.fold(`rollout ${name}`, "Steps", list) : "",
    );
  });
}

// -- who serves devices, and what can be asked for

function drawSupply(side) {
  const drivers = [...side.store.table("drivers")];
  const classes = [...side.store.table("classes")].sort((one, other) => natural.compare(one[0], other[0]));
  if (!drivers.length && !classes.length) return side.nothing("Nobody serves devices here.");
  const part = (layer, title, rows, draw) =>
    rows.length ? h("section", { "aria-label": title }, h("h3", {}, layerTag(layer), title), rows.map(([name, row]) => draw(side, name, row))) : "";
  return [
    part("discovery", "DRA drivers", drivers.filter(([, row]) => row.stack === "dra"), drawDriver),
    part("discovery", "Device plugins", drivers.filter(([, row]) => row.stack === "plugin"), drawPlugin),
    part("scheduling", "Device classes", classes, drawClass),
  ].filter(Boolean);
}

function drawDriver(side, name, row) {
  const incomplete = row.incompleteCount && `${many(row.incompleteCount, "pool")} incomplete, not allocated from: ${row.incomplete.join(", ")}${row.incompleteCount > row.incomplete.length ? " …" : ""}`;
  const outdated = row.outdated && `${many(row.outdated, "slice")} of older generations still there`;
  const written = row.writtenS ? `, last written ${ageOf(row.writtenS)} ago` : "";
  return side.item(
    "supplier", name,
    h("b", {}, name), h("span", { class: "faint" }, `${many(row.devices, "device")} on ${many(row.nodes, "node")}; ${many(row.pools, "pool")}, ${many(row.slices, "slice")}${written}`),
    [incomplete, outdated].filter(Boolean).map((words) => h("span", { class: "bad wide" }, words)),
  );
}

function drawPlugin(side, name, row) {
  return side.item(
    "supplier", name,
    h("b", {}, name), h("span", { class: "faint" }, `${(row.asked ?? 0).toLocaleString("en")} of ${many(row.devices, "device")} asked for, on ${many(row.nodes, "node")}`),
    row.unhealthy ? h("span", { class: "bad wide" }, `${many(row.unhealthy, "device")} cannot be allocated: unhealthy, or a plugin that is away`) : "",
  );
}

function drawClass(side, name, row) {
  const claims = Object.entries(row.claims ?? {}).map(([state, count]) => `${count} ${state}`).join(", ");
  const words = [
    row.devices === undefined ? "" : `selects ${many(row.devices, "device")}, ${row.free.toLocaleString("en")} free`,
    claims ? `claims: ${claims}` : "no claims",
    row.resource ? `counted as ${row.resource}` : "",
  ];
  return h(
    "div", { class: "item class" },
    h("b", {}, name), h("span", { class: "faint" }, words.filter(Boolean).join("; ")),
    row.broken ? h("span", { class: "bad wide" }, "its selectors do not compile") : "",
    row.failing ? h("span", { class: "bad wide" }, `its selectors fail on ${many(row.failing, "device")}`) : "",
  );
}

// -- what is not known

function drawUnknown(side) {
  const rows = [...side.store.table("unknown")];
  if (!rows.length) return side.nothing("Everything could be looked at.");
  return rows.slice(0, MOST).map(([what, row]) => h("div", { class: "unknown" }, h("b", {}, what), h("p", { class: "faint" }, row.why)));
}

const TABS = {
  waiting: { title: "Waiting", draw: drawWaiting, count: (side) => waits(side).filter(([id]) => id.startsWith("pod/")).length, bad: () => false },
  findings: { title: "Findings", draw: drawFindings, count: (side) => side.store.table("findings").size, bad: (side) => findings(side).some(([, row]) => row.severity === "error") },
  rollouts: { title: "Rollouts", draw: drawRollouts, count: (side) => side.store.table("rollouts").size, bad: (side) => [...side.store.table("steps").values()].some((row) => row.state === "failed") },
  supply: { title: "Drivers", draw: drawSupply, count: (side) => side.store.table("drivers").size, bad: (side) => [...side.store.table("drivers").values()].some((row) => row.incompleteCount) },
  unknown: { title: "Unknown", draw: drawUnknown, count: (side) => side.store.table("unknown").size, bad: () => false },
};
