// What is looked for: kept in the fragment of the address, so that a link shows the same.

import { healthOf, holdersOf, stackOf, stateOf } from "./words.js";

const LISTS = ["state", "stack", "health"];
const TEXTS = ["text", "pool", "node", "group", "size", "view", "device", "tab"];
const USUAL = { group: "pool", size: "auto", view: "grid", tab: "waiting" };

export function emptyQuery() {
  const query = { state: new Set(), stack: new Set(), health: new Set() };
  for (const name of TEXTS) query[name] = USUAL[name] ?? "";
  return query;
}

export function readFragment(fragment) {
  const query = emptyQuery();
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const name of LISTS) {
    for (const value of (given.get(name) ?? "").split(",")) if (value) query[name].add(value);
  }
  for (const name of TEXTS) query[name] = given.get(name) ?? query[name];
  return query;
}

export function writeFragment(query) {
  const parts = [];
  for (const name of LISTS) if (query[name].size) parts.push([name, [...query[name]].join(",")]);
  for (const name of TEXTS) if (query[name] && query[name] !== USUAL[name]) parts.push([name, query[name]]);
  const escaped = (text) => encodeURIComponent(text).replaceAll("%2F", "/").replaceAll("%2C", ",");
  return parts.map(([name, value]) => `${name}=${escaped(value)}`).join("&");
}

const haystacks = new WeakMap();

/** All words of a device in one string, made at the first search. */
function haystack(id, row) {
  let found = haystacks.get(row);
  if (found === undefined) {
    const holders = (row.holders ?? []).flatMap((one) => [one.pod, one.claim, one.workload, one.container, one.resource]);
    const words = [id, row.node, row.source, row.devicePool, row.model, row.identity, row.trouble, row.note];
    found = [...words, ...(row.taints ?? []), ...holders, ...holdersOf(row)].filter(Boolean).join(" ").toLowerCase();
    haystacks.set(row, found);
  }
  return found;
}

/**
 * The devices that a query is for, and how many there would be of each state, stack and health if only that were chosen
 * otherwise.
 */
export function search(query, devices, nodes) {
  const words = query.text.toLowerCase().split(/\s+/).filter(Boolean);
  const node = query.node.trim().toLowerCase();
  const found = new Set();
  const counts = { state: {}, stack: {}, health: {} };
  for (const [id, row] of devices) {
    const { pool = "", trouble = "" } = nodes.get(row.node) ?? {};
    if (query.pool && pool !== query.pool) continue;
    if (node && !row.node.toLowerCase().includes(node)) continue;
    if (words.length) {
      const text = haystack(id, row);
      if (!words.every((word) => text.includes(word) || pool.toLowerCase().includes(word) || trouble.includes(word))) continue;
    }
    const is = { state: stateOf(row), stack: stackOf(row), health: healthOf(row) };
    const misses = LISTS.filter((name) => query[name].size && !query[name].has(is[name]));
    if (misses.length === 0) found.add(id);
    for (const name of LISTS) {
      if (misses.length === 0 || (misses.length === 1 && misses[0] === name)) {
        counts[name][is[name]] = (counts[name][is[name]] ?? 0) + 1;
      }
    }
  }
  return { found, counts };
}
