"use strict";

// Draws the OpenAPI description that this server gives of itself. Text goes in
// as text only, never as markup.

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  for (const c of children) if (c !== null && c !== undefined) e.append(c);
  return e;
}

function resolve(spec, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return spec.components.schemas[schema.$ref.split("/").pop()] || {};
}

function typeOf(spec, schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  const type = Array.isArray(schema.type) ? schema.type.filter((t) => t !== "null")[0] : schema.type;
  if (type === "array") return "list of " + (typeOf(spec, schema.items) || "any");
  if (type === "object" && schema.additionalProperties) return "map of " + (typeOf(spec, schema.additionalProperties) || "any");
  if (schema.contentEncoding) return schema.contentEncoding;
  return (type || "any") + (schema.format ? " (" + schema.format + ")" : "");
}

// fields lists the properties of an object; those that are objects open inside it, once each.
function fields(spec, schema, seen) {
  const s = resolve(spec, schema);
  const inner = s.type === "array" || (Array.isArray(s.type) && s.type.includes("array")) ? resolve(spec, s.items) : s;
  if (!inner.properties) return null;
  const rows = Object.entries(inner.properties).map(([name, p]) => {
    const text = [p.description, p.enum ? "one of " + p.enum.join(", ") : ""].filter(Boolean).join("; ");
    const target = (p.items && p.items.$ref) || p.$ref;
    const cell = el("td", {}, text);
    if (target && !seen.includes(target)) {
      const more = fields(spec, { $ref: target }, seen.concat(target));
      if (more) cell.append(el("details", {}, el("summary", {}, target.split("/").pop()), more));
    }
    const must = (inner.required || []).includes(name) ? " *" : "";
    return el("tr", {}, el("td", {}, el("code", {}, name), must), el("td", {}, typeOf(spec, p)), cell);
  });
  return table(["field", "type", ""], rows);
}

function table(heads, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", {}, h)))), el("tbody", {}, ...rows));
}

function content(spec, title, content) {
  const parts = Object.entries(content || {}).map(([type, media]) => {
    const schema = media.schema;
    return el("details", {}, el("summary", {}, title + " ", el("code", {}, type), " " + typeOf(spec, schema)),
      fields(spec, schema, [schema && schema.$ref]));
  });
  return el("div", {}, ...parts);
}

function operation(spec, path, method, op) {
  const parts = [el("h3", {}, el("span", { class: "method" }, method.toUpperCase()), el("code", {}, path)), el("p", {}, op.summary + ". " + (op.description || ""))];
  if (op.parameters && op.parameters.length) {
    parts.push(table(["parameter", "in", "type", ""], op.parameters.map((p) =>
      el("tr", {}, el("td", {}, el("code", {}, p.name)), el("td", {}, p.in), el("td", {}, typeOf(spec, p.schema)), el("td", {}, p.description || "")))));
  }
  if (op.requestBody) parts.push(content(spec, "Body", op.requestBody.content));
  for (const [status, r] of Object.entries(op.responses || {})) {
    if (r.content) parts.push(content(spec, status === "default" ? "Errors" : status, r.content));
    else parts.push(el("p", {}, status + " " + (r.description || "")));
  }
  return el("article", { id: op.operationId }, ...parts);
}

function draw(spec) {
  const nav = document.getElementById("nav");
  const main = document.getElementById("main");
  main.replaceChildren(el("h1", {}, spec.info.title + " API"), el("p", {}, spec.info.description),
    el("p", {}, "Version " + spec.info.version + ". The description as ", el("a", { href: "/openapi.json" }, "OpenAPI " + spec.openapi), "."));
  nav.replaceChildren(el("strong", {}, spec.info.title));
  for (const tag of spec.tags) {
    nav.append(el("h2", {}, tag.name));
    main.append(el("h2", {}, tag.name), el("p", {}, tag.description));
    for (const [path, item] of Object.entries(spec.paths)) {
      for (const [method, op] of Object.entries(item)) {
        if (!op.tags || !op.tags.includes(tag.name)) continue;
        nav.append(el("a", { href: "#" + op.operationId, title: method.toUpperCase() + " " + path }, op.summary));
        main.append(operation(spec, path, method, op));
      }
    }
  }
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

fetch("/openapi.json").then((r) => {
  if (!r.ok) throw new Error("the server answered " + r.status);
  return r.json();
}).then(draw).catch((err) => {
  document.getElementById("main").replaceChildren(el("p", {}, "The description could not be read: " + err.message + ". Reload to try again."));
});
