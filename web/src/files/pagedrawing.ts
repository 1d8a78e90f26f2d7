// A drawing of a part of the page as it lies there: its words with their shades and lines, its boxes, its canvases.
// Everything is measured when the drawing is made, and only ever drawn as text.

import type { Box, Pen } from "../draw/pen";
import { plain } from "../draw/plain";
import type { Theme } from "../draw/theme";
import type { Drawing } from "./drawing";

const EDGE = 16;
const LONGEST = 400; // letters of a field

interface Mark {
  readonly box: Box;
  draw(pen: Pen): void;
}

export function drawPage(body: HTMLElement, theme: Theme, title: string): Drawing {
  const origin = body.getBoundingClientRect();
  const at = (rect: DOMRect): Box => ({
    x: rect.left - origin.left + body.scrollLeft,
    y: rect.top - origin.top + body.scrollTop,
    width: rect.width,
    height: rect.height,
  });
  const marks = [...marksOf(body, at, theme)];
  const width = Math.max(0, ...marks.map(({ box }) => box.x + box.width)) + EDGE;
  const height = Math.max(0, ...marks.map(({ box }) => box.y + box.height)) + EDGE;
  return {
    width,
    height,
    title,
    draw(pen) {
      pen.fill({ x: 0, y: 0, width, height }, theme.paper);
      for (const mark of marks) mark.draw(pen);
    },
  };
}

function* marksOf(body: HTMLElement, at: (rect: DOMRect) => Box, theme: Theme): Generator<Mark> {
  const shown = (node: Node) =>
    node instanceof HTMLElement && (!node.checkVisibility() || node.matches(".unseen, option")) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT;
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, shown);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node instanceof HTMLElement) yield* boxOf(node, at(node.getBoundingClientRect()), theme);
    else if (node instanceof Text) yield* wordsOf(node, at);
  }
}

function* boxOf(element: HTMLElement, box: Box, theme: Theme): Generator<Mark> {
  if (element instanceof HTMLCanvasElement) {
    if (!element.width || !element.height) return;
    const all = { x: 0, y: 0, width: element.width, height: element.height };
    yield { box, draw: (pen) => pen.image(element, all, box, true) };
    return;
  }
  const look = getComputedStyle(element);
  if (element.matches(".broken")) {
    yield { box, draw: (pen) => (pen.fill(box, theme.brokenInk), pen.hatch(box, theme.hatch)) };
  } else if (visible(look.backgroundColor)) yield { box, draw: (pen) => pen.fill(box, look.backgroundColor) };
  const borders = [
    { thick: look.borderTopWidth, ink: look.borderTopColor, side: { ...box, height: 1 } },
    { thick: look.borderBottomWidth, ink: look.borderBottomColor, side: { ...box, y: box.y + box.height - 1, height: 1 } },
    { thick: look.borderLeftWidth, ink: look.borderLeftColor, side: { ...box, width: 1 } },
    { thick: look.borderRightWidth, ink: look.borderRightColor, side: { ...box, x: box.x + box.width - 1, width: 1 } },
  ];
  for (const { thick, ink, side } of borders) {
    if (Number.parseFloat(thick) > 0 && visible(ink)) yield { box: side, draw: (pen) => pen.fill(side, ink) };
  }
  const line = /(-?[\d.]+)px 0px 0px inset$/.exec(look.boxShadow);
  if (line) {
    const thick = Math.abs(Number(line[1]));
    yield { box, draw: (pen) => pen.fill({ ...box, y: box.y + box.height - thick, height: thick }, theme.mark) };
  }
  if (element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement) {
    const text = element instanceof HTMLSelectElement ? (element.selectedOptions[0]?.text ?? "") : element.value;
    const size = Number.parseFloat(look.fontSize);
    yield { box, draw: (pen) => pen.text(box.x + 8, box.y + 6 + size / 2, plain(text, LONGEST), { ink: look.color, size }) };
  }
}

/** Word by word, so that lines end where they do on the page. */
function* wordsOf(text: Text, at: (rect: DOMRect) => Box): Generator<Mark> {
  const parent = text.parentElement;
  if (!parent || !/\S/.test(text.data)) return;
  const look = getComputedStyle(parent);
  const style = { ink: look.color, size: Number.parseFloat(look.fontSize), bold: Number(look.fontWeight) > 500 };
  const struck = look.textDecorationLine.includes("line-through");
  const range = document.createRange();
  for (const word of text.data.matchAll(/\S+/g)) {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    const box = at(range.getBoundingClientRect());
    if (!box.width) continue;
    const middle = box.y + box.height / 2;
    yield {
      box,
      draw: (pen) => {
        pen.text(box.x, middle, word[0], style);
        if (struck) pen.line([[box.x, middle], [box.x + box.width, middle]], style.ink, 1);
      },
    };
  }
}

function visible(ink: string): boolean {
  return !/rgba\(.*, 0\)|transparent/.test(ink);
}
