// What a match by hand is made of: legs and adjustments, computed of what somebody has chosen. Pure: amounts are BigInt
// minor units, credits count up and debits down, and nothing of the page is known here.

const signOf = (row) => (row.direction === "credit" ? 1n : -1n);
const absolute = (value) => (value < 0n ? -value : value);
const smaller = (one, other) => (one < other ? one : other);
const total = (rows) => rows.reduce((sum, row) => sum + signOf(row) * row.open, 0n);

/** Return the sums of what is chosen, by currency: {currency, exponent, lines, items, difference}. */
export function sums(rows) {
  const found = new Map();
  for (const row of rows) {
    const sum = found.get(row.currency) ?? { currency: row.currency, exponent: row.exponent, lines: 0n, items: 0n };
    sum[row.side === "incoming" ? "lines" : "items"] += signOf(row) * row.open;
    found.set(row.currency, sum);
  }
  return [...found.values()].map((sum) => ({ ...sum, difference: sum.lines - sum.items }));
}

/** Return how much less was paid than is asked for, less than 0 where it was more; 0 where one side is not chosen. */
export function gap(rows) {
  const lines = rows.filter((row) => row.side === "incoming");
  const items = rows.filter((row) => row.side === "expected");
  if (!lines.length || !items.length) return 0n;
  const way = total(items) === 0n ? total(lines) : total(items);
  return (way < 0n ? -1n : 1n) * (total(items) - total(lines));
}

/** Return the one line and the one item of two currencies that are chosen, which a rate joins; null where it is not so. */
export function exchange(rows) {
  const line = rows.find((row) => row.side === "incoming");
  const item = rows.find((row) => row.side === "expected");
  if (rows.length !== 2 || !line || !item || line.direction !== item.direction) return null;
  return line.currency === item.currency ? null : { line, item };
}

/** Return a rate as it was typed, {text, mantissa, places}; null where it is none. Its text is as the interface wants it. */
export function rateOf(typed, decimal) {
  const [whole, fraction = "", ...more] = typed.trim().split(decimal);
  if (more.length || !/^\d+$/.test(whole) || !/^\d*$/.test(fraction)) return null;
  const mantissa = BigInt(whole + fraction);
  return mantissa ? { text: fraction ? `${whole}.${fraction}` : whole, mantissa, places: fraction.length } : null;
}

/** Return what is open of a line in the currency of an item: rounded half up, once, as the server does. */
export function worth({ line, item }, rate) {
  const digits = item.exponent - line.exponent;
  const size = line.open * rate.mantissa * 10n ** BigInt(Math.max(digits, 0));
  const unit = 10n ** BigInt(rate.places + Math.max(-digits, 0));
  return (2n * size + unit) / (2n * unit);
}

/**
 * Return {legs, adjustments} of a match, or {fault} where what is chosen makes none. Without an adjustment, a
 * difference stays open on what is the larger side. A line and an item of two currencies need a rate.
 */
export function matchOf(rows, adjustment, rate = null) {
  if (new Set(rows.map((row) => row.currency)).size > 1) return exchanged(exchange(rows), adjustment, rate);
  const parts = rows.map((row) => ({ ...row, left: row.open, isTouched: false }));
  const adjustments = [];
  const missing = gap(rows);
  if (adjustment && missing !== 0n) {
    const carrier = carrierOf(parts, missing);
    if (!carrier) return { fault: "carrier" };
    carrier.left -= absolute(missing);
    adjustments.push({
      type: adjustment,
      [carrier.side === "expected" ? "expectedTransactionId" : "incomingTransactionId"]: carrier.id,
      amountMinor: Number(absolute(missing)),
      currency: carrier.currency,
    });
  }
  const legs = [];
  const of = (side, sign) => parts.filter((part) => part.side === side && signOf(part) === sign);
  for (const sign of [1n, -1n]) {
    join(of("expected", sign), of("incoming", sign), legs, "expectedTransactionId", "incomingTransactionId");
  }
  join(of("expected", 1n), of("expected", -1n), legs, "expectedTransactionId", "contraExpectedTransactionId");
  join(of("incoming", -1n), of("incoming", 1n), legs, "contraIncomingTransactionId", "incomingTransactionId");
  if (!legs.length) return { fault: "alone" };
  if (parts.some((part) => !part.isTouched)) return { fault: "untouched" };
  return { legs, adjustments };
}

function exchanged(pair, adjustment, rate) {
  if (!pair) return { fault: "currencies" };
  const { line, item } = pair;
  const settled = rate ? worth(pair, rate) : 0n;
  if (settled < 1n) return { fault: "rate" };
  // A line has no part in two currencies, so what it is worth beyond the item is of the rate, or not this item's.
  if (settled > item.open && adjustment !== "fx") return { fault: "worth" };
  const difference = adjustment === "fx" ? item.open - settled : 0n;
  return {
    legs: [{ expectedTransactionId: item.id, incomingTransactionId: line.id, amountMinor: Number(line.open) }],
    adjustments: [{
      type: "fx", expectedTransactionId: item.id, amountMinor: Number(difference), currency: item.currency, rate: rate.text,
    }],
  };
}

/** Return what has the difference: the largest item where less was paid, the largest line where more was. */
function carrierOf(parts, missing) {
  const side = missing > 0n ? "expected" : "incoming";
  const way = total(parts.filter((part) => part.side === side)) < 0n ? -1n : 1n;
  const able = parts.filter((part) => part.side === side && signOf(part) === way && part.open > absolute(missing));
  return able.sort((one, other) => (one.open < other.open ? 1 : -1))[0];
}

/** Join two lists in their order, until one of them has nothing left. */
function join(settled, taken, legs, settledName, takenName) {
  const ones = settled.filter((part) => part.left > 0n);
  const others = taken.filter((part) => part.left > 0n);
  while (ones.length && others.length) {
    const amount = smaller(ones[0].left, others[0].left);
    legs.push({ [settledName]: ones[0].id, [takenName]: others[0].id, amountMinor: Number(amount) });
    for (const list of [ones, others]) {
      list[0].left -= amount;
      list[0].isTouched = true;
      if (list[0].left === 0n) list.shift();
    }
  }
}
