// Looks at an open page: what is too wide, leads nowhere, has no name, does not nest or cannot be read.

// Runs in the page.
export function inspect(least) {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const short = (element) => element.outerHTML.slice(0, 90).replace(/\s+/g, " ");

  const width = document.documentElement.clientWidth;
  const overflow = document.documentElement.scrollWidth - width;
  const scrolled = (element) => element.closest(".scroll, pre, .lineage") !== null;
  const wide = [...document.querySelectorAll("body *")].find((element) => !scrolled(element) && element.getBoundingClientRect().right > width + 1);

  const links = [...document.querySelectorAll("a[href^='#']")];
  const dead = [...new Set(links.map((link) => link.getAttribute("href")))].filter((href) => document.getElementById(href.slice(1)) === null);

  const pictures = [...document.querySelectorAll("svg[role=img]")];
  const name = (picture) => picture.getAttribute("aria-label") ?? picture.querySelector(":scope > title")?.textContent ?? "";
  const nameless = pictures.filter((picture) => name(picture).trim().length < 10).map(short);
  const loose = [...document.querySelectorAll("svg")].filter(
    (picture) => picture.parentElement.closest("svg") === null && !picture.matches("[role=img]") && picture.closest("[aria-hidden=true]") === null,
  );
  nameless.push(...loose.map(short));

  const headings = [];
  let before = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) headings.push(heading.textContent);
    before = level;
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  // A page has thousands of texts, few colours and fewer backgrounds.
  const once = (make, known = new Map()) => (key) => known.get(key) ?? known.set(key, make(key)).get(key);
  const rgba = once((color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  });
  const over = (front, back) => front.slice(0, 3).map((part, index) => part * front[3] + back[index] * (1 - front[3]));
  const behind = once((element) =>
    element === null ? [255, 255, 255] : over(rgba(getComputedStyle(element).backgroundColor), behind(element.parentElement)),
  );
  const light = (color) => {
    const [red, green, blue] = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const faint = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("title, style") || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const front = over(rgba(element.closest("svg") ? style.fill : style.color), back);
    const found = contrast(front, back);
    const key = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
    if (found < least && !faint.has(key)) faint.set(key, `${found.toFixed(2)} of ${key} "${node.textContent.trim().slice(0, 40)}"`);
  }
  return {
    sentences: [...document.querySelectorAll(".sentences li")].map((sentence) => sentence.textContent.trim()),
    overflow,
    wide: wide ? short(wide) : "",
    dead,
    links: links.filter((link) => link.matches(".number")).length,
    pictures: pictures.length,
    rows: [...document.querySelectorAll("table tbody tr")].filter((row) => row.getBoundingClientRect().height > 0).length,
    begin: document.querySelector("header strong")?.textContent ?? "",
    nameless,
    headings,
    faint: [...faint.values()],
  };
}
