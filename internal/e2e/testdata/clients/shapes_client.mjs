// The official JavaScript clients of OpenAI (Responses), Anthropic and Ollama, unchanged, against a server of Sluice.
//
// shapes_client.mjs URL MODEL: the server has one knowledge base, and the language model MODEL.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import OpenAI from "openai";

const [base, model] = process.argv.slice(2);
const question = "When does a deferred function run, in which order?";
const openai = new OpenAI({ baseURL: base + "/v1", apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
const ollama = new Ollama({ host: base });
const schema = { type: "object", properties: { colour: { enum: ["red", "green"] } }, required: ["colour"],
  additionalProperties: false };
const quote = { sluice: { style: "quote" } };
const hi = [{ role: "user", content: "Name a colour." }];
const passed = [];

async function test(name, f) {
  await f();
  passed.push(name);
}

await test("chat_annotations", async () => {
  const a = (await openai.chat.completions.create({ model: "sluice", messages: [{ role: "user", content: question }],
    ...quote })).choices[0].message;
  const c = a.annotations[0].url_citation;
  assert.equal(a.content.slice(c.start_index, c.end_index), "[1]");
  assert.equal(c.title, "defer");
});
await test("responses_text", async () => {
  const r = await openai.responses.create({ model, input: "Name a colour.", instructions: "Be brief.",
    max_output_tokens: 8 });
  assert.ok(r.output_text && r.usage.output_tokens > 0);
});
await test("responses_stream", async () => {
  let text = "";
  const s = openai.responses.stream({ model: "sluice", input: question, ...quote });
  for await (const e of s) if (e.type === "response.output_text.delta") text += e.delta;
  assert.equal((await s.finalResponse()).output_text, text);
  assert.ok(text);
});
await test("responses_file_search", async () => {
  const r = await openai.responses.create({ model: "gpt-x", input: question, include: ["file_search_call.results"],
    tools: [{ type: "file_search", vector_store_ids: ["default"] }], ...quote });
  assert.equal(r.output[0].results[0].file_id, "defer");
  assert.equal(r.output[1].content[0].annotations[0].type, "file_citation");
});
await test("responses_structured", async () => {
  const r = await openai.responses.create({ model, input: "A colour as JSON.", max_output_tokens: 40,
    text: { format: { type: "json_schema", name: "c", schema, strict: true } } });
  assert.ok(["red", "green"].includes(JSON.parse(r.output_text).colour));
});
await test("responses_functions", async () => {
  const r = await openai.responses.create({ model, input: "x", tool_choice: "required", max_output_tokens: 60,
    tools: [{ type: "function", name: "paint", parameters: schema, strict: true }] });
  assert.ok(JSON.parse(r.output[0].arguments).colour);
});
await test("responses_refused", async () => {
  for (const more of [{ previous_response_id: "resp_1" }, { background: true }, { tools: [{ type: "web_search" }] }])
    await assert.rejects(openai.responses.create({ model, input: "x", ...more }), (e) => e.status === 400 &&
      e.message.includes("not supported"));
});
await test("anthropic_text", async () => {
  const m = await anthropic.messages.create({ model, max_tokens: 8, system: "Be brief.", messages: hi });
  assert.ok(m.content.at(-1).text && m.usage.output_tokens > 0);
});
await test("anthropic_stream", async () => {
  let text = "";
  const s = anthropic.messages.stream({ model, max_tokens: 8, messages: hi }).on("text", (t) => { text += t; });
  assert.equal((await s.finalMessage()).content.at(-1).text, text);
});
await test("anthropic_citations", async () => {
  const m = await anthropic.messages.create({ model: "sluice", max_tokens: 64,
    messages: [{ role: "user", content: question }], ...quote });
  assert.equal(m.content[0].citations[0].title, "defer");
});
await test("anthropic_tools", async () => {
  const m = await anthropic.messages.create({ model, max_tokens: 60, messages: hi,
    tools: [{ name: "paint", input_schema: schema }], tool_choice: { type: "any" } });
  assert.equal(m.stop_reason, "tool_use");
});
await test("anthropic_errors", async () => {
  for (const [wrong, status] of [[{ model: "gone" }, 404], [{ stop_sequences: [""] }, 400]])
    await assert.rejects(anthropic.messages.create({ model, max_tokens: 8, messages: hi, ...wrong }),
      (e) => e.status === status && e.error.type === "error");
});
await test("ollama_models", async () => {
  const names = (await ollama.list()).models.map((m) => m.model);
  assert.ok(names.includes("sluice") && names.includes(model), String(names));
  assert.ok((await ollama.show({ model })).capabilities.includes("completion"));
});
await test("ollama_chat", async () => {
  const options = { temperature: 0, num_predict: 8 };
  const whole = await ollama.chat({ model, messages: hi, options });
  let text = "";
  for await (const p of await ollama.chat({ model, messages: hi, options, stream: true })) text += p.message.content;
  assert.equal(text, whole.message.content);
});
await test("ollama_base", async () => {
  const a = await ollama.chat({ model: "sluice:latest", messages: [{ role: "user", content: question }] });
  assert.ok(a.message.content);
});
await test("ollama_tools_and_format", async () => {
  const a = await ollama.chat({ model, messages: hi, format: schema, options: { num_predict: 40 } });
  assert.ok(["red", "green"].includes(JSON.parse(a.message.content).colour));
});
await test("ollama_generate", async () => {
  assert.ok((await ollama.generate({ model, prompt: "Name a colour.", options: { num_predict: 8 } })).response);
});
await test("ollama_embed", async () => {
  const e = await ollama.embed({ model: "all-MiniLM-L6-v2", input: ["a ship", "a boat"] });
  assert.equal(e.embeddings[1].length, 384);
});
await test("ollama_errors", async () => {
  for (const wrong of [() => ollama.chat({ model: "gone", messages: hi }),
    () => ollama.chat({ model, messages: [{ ...hi[0], images: ["eA=="] }] }),
    () => ollama.generate({ model, prompt: "x", suffix: "y" })])
    await assert.rejects(wrong(), (e) => [400, 404].includes(e.status_code) && e.error !== "");
});
console.log(JSON.stringify({ client: "openai, anthropic, ollama (npm)", passed }));
