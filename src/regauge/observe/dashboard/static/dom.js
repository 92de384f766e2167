// Elements from code. Text is only ever set as text: nothing that comes from a cluster becomes markup.

/** An element: `on` are listeners, `class` and everything with a dash or `role` are attributes, the rest properties. */
export function h(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name.includes("-") || name === "role") element.setAttribute(name, value === true ? "true" : value);
    else element[name] = value;
  }
  element.append(...children.flat(Infinity).filter((child) => child !== "" && child !== null && child !== undefined));
  return element;
}

const spanOf = (name) => (...children) => h("span", { class: name }, children);
export const bold = (...children) => h("b", {}, children);
export const faint = spanOf("faint");
export const bad = spanOf("bad");
export const heading = (...children) => h("h3", {}, children);
export const bullets = (rows) => h("ul", {}, rows.map((row) => h("li", {}, row)));

/** Names with their values, those without one left out. */
export function definitions(pairs) {
  const rows = pairs.filter(([, value]) => Boolean(value));
  return rows.length ? h("dl", {}, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : "";
}

/** A button that looks like a link. */
export const link = (text, click) => h("button", { type: "button", class: "link", on: { click } }, text);

export const byId = (id) => document.getElementById(id);

/** Calls `work` once in the next frame, however often it is asked for. */
export function eachFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

export const calm = matchMedia("(prefers-reduced-motion: reduce)");
