// A drawing of words as they lie on the page: each with its shade and its line, and the lines between them.

import type { Theme } from "../draw/theme";
import type { Drawing } from "./drawing";

const EDGE = 16;

export function drawPage(body: HTMLElement, theme: Theme, title: string): Drawing {
  const origin = body.getBoundingClientRect();
  const [left, top] = [origin.left - body.scrollLeft, origin.top - body.scrollTop];
  const words = [...body.querySelectorAll<HTMLElement>("[data-place], h2")];
  const canvases = [...body.querySelectorAll<HTMLCanvasElement>("canvas")];
  const boxes = [...words, ...canvases].map((element) => element.getBoundingClientRect());
  const width = Math.max(...boxes.map((box) => box.right - left)) + EDGE;
  const height = Math.max(...boxes.map((box) => box.bottom - top)) + EDGE;
  return {
    width,
    height,
    title,
    draw(pen) {
      pen.fill({ x: 0, y: 0, width, height }, theme.paper);
      for (const canvas of canvases) {
        const box = canvas.getBoundingClientRect();
        const onto = { x: box.left - left, y: box.top - top, width: box.width, height: box.height };
        pen.image(canvas, { x: 0, y: 0, width: canvas.width, height: canvas.height }, onto, true);
      }
      for (const word of words) {
        const box = word.getBoundingClientRect();
        const place = { x: box.left - left, y: box.top - top, width: box.width, height: box.height };
        const look = getComputedStyle(word);
        if (!/rgba\(.*, 0\)|transparent/.test(look.backgroundColor)) pen.fill(place, look.backgroundColor);
        const line = /(-?[\d.]+)px 0px 0px inset$/.exec(look.boxShadow);
        const thick = line ? Math.abs(Number(line[1])) : 0;
        if (thick) pen.fill({ ...place, y: place.y + place.height - thick, height: thick }, theme.mark);
        const inset = Number.parseFloat(look.paddingLeft) + Number.parseFloat(look.borderLeftWidth);
        const style = { ink: look.color, size: Number.parseFloat(look.fontSize), bold: Number(look.fontWeight) > 500 };
        pen.text(place.x + inset, place.y + place.height / 2, word.textContent ?? "", style);
      }
    },
  };
}
