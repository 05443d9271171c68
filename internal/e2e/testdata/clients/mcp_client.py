"""The official Python client of the Model Context Protocol, unchanged, against sluice over both transports.

mcp_client.py PROGRAM STORE URL [KEY]: the program is started by the client, the server listens at the URL.
"""
import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

program, store, url = sys.argv[1:4]
key = sys.argv[4] if len(sys.argv) > 4 else ""
question = "When does a deferred function run, in which order?"
done = []


def over_http(with_key):
    headers = {"Authorization": "Bearer " + with_key} if with_key else {}
    return streamable_http_client(url + "/mcp", http_client=httpx2.AsyncClient(headers=headers, timeout=120))


def failed(result):
    return result.is_error and result.content[0].text


async def session(name, server, mode):
    def passed(case):
        done.append(f"{name} {mode} {case}")

    async with Client(server, mode=mode) as c:
        tools = {t.name: t for t in (await c.list_tools()).tools}
        assert set(tools) == {"gate", "search", "ask", "get_document", "list_documents"}, tools
        assert all(t.output_schema for t in tools.values())
        passed("list")
        r = await c.call_tool("gate", {"query": question})
        assert not r.is_error and r.structured_content["decision"]["retrieve"] is True, r
        assert json.loads(r.content[0].text) == r.structured_content
        r = await c.call_tool("search", {"query": question, "k": 2})
        assert r.structured_content["results"][0]["id"] == "defer", r
        passed("call")
        seen = []

        async def progress(p, total, message):
            seen.append((p, message))
        r = await c.call_tool("ask", {"question": question}, progress_callback=progress)
        assert not r.is_error and r.structured_content["sources"][0]["document"] == "defer", r
        await asyncio.sleep(.1)
        assert len(seen) >= 2 and [p for p, _ in seen] == sorted({p for p, _ in seen}), seen
        passed("progress")
        begun = asyncio.Event()

        async def first(p, total, message):
            begun.set()
        task = asyncio.create_task(c.call_tool("ask", {
            "question": "Tell me everything about " + "very " * 40 + "long stories.", "gate": "closed",
            "max_tokens": 3000}, progress_callback=first))
        await begun.wait()
        task.cancel()
        try:
            await task
            raise AssertionError("the call was not cancelled")
        except asyncio.CancelledError:
            pass
        assert not (await c.call_tool("gate", {"query": question})).is_error
        passed("cancel")
        resources = (await c.list_resources()).resources
        assert len(resources) == 4, resources
        text = (await c.read_resource(str(resources[0].uri))).contents[0].text
        assert text.startswith("A deferred function"), text
        try:
            await c.read_resource("sluice://documents/none")
            raise AssertionError("a missing resource")
        except Exception as e:
            assert "none" in str(e), e
        passed("resource")
        for arguments, says in (({}, "query"), ({"query": 7}, "query"), ({"query": "x", "k": 0}, "0"),
                                ({"query": "x", "unheard_of": 1}, "unheard_of")):
            text = failed(await c.call_tool("search", arguments))
            assert text and says in text, text
        passed("wrong arguments")


async def refused(name, with_key):
    for mode in ("auto", "legacy"):
        try:
            async with Client(over_http(with_key), mode=mode) as c:
                await c.list_tools()
        except BaseException as e:  # an ExceptionGroup of what the transport has
            errors = [e]
            while errors:
                e = errors.pop()
                errors += getattr(e, "exceptions", [])
                if "401" in str(e) or "API key" in str(e):
                    done.append(f"HTTP {mode} {name}: {type(e).__name__}: {e}")
                    break
            else:
                raise
        else:
            raise AssertionError(name)


async def main():
    for mode in ("auto", "legacy"):
        await session("stdio", StdioServerParameters(command=program, args=["mcp", "-q", "--store", store]), mode)
        await session("HTTP", over_http(key), mode)
    if key:
        await refused("no key", "")
        await refused("wrong key", "a-key-that-nobody-has")
    print(json.dumps({"client": "mcp", "passed": done}))


asyncio.run(main())
