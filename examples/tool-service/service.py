"""A tool service in Python: finds books. It needs nats-py, and a NATS server with JetStream.

    python3 service.py nats://127.0.0.1:4222 [PROJECT [CHANNEL]]
"""

import asyncio
import json
import sys

import nats
from nats.errors import TimeoutError as NothingCame
from nats.js.errors import NotFoundError

BOOKS = ["Moths of the Alps", "A Year of Moths", "The Art of Bread", "Rivers of Iowa"]


def search(arguments):
    """Does the work of one call: finds books whose title has the text."""
    text = arguments["text"].lower()
    return {"titles": [title for title in BOOKS if text in title.lower()][: arguments["limit"]]}


async def main(server, project="default", channel="main"):
    bus = await nats.connect(server)
    base = f"cg.v1r3.{project}.{channel}.cmd"

    async def card(what, request):
        """Asks for a card, or has one kept."""
        reply = await bus.request(f"{base}.sys.card.{what}", json.dumps(request).encode(), timeout=10)
        return json.loads(reply.data)

    async def serve(message):
        command = json.loads(message.data)
        call = (await card("get", {"card_id": command["tool_call_card_id"]})).get("card")
        if call is None:
            # The run was removed. No program waits for the result.
            return await message.ack()
        try:
            content = {"status": "success", "result": search(call["content"]["arguments"]), "error": None}
        except Exception as error:
            content = {"status": "failed", "result": None, "error": {"code": "internal_error", "message": str(error)}}
        # A repeated command has the same card, and so the first result counts.
        result = f"library:{command['agent_turn_id']}:{command['tool_call_id']}"
        metadata = {**call["metadata"], "role": "tool"}
        kept = await card("put", {"card": {"card_id": result, "project_id": project, "type": "tool.result",
                                           "content": content, "author_id": "tool.library", "metadata": metadata}})
        if kept.get("error", {}).get("code", "conflict") != "conflict":
            raise RuntimeError(kept["error"]["message"])
        names = ["agent_id", "agent_turn_id", "turn_epoch", "tool_call_id", "after_execution"]
        callback = {**{name: command[name] for name in names}, "status": content["status"], "tool_result_card_id": result}
        await bus.jetstream().publish(f"{base}.sys.report.tool_result", json.dumps(callback).encode())
        await message.ack()

    while True:
        try:
            # The stream of commands is there as soon as Baton was connected once.
            commands = await bus.jetstream().pull_subscribe(f"{base}.tool.library", durable="library")
            while True:
                for message in await commands.fetch(10, timeout=30):
                    await serve(message)
        except NotFoundError:
            await asyncio.sleep(1)
        except NothingCame:
            pass
        except Exception as error:
            print(f"a command comes again in 30 s: {error!r}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
