// Runs in the page with everything unfolded. Returns the accessibility problems with their locations, and counts of
// texts, tables and images.
(() => {
  const problems = [];
  const where = (element) => {
    const text = (element.getAttribute("aria-label") || element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
    return `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> ${text}`;
  };

  // Only tables and pictures in boxes may scroll horizontally, never the page.
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const mayScroll = (element) => element.closest(".scroll, pre, table, svg") !== null;
    const wide = [...document.body.querySelectorAll("*")].filter((element) => !mayScroll(element) && element.getBoundingClientRect().right > root.clientWidth + 0.5);
    problems.push(`the page is ${root.scrollWidth} wide in ${root.clientWidth}: ${wide.slice(0, 3).map(where).join("; ")}`);
  }

  // One h1; no heading may skip a level.
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const its = Number(heading.tagName[1]);
    if (its > level + 1) problems.push(`a heading of level ${its} follows one of level ${level}: ${where(heading)}`);
    if (its === 1 && level > 0) problems.push(`a second h1: ${where(heading)}`);
    level = its;
  }
  if (level === 0) problems.push("the page has no heading");

  // Colours: red, green, blue from 0 to 255 and opacity from 0 to 1.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (below, [r, g, b, a]) => [below[0] * (1 - a) + r * a, below[1] * (1 - a) + g * a, below[2] * (1 - a) + b * a];
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  // The background colour of an element, or the fill of an SVG shape.
  const painted = (element) => {
    const style = getComputedStyle(element);
    if (!(element instanceof SVGElement) || element.tagName === "svg") return colour(style.backgroundColor);
    if (!["rect", "circle", "path"].includes(element.tagName) || style.fill === "none") return [0, 0, 0, 0];
    const [r, g, b, a] = colour(style.fill);
    return [r, g, b, a * Number(style.fillOpacity) * Number(style.opacity)];
  };

  // Contrast of text with its actual background. elementsFromPoint() requires that the viewport contains the whole page.
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let read = 0;
  const poor = new Map();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || element.closest("title, desc, style, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const box = range.getClientRects()[0];
    if (!box || box.width === 0) continue;
    const x = box.left + Math.min(box.width / 2, 12);
    const stack = document.elementsFromPoint(x, box.top + box.height / 2);
    const own = stack.indexOf(element);
    if (own < 0) continue; // scrolled out of view
    let below = dark ? [18, 18, 18] : [255, 255, 255];
    for (const lower of stack.slice(own + (element instanceof SVGElement ? 1 : 0)).reverse()) below = over(below, painted(lower));
    const style = getComputedStyle(element);
    const ink = over(below, colour(element instanceof SVGElement ? style.fill : style.color));
    const ratio = contrast(ink, below);
    read += 1;
    if (ratio < 4.5) {
      const kind = `${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""}`;
      if (!poor.has(kind)) poor.set(kind, `contrast ${ratio.toFixed(2)} of ${where(element)}`);
    }
  }
  problems.push(...poor.values());
  return { problems, texts: read, tables: document.querySelectorAll("table").length, pictures: document.querySelectorAll("svg").length, width: root.scrollWidth, height: root.scrollHeight };
})();
