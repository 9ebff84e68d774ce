#!/usr/bin/env python3
"""Records what transformers makes of chat templates (`pip install transformers jinja2`; recorded with 5.24.0 and 3.1.6).

    chat_cases.py > runtime/tests/chat-cases.json          the cases kept in the repository
    chat_cases.py DIRECTORY > more.json                    every *.jinja there on the same conversations; the test
                                                           reads such a file from the path in HRX_CHAT_CASES

The templates in chat_templates/ were written for this, with the Jinja that models' own use: each says in its head in whose
manner. smollm2.jinja is SmolLM2's own (Apache-2.0).
"""
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

USER, ASSISTANT, SYSTEM, TOOL = "user", "assistant", "system", "tool"


def turns(*pairs):
    return [{"role": role, "content": content} for role, content in pairs]


def calls(content, *functions, **more):
    """An assistant's message with calls of (name, arguments)."""
    made = [
        {"type": "function", "id": f"c{number}", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(functions, 1)
    ]
    return {"role": ASSISTANT, "content": content, "tool_calls": made, **more}


def result(content, call="c1", name="get_weather"):
    return {"role": TOOL, "content": content, "tool_call_id": call, "name": name}


def tool(name, description, properties, required=(), **more):
    parameters = {"type": "object", "properties": properties, "required": list(required), **more}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    tool(
        "get_weather",
        "Wetter für <Ort> & 'Zeit'",
        {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        ["city"],
        strict=True,
        extra=None,
    )
]

# Schemas of every shape. Some parameters are called as Python's methods of a dict are.
SHAPES = [
    tool(
        "shapes",
        "",
        {
            "items": {"type": "array", "items": {"type": "number"}, "description": " what to sum \n"},
            "keys": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            "values": {"type": ["string", "null"], "default": None},
            "get": {"type": "string", "enum": ["a", 'b"c', "ü"], "default": "a"},
            "point": {
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "boolean", "default": True}},
                "required": ["x"],
            },
            "any": {"oneOf": [{"type": "string"}, {"type": "object"}], "default": [1, 2.5, 1e16, {"a": False}]},
            "deep": {"type": "array", "items": {"type": "object", "properties": {"long_name": {"type": "string"}, "other": {"type": "number"}}}},
        },
        ["items", "get"],
    ),
    {"type": "function", "function": {"name": "none", "description": "Nothing.", "parameters": {"type": "object", "properties": {}, "required": []}, "return": {"type": "string"}}},
]

CONVERSATIONS = {
    "one question": (turns((USER, "Hi")), {"add_generation_prompt": True}),
    "nothing": ([], {"add_generation_prompt": True}),
    "with a system message": (turns((SYSTEM, " Be brief. "), (USER, "  Hi\n")), {"add_generation_prompt": True}),
    "a switch in words": (turns((SYSTEM, "it's a /no_think\n"), (USER, "Hi")), {"add_generation_prompt": True}),
    "several turns": (
        turns((SYSTEM, "S"), (USER, "A?"), (ASSISTANT, "<think>\nhm\n</think>\n\nB."), (USER, "C'é \"q\"?")),
        {"add_generation_prompt": True},
    ),
    "closed": (turns((USER, "A?"), (ASSISTANT, "B.")), {"add_generation_prompt": False}),
    "roles out of order": (turns((USER, "A"), (USER, "B")), {"add_generation_prompt": True}),
    "tools": (turns((USER, "Weather?")), {"add_generation_prompt": True, "tools": TOOLS}),
    "tools of every shape": (turns((SYSTEM, "S"), (USER, "Sum?")), {"add_generation_prompt": True, "tools": SHAPES}),
    "a tool call": (
        turns((USER, "Weather?")) + [calls("", ("get_weather", {"city": "Köln", "days": 2})), result('{"t": 20}')],
        {"add_generation_prompt": True, "tools": TOOLS, "extra": {"enable_thinking": False}},
    ),
    "two calls at once": (
        turns((USER, "Weather?"))
        + [
            calls("I'll look.", ("get_weather", {"city": "Köln"}), ("get_weather", {"city": "Ulm", "more": [1, None, True, 0.1]})),
            result("20"),
            result("21", "c2"),
        ],
        {"add_generation_prompt": True, "tools": TOOLS},
    ),
    "calls without content": (
        turns((USER, "Weather?"))
        + [calls(None, ("get_weather", {"items": "é\n"}), thinking="look it up", reasoning_content="look it up")]
        + [result("20"), {"role": ASSISTANT, "content": "20."}, {"role": USER, "content": "Thanks"}],
        {"add_generation_prompt": True, "tools": TOOLS},
    ),
    "arguments as text": (
        turns((USER, "Weather?")) + [calls("", ("get_weather", '{"city": "Ulm"}')), result("20")],
        {"add_generation_prompt": True, "tools": TOOLS},
    ),
    "a built-in tool": (
        turns((USER, "Search")) + [calls("", ("search", {"query": "a \"b\"", "n": 3})), result("found")],
        {"add_generation_prompt": True, "extra": {"builtin_tools": ["python", "search"], "day": "Monday"}},
    ),
    "reasoning in fields": (
        turns((USER, "A?"))
        + [{"role": ASSISTANT, "content": "B.", "reasoning_content": "\nhm\n", "thinking": "hm"}],
        {"add_generation_prompt": False},
    ),
    "reasoning asked for": (
        turns((USER, "A?")),
        {"add_generation_prompt": True, "extra": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}},
    ),
    "no reasoning asked for": (
        turns((USER, "A?")),
        {"add_generation_prompt": True, "extra": {"enable_thinking": False, "thinking": False, "who": "hrx"}},
    ),
    "content in parts": (
        [{"role": USER, "content": [{"type": "image"}, {"type": "text", "text": " What is this? "}]}],
        {"add_generation_prompt": True},
    ),
}


def record(templates):
    cases = []
    for template, source in templates.items():
        for conversation, (messages, options) in CONVERSATIONS.items():
            case = {"template": template, "conversation": conversation}
            try:
                [case["expected"]], _ = render_jinja_template(
                    conversations=[messages],
                    tools=options.get("tools"),
                    chat_template=source,
                    add_generation_prompt=options["add_generation_prompt"],
                    bos_token="<s>",
                    eos_token="</s>",
                    **options.get("extra", {}),
                )
            except Exception as error:  # Templates fail with Jinja's and with Python's own errors.
                case["error"] = f"{type(error).__name__}: {error}"
            cases.append(case)
    conversations = {name: {"messages": m, "options": o} for name, (m, o) in CONVERSATIONS.items()}
    return {"templates": templates, "conversations": conversations, "cases": cases}


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "chat_templates")
    templates = {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.jinja"))}
    print(json.dumps(record(templates), ensure_ascii=False, indent=1))
