// A pen that draws somewhere else: several pictures on one page.

import type { Box, Pen, Point, Raster, TextStyle } from "./pen";

export class Translated implements Pen {
  constructor(
    private readonly pen: Pen,
    private readonly right: number,
    private readonly down: number,
  ) {}

  fill(box: Box, ink: string): void {
    this.pen.fill(this.box(box), ink);
  }

  hatch(box: Box, ink: string): void {
    this.pen.hatch(this.box(box), ink);
  }

  outline(box: Box, ink: string, thick: number): void {
    this.pen.outline(this.box(box), ink, thick);
  }

  line(points: readonly Point[], ink: string, thick: number): void {
    this.pen.line(points.map((point) => this.point(point)), ink, thick);
  }

  area(points: readonly Point[], ink: string): void {
    this.pen.area(points.map((point) => this.point(point)), ink);
  }

  curve(from: Point, to: Point, ink: string, thick: number): void {
    this.pen.curve(this.point(from), this.point(to), ink, thick);
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    this.pen.text(x + this.right, y + this.down, text, style);
  }

  image(image: Raster, part: Box, onto: Box, smooth: boolean): void {
    this.pen.image(image, part, this.box(onto), smooth);
  }

  within(box: Box, draw: () => void): void {
    this.pen.within(this.box(box), draw);
  }

  private box(box: Box): Box {
    return { ...box, x: box.x + this.right, y: box.y + this.down };
  }

  private point([x, y]: Point): Point {
    return [x + this.right, y + this.down];
  }
}
