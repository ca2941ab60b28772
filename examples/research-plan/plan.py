# Reads two sources at a time and has each of their claims checked, until enough are confirmed.

SOURCES = ["chronicle.md", "ledger.md", "letters.md", "guide.md"]
CLAIMS = {"type": "object", "properties": {"claims": {"type": "array", "items": {"type": "string"}}}, "required": ["claims"]}
VERDICT = {"type": "object", "properties": {"confirmed": {"type": "boolean"}}, "required": ["confirmed"]}


def read(paths):
    """Returns the claims of these sources, each with its source."""
    readers = [later(agent, "reader", f"Which claims are in {path}?", documents=[path], schema=CLAIMS) for path in paths]
    found = zip(paths, parallel(readers))
    return [(path, claim) for path, answer in found for claim in answer["claims"]]


def check(claims):
    """Returns whether the other sources confirm each of these claims."""
    checkers = [
        later(agent, "checker", f"Is this confirmed? {claim}", documents=[other for other in SOURCES if other != path], schema=VERDICT)
        for path, claim in claims
    ]
    return [verdict["confirmed"] for verdict in parallel(checkers)]


confirmed, rejected, rounds, unread = [], [], 0, SOURCES
while unread and len(confirmed) < inputs["enough"]:
    rounds += 1
    claims = read(unread[:2])
    unread = unread[2:]
    for (path, claim), is_confirmed in zip(claims, check(claims)):
        (confirmed if is_confirmed else rejected).append(f"- {claim} ({path})")

lines = ["# Confirmed facts", "", *confirmed, "", "# Not confirmed", "", *rejected, ""]
call("write_file", path="facts.md", content="\n".join(lines), why_created="The facts about the bridge, and the claims that nothing confirms")
{"confirmed": len(confirmed), "rejected": len(rejected), "rounds": rounds}
