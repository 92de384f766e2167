// Trades the token for a cookie that scripts cannot read. A token in the fragment (which browsers do not send) is taken at once.
import { applyTheme } from "./theme.js";

applyTheme();
const refused = document.getElementById("refused");

async function enter(token) {
  const answer = await fetch("/login", { method: "POST", body: token });
  if (answer.ok) location.replace("/");
  else refused.textContent = "This is not the token.";
}

document.getElementById("door").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(document.getElementById("token").value);
});

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  history.replaceState(null, "", location.pathname);
  enter(given);
}
