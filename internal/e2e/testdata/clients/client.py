"""OpenAI's official Python client against a server of Sluice, of which it knows a base URL and a key."""
import json
import struct
import sys
from typing import Annotated, Literal, Union

import openai
from pydantic import BaseModel, Field

base, model = sys.argv[1], sys.argv[2]
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
done = []


def case(f):
    f()
    done.append(f.__name__)


def hi(**more):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Name a colour."}], temperature=0, max_tokens=8, **more)


@case
def models():
    ids = [m.id for m in client.models.list()]
    assert "sluice" in ids and model in ids, ids
    assert client.models.retrieve(model).id == model
    assert client.models.retrieve("sluice/default").object == "model"
    assert client.models.retrieve("default").root == model and "default" in ids
    assert "gpt-4o" in ids and client.models.retrieve("gpt-4o").root == model


@case
def aliases():
    a = client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "Name a colour."}], temperature=0, max_tokens=8)
    assert a.model == "gpt-4o" and a.choices[0].message.content == hi().choices[0].message.content, a
    e = client.embeddings.create(model="text-embedding-3-small", input="a ship")
    assert e.model == "text-embedding-3-small" and len(e.data[0].embedding) == 384, e.model


@case
def several_answers():
    def ask(**more):
        return client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Name a colour."}], temperature=1.5, max_tokens=12,
            **more)
    a = ask(n=3, seed=7)
    texts = [c.message.content for c in a.choices]
    assert [c.index for c in a.choices] == [0, 1, 2] and len(set(texts)) > 1, texts
    assert texts == [ask(seed=7 + i).choices[0].message.content for i in range(3)], texts
    one = ask(seed=7)
    assert a.usage.prompt_tokens == one.usage.prompt_tokens, a.usage
    assert one.usage.completion_tokens < a.usage.completion_tokens <= 36, a.usage
    streamed, ends, usage = ["", "", ""], 0, None
    for chunk in ask(n=3, seed=7, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
            ends += choice.finish_reason is not None
    assert streamed == texts and ends == 3 and usage.total_tokens == a.usage.total_tokens, (streamed, texts, usage)


@case
def chat():
    a = hi()
    assert a.object == "chat.completion" and a.model == model and a.id.startswith("chatcmpl-"), a
    assert a.choices[0].message.role == "assistant" and a.choices[0].message.content, a
    assert a.choices[0].finish_reason in ("stop", "length"), a
    assert a.usage.total_tokens == a.usage.prompt_tokens + a.usage.completion_tokens > 8, a
    assert hi().choices[0].message.content == a.choices[0].message.content
    assert hi(stop=[a.choices[0].message.content[:3]]).choices[0].message.content == ""


@case
def chat_stream():
    whole = hi().choices[0].message.content
    text, usage, reasons = "", None, []
    for chunk in hi(stream=True, stream_options={"include_usage": True}):
        assert chunk.object == "chat.completion.chunk"
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert text == whole and len(reasons) == 1 and usage.completion_tokens > 0, (text, whole, reasons, usage)


@case
def seed():
    def draw(n):
        return client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Name a colour."}], temperature=1.5, max_tokens=12,
            seed=n).choices[0].message.content
    assert draw(7) == draw(7)
    assert len({draw(n) for n in range(4)}) > 1


@case
def logprobs():
    a = hi(logprobs=True, top_logprobs=3)
    content = a.choices[0].logprobs.content
    assert len(content) > 0 and all(t.logprob <= 0 and len(t.top_logprobs) == 3 for t in content), a
    assert all(t.logprob == t.top_logprobs[0].logprob for t in content), a  # temperature 0 takes the best
    assert b"".join(bytes(t.bytes) for t in content).decode() == a.choices[0].message.content, a


class Colour(BaseModel):
    name: str = Field(max_length=20)  # a small model goes on for ever
    red: int
    bright: bool


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: int


class Square(BaseModel):
    kind: Literal["square"]
    side: int


class Drawing(BaseModel):
    shape: Annotated[Union[Circle, Square], Field(discriminator="kind")]  # pydantic writes oneOf and discriminator


@case
def structured():
    a = client.chat.completions.parse(
        model=model, messages=[{"role": "user", "content": "Describe the colour of the sky."}], temperature=0,
        max_tokens=100, response_format=Colour)
    colour = a.choices[0].message.parsed
    assert isinstance(colour, Colour), a
    with client.chat.completions.stream(
        model=model, messages=[{"role": "user", "content": "Describe the colour of the sky."}], temperature=0,
        max_tokens=100, response_format=Colour, logprobs=True,
    ) as stream:
        for _ in stream:
            pass
        b = stream.get_final_completion()
    assert b.choices[0].message.parsed == colour and len(b.choices[0].logprobs.content) > 5, b
    schema = {"type": "json_schema", "json_schema": {"name": "drawing", "schema": Drawing.model_json_schema()}}
    assert "oneOf" in json.dumps(schema)
    a = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Draw a circle."}], temperature=0, max_tokens=100,
        response_format=schema)
    assert Drawing.model_validate_json(a.choices[0].message.content), a
    b = hi(response_format={"type": "json_object"})
    assert b.choices[0].message.content.startswith("{"), b


@case
def tools():
    weather = [{"type": "function", "function": {"name": "weather", "description": "The weather of a town.",
                "parameters": {"type": "object", "properties": {"town": {"type": "string", "maxLength": 20}},
                               "required": ["town"], "additionalProperties": False}}}]
    a = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "How is the weather in Rome?"}], temperature=0,
        tools=weather, tool_choice="required", max_tokens=100)
    call = a.choices[0].message.tool_calls[0]
    assert a.choices[0].finish_reason == "tool_calls" and call.function.name == "weather", a
    assert "town" in json.loads(call.function.arguments), a


@case
def completions():
    a = client.completions.create(model=model, prompt="Once upon a", temperature=0, max_tokens=5, logprobs=2)
    assert a.object == "text_completion" and a.choices[0].text and a.usage.completion_tokens == 5, a
    assert len(a.choices[0].logprobs.tokens) == 5, a
    pieces = client.completions.create(model=model, prompt="Once upon a", temperature=0, max_tokens=5, stream=True)
    assert "".join(p.choices[0].text for p in pieces) == a.choices[0].text


@case
def prompts_and_tokens():
    def tell(prompt, **more):
        return client.completions.create(model=model, prompt=prompt, temperature=0, max_tokens=5, **more)

    def tokens(text):
        return client.post(base + "/tokenize", body={"content": text}, cast_to=object)["tokens"]
    texts = ["Once upon a", "The ship"]
    alone = [tell(t).choices[0].text for t in texts]
    for prompt in (texts, [tokens(t) for t in texts], [texts[0], tokens(texts[1])]):
        a = tell(prompt)
        assert [c.text for c in a.choices] == alone and [c.index for c in a.choices] == [0, 1], (a, alone)
        assert a.usage.prompt_tokens == sum(len(tokens(t)) for t in texts), a.usage
    assert tell(tokens(texts[0])).choices[0].text == alone[0]
    a = tell(texts, n=2)
    assert [c.text for c in a.choices] == [alone[0], alone[0], alone[1], alone[1]], a
    streamed = ["", ""]
    for p in tell(texts, stream=True):
        for c in p.choices:
            streamed[c.index] += c.text
    assert streamed == alone, streamed


@case
def embeddings():
    texts = ["a ship", "a boat", "grammar"]
    plain = client.embeddings.create(model="all-MiniLM-L6-v2", input=texts, encoding_format="float")
    default = client.embeddings.create(model="all-MiniLM-L6-v2", input=texts)  # base64 on the wire
    assert [d.index for d in default.data] == [0, 1, 2] and len(default.data[0].embedding) == 384
    for a, b in zip(plain.data, default.data):
        assert struct.pack("384f", *a.embedding) == struct.pack("384f", *b.embedding)
    dot = lambda i, j: sum(x * y for x, y in zip(default.data[i].embedding, default.data[j].embedding))
    assert dot(0, 1) > dot(0, 2) and abs(dot(0, 0) - 1) < 1e-5
    assert default.usage.total_tokens == default.usage.prompt_tokens > 6
    one = client.embeddings.create(model="all-MiniLM-L6-v2", input="a ship", dimensions=384)
    assert one.data[0].embedding == default.data[0].embedding
    # "a ship" in BERT's vocabulary, with the special tokens and without
    coded = client.embeddings.create(model="all-MiniLM-L6-v2", input=[[101, 1037, 2911, 102], [1037, 2911]])
    assert [d.embedding for d in coded.data] == [default.data[0].embedding] * 2
    one = client.embeddings.create(model="all-MiniLM-L6-v2", input=[1037, 2911])
    assert one.data[0].embedding == default.data[0].embedding


@case
def knowledge():
    question = [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What do lighthouses warn of?"}]
    a = client.chat.completions.create(
        model="sluice", messages=question, max_tokens=12, extra_body={"sluice": {"gate": "open"}})
    assert a.choices[0].message.content and a.model == "sluice"
    assert a.sluice["citations"][0]["document"] == "lights", a.sluice
    assert a.sluice["ignored"] == ["messages[0]: role system"], a.sluice
    chunks = list(client.chat.completions.create(
        model="sluice/default", messages=question, max_tokens=12, stream=True,
        extra_body={"sluice": {"gate": "open", "k": 2}}))
    assert len(chunks[0].sluice["citations"]) == 2 and chunks[-1].sluice["trace"]["finish"], chunks
    assert "".join(c.choices[0].delta.content or "" for c in chunks)


def refused(kind, param, call):
    try:
        call()
    except kind as e:
        assert type(e) is kind and e.param == param and e.message and e.request_id, (e, e.param)
        return e
    raise AssertionError(f"no {kind.__name__}")


@case
def errors():
    e = refused(openai.NotFoundError, "model", lambda: client.chat.completions.create(
        model="gpt-5", messages=[{"role": "user", "content": "x"}]))
    assert e.code == "model_not_found" and e.body["hint"], e.body
    refused(openai.BadRequestError, "temperature", lambda: client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "x"}], temperature=3))
    refused(openai.BadRequestError, "n", lambda: hi(n=129))
    for nothing in ("", [], ["a", ""]):
        refused(openai.BadRequestError, "input[1]" if len(nothing) > 1 else "input", lambda: client.embeddings.create(
            model="all-MiniLM-L6-v2", input=nothing))
    e = refused(openai.BadRequestError, "dimensions", lambda: client.embeddings.create(
        model="all-MiniLM-L6-v2", input="a", dimensions=256))
    assert "the encoder has 384" in e.message, e
    refused(openai.BadRequestError, "messages", lambda: client.chat.completions.create(model=model, messages=[]))
    e = refused(openai.BadRequestError, "input", lambda: client.embeddings.create(
        model="all-MiniLM-L6-v2", input=[[1, 2, 3]]))
    assert "check_embedding_ctx_length" in e.body["hint"], e.body
    refused(openai.BadRequestError, "response_format.json_schema.schema", lambda: hi(response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "not": {}}}}))
    e = refused(openai.BadRequestError, None, lambda: client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "word " * 5000}]))
    assert e.code == "context_length_exceeded", e.body


print(json.dumps({"client": "openai " + openai.__version__, "passed": done}))
