"""Calls a tool of a Baton engine, as another system would: python3 caller.py SERVER TOOL INPUT

It plays the worker: it has the card of the call, keeps the card of the result, and sends the command three times.
"""

import asyncio
import json
import sys

import nats
from nats.js.errors import NotFoundError

BASE = "cg.v1r3.default.main.cmd"


async def main(server, tool, text):
    bus = await nats.connect(server)
    js = bus.jetstream()
    kept = {}
    call = {"card_id": "call-1", "project_id": "default", "type": "tool.call", "author_id": "caller",
            "content": {"tool_name": tool, "arguments": json.loads(text), "status": "called"},
            "metadata": {"role": "assistant", "agent_turn_id": "turn-1", "tool_call_id": "call-1", "function_name": tool}}

    async def get(request):
        await request.respond(json.dumps({"card": call}).encode())

    async def put(request):
        card = json.loads(request.data)["card"]
        created = card["card_id"] not in kept
        kept.setdefault(card["card_id"], card)
        await request.respond(json.dumps({"kept": {"card_id": card["card_id"], "created": created}}).encode())

    await bus.subscribe(f"{BASE}.sys.card.get", cb=get)
    await bus.subscribe(f"{BASE}.sys.card.put", cb=put)
    command = {"agent_id": "caller", "agent_turn_id": "turn-1", "turn_epoch": 1, "tool_call_id": "call-1",
               "after_execution": "suspend", "tool_call_card_id": "call-1", "tool_name": tool}
    while True:
        try:
            callbacks = await js.pull_subscribe(f"{BASE}.sys.report.tool_result", durable="caller",
                                                stream="baton-default-callbacks")
            break
        except NotFoundError:
            await asyncio.sleep(0.1)
    came = []
    for _ in range(3):
        await js.publish(f"{BASE}.tool.{tool}", json.dumps(command).encode())
        for message in await callbacks.fetch(1, timeout=50):
            came.append(json.loads(message.data))
            await message.ack()
    card = kept[came[0]["tool_result_card_id"]]
    assert all(callback == came[0] for callback in came), came
    print(json.dumps({"status": came[0]["status"], "callbacks": len(came), "result": card["content"]["result"]}))


asyncio.run(main(*sys.argv[1:]))
