"""Writes golden.json: templates in the manner of published ones, and what Jinja2 puts around a message, set up as Hugging Face's
`apply_chat_template` does.

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
}


def raise_exception(reason):
    raise ValueError(reason)


def around(template):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = raise_exception
    rendered = environment.from_string(template).render(
        messages=[{"role": "user", "content": "a message"}],
        add_generation_prompt=True,
        tools=None,
        documents=None,
        bos_token="<s>",
        eos_token="</s>",
    )
    before, after = rendered.split("a message")
    return {"before": before, "after": after}


print(json.dumps([{"name": name, "template": text, **around(text)} for name, text in TEMPLATES.items()], indent=1))
