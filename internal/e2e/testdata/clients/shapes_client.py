"""The official Python clients of OpenAI (Responses), Anthropic and Ollama, unchanged, against a server of Sluice.

shapes_client.py URL MODEL: the server has one knowledge base, and the language model MODEL.
"""
import json
import sys

import anthropic
import ollama
import openai

base, model = sys.argv[1:3]
question = "When does a deferred function run, in which order?"
done = []
oai = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
ant = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
oll = ollama.Client(host=base)
schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"],
          "additionalProperties": False}


def case(f):
    f()
    done.append(f.__name__)


@case
def chat_annotations():
    ask = dict(model="sluice", messages=[{"role": "user", "content": question}], extra_body={"sluice": {"style": "quote"}})
    a = oai.chat.completions.create(**ask).choices[0].message
    c = a.annotations[0].url_citation
    assert a.content[c.start_index:c.end_index] == "[1]" and "defer" in c.url and c.title == "defer", a
    last = [x for x in oai.chat.completions.create(stream=True, **ask) if x.choices][-1]
    assert last.choices[0].delta.annotations[0]["url_citation"]["title"] == "defer", last


@case
def responses_text():
    r = oai.responses.create(model=model, input="Name a colour.", instructions="Be brief.", max_output_tokens=8)
    assert r.output_text and r.status in ("completed", "incomplete") and r.usage.output_tokens > 0, r


@case
def responses_stream():
    text, types = "", []
    with oai.responses.stream(model="sluice", input=question, extra_body={"sluice": {"style": "quote"}}) as s:
        for e in s:
            types.append(e.type)
            if e.type == "response.output_text.delta":
                text += e.delta
        final = s.get_final_response()
    assert final.output_text == text and types[0] == "response.created", (types, text)


@case
def responses_file_search():
    r = oai.responses.create(model="gpt-x", input=question, tools=[{"type": "file_search", "vector_store_ids": ["default"]}],
                             include=["file_search_call.results"], extra_body={"sluice": {"style": "quote"}})
    call, message = r.output
    assert call.type == "file_search_call" and call.results[0].file_id == "defer" and call.results[0].score > 0, r
    assert message.content[0].annotations[0].type == "file_citation", r


@case
def responses_structured():
    r = oai.responses.create(model=model, input="A colour as JSON.", max_output_tokens=40, text={"format": {
        "type": "json_schema", "name": "c", "schema": schema, "strict": True}})
    assert json.loads(r.output_text)["colour"] in ("red", "green"), r


@case
def responses_functions():
    r = oai.responses.create(model=model, input="x", tool_choice="required", max_output_tokens=60, tools=[
        {"type": "function", "name": "paint", "parameters": schema, "strict": True}])
    assert r.output[0].type == "function_call" and json.loads(r.output[0].arguments)["colour"], r
    r = oai.responses.create(model=model, max_output_tokens=8, input=[
        {"role": "user", "content": "x"}, r.output[0].model_dump(),
        {"type": "function_call_output", "call_id": r.output[0].call_id, "output": "done"}])
    assert r.output_text, r


@case
def responses_refused():
    for more in ({"previous_response_id": "resp_1"}, {"background": True}, {"tools": [{"type": "web_search"}]}):
        try:
            oai.responses.create(model=model, input="x", **more)
            raise AssertionError(more)
        except openai.BadRequestError as e:
            assert "not supported" in e.message, e


@case
def anthropic_text():
    m = ant.messages.create(model=model, max_tokens=8, system="Be brief.", messages=[{"role": "user", "content": "Hi"}])
    assert m.content[-1].type == "text" and m.usage.output_tokens > 0 and m.stop_reason in ("end_turn", "max_tokens"), m


@case
def anthropic_stream():
    with ant.messages.stream(model=model, max_tokens=8, messages=[{"role": "user", "content": "Hi"}]) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    assert text and final.content[-1].text == text, (text, final)


@case
def anthropic_citations():
    m = ant.messages.create(model="sluice", max_tokens=64, messages=[{"role": "user", "content": question}],
                            extra_body={"sluice": {"style": "quote"}})
    assert m.content[0].citations[0].title == "defer" and m.content[0].citations[0].type == "search_result_location", m


@case
def anthropic_tools():
    m = ant.messages.create(model=model, max_tokens=60, messages=[{"role": "user", "content": "x"}],
                            tools=[{"name": "paint", "input_schema": schema}], tool_choice={"type": "any"})
    assert m.stop_reason == "tool_use" and m.content[-1].input["colour"] in ("red", "green"), m


@case
def anthropic_errors():
    for wrong, error in (({"model": "gone"}, anthropic.NotFoundError),
                         ({"stop_sequences": [""]}, anthropic.BadRequestError)):
        more = dict(dict(model=model, max_tokens=8, messages=[{"role": "user", "content": "Hi"}]), **wrong)
        try:
            ant.messages.create(**more)
            raise AssertionError(wrong)
        except error as e:
            assert e.body["type"] == "error", e.body


@case
def ollama_models():
    names = [m.model for m in oll.list().models]
    assert "sluice" in names and model in names, names
    assert "completion" in oll.show(model).capabilities
    assert oll.show("sluice").capabilities == ["completion"]


@case
def ollama_chat():
    hi = [{"role": "user", "content": "Name a colour."}]
    whole = oll.chat(model=model, messages=hi, options={"temperature": 0, "num_predict": 8})
    pieces = list(oll.chat(model=model, messages=hi, stream=True, options={"temperature": 0, "num_predict": 8}))
    assert "".join(p.message.content for p in pieces) == whole.message.content and pieces[-1].done, (whole, pieces)
    assert whole.eval_count > 0 and whole.done_reason in ("stop", "length"), whole


@case
def ollama_base():
    a = oll.chat(model="sluice:latest", messages=[{"role": "user", "content": question}])
    assert a.message.content, a


@case
def ollama_tools_and_format():
    a = oll.chat(model=model, messages=[{"role": "user", "content": "A colour."}], format=schema, options={"num_predict": 40})
    assert json.loads(a.message.content)["colour"] in ("red", "green"), a


@case
def ollama_generate():
    a = oll.generate(model=model, prompt="Name a colour.", options={"num_predict": 8})
    assert a.response and a.done, a


@case
def ollama_embed():
    e = oll.embed(model="all-MiniLM-L6-v2", input=["a ship", "a boat"])
    assert len(e.embeddings) == 2 and len(e.embeddings[0]) == 384, len(e.embeddings)


@case
def ollama_errors():
    for call in (lambda: oll.chat(model="gone", messages=[{"role": "user", "content": "x"}]),
                 lambda: oll.chat(model=model, messages=[{"role": "user", "content": "x", "images": [b"x"]}]),
                 lambda: oll.generate(model=model, prompt="x", suffix="y")):
        try:
            call()
            raise AssertionError("no error")
        except ollama.ResponseError as e:
            assert e.status_code in (400, 404) and e.error, e


print(json.dumps({"client": "openai %s, anthropic %s, ollama" % (openai.__version__, anthropic.__version__),
                  "passed": done}))
