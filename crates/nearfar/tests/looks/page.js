// What can be seen of a page from inside, for the tests beside it: gives a list of what is wrong with it, each with
// where that is. Run in the page by the browser; everything that can be folded is open.
(() => {
  const wrong = [];
  const where = (element) => {
    const text = (element.getAttribute("aria-label") || element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
    return `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> ${text}`;
  };

  // Sideways scrolling is for tables and pictures in boxes of their own, never for the page.
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const fixed = (element) => element.closest(".scroll, pre, table, svg") !== null;
    const wide = [...document.body.querySelectorAll("*")].filter((element) => !fixed(element) && element.getBoundingClientRect().right > root.clientWidth + 0.5);
    wrong.push(`the page is ${root.scrollWidth} wide in ${root.clientWidth}: ${wide.slice(0, 3).map(where).join("; ")}`);
  }

  // One h1, and no level left out on the way down.
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const its = Number(heading.tagName[1]);
    if (its > level + 1) wrong.push(`a heading of level ${its} follows one of level ${level}: ${where(heading)}`);
    if (its === 1 && level > 0) wrong.push(`a second h1: ${where(heading)}`);
    level = its;
  }
  if (level === 0) wrong.push("the page has no heading");

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
  // What an element paints where something lies over it.
  const painted = (element) => {
    const style = getComputedStyle(element);
    if (!(element instanceof SVGElement) || element.tagName === "svg") return colour(style.backgroundColor);
    if (!["rect", "circle", "path"].includes(element.tagName) || style.fill === "none") return [0, 0, 0, 0];
    const [r, g, b, a] = colour(style.fill);
    return [r, g, b, a * Number(style.fillOpacity) * Number(style.opacity)];
  };

  // Text against what is really below it, also in pictures. The viewport has the whole page, so everything can be hit.
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
    if (own < 0) continue; // scrolled out of its own box
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
  wrong.push(...poor.values());
  return { wrong, texts: read, tables: document.querySelectorAll("table").length, pictures: document.querySelectorAll("svg").length, width: root.scrollWidth, height: root.scrollHeight };
})();
