// Pointers and the wheel, as moves and zooms. Two fingers pinch; a drag moves; a click that did not drag chooses.

export interface Gestures {
  move(right: number, down: number): void; // pixels the picture is pulled by
  zoom(factor: number, x: number, y: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  choose(x: number, y: number): void;
  closer(x: number, y: number): void; // a double click
}

const STILL = 4; // pixels: less is no drag
const WHEEL = 0.0022;

export function attach(element: HTMLElement, gestures: Gestures): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  const place = (event: MouseEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const listeners: { [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void } = {
    pointerdown(event) {
      if (event.button) return;
      element.setPointerCapture(event.pointerId);
      if (!down.size) travelled = 0;
      down.set(event.pointerId, place(event));
    },
    pointermove(event) {
      const now = place(event);
      const before = down.get(event.pointerId);
      if (!before) {
        gestures.hover(now.x, now.y);
        return;
      }
      const others = [...down].filter(([id]) => id !== event.pointerId).map(([, each]) => each);
      travelled += Math.hypot(now.x - before.x, now.y - before.y);
      if (others.length) {
        const other = others[0];
        const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.hypot(before.x - other.x, before.y - other.y);
        if (Number.isFinite(factor) && factor > 0) gestures.zoom(factor, (now.x + other.x) / 2, (now.y + other.y) / 2);
        gestures.move((before.x - now.x) / 2, (before.y - now.y) / 2);
      } else if (travelled >= STILL) gestures.move(before.x - now.x, before.y - now.y);
      down.set(event.pointerId, now);
    },
    pointerup(event) {
      const here = place(event);
      if (down.delete(event.pointerId) && !down.size && travelled < STILL) gestures.choose(here.x, here.y);
    },
    pointercancel: (event) => void down.delete(event.pointerId),
    pointerleave: () => gestures.leave(),
    dblclick(event) {
      const here = place(event);
      gestures.closer(here.x, here.y);
    },
    wheel(event) {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      const here = place(event);
      if (event.shiftKey) gestures.move((event.deltaX + event.deltaY) * lines, 0);
      else gestures.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 4 : 1) * WHEEL), here.x, here.y);
    },
  };
  const entries = Object.entries(listeners) as [string, EventListener][];
  for (const [name, listener] of entries) element.addEventListener(name, listener, { passive: false });
  return () => {
    for (const [name, listener] of entries) element.removeEventListener(name, listener);
  };
}
