// The official JavaScript client of OpenAI against a server of Sluice: base URL and key are all it gets.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [base, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'none', maxRetries: 0 });
const hi = (more) => client.chat.completions.create({
  model, messages: [{ role: 'user', content: 'Name a colour.' }], temperature: 0, max_tokens: 8, ...more });
const passed = [];

async function run(name, f) {
  await f();
  passed.push(name);
}

await run('models', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert(ids.includes('sluice') && ids.includes(model), `${ids}`);
  assert.equal((await client.models.retrieve(model)).id, model);
});

await run('chat', async () => {
  const a = await hi({ logprobs: true, top_logprobs: 2 });
  assert.equal(a.object, 'chat.completion');
  assert(a.choices[0].message.content.length > 0);
  assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens);
  assert.equal(a.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

await run('chat stream', async () => {
  const whole = (await hi()).choices[0].message.content;
  let text = '', usage = null;
  const stream = await hi({ stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole);
  assert(usage.completion_tokens > 0);
  const helper = client.chat.completions.stream({
    model, messages: [{ role: 'user', content: 'Name a colour.' }], temperature: 0, max_tokens: 8 });
  assert.equal(await helper.finalContent(), whole);
});

await run('stream left early', async () => {
  const stream = await hi({ stream: true, max_tokens: 500 });
  for await (const chunk of stream) {
    assert(chunk.id);
    break; // the client aborts the request
  }
});

const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 20 }, bright: { type: 'boolean' } },
  required: ['name', 'bright'], additionalProperties: false };

await run('structured', async () => {
  const a = await client.chat.completions.parse({
    model, messages: [{ role: 'user', content: 'Describe the colour of the sky.' }], temperature: 0, max_tokens: 100,
    response_format: { type: 'json_schema', json_schema: { name: 'colour', strict: true, schema } } });
  const colour = JSON.parse(a.choices[0].message.content);
  assert.deepEqual(Object.keys(colour), ['name', 'bright']);
  assert.equal(typeof colour.bright, 'boolean');
});

await run('completions', async () => {
  const a = await client.completions.create({ model, prompt: 'Once upon a', temperature: 0, max_tokens: 5 });
  assert(a.choices[0].text.length > 0);
});

await run('embeddings', async () => {
  const input = ['a ship', 'a boat', 'grammar'];
  const plain = await client.embeddings.create({ model: 'all-MiniLM-L6-v2', input, encoding_format: 'float' });
  const coded = await client.embeddings.create({ model: 'all-MiniLM-L6-v2', input }); // base64 on the wire
  assert.equal(coded.data.length, 3);
  assert.equal(coded.data[0].embedding.length, 384);
  plain.data.forEach((d, i) => assert.deepEqual(d.embedding.map(Math.fround), Array.from(coded.data[i].embedding)));
});

await run('knowledge', async () => {
  const messages = [{ role: 'user', content: 'What do lighthouses warn of?' }];
  const chunks = [];
  for await (const c of await client.chat.completions.create({ model: 'sluice', messages, stream: true, max_tokens: 8,
    sluice: { gate: 'open', k: 2 } })) chunks.push(c);
  assert.equal(chunks[0].sluice.citations[0].document, 'lights');
  assert(chunks.at(-1).sluice.trace.finish);
  for (const sluice of [{ gate: 'closed' }, { flow: 'paper', steps: true }]) { // it wants a role first
    const helper = client.chat.completions.stream({ model: 'sluice', messages, max_tokens: 8, sluice });
    assert((await helper.finalContent()).length > 0);
  }
});

await run('errors', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'gpt-5', messages: [{ role: 'user', content: 'x' }] }),
    (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found' && e.param === 'model' && !!e.requestID);
  await assert.rejects(hi({ temperature: 3 }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === 'temperature' && e.type === 'invalid_request_error');
  await assert.rejects(client.embeddings.create({ model: 'all-MiniLM-L6-v2', input: [] }), OpenAI.BadRequestError);
});

console.log(JSON.stringify({ client: 'openai ' + (await import('openai/version')).VERSION, passed }));
