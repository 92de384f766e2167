// What is opened: a device, a pod or claim that waits, a finding, a step of a rollout. Escape closes it and gives focus back.

import { drawDevice } from "./device.js";
import { bad, bold, bullets, definitions, faint, h, heading } from "./dom.js";
import { layerTag, stateTag } from "./panels.js";
import { ageOf } from "./words.js";

const TABLES = { device: "devices", waiting: "waiting", finding: "findings", step: "steps" };

export class Drawer {
  #opener = null;
  #shown = null;

  /** `beside` is what the drawer lies on: out of reach while it is open. */
  constructor(element, beside, store, glyphs, calls) {
    Object.assign(this, { element, beside, store, glyphs, calls });
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
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
    const about = this.#shown.kind === "device" && touched?.findings;
    if (touched === null || about || touched[TABLES[this.#shown.kind]]?.has(this.#shown.id)) this.#draw();
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
    const close = { type: "button", class: "quiet", "aria-label": "Close", on: { click: () => this.close() } };
    this.element.replaceChildren(
      h("div", { class: "drawer-head" }, h("h2", { id: "drawer-title" }, title), h("button", close, "✕")),
      ...content.flat(Infinity).filter(Boolean),
    );
    this.element.scrollTop = top;
  }
}

const gone = (title, name) => [title, h("p", {}, bold(name))];

const told = (title, words) => (words ? [heading(title), h("p", {}, words)] : []);

function drawWaiting(drawer, id) {
  const row = drawer.store.row("waiting", id);
  const [kind, namespace, name] = id.split("/");
  if (!row) return gone("No longer waits", `${kind} ${namespace}/${name}`);
  const nodes = (count) => bold(`${count} node${count === 1 ? "" : "s"}`);
  const reasons = (row.reasons ?? []).map(([reason, count, example]) => [nodes(count), ` (${example}): ${reason}`]);
  return [
    name,
    h("p", { class: "id" }, layerTag(row.layer), `${kind} ${namespace}/${name}`),
    h("p", {}, bold(row.state), row.sinceS ? `, for ${ageOf(row.sinceS)}` : ""),
    h("p", {}, row.text),
    definitions([["workload", row.workload], ["asks for", row.asks], ["pod", row.for], ["node", row.node]]),
    reasons.length ? [heading("Why not, by reason"), bullets(reasons)] : "",
    row.nodes?.length ? [heading("Nearest misses"), definitions(row.nodes)] : "",
    row.notes?.length ? [heading("Worth knowing"), bullets(row.notes)] : "",
    row.said !== row.text ? told("What the cluster says", row.said) : "",
    heading("All of it"), h("pre", {}, `regauge explain ${kind} ${name} -n ${namespace}`),
  ];
}

function drawFinding(drawer, id) {
  const row = drawer.store.row("findings", id);
  if (!row) return gone("No longer found", id);
  return [
    row.code,
    h("p", { class: "id" }, layerTag(row.layer), h("span", { class: `severity ${row.severity}` }, row.severity), ` ${row.where}`),
    h("p", {}, bold(row.what)),
    told("Why it matters", row.why),
    told("What to do", row.fix),
    row.evidence?.length ? [heading("What was seen"), bullets(row.evidence)] : "",
    row.devices?.length ? [heading("Devices"), bullets(row.devices.map((one) => drawer.calls.deviceLink(one)))] : "",
  ];
}

function drawStep(drawer, id) {
  const row = drawer.store.row("steps", id);
  if (!row) return gone("No such step", id);
  const moment = (seconds) => seconds && new Date(seconds * 1000).toLocaleString();
  const results = (row.results ?? []).map(([what, holds, seen]) => {
    const verdict = holds ? h("span", { class: "good" }, "holds") : bad("does not hold");
    return [verdict, ` ${what}`, seen ? faint(` ${seen}`) : ""];
  });
  return [
    row.name,
    h("p", { class: "id" }, stateTag(row.state), ` step ${row.number + 1} of ${row.rollout}`),
    definitions([
      ["began", moment(row.beganS)],
      ["ended", moment(row.endedS)],
      ["took", row.endedS && row.beganS && ageOf(row.beganS, row.endedS)],
    ]),
    results.length ? [heading("Gates and actions"), bullets(results)] : "",
  ];
}

const KINDS = { device: drawDevice, waiting: drawWaiting, finding: drawFinding, step: drawStep };
