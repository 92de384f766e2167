// What is opened: a device, a pod or claim that waits, a finding, a step of a rollout. Escape closes it and gives focus back.

import { h } from "./dom.js";
import { layerTag } from "./side.js";
import { STACKS, STATES, ageOf, healthOf, stackOf, stateOf } from "./words.js";

export class Drawer {
  #opener = null;
  #shown = null;

  /** `beside` is what the drawer lies on: out of reach while it is open. */
  constructor(element, beside, store, glyphs, calls) {
    Object.assign(this, { element, beside, store, glyphs, calls });
    element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        this.close();
      }
    });
  }

  get shown() {
    return this.#shown;
  }

  open(kind, id, focus = true) {
    if (this.element.hidden) this.#opener = document.activeElement;
    else if (this.#shown?.kind === "device" && kind !== "device") this.calls.closed("device");
    this.#shown = { kind, id };
    this.element.hidden = false;
    this.beside.inert = true;
    this.#draw();
    if (focus) this.element.focus({ preventScroll: true });
    this.calls.opened(kind, id);
  }

  /** Draws again what is open, if it is one of these. */
  refresh(touched) {
    if (!this.#shown) return;
    const tables = { device: "devices", waiting: "waiting", finding: "findings", step: "steps" };
    const about = this.#shown.kind === "device" && touched?.findings;
    if (touched === null || about || touched[tables[this.#shown.kind]]?.has(this.#shown.id)) this.#draw();
  }

  close() {
    if (!this.#shown) return;
    const { kind } = this.#shown;
    this.#shown = null;
    this.element.hidden = true;
    this.beside.inert = false;
    this.element.replaceChildren();
    this.calls.closed(kind);
    if (this.#opener?.isConnected) this.#opener.focus({ preventScroll: true });
    else this.calls.home();
  }

  #draw() {
    const { kind, id } = this.#shown;
    const top = this.element.scrollTop;
    const [title, ...content] = KINDS[kind](this, id);
    this.element.replaceChildren(
      h("div", { class: "drawer-head" }, h("h2", { id: "drawer-title" }, title), h("button", { type: "button", class: "quiet", "aria-label": "Close", on: { click: () => this.close() } }, "✕")),
      ...content.flat(Infinity).filter(Boolean),
    );
    this.element.scrollTop = top;
  }

  device(id) {
    return h("button", { type: "button", class: "link", on: { click: () => this.calls.device(id) } }, id);
  }

  /** A device where there is a row of that name, else the name alone. */
  named(id) {
    return this.store.row("devices", id) ? this.device(id) : h("span", {}, id);
  }
}

function list(pairs) {
  const rows = pairs.filter(([, value]) => value !== undefined && value !== "" && value !== null && value !== false);
  return rows.length ? h("dl", {}, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : "";
}

const paragraph = (title, words) => (words ? [h("h3", {}, title), h("p", {}, words)] : []);

function items(title, lines) {
  return lines?.length ? [h("h3", {}, title), h("ul", {}, lines.map((line) => h("li", {}, line)))] : [];
}

function drawDevice(drawer, id) {
  const row = drawer.store.row("devices", id);
  if (!row) return ["Device", h("p", {}, h("b", {}, id)), h("p", {}, "There is no such device (any more).")];
  const node = drawer.store.row("nodes", row.node) ?? {};
  const kind = { stack: stackOf(row), state: stateOf(row), health: healthOf(row), counted: row.counted, tainted: row.taints?.length > 0 };
  const more = h("div", { class: "more" });
  if (!row.counted) fill(more, drawer, id);
  const name = id.split("/").at(-1);
  return [
    row.counted ? `${row.source}, number ${name}` : name,
    h("p", { class: "id" }, drawer.glyphs.sample(kind, 18), id),
    row.trouble ? h("p", { class: "bad" }, layerTag("discovery"), row.trouble) : "",
    list([
      ["state", `${STATES[kind.state][0]}: ${STATES[kind.state][1]}`],
      ["served by", `${STACKS[kind.stack][0]} (${row.source})`],
      ["node", h("span", {}, h("button", { type: "button", class: "link", on: { click: () => drawer.calls.node(row.node) } }, row.node), node.trouble ? h("span", { class: "bad" }, ` ${node.trouble}`) : "")],
      ["node pool", node.pool],
      ["device pool", row.devicePool],
      ["model", row.model],
      ["identity", row.identity],
      ["taints", row.taints?.join(", ")],
      ["note", row.note],
    ]),
    row.holders?.length ? [h("h3", {}, layerTag("scheduling"), "Held by"), row.holders.map((one) => holder(one))] : "",
    findingsAbout(drawer, id),
    more,
  ];
}

/** What the audit finds about a device. */
function findingsAbout(drawer, id) {
  const rows = [...drawer.store.table("findings")].filter(([, row]) => row.devices?.includes(id));
  const link = ([key, row]) => h("li", {}, layerTag(row.layer), h("button", { type: "button", class: "link", on: { click: () => drawer.open("finding", key) } }, row.code), ` ${row.what}`);
  return rows.length ? [h("h3", {}, "Findings"), h("ul", {}, rows.map(link))] : "";
}

function holder(one) {
  return h(
    "div", { class: one.gone ? "holder gone" : "holder" },
    list([
      ["pod", one.pod && (one.gone ? `${one.pod} (gone)` : one.pod)],
      ["container", one.container],
      ["claim", one.claim && (one.request ? `${one.claim}, request ${one.request}` : one.claim)],
      ["workload", one.workload],
      ["asked for as", one.resource],
      ["share", one.share],
      ["takes", one.takes],
      ["access", one.admin && "administrator: looks on, takes nothing"],
      ["for", one.sinceS && ageOf(one.sinceS)],
    ]),
  );
}

async function fill(place, drawer, id) {
  let found;
  try {
    const answer = await fetch(`/api/device?name=${encodeURIComponent(id)}`);
    if (answer.status !== 200) return;
    found = await answer.json();
  } catch {
    return;
  }
  if (drawer.shown?.id !== id) return;
  const twice = found.advertised.length > 1;
  place.replaceChildren(
    ...[
      twice ? h("h3", {}, layerTag("discovery"), "Advertised by") : "",
      twice ? h("ul", {}, found.advertised.map((one) => h("li", {}, `${one.source}: ${one.name}${one.healthy ? "" : " (unhealthy)"}`))) : "",
      found.attributes ? h("h3", {}, layerTag("discovery"), "Attributes") : "",
      found.attributes ? list(Object.entries(found.attributes)) : "",
      found.capacity && Object.keys(found.capacity).length ? h("h3", {}, "Capacity") : "",
      found.capacity ? list(Object.entries(found.capacity)) : "",
      found.counters && Object.keys(found.counters).length ? h("h3", {}, "Takes of shared counters") : "",
      found.counters ? list(Object.entries(found.counters)) : "",
      found.slice ? list([["slice", found.slice], ["pool", found.pool], ["several may use it", found.shareable ? "yes" : ""]]) : "",
    ].filter(Boolean),
  );
}

function drawWaiting(drawer, id) {
  const row = drawer.store.row("waiting", id);
  if (!row) return ["No longer waits", h("p", {}, h("b", {}, id.replace("/", " ")))];
  const command = id.startsWith("pod/") ? `regauge explain pod ${id.split("/")[2]} -n ${id.split("/")[1]}` : `regauge explain claim ${id.split("/")[2]} -n ${id.split("/")[1]}`;
  return [
    id.split("/").at(-1),
    h("p", { class: "id" }, layerTag(row.layer), id.replace("/", " ")),
    h("p", {}, h("b", {}, row.state), row.sinceS ? `, for ${ageOf(row.sinceS)}` : ""),
    h("p", {}, row.text),
    list([["workload", row.workload], ["asks for", row.asks], ["pod", row.for], ["node", row.node]]),
    row.reasons?.length ? [h("h3", {}, "Why not, by reason"), h("ul", {}, row.reasons.map(([reason, count, example]) => h("li", {}, h("b", {}, `${count} node${count === 1 ? "" : "s"}`), ` (${example}): ${reason}`)))] : "",
    row.nodes?.length ? [h("h3", {}, "Nearest misses"), list(row.nodes)] : "",
    items("Worth knowing", row.notes),
    row.said && row.said !== row.text ? paragraph("What the cluster says", row.said) : "",
    h("h3", {}, "All of it"), h("pre", {}, command),
  ];
}

function drawFinding(drawer, id) {
  const row = drawer.store.row("findings", id);
  if (!row) return ["No longer found", h("p", {}, h("b", {}, id))];
  return [
    row.code,
    h("p", { class: "id" }, layerTag(row.layer), h("span", { class: `severity ${row.severity}` }, row.severity), ` ${row.where}`),
    h("p", {}, h("b", {}, row.what)),
    paragraph("Why it matters", row.why),
    paragraph("What to do", row.fix),
    items("What was seen", row.evidence),
    row.devices?.length ? [h("h3", {}, "Devices"), h("ul", {}, row.devices.map((one) => h("li", {}, drawer.named(one))))] : "",
  ];
}

function drawStep(drawer, id) {
  const row = drawer.store.row("steps", id);
  if (!row) return ["No such step", h("p", {}, h("b", {}, id))];
  const results = (row.results ?? []).map(([what, holds, seen]) => h("li", {}, h("span", { class: holds ? "good" : "bad" }, holds ? "holds" : "does not hold"), ` ${what}`, seen ? h("span", { class: "faint" }, ` ${seen}`) : ""));
  return [
    row.name,
    h("p", { class: "id" }, h("span", { class: `state ${row.state}` }, row.state), ` step ${row.number + 1} of ${row.rollout}`),
    list([
      ["began", row.beganS && new Date(row.beganS * 1000).toLocaleString()],
      ["ended", row.endedS && new Date(row.endedS * 1000).toLocaleString()],
      ["took", row.endedS && row.beganS && ageOf(row.beganS, row.endedS)],
    ]),
    results.length ? [h("h3", {}, "Gates and actions"), h("ul", {}, results)] : "",
  ];
}

const KINDS = { device: drawDevice, waiting: drawWaiting, finding: drawFinding, step: drawStep };
