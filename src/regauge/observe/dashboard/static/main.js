// Puts the page together: tables in, query in the fragment, grid or table in the middle, the rest beside it.

import { byId, eachFrame, h, link } from "./dom.js";
import { Drawer } from "./drawer.js";
import { Glyphs } from "./glyphs.js";
import { Grid } from "./grid.js";
import { SIZES, arranged, fittingSize, structured } from "./layout.js";
import { emptyQuery, readFragment, search, writeFragment } from "./query.js";
import { Side } from "./side.js";
import { Store } from "./store.js";
import { DeviceTable } from "./table.js";
import { applyTheme, nextTheme, theme } from "./theme.js";
import { HEALTHS, STACKS, STATES, ageOf, many, spoken } from "./words.js";

const natural = new Intl.Collator("en", { numeric: true });
const FACETS = {
  state: ["states", STATES, (value) => ({ stack: "faint", state: value })],
  stack: ["stacks", STACKS, (value) => ({ stack: value })],
  health: ["healths", HEALTHS, (value) => ({ stack: "faint", health: value, tainted: value === "tainted" })],
};
const SIDE_TABLES = ["about", "waiting", "findings", "rollouts", "steps", "drivers", "classes", "unknown"];
const CHOICES = ["text", "pool", "node", "group", "size"];

applyTheme();
if (new URLSearchParams(location.hash.slice(1)).has("token")) history.replaceState(null, "", location.pathname);
let query = readFragment(location.hash);
let groups = [];
let groupedBy = "";
let stale = true;

const glyphs = new Glyphs();
const store = new Store(changed, (words) => tellConnection(words));
const rowOf = (id) => store.row("devices", id);
const nodeOf = (name) => store.row("nodes", name);
const opening = { rowOf, nodeOf, open: (id) => drawer.open("device", id) };
const grid = new Grid(
  { scroller: byId("grid"), space: byId("grid-space"), canvas: byId("grid-canvas"), text: byId("grid-active") },
  glyphs,
  { ...opening, node: showNode, pointed },
);
const table = new DeviceTable(byId("table"), glyphs, opening);
const side = new Side(byId("tabs"), byId("panel"), store, { open: openFrom, tab: showTab });
const drawer = new Drawer(byId("drawer"), byId("side"), store, glyphs, {
  opened,
  closed,
  deviceLink,
  home: focusDevices,
  node: showNode,
});
const drawn = eachFrame(draw);

// -- news

function changed(touched) {
  if (touched === null || touched.nodes || moves(touched.devices)) stale = true;
  if (touched === null || touched.devices || touched.nodes) drawn();
  if (touched?.devices) grid.tell(touched.devices);
  if (touched === null || touched.nodes) fillChoices();
  if (touched === null || touched.about) tellAbout();
  if (touched === null || SIDE_TABLES.some((name) => touched[name])) side.draw();
  drawer.refresh(touched);
  if (touched === null) openLinked();
}

/** Whether devices came or went, so that all of them find new places. */
function moves(ids) {
  return ids !== undefined && [...ids].some((id) => !known.has(id) || !rowOf(id));
}

let known = new Set();

// -- drawing

function draw() {
  const devices = store.table("devices");
  const nodes = store.table("nodes");
  if (stale || groupedBy !== query.group) {
    groups = structured(devices, nodes, query.group);
    groupedBy = query.group;
    known = new Set(devices.keys());
    stale = false;
  }
  const { found, counts } = search(query, devices, nodes);
  const size = SIZES[query.size] ?? SIZES[fittingSize(found.size)];
  const shown = query.view === "grid";
  byId("grid").hidden = !shown;
  byId("table").hidden = shown;
  const layout = arranged(groups, found, grid.width, size);
  if (shown) grid.show(layout);
  else table.show(layout.order);
  byId("count").textContent = found.size === devices.size
    ? `${many(devices.size, "device")} on ${many(nodes.size, "node")}`
    : `${found.size.toLocaleString("en")} of ${many(devices.size, "device")}`;
  byId("grid").setAttribute("aria-label", byId("count").textContent);
  tellEmpty(found.size, devices.size);
  tellFacets(counts);
  if (devices.size && !document.documentElement.dataset.ready) {
    document.documentElement.dataset.ready = "true";
    performance.mark("devices drawn");
  }
}

function tellEmpty(found, total) {
  byId("empty").hidden = found > 0;
  byId("empty").textContent = total ? "No device is as the filters want it." : "Nobody advertises a device here.";
}

function tellFacets(counts) {
  for (const [facet, [place]] of Object.entries(FACETS)) {
    for (const button of byId(place).children) {
      const value = button.dataset.value;
      button.setAttribute("aria-pressed", String(query[facet].has(value)));
      button.lastChild.textContent = (counts[facet][value] ?? 0).toLocaleString("en");
      button.classList.toggle("none", !counts[facet][value]);
    }
  }
}

function makeFacets() {
  for (const [facet, [place, values, kind]] of Object.entries(FACETS)) {
    const buttons = Object.entries(values).map(([value, [label, text]]) => {
      const press = { click: () => toggle(facet, value) };
      const options = { type: "button", class: "chip", title: text, data: { value }, "aria-pressed": "false", on: press };
      return h("button", options, glyphs.sample(kind(value)), h("span", {}, label), h("span", { class: "number" }, ""));
    });
    byId(place).replaceChildren(...buttons);
  }
}

function fillChoices() {
  const nodes = store.table("nodes");
  const pools = [...new Set([...nodes.values()].map((row) => row.pool))].sort(natural.compare);
  byId("pool").replaceChildren(h("option", { value: "" }, "all"), ...pools.map((name) => h("option", { value: name }, name)));
  const few = [...nodes.keys()].sort(natural.compare).slice(0, 500);
  byId("node-names").replaceChildren(...few.map((name) => h("option", { value: name })));
  fillForm();
}

// -- the query

function fillForm() {
  for (const name of CHOICES) if (byId(name).value !== query[name]) byId(name).value = query[name];
  for (const radio of document.querySelectorAll("[name=view]")) radio.checked = radio.value === query.view;
  side.tab = query.tab;
}

function asked(changes) {
  Object.assign(query, changes);
  history.replaceState(null, "", `#${writeFragment(query)}`);
  fillForm();
  drawn();
}

function toggle(facet, value) {
  const chosen = new Set(query[facet]);
  if (!chosen.delete(value)) chosen.add(value);
  asked({ [facet]: chosen });
}

function clear() {
  const { group, size, view, tab, device } = query;
  asked({ ...emptyQuery(), group, size, view, tab, device });
}

function showNode(node) {
  asked({ node, text: "", pool: "" });
}

function showTab(tab) {
  asked({ tab });
}

function showView(view) {
  asked({ view });
  const active = grid.active || table.active;
  requestAnimationFrame(() => (view === "grid" ? grid.mark(active) : table.mark(active)));
}

// -- opening

function opened(kind, id) {
  if (kind === "device") asked({ device: id });
}

/** What is opened beside the devices. Who serves devices is not opened: its devices are shown. */
function openFrom(kind, id) {
  if (kind === "supplier") asked({ text: query.text === id ? "" : id });
  else drawer.open(kind, id);
}

function closed(kind) {
  if (kind === "device") asked({ device: "" });
}

/** To a device from elsewhere on the page: filters that hide it go. */
function goTo(id) {
  const { found } = search(query, store.table("devices"), store.table("nodes"));
  if (!found.has(id)) clear();
  drawer.open("device", id);
  requestAnimationFrame(() => requestAnimationFrame(() => (query.view === "grid" ? grid.mark(id) : table.mark(id))));
}

/** The name of a device, as a link where there is a row of that name. */
function deviceLink(id) {
  return rowOf(id) ? link(id, () => goTo(id)) : id;
}

function openLinked() {
  const id = query.device;
  if (!id || (drawer.shown?.kind === "device" && drawer.shown.id === id)) return;
  drawer.open("device", id, false);
  requestAnimationFrame(() => requestAnimationFrame(() => (query.view === "grid" ? grid.mark(id) : table.mark(id))));
}

function focusDevices() {
  if (query.view === "grid") byId("grid").focus();
  else table.focus();
}

// -- what is said about the page itself

function tellAbout() {
  const page = store.row("about", "page") ?? {};
  byId("source").textContent = [page.source, page.kubernetes && `Kubernetes ${page.kubernetes}`].filter(Boolean).join(", ");
  byId("source").title = byId("source").textContent;
  const lost = page.lostS;
  byId("trouble").hidden = !lost && page.state !== "reading";
  byId("trouble").textContent = lost
    ? `The API server has not answered for ${ageOf(lost)}: this is what was known before.`
    : "Reading the cluster …";
  tellConnection(lastWords);
}

let lastWords = "connecting";

function tellConnection(words) {
  lastWords = words;
  const mode = store.row("about", "page")?.mode;
  const text = words !== "connected" ? words : mode === "live" ? "live" : "as it was read";
  byId("connection").textContent = text;
  byId("connection").dataset.state = words !== "connected" ? "lost" : mode === "live" ? "live" : "still";
}

function pointed(found, x, y) {
  const tip = byId("tip");
  const row = found?.id && rowOf(found.id);
  tip.hidden = !row && !found?.node;
  if (tip.hidden) return;
  const node = nodeOf(found.node);
  const lines = row ? spoken(found.id, row).split("; ") : [found.node, node?.pool, node?.trouble, "click: this node alone"];
  tip.replaceChildren(...lines.filter(Boolean).map((line) => h("div", {}, line)));
  const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8);
  const top = y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18;
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

// -- keys of the page

const PAGE_KEYS = {
  "/": () => byId("text").focus(),
  g: focusDevices,
  w: () => focusTab("waiting"),
  f: () => focusTab("findings"),
  r: () => focusTab("rollouts"),
  d: () => focusTab("supply"),
  t: () => showView(query.view === "grid" ? "table" : "grid"),
  c: clear,
  "?": () => byId("keys").showModal(),
};

function focusTab(name) {
  showTab(name);
  requestAnimationFrame(() => requestAnimationFrame(() => side.focus()));
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (event.key === "Escape") {
    if (event.target === byId("text") && query.text) asked({ text: "" });
    else if (drawer.shown) drawer.close();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in PAGE_KEYS)) return;
  event.preventDefault();
  PAGE_KEYS[event.key]();
});

// -- the start

function recolour() {
  glyphs.refresh();
  makeFacets();
  byId("theme").textContent = `Theme: ${theme()}`;
  drawn();
}

for (const name of CHOICES) byId(name).addEventListener("input", () => asked({ [name]: byId(name).value }));
for (const radio of document.querySelectorAll("[name=view]")) radio.addEventListener("change", () => showView(radio.value));
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("clear").addEventListener("click", clear);
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("theme").addEventListener("click", () => {
  nextTheme();
  recolour();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
addEventListener("hashchange", () => {
  query = readFragment(location.hash);
  fillForm();
  drawn();
  if (query.device) openLinked();
  else if (drawer.shown?.kind === "device") drawer.close();
});
new ResizeObserver(drawn).observe(byId("estate"));
setInterval(tellAbout, 10_000);
setInterval(() => side.draw(), 60_000);
fillForm();
recolour();
store.start();
