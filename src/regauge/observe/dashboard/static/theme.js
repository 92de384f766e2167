// Dark, light, or what the system says. The choice stays in this browser.

const KEY = "regauge-theme";
const THEMES = ["system", "dark", "light"];

export function theme() {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.includes(kept) ? kept : "system";
  } catch {
    return "system";
  }
}

export function applyTheme(chosen = theme()) {
  document.documentElement.dataset.theme = chosen;
}

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // A browser that keeps nothing still shows the theme, until it is closed.
  }
  applyTheme(next);
  return next;
}
