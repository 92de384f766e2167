// The vocabulary: what devices do, who serves them, how they are. Order is the order of legends and filters.

export const STATES = {
  free: ["free", "Nobody holds it."],
  blocked: ["blocked", "Nobody holds it, but other partitions of its chip take what it needs."],
  reserved: ["not prepared", "Reserved for a pod that is not started with it yet."],
  allocated: ["allocated", "One pod uses it."],
  shared: ["shared", "Several pods or shares use it."],
  leaked: ["leaked", "Held for users that are gone, for more than a minute."],
};

export const STACKS = {
  plugin: ["plugin", "A device plugin serves it, counted under a resource name."],
  dra: ["DRA", "A DRA driver serves it, claimed by name or class."],
  bridge: ["bridge", "DRA serves it to a pod that asked for a counted resource name."],
  both: ["both!", "Two owners advertise this one device: both can give it away."],
};

export const HEALTHS = {
  good: ["fine", "Nothing is told against it."],
  tainted: ["tainted", "A taint keeps new claims away, or drives old ones out."],
  trouble: ["trouble", "Its driver, its plugin or the kubelet says that something is wrong."],
};

export const LAYERS = ["installation", "discovery", "injection", "scheduling", "quota"];
export const SEVERITIES = ["error", "warning", "note"];

export const stateOf = (row) => row.state ?? "free";
export const stackOf = (row) => row.stack ?? "dra";

export function healthOf(row) {
  if (row.trouble) return "trouble";
  return row.taints?.length ? "tainted" : "good";
}

/** What a screen reader says of a device, and what the tip shows of it. */
export function spoken(id, row) {
  const parts = [
    id,
    `node ${row.node}`,
    `served by ${STACKS[stackOf(row)][0]}`,
    STATES[stateOf(row)][0],
    row.trouble ? `in trouble: ${row.trouble}` : "",
    row.taints?.length ? `tainted ${row.taints.join(", ")}` : "",
    row.holders?.length ? `held by ${holdersOf(row).join(", ")}` : "",
    row.note ?? "",
  ];
  return parts.filter(Boolean).join("; ");
}

export function holdersOf(row) {
  const names = (row.holders ?? []).map((one) => one.pod ?? (one.claim ? `claim ${one.claim}` : one.container));
  return [...new Set(names)];
}

export function ageOf(sinceS, nowS = Date.now() / 1000) {
  const age = Math.max(0, nowS - sinceS);
  if (age < 120) return `${Math.round(age)} s`;
  if (age < 7200) return `${Math.round(age / 60)} min`;
  if (age < 172800) return `${Math.round(age / 3600)} h`;
  return `${Math.round(age / 86400)} d`;
}

export const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
