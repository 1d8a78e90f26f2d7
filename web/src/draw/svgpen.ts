// The pen that writes SVG. Elements are made, never put together as text, so a token cannot become markup.

import { type Box, FACE, HATCH, type Pen, type Point, type Raster, type TextStyle } from "./pen";

const SVG = "http://www.w3.org/2000/svg";

export class SvgPen implements Pen {
  readonly root: SVGElement;
  private into: SVGElement;
  private clips = 0;
  private readonly hatches = new Map<string, string>();

  constructor(
    private readonly page: Document,
    private readonly pngOf: (image: Raster, part: Box) => string,
    width: number,
    height: number,
    title: string,
  ) {
    this.root = page.createElementNS(SVG, "svg") as SVGElement;
    this.into = this.root;
    const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FACE };
    for (const [name, value] of Object.entries(attributes)) this.root.setAttribute(name, String(value));
    this.add("title", {}).textContent = title;
  }

  fill(box: Box, ink: string): void {
    this.add("rect", { ...shape(box), fill: ink });
  }

  hatch(box: Box, ink: string): void {
    this.add("rect", { ...shape(box), fill: `url(#${this.hatching(ink)})` });
  }

  outline(box: Box, ink: string, thick: number): void {
    this.add("rect", { ...shape(box), fill: "none", stroke: ink, "stroke-width": thick });
  }

  line(points: readonly Point[], ink: string, thick: number): void {
    this.add("polyline", { points: traced(points), fill: "none", stroke: ink, "stroke-width": thick });
  }

  area(points: readonly Point[], ink: string): void {
    this.add("polygon", { points: traced(points), fill: ink });
  }

  curve([x0, y0]: Point, [x1, y1]: Point, ink: string, thick: number): void {
    const middle = short((x0 + x1) / 2);
    const path = `M${short(x0)} ${short(y0)}C${middle} ${short(y0)} ${middle} ${short(y1)} ${short(x1)} ${short(y1)}`;
    this.add("path", { d: path, fill: "none", stroke: ink, "stroke-width": short(thick) });
  }

  text(x: number, y: number, text: string, { ink, size, align = "left", turn = 0, bold = false }: TextStyle): void {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const element = this.add("text", {
      x: short(x),
      y: short(y),
      fill: ink,
      "font-size": size,
      "text-anchor": anchor,
      "dominant-baseline": "central",
    });
    if (turn) element.setAttribute("transform", `rotate(${turn} ${short(x)} ${short(y)})`);
    if (bold) element.setAttribute("font-weight", "600");
    element.textContent = text;
  }

  image(image: Raster, part: Box, onto: Box, smooth: boolean): void {
    const element = this.add("image", { ...shape(onto), preserveAspectRatio: "none", href: this.pngOf(image, part) });
    if (!smooth) element.setAttribute("image-rendering", "pixelated");
  }

  within(box: Box, draw: () => void): void {
    const name = `clip${this.clips++}`;
    const outer = this.into;
    this.into = this.add("clipPath", { id: name });
    this.add("rect", shape(box));
    this.into = outer;
    this.into = this.add("g", { "clip-path": `url(#${name})` });
    draw();
    this.into = outer;
  }

  written(): string {
    return new XMLSerializer().serializeToString(this.root);
  }

  private hatching(ink: string): string {
    const found = this.hatches.get(ink);
    if (found) return found;
    const name = `hatch${this.hatches.size}`;
    const side = HATCH.apart;
    const outer = this.into;
    this.into = this.root;
    this.into = this.add("pattern", { id: name, width: side, height: side, patternUnits: "userSpaceOnUse" });
    const lines = [-side, 0, side].map((from) => `M${from - side / 2} ${side * 1.5}L${from + side * 1.5} ${-side / 2}`);
    this.add("path", { d: lines.join(""), stroke: ink, "stroke-width": HATCH.thick });
    this.into = outer;
    this.hatches.set(ink, name);
    return name;
  }

  private add(name: string, attributes: Record<string, string | number>): SVGElement {
    const element = this.page.createElementNS(SVG, name) as SVGElement;
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, String(value));
    this.into.appendChild(element);
    return element;
  }
}

function short(value: number): number {
  return Math.round(value * 100) / 100;
}

function shape({ x, y, width, height }: Box): Record<string, number> {
  return { x: short(x), y: short(y), width: short(width), height: short(height) };
}

function traced(points: readonly Point[]): string {
  return points.map(([x, y]) => `${short(x)},${short(y)}`).join(" ");
}
