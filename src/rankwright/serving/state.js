// The search page: two rankers side by side, and why A is above B. Text only ever enters as text, never as HTML.

const SIDES = ["left", "right"];
const STEP = 10;
const SHOWN = 6; // contributions listed
const state = { q: "", left: "", right: "", k: STEP, chosen: [] };
let known = null; // what /version says
let results = { left: [], right: [] };
let asking = null;
let explaining = null;

const signed = (value) => `${value < 0 ? "−" : "+"}${short(Math.abs(value))}`;
const digits = (value) => String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));
const short = (value) => (typeof value === "number" ? digits(value).replace("-", "−") : (value ?? "missing"));
const score = (value) => (Math.abs(value) >= 1000 ? short(value) : value.toPrecision(3).replace("-", "−"));
const sidesShown = () => (state.right ? SIDES : ["left"]);

// State and address

function readAddress() {
  const given = new URLSearchParams(location.search);
  const names = known.rankers.map((one) => one.name);
  const pick = (name, otherwise) => (names.includes(name) ? name : otherwise);
  state.q = given.get("q") ?? "";
  state.left = pick(given.get("left"), names[0]);
  const right = given.get("right");
  const others = known.rankers.filter((one) => one.name !== state.left);
  const usual = others.find((one) => one.kind === "function") ?? others[0];
  state.right = right === "" ? "" : pick(right, usual?.name ?? "");
  const k = Number(given.get("k"));
  state.k = Math.min(Number.isInteger(k) && k > 0 ? k : STEP, known.limits.k);
  state.chosen = ["a", "b"].map((name) => given.get(name)).filter(Boolean);
}

function writeAddress(replace) {
  const given = new URLSearchParams();
  if (state.q) given.set("q", state.q);
  given.set("left", state.left);
  given.set("right", state.right);
  if (state.k > STEP) given.set("k", state.k);
  state.chosen.forEach((id, at) => given.set("ab"[at], id));
  history[replace ? "replaceState" : "pushState"](null, "", `?${given}`);
}

function showChoices() {
  by("q").value = state.q;
  by("left").value = state.left;
  by("right").value = state.right;
}
