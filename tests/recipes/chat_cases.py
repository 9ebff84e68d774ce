#!/usr/bin/env python3
"""Records what transformers' Jinja environment makes of chat templates (needs only jinja2).

    chat_cases.py > runtime/tests/chat-cases.json          the cases kept in the repository
    chat_cases.py DIRECTORY > more.json                    every *.jinja there on the same conversations; the test
                                                           reads such a file from the path in HRX_CHAT_CASES

The environment is that of transformers' chat_template_utils: ImmutableSandboxedEnvironment with both kinds of block
trimming and loop controls, `raise_exception`, `strftime_now` and a `tojson` that is json.dumps.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %} prints what it holds."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=lineno)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


USER, ASSISTANT, SYSTEM = "user", "assistant", "system"


def turns(*pairs):
    return [{"role": role, "content": content} for role, content in pairs]


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Wetter für <Ort> & 'Zeit'",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
                "required": ["city"],
                "strict": True,
                "extra": None,
            },
        },
    }
]

CONVERSATIONS = {
    "one question": (turns((USER, "Hi")), {"add_generation_prompt": True}),
    "with a system message": (turns((SYSTEM, " Be brief. "), (USER, "  Hi\n")), {"add_generation_prompt": True}),
    "several turns": (
        turns((SYSTEM, "S"), (USER, "A?"), (ASSISTANT, "<think>\nhm\n</think>\n\nB."), (USER, "C'é \"q\"?")),
        {"add_generation_prompt": True},
    ),
    "closed": (turns((USER, "A?"), (ASSISTANT, "B.")), {"add_generation_prompt": False}),
    "roles out of order": (turns((USER, "A"), (USER, "B")), {"add_generation_prompt": True}),
    "tools": (turns((USER, "Weather?")), {"add_generation_prompt": True, "tools": TOOLS}),
    "a tool call": (
        turns((USER, "Weather?"))
        + [
            {
                "role": ASSISTANT,
                "content": "",
                "tool_calls": [
                    {"type": "function", "id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}}
                ],
            },
            {"role": "tool", "content": '{"t": 20}', "tool_call_id": "c1", "name": "get_weather"},
        ],
        {"add_generation_prompt": True, "tools": TOOLS, "extra": {"enable_thinking": False}},
    ),
}

# In the manner of published templates, written for this test; the first is SmolLM2's own (Apache-2.0).
TEMPLATES = {
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "gemma turns": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\n\n' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Roles must alternate: user/assistant/user/...') }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for part in message['content'] -%}{{ part['text'] | trim }}{%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\n' }}
{%- endif -%}
""",
    "qwen3 manner": """{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(looking=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.looking and message.role == "user" and not (message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.looking = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' + content }}
        {%- for call in message.tool_calls or [] %}
            {%- set function = call.function if call.function else call %}
            {{- '\n<tool_call>\n{"name": "' ~ function.name ~ '", "arguments": ' }}
            {{- function.arguments if function.arguments is string else function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' ~ message.content ~ '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    "llama3 manner": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'].strip() %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\n\n" + system }}
{%- for tool in tools or [] %}
    {{- tool | tojson(indent=4) }}
    {{- "\n\n" }}
    {%- for name, item in tool.function.parameters.properties.items() | sort %}
        {{- name.upper() }}={{ item.get('default', 'none') }};
    {%- endfor %}
{%- endfor %}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' ~ call.name | upper ~ call.arguments | tojson(ensure_ascii=true) }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    "printing": """{% macro show(name, value=none) %}
[{{ name }}={{ value }}]
{% endmacro %}
  {% for m in messages %}
    {% if loop.index > 2 %}{% break %}{% endif %}
    {% generation %}
{{ m.role.capitalize() }}|{{ m.content | length }}|{{ loop.last }}|{{ none }}|{{ 1.5 }}|{{ [1, 'a', true, none] }}|{{ {'k': "v'"} }}
    {% endgeneration %}
  {% endfor %}
{{ show('x') }}{{ show('y', value=add_generation_prompt) }}{{ undefined_name }}{{ undefined_name is defined }}
{{ 'a,b'.split(',') | join('+') }} {{ 'xay'.replace('a', 'b') }} {{ '%s-%d' | format('a', 3) }} {{ messages | map(attribute='role') | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ 'abc'[1:] }} {{ 'abc'[-1] }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 3 }}
{{ tools | tojson(sort_keys=true, separators=(',', ':')) }} {{ 'a' is sequence }} {{ {} is mapping }} {{ 'a' is iterable }}
""",
}


def record(templates):
    cases = []
    for template_name, source in templates.items():
        for conversation, (messages, options) in CONVERSATIONS.items():
            case = {"name": f"{template_name}: {conversation}", "template": template_name, "conversation": conversation}
            variables = {"bos_token": "<s>", "eos_token": "</s>", "documents": None, "tools": options.get("tools")}
            variables |= {"add_generation_prompt": options["add_generation_prompt"], **options.get("extra", {})}
            try:
                case["expected"] = environment().from_string(source).render(messages=messages, **variables)
            except (jinja2.exceptions.TemplateError, TypeError) as error:
                case["error"] = str(error)
            cases.append(case)
    conversations = {name: {"messages": m, "options": o} for name, (m, o) in CONVERSATIONS.items()}
    return {"templates": templates, "conversations": conversations, "cases": cases}


if __name__ == "__main__":
    templates = TEMPLATES
    if len(sys.argv) > 1:
        files = sorted(pathlib.Path(sys.argv[1]).glob("*.jinja"))
        templates = {file.name: file.read_text(encoding="utf-8") for file in files}
    print(json.dumps(record(templates), ensure_ascii=False, indent=1))
