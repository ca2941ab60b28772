"""A provider of LiteLLM that says what a script says, and only while the conversation that reaches it is the script's own.

Each model is a file NAME.json in the folder that BATON_PEERS_SCRIPTS names: its agents with their system prompts and turns. How many
turns were taken shows in the conversation alone. What LiteLLM made of it on the way must be what was said: every earlier turn with
its text, its calls and their ids, every result under the id of its call, every tool that is called among those offered.
Anything else is refused with what is wrong, and so fails the run that sent it.
"""

import json
import os
from pathlib import Path

from litellm import CustomLLM, ModelResponse
from litellm.llms.custom_llm import CustomLLMError
from litellm.proxy._types import ProxyException, UserAPIKeyAuth

# How many characters of a call's arguments come at once in a stream.
PIECE = 7


class ScriptProvider(CustomLLM):
    """Says the turn that is due."""

    def __init__(self):
        super().__init__()
        self.mishaps = {}

    async def acompletion(self, *args, **kwargs):
        model, turn, usage = self.due(kwargs)
        message = {"role": "assistant", "content": turn["text"] or None}
        if turn["calls"]:
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": {"name": call["tool"], "arguments": call["arguments"]}}
                for call in turn["calls"]
            ]
        finish = "tool_calls" if turn["calls"] else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return ModelResponse(model=model, choices=[choice], usage=usage)

    async def astreaming(self, *args, **kwargs):
        model, turn, usage = self.due(kwargs)
        for start in range(0, len(turn["text"]), PIECE):
            yield chunk(text=turn["text"][start : start + PIECE])
            if self.happens(script_of(model), model, "breaks"):
                raise CustomLLMError(status_code=500, message="broken in the middle")
        for index, call in enumerate(turn["calls"]):
            yield chunk(call=piece(index, "", id=call["id"], name=call["tool"]))
            for start in range(0, len(call["arguments"]), PIECE):
                yield chunk(call=piece(index, call["arguments"][start : start + PIECE]))
        yield chunk(finish="tool_calls" if turn["calls"] else "stop", usage=usage)

    def happens(self, script, model, mishap):
        """Whether the mishap is due: it happens as often as the script says, and then no more."""
        before = self.mishaps.get((model, mishap), 0)
        self.mishaps[model, mishap] = before + 1
        return before < script.get(mishap, 0)

    def due(self, asked):
        """The model's name, the turn that is due, and what it uses."""
        model, messages = asked["model"], asked["messages"]
        script = script_of(model)
        if self.happens(script, model, "refuses"):
            raise CustomLLMError(status_code=429, message="busy")
        system = "\n".join(words(message) for message in messages if message["role"] == "system")
        agents = [agent for agent in script["agents"] if agent["system_prompt"] in system]
        expect(len(agents) == 1, f"no system prompt of {model} in {system!r}")
        turns = [worded(agents[0]["agent"], number, turn) for number, turn in enumerate(agents[0]["turns"], 1)]
        talk = [message for message in messages if message["role"] != "system"]
        taken = check(talk, turns)
        expect(taken < len(turns), f"{agents[0]['agent']} has said all of its {len(turns)} turns")
        tools = (asked.get("optional_params") or {}).get("tools") or []
        offered = {tool["function"]["name"] for tool in tools}
        for call in turns[taken]["calls"]:
            expect(call["tool"] in offered, f"{call['tool']} is not among the tools {sorted(offered)}")
        answer = len(turns[taken]["text"]) + sum(len(call["arguments"]) for call in turns[taken]["calls"])
        request = len(json.dumps(messages))
        usage = {"prompt_tokens": request, "completion_tokens": answer, "total_tokens": request + answer}
        return model, turns[taken], usage


async def authenticate(request, api_key):
    """Takes the one key. Without a database, the proxy itself would answer every other with a complaint about that."""
    if api_key != os.environ["BATON_PEERS_KEY"]:
        raise ProxyException(message="this is not the key", type="auth_error", param=None, code=401)
    return UserAPIKeyAuth(api_key=api_key)


def script_of(model):
    return json.loads((Path(os.environ["BATON_PEERS_SCRIPTS"]) / f"{model}.json").read_text())


def check(talk, turns):
    """How many turns `talk` has. It must be a request, and for every turn what was said and then the result of each call."""
    expect(talk and talk[0]["role"] == "user" and words(talk[0]), "the conversation does not begin with a request")
    taken, at = 0, 1
    while at < len(talk):
        expect(taken < len(turns), "more was said than the script has")
        turn, taken = turns[taken], taken + 1
        said, at = talk[at], at + 1
        expect(said["role"] == "assistant", f"{said['role']} speaks where turn {taken} was")
        expect(words(said) == turn["text"], f"turn {taken} said {turn['text']!r} and came back as {words(said)!r}")
        calls = [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in said.get("tool_calls") or []]
        told = [(call["id"], call["tool"], json.loads(call["arguments"])) for call in turn["calls"]]
        expect(calls == told, f"turn {taken} called {told} and came back as {calls}")
        for call in turn["calls"]:
            result, at = (talk[at] if at < len(talk) else {"role": "nobody"}), at + 1
            expect(result["role"] == "tool", f"{result['role']} speaks where the result of {call['id']} was")
            expect(result["tool_call_id"] == call["id"], f"the result of {call['id']} is that of {result['tool_call_id']}")
            expect("status" in json.loads(words(result)), f"the result of {call['id']} has no status")
        # What comes with results: documents, and what was said to the task meanwhile.
        while at < len(talk) and talk[at]["role"] == "user":
            at += 1
    return taken


def worded(agent, number, turn):
    """A turn as it goes over a wire: calls have ids, and inputs are text."""
    calls = [
        {"id": f"call_{agent}_{number}_{place}", "tool": call["tool"], "arguments": json.dumps(call.get("input", {}), ensure_ascii=False)}
        for place, call in enumerate(turn.get("calls", []), 1)
    ]
    return {"text": turn.get("text", ""), "calls": calls}


def words(message):
    """The text of a message: a string, or the texts of its parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def chunk(text="", call=None, finish="", usage=None):
    return {"text": text, "tool_use": call, "is_finished": bool(finish), "finish_reason": finish, "usage": usage, "index": 0}


def piece(index, arguments, id=None, name=None):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, "index": index}


def expect(holds, otherwise):
    if not holds:
        raise CustomLLMError(status_code=400, message=otherwise)


script_provider = ScriptProvider()
