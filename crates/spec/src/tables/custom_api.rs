//! The description of an API of an endpoint's own.

use crate::field::{Table, Type, optional, required};
use crate::format::{CUSTOM_BODY, HTTP_PATH, RESPONSE_PATH};

pub(crate) static CUSTOM_API: Table = Table {
    name: "custom API",
    doc: "An API that takes a prompt and responds with JSON over HTTP, whole or as a stream of events: what its requests and responses look like.",
    selector: None,
    fields: &[
        required(
            "path",
            &Type::Text(&HTTP_PATH),
            "The path of requests. One that begins with `/v1` is below the version of the target's URL, any other is beside it.",
        ),
        required(
            "body",
            &Type::Text(&CUSTOM_BODY),
            "The body of each request, a JSON object with placeholders: `${prompt}` (a text) or `${messages}` (a list with one message of the user), \
             once, and `${model}`, `${output_tokens}` (a number) and `${stream}` (true or false). A member whose value is `${output_tokens}` is left \
             out where the endpoint decides the length.",
        ),
        required("response", &Type::Object(&RESPONSE), "The places of what a response says."),
    ],
    rules: &[],
};

static RESPONSE: Table = Table {
    name: "response of a custom API",
    doc: "The places of values in the JSON documents of a response: its events if it is streamed, or else its body. Names and places of lists, \
          from 0, are joined by dots.",
    selector: None,
    fields: &[
        required("text", &PATH, "The text that the document adds to the response."),
        optional("input_tokens", &PATH, "The endpoint's count of input tokens. If left out: unknown."),
        optional(
            "output_tokens",
            &PATH,
            "The endpoint's count of output tokens up to the document. If left out: the events of a stream with text are counted, and of a whole \
             response it is unknown.",
        ),
        optional("finish", &PATH, "The finish reason. If left out: a stream ends with its response, or with `[DONE]`."),
    ],
    rules: &[],
};

static PATH: Type = Type::Text(&RESPONSE_PATH);
