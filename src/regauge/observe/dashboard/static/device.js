// One device, opened: what it is doing and for whom, what is found about it, and what its owner publishes of it.

import { bold, bullets, definitions, h, heading, link } from "./dom.js";
import { layerTag } from "./panels.js";
import { STACKS, STATES, ageOf, healthOf, stackOf, stateOf } from "./words.js";

export function drawDevice(drawer, id) {
  const row = drawer.store.row("devices", id);
  if (!row) return ["Device", h("p", {}, bold(id)), h("p", {}, "There is no such device (any more).")];
  const kind = { stack: stackOf(row), state: stateOf(row), health: healthOf(row) };
  const sample = drawer.glyphs.sample({ ...kind, counted: row.counted, tainted: row.taints?.length > 0 }, 18);
  const more = h("div", { class: "more" });
  if (!row.counted) fill(more, drawer, id);
  const name = id.split("/").at(-1);
  return [
    row.counted ? `${row.source}, number ${name}` : name,
    h("p", { class: "id" }, sample, id),
    row.trouble ? h("p", { class: "bad" }, layerTag("discovery"), row.trouble) : "",
    facts(drawer, row, kind),
    row.holders?.length ? [heading(layerTag("scheduling"), "Held by"), row.holders.map(holder)] : "",
    findingsAbout(drawer, id),
    more,
  ];
}

function facts(drawer, row, kind) {
  const node = drawer.store.row("nodes", row.node) ?? {};
  const trouble = node.trouble ? h("span", { class: "bad" }, ` ${node.trouble}`) : "";
  return definitions([
    ["state", `${STATES[kind.state][0]}: ${STATES[kind.state][1]}`],
    ["served by", `${STACKS[kind.stack][0]} (${row.source})`],
    ["node", h("span", {}, link(row.node, () => drawer.calls.node(row.node)), trouble)],
    ["node pool", node.pool],
    ["device pool", row.devicePool],
    ["model", row.model],
    ["identity", row.identity],
    ["taints", row.taints?.join(", ")],
    ["note", row.note],
  ]);
}

/** What the audit finds about a device. */
function findingsAbout(drawer, id) {
  const rows = [...drawer.store.table("findings")].filter(([, row]) => row.devices?.includes(id));
  const line = ([key, row]) => [layerTag(row.layer), link(row.code, () => drawer.open("finding", key)), ` ${row.what}`];
  return rows.length ? [heading("Findings"), bullets(rows.map(line))] : "";
}

function holder(one) {
  return h(
    "div", { class: one.gone ? "holder gone" : "holder" },
    definitions([
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

/** Adds what the server knows beside the row, when it has answered. */
async function fill(place, drawer, id) {
  let found;
  try {
    const answer = await fetch(`/api/device?name=${encodeURIComponent(id)}`);
    if (answer.status !== 200) return;
    found = await answer.json();
  } catch {
    return; // what the row says is there all the same
  }
  if (drawer.shown?.id !== id) return;
  const advertised = found.advertised.map((one) => `${one.source}: ${one.name}${one.healthy ? "" : " (unhealthy)"}`);
  const shareable = ["several may use it", found.shareable ? "yes" : ""];
  place.replaceChildren(
    ...[
      advertised.length > 1 ? [heading(layerTag("discovery"), "Advertised by"), bullets(advertised)] : "",
      part(layerTag("discovery"), "Attributes", found.attributes),
      part("", "Capacity", found.capacity),
      part("", "Takes of shared counters", found.counters),
      definitions([["slice", found.slice], ["pool", found.pool], shareable]),
    ].flat().filter(Boolean),
  );
}

function part(tag, title, values) {
  const pairs = Object.entries(values ?? {});
  return pairs.length ? [heading(tag, title), definitions(pairs)] : "";
}
