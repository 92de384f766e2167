// The tables of the server, kept up to date by its events. Whoever missed too many reads everything again.

const AGAIN_MS = [500, 1000, 2000, 5000, 10000];

/** Applies one delta to tables (Maps of Maps by name) and says which rows of which tables it touched. */
export function apply(tables, delta) {
  const touched = {};
  for (const [name, ids] of Object.entries(delta.gone ?? {})) {
    touched[name] ??= new Set();
    for (const id of ids) {
      tables.get(name)?.delete(id);
      touched[name].add(id);
    }
  }
  for (const [name, rows] of Object.entries(delta.put ?? {})) {
    touched[name] ??= new Set();
    if (!tables.has(name)) tables.set(name, new Map());
    const table = tables.get(name);
    for (const [id, row] of Object.entries(rows)) {
      table.set(id, row);
      touched[name].add(id);
    }
  }
  return touched;
}

export class Store {
  #tables = new Map();
  #place = "";
  #source = null;
  #tries = 0;

  /** `changed(touched)` after each delta, with null after everything was read; `connected(words)` tells the state. */
  constructor(changed, connected) {
    this.changed = changed;
    this.connected = connected;
  }

  table(name) {
    return this.#tables.get(name) ?? new Map();
  }

  row(name, id) {
    return this.#tables.get(name)?.get(id);
  }

  async start() {
    try {
      const answer = await fetch("/api/view", { headers: { Accept: "application/json" } });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const whole = await answer.json();
      this.#tables = new Map(Object.entries(whole.tables).map(([name, rows]) => [name, new Map(Object.entries(rows))]));
      this.#place = whole.place;
      this.changed(null);
      this.#follow();
    } catch {
      this.#later();
    }
  }

  #follow() {
    const source = new EventSource(`/api/events?after=${encodeURIComponent(this.#place)}`);
    this.#source = source;
    source.onopen = () => {
      this.#tries = 0;
      this.connected("connected");
    };
    source.onmessage = (event) => {
      this.#place = event.lastEventId;
      this.changed(apply(this.#tables, JSON.parse(event.data)));
    };
    source.addEventListener("again", () => {
      source.close();
      this.start();
    });
    source.onerror = () => {
      this.connected("reconnecting");
      if (source.readyState === EventSource.CLOSED) this.#later();
    };
  }

  #later() {
    this.#source?.close();
    this.connected("reconnecting");
    const wait = AGAIN_MS[Math.min(this.#tries++, AGAIN_MS.length - 1)];
    setTimeout(() => this.start(), wait);
  }
}
