// The official TypeScript client of the Model Context Protocol, unchanged, against sluice over both transports.
//
// mcp_client.mjs PROGRAM STORE URL [KEY]: the program is started by the client, the server listens at the URL.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [program, store, url, key] = process.argv.slice(2);
const question = "When does a deferred function run, in which order?";
const passed = [];

function overHTTP(withKey) {
  const headers = withKey ? { Authorization: "Bearer " + withKey } : {};
  return new StreamableHTTPClientTransport(new URL(url + "/mcp"), { requestInit: { headers } });
}

async function session(name, transport) {
  const c = new Client({ name: "test", version: "1" });
  await c.connect(transport);
  const { tools } = await c.listTools();
  assert.deepEqual(tools.map((t) => t.name).sort(), ["ask", "gate", "get_document", "list_documents", "search"]);
  passed.push(name + " list");
  let r = await c.callTool({ name: "gate", arguments: { query: question } });
  assert.equal(r.structuredContent.decision.retrieve, true);
  assert.deepEqual(JSON.parse(r.content[0].text), r.structuredContent);
  passed.push(name + " call");
  const seen = [];
  r = await c.callTool({ name: "ask", arguments: { question } }, undefined, { onprogress: (p) => seen.push(p.progress) });
  assert.equal(r.structuredContent.sources[0].document, "defer");
  assert.ok(seen.length >= 2 && seen.every((p, i) => i === 0 || p > seen[i - 1]), String(seen));
  passed.push(name + " progress");
  const stop = new AbortController();
  await assert.rejects(c.callTool({ name: "ask", arguments: {
    question: "Tell me everything about " + "very ".repeat(40) + "long stories.", gate: "closed", max_tokens: 3000 } },
  undefined, { signal: stop.signal, onprogress: () => stop.abort("enough") }));
  r = await c.callTool({ name: "gate", arguments: { query: question } });
  assert.ok(!r.isError);
  passed.push(name + " cancel");
  const { resources } = await c.listResources();
  assert.equal(resources.length, 4);
  const read = await c.readResource({ uri: resources[0].uri });
  assert.match(read.contents[0].text, /^A deferred function/);
  await assert.rejects(c.readResource({ uri: "sluice://documents/none" }), /none/);
  passed.push(name + " resource");
  for (const [args, says] of [[{}, "query"], [{ query: 7 }, "query"], [{ query: "x", k: 0 }, "0"],
    [{ query: "x", unheard_of: 1 }, "unheard_of"]]) {
    r = await c.callTool({ name: "search", arguments: args });
    assert.ok(r.isError && r.content[0].text.includes(says), JSON.stringify(r));
  }
  passed.push(name + " wrong arguments");
  await c.close();
}

await session("stdio", new StdioClientTransport({ command: program, args: ["mcp", "-q", "--store", store] }));
await session("HTTP", overHTTP(key));
for (const [name, wrong] of key ? [["no key", ""], ["wrong key", "a-key-that-nobody-has"]] : []) {
  const c = new Client({ name: "test", version: "1" });
  try {
    await c.connect(overHTTP(wrong));
    assert.fail(name);
  } catch (e) {
    assert.match(String(e), /401|API key/);
    passed.push(`HTTP ${name}: ${e}`);
  }
}
console.log(JSON.stringify({ client: "@modelcontextprotocol/sdk", passed }));
process.exit(0);
