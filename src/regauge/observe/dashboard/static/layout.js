// Where everything is drawn: groups of nodes, nodes as tiles in rows, devices as cells in tiles. Pure.

const natural = new Intl.Collator("en", { numeric: true });
const MOST_COLUMNS = 8;

export const SIZES = {
  small: { cell: 9, gap: 2, label: 0, space: 7, header: 28 },
  medium: { cell: 14, gap: 3, label: 15, space: 12, header: 30 },
  large: { cell: 20, gap: 4, label: 18, space: 18, header: 34 },
};

/** The size at which an estate of so many devices is still a picture. */
export const fittingSize = (count) => (count > 3000 ? "small" : count > 400 ? "medium" : "large");

const GROUPS = {
  pool: (row, nodes) => nodes.get(row.node)?.pool ?? "",
  source: (row) => row.source,
  devicePool: (row) => row.devicePool ?? `on ${row.node}`,
  none: () => "",
};

/** Groups of nodes with their devices, all in natural order. Changes only when devices come or go, or are grouped otherwise. */
export function structured(devices, nodes, by) {
  const nameOf = GROUPS[by] ?? GROUPS.pool;
  const groups = new Map();
  for (const [id, row] of devices) {
    const name = nameOf(row, nodes);
    if (!groups.has(name)) groups.set(name, new Map());
    const tiles = groups.get(name);
    if (!tiles.has(row.node)) tiles.set(row.node, []);
    tiles.get(row.node).push(id);
  }
  return [...groups.keys()].sort(natural.compare).map((name) => {
    const tiles = groups.get(name);
    const sorted = [...tiles.keys()].sort(natural.compare);
    return { name, nodes: sorted.map((node) => ({ node, parts: partsOf(tiles.get(node), devices) })) };
  });
}

/** The devices of a node by who advertises them: each source begins a line of its own. */
function partsOf(ids, devices) {
  const parts = new Map();
  for (const id of ids.sort(natural.compare)) {
    const source = devices.get(id).source;
    if (!parts.has(source)) parts.set(source, []);
    parts.get(source).push(id);
  }
  return [...parts.values()];
}

const idsOf = (nodes) => nodes.flatMap((one) => one.parts.flat());

/** The cells of a node, line by line, with holes where a line ends early. */
function cellsOf(parts, columns) {
  const cells = [];
  for (const part of parts) {
    while (cells.length % columns) cells.push(undefined);
    cells.push(...part);
  }
  return cells;
}

/**
 * Positions for a width. Nodes without any device in `found` are left out. Gives the rows from top to bottom: headers of
 * groups and shelves of tiles, the found devices in reading order, and each one's shelf and tile.
 */
export function arranged(groups, found, width, size) {
  const rows = [];
  const order = [];
  const places = new Map();
  let y = 0;
  for (const group of groups) {
    const shown = group.nodes.filter((one) => one.parts.some((part) => part.some((id) => found.has(id))));
    if (!shown.length) continue;
    rows.push({ kind: "header", y, height: size.header, group: group.name, nodes: shown.length, ids: idsOf(shown) });
    y += size.header;
    const longest = Math.max(...shown.map((one) => Math.max(...one.parts.map((part) => part.length))));
    const columns = Math.min(MOST_COLUMNS, longest);
    const least = size.label ? 5 : 0;
    const tileWidth = Math.max(columns, least) * (size.cell + size.gap) - size.gap + size.space;
    const across = Math.max(1, Math.floor((width + size.space) / tileWidth));
    for (let start = 0; start < shown.length; start += across) {
      const tiles = shown.slice(start, start + across).map((one) => ({ node: one.node, ids: cellsOf(one.parts, columns) }));
      const deep = Math.max(...tiles.map((one) => Math.ceil(one.ids.length / columns)));
      const height = size.label + deep * (size.cell + size.gap) - size.gap + size.space;
      const shelf = { kind: "shelf", y, height, columns, tileWidth, tiles, number: rows.length };
      tiles.forEach((tile, at) => {
        tile.ids.forEach((id, index) => {
          if (id === undefined || !found.has(id)) return;
          places.set(id, { shelf, at, index, turn: order.length });
          order.push(id);
        });
      });
      rows.push(shelf);
      y += height;
    }
  }
  return { rows, order, places, height: y, size };
}

/** The corner of a device's cell. */
export function cornerOf(layout, id) {
  const place = layout.places.get(id);
  if (!place) return null;
  const { cell, gap, label } = layout.size;
  const { shelf, at, index } = place;
  return {
    x: at * shelf.tileWidth + (index % shelf.columns) * (cell + gap),
    y: shelf.y + label + Math.floor(index / shelf.columns) * (cell + gap),
  };
}

/** The number of the row that a height falls into, or of the nearest above. */
export function rowAt(layout, y) {
  let low = 0;
  let high = layout.rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (layout.rows[middle].y <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** What is at a point: a device, a node's name, a group's header, or nothing. */
export function hit(layout, x, y) {
  const row = layout.rows[rowAt(layout, y)];
  if (!row || x < 0 || y < row.y || y >= row.y + row.height) return null;
  if (row.kind === "header") return { group: row.group };
  const at = Math.floor(x / row.tileWidth);
  const tile = row.tiles[at];
  if (!tile) return null;
  const { cell, gap, label } = layout.size;
  const inX = x - at * row.tileWidth;
  const inY = y - row.y - label;
  if (inY < 0) return { node: tile.node };
  const column = Math.floor(inX / (cell + gap));
  if (column >= row.columns) return null;
  const id = tile.ids[Math.floor(inY / (cell + gap)) * row.columns + column];
  return id !== undefined && layout.places.has(id) ? { id, node: tile.node } : null;
}

/** The device to go to from `id` for a key; the same one where there is no other. */
export function moved(layout, id, key, screen) {
  const { order, places } = layout;
  const place = places.get(id);
  if (!place) return order[0];
  const last = order.length - 1;
  const tile = place.shelf.tiles[place.at].ids.filter((one) => places.has(one));
  switch (key) {
    case "ArrowRight": return order[Math.min(place.turn + 1, last)];
    case "ArrowLeft": return order[Math.max(place.turn - 1, 0)];
    case "Home": return tile[0];
    case "End": return tile[tile.length - 1];
    case "First": return order[0];
    case "Last": return order[last];
    case "ArrowDown": return vertical(layout, id, 1);
    case "ArrowUp": return vertical(layout, id, -1);
    case "PageDown": return far(layout, id, screen);
    case "PageUp": return far(layout, id, -screen);
    default: return id;
  }
}

/** The nearest device in the next line of cells above or below. */
function vertical(layout, id, way) {
  const from = cornerOf(layout, id);
  const { shelf } = layout.places.get(id);
  for (let number = shelf.number; number >= 0 && number < layout.rows.length; number += way) {
    const row = layout.rows[number];
    if (row.kind !== "shelf") continue;
    let best = null;
    let distance = Infinity;
    for (const tile of row.tiles) {
      for (const other of tile.ids) {
        const corner = cornerOf(layout, other);
        if (!corner || (corner.y - from.y) * way <= 0) continue;
        const away = Math.abs(corner.y - from.y) * 1e4 + Math.abs(corner.x - from.x);
        if (away < distance) [best, distance] = [other, away];
      }
    }
    if (best !== null) return best;
  }
  return id;
}

function far(layout, id, height) {
  const from = cornerOf(layout, id);
  let found = id;
  for (let guard = 0; guard < 500; guard++) {
    const next = vertical(layout, found, Math.sign(height));
    if (next === found) break;
    found = next;
    if (Math.abs(cornerOf(layout, found).y - from.y) >= Math.abs(height)) break;
  }
  return found;
}
