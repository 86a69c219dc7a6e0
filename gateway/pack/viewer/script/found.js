// What the map shows of the features at a place.

import { colorOf } from "./style.js";
import { count, element, shown } from "./text.js";

const mostFeatures = 20;
const mostProperties = 50;

// describe fills a section with the features found at a place, as text.
export function describe(section, where, features, colors, dark) {
  const unique = new Map();
  for (const f of features) { // a polygon is found by its fill and by its outline
    const key = JSON.stringify([f.sourceLayer, f.id, f.geometry.type, f.properties]);
    if (!unique.has(key)) unique.set(key, f);
  }
  const parts = [element("h2", "At this place"), element("p", where, "facts")];
  if (colors) {
    parts.push(element("p", unique.size ? `${count(unique.size, "feature")} here.` : "No feature is here.", "facts"));
  }
  for (const f of [...unique.values()].slice(0, mostFeatures)) {
    const heading = element("h3");
    const swatch = element("span", undefined, "swatch");
    swatch.style.backgroundColor = colorOf(colors.get(f.sourceLayer), dark);
    heading.append(swatch, shown(f.sourceLayer), element("span", ` ${kindOf(f)}`, "note"));
    parts.push(heading);
    const properties = Object.entries(f.properties);
    const list = element("dl");
    for (const [name, value] of properties.slice(0, mostProperties)) {
      const row = element("div");
      row.append(element("dt", shown(name)), element("dd", shown(value)));
      list.append(row);
    }
    if (properties.length) parts.push(list);
    if (properties.length > mostProperties) {
      parts.push(element("p", `… and ${properties.length - mostProperties} more.`, "facts"));
    }
  }
  if (unique.size > mostFeatures) {
    parts.push(element("p", `… and ${count(unique.size - mostFeatures, "feature")} more.`, "facts"));
  }
  section.replaceChildren(...parts);
  section.hidden = false;
}

// kindOf returns the kind of a feature's shape in words.
function kindOf(feature) {
  return { Polygon: "area", LineString: "line", Point: "point" }[feature.geometry.type.replace("Multi", "")] ?? "";
}
