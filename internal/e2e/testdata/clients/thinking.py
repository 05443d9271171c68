"""OpenAI's official Python client against a server of Sluice with a model that thinks."""
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)


def ask(model="default", **more):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Where?"}], temperature=0, max_tokens=64, **more)


a = ask()
said = a.choices[0].message
assert said.reasoning_content == "water river" and said.content.strip() == "light house", a
details = a.usage.completion_tokens_details
assert 0 < details.reasoning_tokens < a.usage.completion_tokens, a.usage

thought = text = ""
for chunk in ask(stream=True, stream_options={"include_usage": True}):
    for choice in chunk.choices:
        thought += getattr(choice.delta, "reasoning_content", None) or ""
        text += choice.delta.content or ""
        assert not (text and getattr(choice.delta, "reasoning_content", None)), chunk
    usage = chunk.usage
assert thought == said.reasoning_content and text == said.content, (thought, text)
assert usage.completion_tokens_details.reasoning_tokens == details.reasoning_tokens, usage

cut = ask(extra_body={"thinking_budget": 2})
assert cut.choices[0].message.reasoning_content == "water" and cut.choices[0].message.content == said.content, cut
assert cut.usage.completion_tokens_details.reasoning_tokens == 2, cut

for off in ({"reasoning_effort": "none"}, {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}):
    a = ask(**off)
    assert not hasattr(a.choices[0].message, "reasoning_content") and a.choices[0].message.content == said.content, a
    assert a.usage.completion_tokens_details.reasoning_tokens == 0, a

schema = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {"enum": ["yes"]}}}
a = ask(response_format=schema)
assert a.choices[0].message.reasoning_content == "water river" and a.choices[0].message.content == '"yes"', a

long = client.chat.completions.create(
    model="default", messages=[{"role": "user", "content": "Where?"}], max_tokens=2, extra_body={"thinking_budget": 9})
assert long.choices[0].finish_reason == "length" and long.choices[0].message.content == "", long

a = ask("sluice", extra_body={"sluice": {"gate": "open", "style": "write"}})
assert a.choices[0].message.reasoning_content == "water river" and "light house" in a.choices[0].message.content, a
print(json.dumps({"client": "openai-python " + openai.__version__}))
