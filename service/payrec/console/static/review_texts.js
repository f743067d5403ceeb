// What the review page says, and amounts as the tenant's locale writes them.
import { counted as countedOf, filled, money, number } from "./console.js";

const texts = document.getElementById("review-texts");
const plural = new Intl.PluralRules("en");

/** Return one of the page's texts with its parameters filled in. */
export function say(name, parameters = {}) {
  return filled(texts.dataset[camel(name)] ?? name, parameters);
}

function camel(name) {
  return name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

/** Return a text as nodes, with nodes in the place of its parameters. */
export function put(text, parameters) {
  return text.split(/\{(\w+)\}/).flatMap((part, index) => (index % 2 ? parameters[part] : part ? [part] : []));
}

/** Return a text that counts. */
export function counted(name, count, parameters = {}) {
  return countedOf(camel(name), count, texts, parameters);
}

/** Tell that fewer wait; where there are more than are counted, nothing changes. */
export function countDown(by) {
  const holder = document.getElementById("queue-count");
  if (!holder.dataset.count) return;
  const count = Math.max(0, Number(holder.dataset.count) - by);
  holder.dataset.count = count;
  holder.textContent = holder.dataset[plural.select(count)].replace("{number}", number(count));
}

/**
 * Read an amount as the locale writes it: minor units, 0 for nothing, null for what is no amount. Groups have to be
 * groups: who is used to another locale types "4,50", and must not match 450.
 */
export function minorOf(typed, exponent) {
  const { decimal, group } = document.body.dataset;
  const plain = typed.trim().replaceAll(group, " ").replace(/[\s'’]/g, " ");
  const [units, fraction = "", ...more] = plain.split(decimal);
  if (!plain) return 0n;
  if (more.length || !/^([0-9]{1,16}|[0-9]{1,3}( [0-9]{2,3}){0,5} [0-9]{3})$/.test(units)) return null;
  if (!/^[0-9]*$/.test(fraction) || fraction.length > exponent) return null;
  return BigInt(units.replaceAll(" ", "") + fraction.padEnd(exponent, "0"));
}

/** Return minor units as they are typed. */
export function typedOf(minor, exponent) {
  const digits = String(minor).padStart(exponent + 1, "0");
  return exponent ? digits.slice(0, -exponent) + document.body.dataset.decimal + digits.slice(-exponent) : digits;
}

/** Return totals of selected matches by currency, the most of them first. */
export function totals(selected) {
  const sums = new Map();
  for (const { minor, currency, exponent } of selected) {
    const before = sums.get(currency) ?? { minor: 0n, exponent };
    sums.set(currency, { minor: before.minor + minor, exponent });
  }
  return [...sums].map(([currency, { minor, exponent }]) => money(minor, currency, exponent)).join(" + ");
}
