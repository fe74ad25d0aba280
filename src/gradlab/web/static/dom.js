// Small tools of all pages: elements, requests, numbers as people write them. Text only ever becomes text, never markup.
export const $ = (selector, below = document) => below.querySelector(selector);
export const $$ = (selector, below = document) => [...below.querySelectorAll(selector)];

export const make = (name, properties = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "data") Object.assign(made.dataset, value);
    else if (key.includes("-") || key === "for" || key === "list" || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
};

export class Refusal extends Error {}
export const SILENT = "The lab's server does not answer. If it was ended, start `gradlab lab` again and open its link.";

const answer = async (response) => {
  if (response.ok) return response.json();
  const text = await response.text();
  let words = text.trim();
  try { words = JSON.parse(text).error; } catch { /* a refusal of the guard is plain text */ }
  throw new Refusal(words || `the server answers ${response.status}`);
};
const reach = async (path, options) => {
  try { return await fetch(path, options); } catch { throw new Refusal(SILENT); }
};
export const get = async (path) => answer(await reach(path));
export const post = async (path, tree = {}) =>
  answer(await reach(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(tree) }));
export const send = async (path, file) =>
  answer(await reach(path, { method: "POST", headers: { "content-type": "application/octet-stream" }, body: file }));

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
export const power = (exponent) => exponent >= -2 && exponent <= 3 ? (10 ** exponent).toLocaleString("en", { maximumFractionDigits: 2 }) : "10" + [...String(exponent)].map((c) => RAISED[c]).join("");
export const written = (v, digits = 3) => {
  if (v === null || v === undefined) return "–";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e-3 && size < 1e6) return (+v.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
  const exponent = Math.floor(Math.log10(size) + 1e-12), factor = +(v / 10 ** exponent).toPrecision(digits);
  return factor === 1 ? power(exponent) : `${factor} × ${power(exponent)}`;
};
// A message as a sentence; a name at its beginning (`runs/small`, `lab.yaml`) stays as it is.
export const sentence = (words) => (/^[a-z]+(?![\w/.~-])/.test(words) ? words.charAt(0).toUpperCase() + words.slice(1) : words) + (!words || /[.!?…]$/.test(words) ? "" : ".");
export const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const dark = window.matchMedia("(prefers-color-scheme: dark)");
export const still = window.matchMedia("(prefers-reduced-motion: reduce)");
