// What stands in the tabs: what waits and why, what is wrong, how rollouts go, who serves devices, what is not known.

import { bold, faint, h, heading } from "./dom.js";
import { LAYERS, SEVERITIES, ageOf, many } from "./words.js";

const MOST = 60;
const natural = new Intl.Collator("en", { numeric: true });
const DONE = new Set(["done", "undone"]);

export const isPod = (id) => id.startsWith("pod/");

/** The layer that something concerns. */
export const layerTag = (layer) => h("span", { class: "tag", title: `the layer it concerns: ${layer}` }, layer);

export const stateTag = (state) => h("span", { class: `state ${state.replaceAll(" ", "-")}` }, state);

const warned = (words) => h("span", { class: "bad wide" }, words);

const byName = (rows) => [...rows].sort((one, other) => natural.compare(one[0], other[0]));

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

export function drawWaiting(side) {
  const groups = [...groupedBy(side.store.table("waiting"), (row) => row.reason ?? "")];
  if (!groups.length) return side.nothing("Nothing that asks for devices waits.");
  const pods = (rows) => rows.filter(([id]) => isPod(id)).length;
  groups.sort((one, other) => pods(other[1]) - pods(one[1]) || natural.compare(one[0], other[0]));
  return groups.map(([reason, rows]) => {
    const claims = rows.length - pods(rows);
    const counts = [many(pods(rows), "pod"), claims ? many(claims, "claim") : ""].filter(Boolean).join(", ");
    const summary = h("span", { class: "summary" }, layerTag(rows[0][1].layer), bold(counts), h("span", {}, reason));
    return side.fold(`reason ${reason}`, summary, () => side.first(MOST, rows, (one) => drawWaits(side, ...one)));
  });
}

function drawWaits(side, id, row) {
  const since = row.sinceS ? `, for ${ageOf(row.sinceS)}` : "";
  return side.item("waiting", id, bold(id.replace("/", " ")), faint(` ${row.state}${since}`));
}

// -- what is wrong

export function drawFindings(side) {
  const rows = [...side.store.table("findings")].sort((one, other) => one[1].rank - other[1].rank);
  const groups = groupedBy(rows, (row) => row.layer);
  if (!rows.length) return side.nothing("The audit finds nothing wrong.");
  return LAYERS.filter((layer) => groups.has(layer)).map((layer) => {
    const own = groups.get(layer);
    const counts = SEVERITIES.map((one) => [own.filter(([, row]) => row.severity === one).length, one]);
    const words = counts.filter(([count]) => count).map(([count, one]) => many(count, one)).join(", ");
    return h(
      "section", { "aria-label": layer },
      heading(layerTag(layer), ` ${words}`),
      side.first(MOST, own, ([id, row]) => drawFound(side, id, row)),
    );
  });
}

function drawFound(side, id, row) {
  const severity = h("span", { class: `severity ${row.severity}` }, row.severity);
  return side.item("finding", id, severity, bold(` ${row.code}`), faint(` ${row.what}`));
}

// -- rollouts

export function drawRollouts(side) {
  const rollouts = byName(side.store.table("rollouts"));
  if (!rollouts.length) return [faint("There is no record of a rollout in the cluster.")];
  const steps = groupedBy(side.store.table("steps"), (row) => row.rollout);
  return rollouts.map(([name, row]) => {
    const own = (steps.get(name) ?? []).sort((one, other) => one[1].number - other[1].number);
    const list = () => own.map(([id, step]) => drawStep(side, id, step));
    return h(
      "section", { "aria-label": name },
      heading(layerTag("installation"), name, " ", stateTag(row.state)),
      row.reason ? h("p", {}, row.reason) : "",
      own.length ? [drawProgress(own), side.fold(`rollout ${name}`, "Steps", list)] : "",
    );
  });
}

function drawProgress(steps) {
  const done = steps.filter(([, step]) => DONE.has(step.state)).length;
  const words = `${done} of ${steps.length} steps`;
  const bar = h("progress", { max: steps.length, value: done, "aria-label": `${words} done` });
  return h("p", { class: "progress" }, bar, ` ${words}`);
}

function drawStep(side, id, step) {
  const under = step.beganS ? `for ${ageOf(step.beganS)}` : "";
  const time = step.endedS ? `took ${ageOf(step.beganS, step.endedS)}` : under;
  return side.item("step", id, stateTag(step.state), bold(` ${step.name}`), faint(` ${time}`));
}

// -- who serves devices, and what can be asked for

export function drawSupply(side) {
  const drivers = [...side.store.table("drivers")];
  const classes = byName(side.store.table("classes"));
  if (!drivers.length && !classes.length) return side.nothing("Nobody serves devices here.");
  const of = (stack) => drivers.filter(([, row]) => row.stack === stack);
  return [
    drawPart(side, "discovery", "DRA drivers", of("dra"), drawDriver),
    drawPart(side, "discovery", "Device plugins", of("plugin"), drawPlugin),
    drawPart(side, "scheduling", "Device classes", classes, drawClass),
  ].flat();
}

function drawPart(side, layer, title, rows, draw) {
  if (!rows.length) return [];
  const items = rows.map(([name, row]) => draw(side, name, row));
  return [h("section", { "aria-label": title }, heading(layerTag(layer), title), items)];
}

function drawDriver(side, name, row) {
  const written = row.writtenS ? `, last written ${ageOf(row.writtenS)} ago` : "";
  const devices = `${many(row.devices, "device")} on ${many(row.nodes, "node")}`;
  const warnings = [];
  if (row.incompleteCount) {
    const more = row.incompleteCount > row.incomplete.length ? " …" : "";
    warnings.push(`${many(row.incompleteCount, "pool")} incomplete, not allocated from: ${row.incomplete.join(", ")}${more}`);
  }
  if (row.outdated) warnings.push(`${many(row.outdated, "slice")} of older generations still there`);
  const published = `${many(row.pools, "pool")}, ${many(row.slices, "slice")}${written}`;
  return side.item("supplier", name, bold(name), faint(`${devices}; ${published}`), warnings.map(warned));
}

function drawPlugin(side, name, row) {
  const asked = (row.asked ?? 0).toLocaleString("en");
  const words = `${asked} of ${many(row.devices, "device")} asked for, on ${many(row.nodes, "node")}`;
  const ill = `${many(row.unhealthy ?? 0, "device")} cannot be allocated: unhealthy, or a plugin that is away`;
  return side.item("supplier", name, bold(name), faint(words), row.unhealthy ? warned(ill) : "");
}

function drawClass(_side, name, row) {
  const claims = Object.entries(row.claims ?? {}).map(([state, count]) => `${count} ${state}`).join(", ");
  const words = [
    row.devices === undefined ? "" : `selects ${many(row.devices, "device")}, ${row.free.toLocaleString("en")} free`,
    claims ? `claims: ${claims}` : "no claims",
    row.resource ? `counted as ${row.resource}` : "",
  ];
  return h(
    "div", { class: "item class" },
    bold(name), faint(words.filter(Boolean).join("; ")),
    row.broken ? warned("its selectors do not compile") : "",
    row.failing ? warned(`its selectors fail on ${many(row.failing, "device")}`) : "",
  );
}

// -- what is not known

export function drawUnknown(side) {
  const rows = [...side.store.table("unknown")];
  if (!rows.length) return side.nothing("Everything could be looked at.");
  return side.first(MOST, rows, ([what, row]) => h("div", { class: "unknown" }, bold(what), h("p", { class: "faint" }, row.why)));
}
