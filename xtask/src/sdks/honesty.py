"""Asks the mock model server through the official SDKs, which must understand every answer.

    honesty.py BASE_URL

The server answers by the name of the model: `text`, `tools`, `thinking`, `length`, `limit`, `overflow`, `key`, `busy`,
`failing` (an error in the middle of a stream), and with the figures that are checked here.
"""

import sys

import anthropic
import openai

BASE = sys.argv[1]
TEXT = "Hello, wörld 🙂! This comes in several pieces."
CALLS = [("read", {"path": "src/main.rs", "limit": 20}), ("list", {})]
THOUGHT = "Where could it be? Maybe in src/main.rs."
checks = 0


def check(what, found, expected):
    global checks
    checks += 1
    assert found == expected, f"{what}: {found!r} is not {expected!r}"


def raises(what, kind, call, status=None):
    global checks
    checks += 1
    try:
        call()
    except kind as error:
        if status is not None:
            check(what, error.status_code, status)
        return error
    raise AssertionError(f"{what}: no {kind.__name__}")


def messages():
    client = anthropic.Anthropic(base_url=BASE, api_key="sk-mock", max_retries=0)
    ask = {"max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}

    def stream(model):
        with client.messages.stream(model=model, **ask) as stream:
            text = "".join(stream.text_stream)
            return text, stream.get_final_message()

    for message in [client.messages.create(model="text", **ask), stream("text")[1]]:
        check("text", [(block.type, block.text) for block in message.content], [("text", TEXT)])
        check("stop", (message.stop_reason, message.role, message.model), ("end_turn", "assistant", "text"))
        usage = message.usage
        found = (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
        check("usage", found, (100, 200, 600, 300))
    check("streamed text", stream("text")[0], TEXT)

    for model in ["tools", "woven"]:
        for message in [client.messages.create(model=model, **ask), stream(model)[1]]:
            calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
            check("calls", calls, CALLS)
            check("stop", message.stop_reason, "tool_use")

    for message in [client.messages.create(model="thinking", **ask), stream("thinking")[1]]:
        first = message.content[0]
        check("thinking", (first.type, first.thinking, first.signature), ("thinking", THOUGHT, "c2VhbA=="))
    check("length", stream("length")[1].stop_reason, "max_tokens")

    create = lambda model: lambda: client.messages.create(model=model, **ask)
    limit = raises("limit", anthropic.RateLimitError, create("limit"), 429)
    check("retry-after", limit.response.headers["retry-after"], "2")
    check("body", limit.body["error"], {"type": "rate_limit_error", "message": "slow down"})
    overflow = raises("overflow", anthropic.BadRequestError, create("overflow"), 400)
    check("overflow", "prompt is too long" in overflow.message, True)
    raises("key", anthropic.AuthenticationError, create("key"), 401)
    raises("busy", anthropic.InternalServerError, create("busy"), 529)
    raises("failing", anthropic.APIStatusError, lambda: stream("failing"))
    check("models", [model.id for model in client.models.list()], ["mock-large", "mock-small"])


def chat():
    client = openai.OpenAI(base_url=f"{BASE}/v1", api_key="sk-mock", max_retries=0)
    ask = {"messages": [{"role": "user", "content": "hello"}]}

    def stream(model):
        chunks = client.chat.completions.create(model=model, stream=True, stream_options={"include_usage": True}, **ask)
        text, calls, finish, usage = "", {}, None, None
        for chunk in chunks:
            check("chunk", (chunk.object, chunk.model), ("chat.completion.chunk", model))
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for call in choice.delta.tool_calls or []:
                    name, arguments = calls.get(call.index, ("", ""))
                    calls[call.index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
        return text, [calls[index] for index in sorted(calls)], finish, usage

    import json

    whole = client.chat.completions.create(model="text", **ask)
    check("text", (whole.choices[0].message.content, whole.choices[0].finish_reason), (TEXT, "stop"))
    text, _, finish, usage = stream("text")
    check("streamed", (text, finish), (TEXT, "stop"))
    for figures in [whole.usage, usage]:
        found = (figures.prompt_tokens, figures.completion_tokens, figures.total_tokens)
        check("usage", found, (1000, 200, 1200))
        check("cached", figures.prompt_tokens_details.cached_tokens, 600)
        check("reasoning", figures.completion_tokens_details.reasoning_tokens, 120)

    for model in ["tools", "woven"]:
        message = client.chat.completions.create(model=model, **ask).choices[0].message
        found = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        check("calls", found, CALLS)
        _, calls, finish, _ = stream(model)
        check("streamed calls", [(name, json.loads(arguments)) for name, arguments in calls], CALLS)
        check("finish", finish, "tool_calls")
        # The SDK's own way of putting a stream together.
        with client.chat.completions.stream(model=model, **ask) as events:
            final = events.get_final_completion().choices[0].message
        check("put together", [call.function.name for call in final.tool_calls], ["read", "list"])
    check("length", stream("length")[2], "length")

    create = lambda model: lambda: client.chat.completions.create(model=model, **ask)
    limit = raises("limit", openai.RateLimitError, create("limit"), 429)
    check("retry-after", limit.response.headers["retry-after"], "2")
    overflow = raises("overflow", openai.BadRequestError, create("overflow"), 400)
    check("code", overflow.code, "context_length_exceeded")
    raises("key", openai.AuthenticationError, create("key"), 401)
    raises("busy", openai.InternalServerError, create("busy"), 529)
    raises("failing", openai.APIError, lambda: stream("failing"))
    check("models", [model.id for model in client.models.list()], ["mock-large", "mock-small"])


def responses():
    client = openai.OpenAI(base_url=f"{BASE}/v1", api_key="sk-mock", max_retries=0)
    ask = {"input": "hello"}

    import json

    def stream(model):
        with client.responses.stream(model=model, **ask) as events:
            numbers, text = [], ""
            for event in events:
                numbers.append(event.sequence_number)
                if event.type == "response.output_text.delta":
                    text += event.delta
            check("numbered", numbers, list(range(len(numbers))))
            return text, events.get_final_response()

    text, streamed = stream("text")
    check("streamed text", text, TEXT)
    for response in [client.responses.create(model="text", **ask), streamed]:
        check("text", (response.output_text, response.status, response.model), (TEXT, "completed", "text"))
        usage = response.usage
        check("usage", (usage.input_tokens, usage.output_tokens, usage.total_tokens), (1000, 200, 1200))
        check("cached", usage.input_tokens_details.cached_tokens, 600)
        check("reasoning", usage.output_tokens_details.reasoning_tokens, 120)
    for model in ["tools", "woven"]:
        for response in [client.responses.create(model=model, **ask), stream(model)[1]]:
            calls = [item for item in response.output if item.type == "function_call"]
            check("calls", [(call.name, json.loads(call.arguments)) for call in calls], CALLS)
            check("ids", len({call.call_id for call in calls}), 2)
    for response in [client.responses.create(model="thinking", **ask), stream("thinking")[1]]:
        first = response.output[0]
        check("thinking", (first.type, first.summary[0].text, first.encrypted_content), ("reasoning", THOUGHT, "c2VhbA=="))
    length = client.responses.create(model="length", **ask)
    check("length", (length.status, length.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    create = lambda model: lambda: client.responses.create(model=model, **ask)
    limit = raises("limit", openai.RateLimitError, create("limit"), 429)
    check("retry-after", limit.response.headers["retry-after"], "2")
    raises("overflow", openai.BadRequestError, create("overflow"), 400)
    raises("key", openai.AuthenticationError, create("key"), 401)
    raises("busy", openai.InternalServerError, create("busy"), 529)
    last = list(client.responses.create(model="failing", stream=True, **ask))[-1]
    check("failing", (last.type, last.message), ("error", "Overloaded"))


for name, suite in [("anthropic messages", messages), ("openai chat", chat), ("openai responses", responses)]:
    before = checks
    suite()
    print(f"{name}: {checks - before} checks")
