"""Writes golden.json: templates in the manner of published ones, and what Jinja2 puts around a message and makes of conversations, set up as
Hugging Face's `apply_chat_template` does. A conversation that a template refuses has no text.

    pip install jinja2==3.1.6
    python golden.py > golden.json
"""

import json

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = {
    "chatml": "{% for message in messages %}\n    {%- if loop.first and message['role'] != 'system' %}\n        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}\n    {%- endif %}\n{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n{{ '<|im_start|>assistant\\n' }}\n{%- endif %}\n",
    "inst": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'].strip() + ' [/INST]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
    "headers": "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" %}\n{%- endif %}\n{%- if not tools is defined %}\n    {%- set tools = none %}\n{%- endif %}\n{%- set ns = namespace(count=0) %}\n{%- macro head(role) %}<|start_header_id|>{{ role }}<|end_header_id|>\n\n{% endmacro %}\n{{- head('system') }}Today Date: {{ date_string }}<|eot_id|>\n{%- for message in messages %}\n    {%- if message.content is string and message.role in ['user', 'assistant'] %}\n        {{- head(message['role']) + message.content | trim + '<|eot_id|>' }}\n        {%- set ns.count = ns.count + 1 %}\n    {%- else %}\n        {%- continue %}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt and ns.count > 0 %}\n    {{- head('assistant') }}\n{%- endif %}\n{%- if tools is not none %}{{ tools | tojson }}{% endif %}",
    "thoughts": "{%- if messages[0].role == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- endif %}\n{%- set ns = namespace(last=messages|length - 1) %}\n{%- for message in messages %}\n    {%- if message.role == 'user' %}\n        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}\n    {%- elif message.role == 'assistant' %}\n        {%- set content = message.content %}\n        {%- if '</think>' in content and loop.index0 < ns.last %}\n            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n        {%- endif %}\n        {{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}\n",
    "turns": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    "last": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{% if loop.last and messages | length > 1 %}[LAST]{% endif %}{{ '[INST]' + message['content'] + '[/INST]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
}


def raise_exception(reason):
    raise ValueError(reason)


CONVERSATIONS = {
    "one": [("user", " a message\n")],
    "told": [("system", "be brief"), ("user", "a message")],
    "two": [("user", "a message"), ("assistant", "a response "), ("user", "and another")],
    "told two": [("system", " be brief"), ("user", "a message"), ("assistant", "a response"), ("user", "and another")],
    "thought": [("user", "a"), ("assistant", "<think>\nwhy\n</think>\n\nb"), ("user", "c"), ("assistant", "d"), ("user", "e")],
}


def render(template, messages):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(template).render(
        messages=[{"role": role, "content": content} for role, content in messages],
        add_generation_prompt=True,
        tools=None,
        documents=None,
        bos_token="<s>",
        eos_token="</s>",
    )


def whole(template, messages):
    try:
        return render(template, messages)
    except ValueError:
        return None


def around(template):
    before, after = render(template, [("user", "a message")]).split("a message")
    conversations = {name: whole(template, messages) for name, messages in CONVERSATIONS.items()}
    return {"before": before, "after": after, "conversations": conversations}


print(json.dumps({
    "conversations": CONVERSATIONS,
    "templates": [{"name": name, "template": text, **around(text)} for name, text in TEMPLATES.items()],
}, indent=1))
