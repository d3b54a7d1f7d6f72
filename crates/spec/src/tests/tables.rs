//! The field tables are the single source: these tests compare reader, JSON Schema and reference page with them.

use insta::assert_snapshot;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Value as Json, json};

use super::pod::{POD_SETTINGS, pipeline_with_pod};
use super::{COMPARING, INDICATOR, PIPELINE, SERVING, TRUST, problems, replace_part};
use crate::check::default_value;
use crate::field::{Need, Type};
use crate::problem::{Problems, Source};
use crate::tables::all_tables;
use crate::yaml::{Node, ScalarType, Value, parse};
use crate::{Definition, DefinitionKind, json_schema, reference_page};

#[test]
fn every_default_is_one_that_its_table_accepts() {
    for table in all_tables() {
        for field in table.fields {
            if let Need::Default(json) = field.need {
                assert!(default_value(field, json).is_some(), "{}.{}: {json}", table.name, field.name);
            }
        }
    }
}

/// The pattern of a format and its reader agree: a text made from the pattern is accepted, except for rules that a pattern cannot
/// express.
#[test]
fn patterns_match_the_examples_and_words_that_readers_refuse_are_few() {
    fn formats(kind: &'static Type, found: &mut Vec<&'static crate::format::Format>) {
        match kind {
            Type::Text(format) => found.push(format),
            Type::List { item, .. } => formats(item, found),
            Type::Map { key, value, .. } => {
                found.push(key);
                formats(value, found);
            }
            Type::Shapes { scalar, list, map } => [scalar, list, map].into_iter().flatten().for_each(|kind| formats(kind, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    all_tables().iter().flat_map(|table| table.fields).for_each(|field| formats(field.kind, &mut found));
    assert!(found.len() > 50);
    let exact = [
        "a name",
        "an environment variable's name",
        "a seed",
        "a sha256",
        "a currency",
        "a metric's path",
        "a label's name",
        "a header's name",
        "a quantity",
        "a node label",
    ];
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for format in found.iter().filter(|format| exact.contains(&format.what)) {
        let pattern = format.pattern.trim_start_matches('^').trim_end_matches('$');
        let texts = proptest::string::string_regex(pattern).expect("a pattern");
        for _ in 0..50 {
            let text = texts.new_tree(&mut runner).expect("a text").current();
            let fits = text.len() <= format.max
                && !text.contains("..")
                && !text.contains("//")
                && !text.contains("/.")
                && !text.contains("./");
            assert!(!fits || text.contains(".lock") || (format.normal)(&text).is_ok(), "{format:?}: {text}");
        }
    }
}

/// Validates a value against the part of JSON Schema that our schemas use; patterns are left out.
fn accepts(schema: &Json, value: &Json) -> bool {
    let Some(rules) = schema.as_object() else { return schema == &Json::Bool(true) };
    rules.iter().all(|(keyword, rule)| holds(keyword, rule, rules, value))
}

fn holds(keyword: &str, rule: &Json, rules: &serde_json::Map<String, Json>, value: &Json) -> bool {
    let all = |rule: &Json| rule.as_array().expect("a list").clone();
    let number = |test: fn(f64, f64) -> bool| value.as_f64().is_none_or(|n| test(n, rule.as_f64().expect("a number")));
    let length = |test: fn(u64, u64) -> bool, length: Option<usize>| {
        length.is_none_or(|n| test(n as u64, rule.as_u64().expect("a length")))
    };
    match keyword {
        "type" => all(&if rule.is_array() { rule.clone() } else { json!([rule]) }).iter().any(|kind| {
            match kind.as_str().expect("a type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
                "number" => value.is_number(),
                other => panic!("{other}"),
            }
        }),
        "enum" => all(rule).contains(value),
        "const" => rule == value,
        "required" => value
            .as_object()
            .is_none_or(|members| all(rule).iter().all(|name| members.contains_key(name.as_str().expect("a name")))),
        "properties" => value
            .as_object()
            .is_none_or(|members| members.iter().all(|(name, value)| rule.get(name).is_none_or(|rule| accepts(rule, value)))),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let known = |name: &str| rules.get("properties").is_some_and(|known| known.get(name).is_some());
            members.iter().all(|(name, value)| known(name) || accepts(rule, value))
        }),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| accepts(rule, item))),
        "anyOf" => all(rule).iter().any(|rule| accepts(rule, value)),
        "oneOf" => all(rule).iter().filter(|rule| accepts(rule, value)).count() == 1,
        "allOf" => all(rule).iter().all(|rule| accepts(rule, value)),
        "if" => !accepts(rule, value) || accepts(&rules["then"], value),
        "minimum" => number(|n, limit| n >= limit),
        "exclusiveMinimum" => number(|n, limit| n > limit),
        "maximum" => number(|n, limit| n <= limit),
        "minItems" => length(|n, limit| n >= limit, value.as_array().map(Vec::len)),
        "maxItems" => length(|n, limit| n <= limit, value.as_array().map(Vec::len)),
        "minProperties" => length(|n, limit| n >= limit, value.as_object().map(serde_json::Map::len)),
        "maxProperties" => length(|n, limit| n <= limit, value.as_object().map(serde_json::Map::len)),
        "minLength" => length(|n, limit| n >= limit, value.as_str().map(|text| text.chars().count())),
        "maxLength" => length(|n, limit| n <= limit, value.as_str().map(|text| text.chars().count())),
        "uniqueItems" => {
            rule == &Json::Bool(false)
                || value.as_array().is_none_or(|items| items.iter().enumerate().all(|(i, item)| !items[..i].contains(item)))
        }
        "then" | "pattern" | "propertyNames" | "description" | "default" | "examples" | "title" | "$schema" | "$id" => true,
        other => panic!("{other}"),
    }
}

/// Returns a file as another reader of YAML 1.2 sees it.
fn as_json(text: &str) -> Json {
    let source = Source::new("a.yaml", text);
    let mut problems = Problems::new(&source);
    node_json(&parse(&mut problems).expect("YAML"))
}

fn node_json(node: &Node) -> Json {
    match &node.value {
        Value::List(items) => items.iter().map(node_json).collect(),
        Value::Map(members) => members.iter().map(|(key, value)| (key.text.clone(), node_json(value))).collect(),
        Value::Refused => Json::Null,
        Value::Scalar(scalar) => match scalar.scalar_type() {
            ScalarType::Null => Json::Null,
            ScalarType::Bool | ScalarType::Number => serde_json::from_str(&scalar.text).expect("JSON's form"),
            ScalarType::Text => Json::from(scalar.text.as_str()),
        },
    }
}

#[test]
fn the_schema_accepts_what_the_reader_accepts() {
    use DefinitionKind::{Pipeline, TrustPolicy, Workload};
    let closed = "{mode: closed, concurrency: [1], requests: 5}";
    let load = &SERVING[SERVING.find("\n    mode").expect("a load")..SERVING.find("  lengths").expect("lengths")];
    let examples = [
        (Workload, INDICATOR.to_owned()),
        (Workload, SERVING.to_owned()),
        (Workload, replace_part(SERVING, load, &format!(" {closed}\n"))),
        (Workload, replace_part(SERVING, "N(480,240)/(300,150)", "{input: {fixed: 5}, output: {normal: {mean: 1, stddev: 0}}}")),
        (Pipeline, PIPELINE.to_owned()),
        (Pipeline, COMPARING.to_owned()),
        (Pipeline, pipeline_with_pod("execute", POD_SETTINGS)),
        (TrustPolicy, TRUST.to_owned()),
    ];
    for (kind, text) in examples {
        assert!(Definition::parse("a.yaml", text.as_bytes()).is_ok(), "{}", problems(&text));
        assert!(accepts(&json_schema(kind), &as_json(&text)), "{text}");
    }
}

#[test]
fn the_schema_refuses_shapes_that_the_reader_refuses() {
    let refused = [
        (DefinitionKind::Workload, replace_part(INDICATOR, "time_limit: 2m", "time_limt: 2m")),
        (DefinitionKind::Workload, replace_part(INDICATOR, "time_limit: 2m", "lengths: D(1,2)")),
        (DefinitionKind::Workload, replace_part(INDICATOR, "  script: {path: run.sh}\n", "")),
        (DefinitionKind::Workload, replace_part(INDICATOR, "{path: run.sh}", "{path: run.sh, url: https://a.b/c}")),
        (DefinitionKind::Workload, replace_part(INDICATOR, "primary: false", "primary: no")),
        (DefinitionKind::Workload, replace_part(INDICATOR, "[64, 256]", "{a: b}")),
        (DefinitionKind::Workload, replace_part(SERVING, "  model: llama-3.1-8b\n", "")),
        (DefinitionKind::Workload, replace_part(SERVING, "mode: open", "mode: closed")),
        (DefinitionKind::Workload, replace_part(SERVING, "rate: [1, 2.5, 10]", "rate: [0]")),
        (DefinitionKind::Workload, replace_part(SERVING, "    duration: 60s\n", "")),
        (DefinitionKind::Pipeline, replace_part(PIPELINE, "kind: host", "kind: host, url: http://a")),
        (DefinitionKind::Pipeline, replace_part(COMPARING, "Authorization: {from_file: /run/secrets/key}", "Authorization: abc")),
        (DefinitionKind::Pipeline, replace_part(COMPARING, "shards: 2", "shards: 2.5")),
        (DefinitionKind::Pipeline, pipeline_with_pod("execute", "volumes: [{name: a, hostPath: {path: /}}]")),
        (DefinitionKind::Pipeline, pipeline_with_pod("execute", "securityContext: {runAsUser: 0}")),
        (DefinitionKind::TrustPolicy, replace_part(TRUST, "[source, plan]", "[nobody]")),
        (DefinitionKind::TrustPolicy, replace_part(TRUST, "kind: TrustPolicy", "kind: Pipeline")),
    ];
    for (kind, text) in refused {
        assert!(Definition::parse("a.yaml", text.as_bytes()).is_err(), "the reader: {text}");
        assert!(!accepts(&json_schema(kind), &as_json(&text)), "the schema: {text}");
    }
}

#[test]
fn the_schema_of_a_trust_policy() {
    assert_snapshot!(serde_json::to_string_pretty(&json_schema(DefinitionKind::TrustPolicy)).expect("JSON"), @r#"
    {
      "$id": "https://assay.dev/v1alpha1/TrustPolicy.schema.json",
      "$schema": "https://json-schema.org/draft/2020-12/schema",
      "additionalProperties": false,
      "description": "Says which key may sign what, and of what origin a manifest must be.",
      "properties": {
        "apiVersion": {
          "description": "The version of the format.",
          "enum": [
            "assay.dev/v1alpha1"
          ]
        },
        "kind": {
          "description": "What the file defines.",
          "enum": [
            "TrustPolicy"
          ]
        },
        "metadata": {
          "additionalProperties": false,
          "description": "What it is called and whose it is.",
          "properties": {
            "description": {
              "description": "What it is for, for people.",
              "examples": [
                "one or more words"
              ],
              "maxLength": 4096,
              "minLength": 1,
              "type": "string"
            },
            "labels": {
              "additionalProperties": {
                "examples": [
                  "one or more words"
                ],
                "maxLength": 4096,
                "minLength": 1,
                "type": "string"
              },
              "default": {},
              "description": "Names and texts of your own choosing.",
              "maxProperties": 100,
              "minProperties": 0,
              "propertyNames": {
                "examples": [
                  "team"
                ],
                "maxLength": 63,
                "minLength": 1,
                "pattern": "^[a-z0-9]([a-z0-9._/-]*[a-z0-9])?$",
                "type": "string"
              },
              "type": "object"
            },
            "name": {
              "description": "Its name, part of every identifier made from it. A workload is named as its folder.",
              "examples": [
                "llama-8b"
              ],
              "maxLength": 40,
              "minLength": 1,
              "pattern": "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
              "type": "string"
            },
            "owner": {
              "description": "Who answers for it: a team or a person.",
              "examples": [
                "one or more words"
              ],
              "maxLength": 4096,
              "minLength": 1,
              "type": "string"
            }
          },
          "required": [
            "name"
          ],
          "type": "object"
        },
        "spec": {
          "additionalProperties": false,
          "description": "Who is trusted with what.",
          "properties": {
            "expectations": {
              "default": [],
              "description": "Requirements on the origin of manifests. A manifest must meet every entry that covers its role.",
              "items": {
                "additionalProperties": false,
                "allOf": [
                  {
                    "anyOf": [
                      {
                        "required": [
                          "repositories"
                        ]
                      },
                      {
                        "required": [
                          "refs"
                        ]
                      },
                      {
                        "required": [
                          "pipelines"
                        ]
                      },
                      {
                        "required": [
                          "binaries"
                        ]
                      },
                      {
                        "required": [
                          "images"
                        ]
                      },
                      {
                        "required": [
                          "timestamp"
                        ]
                      }
                    ]
                  }
                ],
                "description": "A requirement on the origin of manifests. An empty list requires nothing; of a list, one entry must match. A fact that the evidence does not record does not match.",
                "properties": {
                  "binaries": {
                    "default": [],
                    "description": "SHA-256 digests of the binary that signed.",
                    "items": {
                      "examples": [
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
                      ],
                      "maxLength": 71,
                      "minLength": 1,
                      "pattern": "^(sha256:)?[0-9a-f]{64}$",
                      "type": "string"
                    },
                    "maxItems": 200,
                    "minItems": 0,
                    "type": "array",
                    "uniqueItems": true
                  },
                  "images": {
                    "default": [],
                    "description": "SHA-256 digests of the container image in which the signing binary ran.",
                    "items": {
                      "examples": [
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
                      ],
                      "maxLength": 71,
                      "minLength": 1,
                      "pattern": "^(sha256:)?[0-9a-f]{64}$",
                      "type": "string"
                    },
                    "maxItems": 200,
                    "minItems": 0,
                    "type": "array",
                    "uniqueItems": true
                  },
                  "pipelines": {
                    "default": [],
                    "description": "Paths of the pipeline in the repository.",
                    "items": {
                      "examples": [
                        "run.sh"
                      ],
                      "maxLength": 300,
                      "minLength": 1,
                      "pattern": "^[^/\\\\][^\\\\]*$",
                      "type": "string"
                    },
                    "maxItems": 200,
                    "minItems": 0,
                    "type": "array",
                    "uniqueItems": true
                  },
                  "refs": {
                    "default": [],
                    "description": "Full names of the branch or tag that the run was started from, as the source's signer recorded it.",
                    "items": {
                      "examples": [
                        "refs/heads/main"
                      ],
                      "maxLength": 300,
                      "minLength": 1,
                      "pattern": "^refs/[!-~]+$",
                      "type": "string"
                    },
                    "maxItems": 200,
                    "minItems": 0,
                    "type": "array",
                    "uniqueItems": true
                  },
                  "repositories": {
                    "default": [],
                    "description": "Addresses of the repository that the run was started from.",
                    "items": {
                      "examples": [
                        "fp8"
                      ],
                      "maxLength": 200,
                      "minLength": 1,
                      "pattern": "^[!-~]+$",
                      "type": "string"
                    },
                    "maxItems": 200,
                    "minItems": 0,
                    "type": "array",
                    "uniqueItems": true
                  },
                  "roles": {
                    "default": [],
                    "description": "The roles that it covers; empty: `source`, `plan`, `provision`, `execute`, `collect`, `reduce` and `publish`.",
                    "items": {
                      "enum": [
                        "source",
                        "plan",
                        "provision",
                        "execute",
                        "collect",
                        "reduce",
                        "publish",
                        "gate",
                        "calibrate",
                        "probe",
                        "import"
                      ]
                    },
                    "maxItems": 20,
                    "minItems": 0,
                    "type": "array",
                    "uniqueItems": true
                  },
                  "timestamp": {
                    "default": "optional",
                    "description": "Whether a bundle needs a checked timestamp.",
                    "enum": [
                      "optional",
                      "required"
                    ]
                  }
                },
                "type": "object"
              },
              "maxItems": 200,
              "minItems": 0,
              "type": "array",
              "uniqueItems": false
            },
            "signers": {
              "description": "The keys, each with what it may sign.",
              "items": {
                "additionalProperties": false,
                "description": "A key and what it may sign.",
                "properties": {
                  "key": {
                    "description": "The public key as PEM text, in a block.",
                    "examples": [
                      "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n"
                    ],
                    "maxLength": 4096,
                    "minLength": 1,
                    "pattern": "^-----BEGIN PUBLIC KEY-----\\n[A-Za-z0-9+/=\\n]+-----END PUBLIC KEY-----\\n?$",
                    "type": "string"
                  },
                  "name": {
                    "description": "Whose key it is.",
                    "examples": [
                      "llama-8b"
                    ],
                    "maxLength": 40,
                    "minLength": 1,
                    "pattern": "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
                    "type": "string"
                  },
                  "not_after": {
                    "description": "Signatures from after this instant are not trusted.",
                    "examples": [
                      "2026-11-20T12:00:00Z"
                    ],
                    "maxLength": 30,
                    "minLength": 1,
                    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z$",
                    "type": "string"
                  },
                  "not_before": {
                    "description": "Signatures from before this instant are not trusted.",
                    "examples": [
                      "2026-11-20T12:00:00Z"
                    ],
                    "maxLength": 30,
                    "minLength": 1,
                    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z$",
                    "type": "string"
                  },
                  "signs": {
                    "description": "The roles that it may sign for.",
                    "items": {
                      "enum": [
                        "source",
                        "plan",
                        "provision",
                        "execute",
                        "collect",
                        "reduce",
                        "publish",
                        "gate",
                        "calibrate",
                        "probe",
                        "import"
                      ]
                    },
                    "maxItems": 20,
                    "minItems": 1,
                    "type": "array",
                    "uniqueItems": true
                  }
                },
                "required": [
                  "name",
                  "key",
                  "signs"
                ],
                "type": "object"
              },
              "maxItems": 200,
              "minItems": 1,
              "type": "array",
              "uniqueItems": false
            },
            "timestamp_authorities": {
              "default": [],
              "description": "The authorities whose RFC 3161 timestamps are believed. Without any, a timestamp is reported and not checked.",
              "items": {
                "additionalProperties": false,
                "description": "A timestamp authority and the root that its certificates chain to.",
                "properties": {
                  "certificates": {
                    "description": "The certificate chain as PEM text, in a block; the last certificate is the trusted root.",
                    "examples": [
                      "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUWQ==\n-----END CERTIFICATE-----\n"
                    ],
                    "maxLength": 32768,
                    "minLength": 1,
                    "pattern": "^(-----BEGIN CERTIFICATE-----\\n[A-Za-z0-9+/=\\n]+-----END CERTIFICATE-----\\n?)+$",
                    "type": "string"
                  },
                  "name": {
                    "description": "The name of the authority, for reports.",
                    "examples": [
                      "llama-8b"
                    ],
                    "maxLength": 40,
                    "minLength": 1,
                    "pattern": "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
                    "type": "string"
                  },
                  "not_after": {
                    "description": "Timestamps from after this instant are not believed.",
                    "examples": [
                      "2026-11-20T12:00:00Z"
                    ],
                    "maxLength": 30,
                    "minLength": 1,
                    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z$",
                    "type": "string"
                  },
                  "not_before": {
                    "description": "Timestamps from before this instant are not believed.",
                    "examples": [
                      "2026-11-20T12:00:00Z"
                    ],
                    "maxLength": 30,
                    "minLength": 1,
                    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z$",
                    "type": "string"
                  }
                },
                "required": [
                  "name",
                  "certificates"
                ],
                "type": "object"
              },
              "maxItems": 20,
              "minItems": 0,
              "type": "array",
              "uniqueItems": false
            }
          },
          "required": [
            "signers"
          ],
          "type": "object"
        }
      },
      "required": [
        "apiVersion",
        "kind",
        "metadata",
        "spec"
      ],
      "title": "TrustPolicy",
      "type": "object"
    }
    "#);
}

#[test]
fn the_reference_of_a_trust_policy() {
    assert_snapshot!(reference_page(DefinitionKind::TrustPolicy), @r"
    # TrustPolicy

    Written from the field tables in `crates/spec`; do not edit.

    Says which key may sign what, and of what origin a manifest must be.

    | field | value | default | meaning |
    | --- | --- | --- | --- |
    | `apiVersion` | `assay.dev/v1alpha1` | required | The version of the format. |
    | `kind` | `TrustPolicy` | required | What the file defines. |
    | `metadata` | a map: [metadata](#metadata) | required | What it is called and whose it is. |
    | `spec` | a map: [trust policy](#spec) | required | Who is trusted with what. |

    ## metadata

    What it is called and whose it is. Not part of any digest of the work.

    | field | value | default | meaning |
    | --- | --- | --- | --- |
    | `name` | a name, such as `llama-8b` | required | Its name, part of every identifier made from it. A workload is named as its folder. |
    | `description` | a text | none | What it is for, for people. |
    | `owner` | a text | none | Who answers for it: a team or a person. |
    | `labels` | a map of at most 100: a label's name to a text | `{}` | Names and texts of your own choosing. |

    ## spec

    Who is trusted with what. Whoever is not named is not trusted.

    | field | value | default | meaning |
    | --- | --- | --- | --- |
    | `signers` | a list of at most 200: a map: [signer](#specsigners) | required | The keys, each with what it may sign. |
    | `expectations` | a list of at most 200: a map: [expectation](#specexpectations) | `[]` | Requirements on the origin of manifests. A manifest must meet every entry that covers its role. |
    | `timestamp_authorities` | a list of at most 20: a map: [timestamp authority](#spectimestamp_authorities) | `[]` | The authorities whose RFC 3161 timestamps are believed. Without any, a timestamp is reported and not checked. |

    ## spec.signers[]

    A key and what it may sign.

    | field | value | default | meaning |
    | --- | --- | --- | --- |
    | `name` | a name, such as `llama-8b` | required | Whose key it is. |
    | `key` | a public key | required | The public key as PEM text, in a block. |
    | `signs` | a list of at most 20: one of the words below | required | The roles that it may sign for. |
    | `not_before` | an instant, such as `2026-11-20T12:00:00Z` | none | Signatures from before this instant are not trusted. |
    | `not_after` | an instant, such as `2026-11-20T12:00:00Z` | none | Signatures from after this instant are not trusted. |

    `signs`:

    - `source`: Whoever starts a run.
    - `plan`: The plan stage.
    - `provision`: The provision stage.
    - `execute`: The execute stage.
    - `collect`: The collect stage and its recorder.
    - `reduce`: The reduce stage.
    - `publish`: The publish stage.
    - `gate`: The gate.
    - `calibrate`: The calibration of a client.
    - `probe`: The hardware probe on a target's node.
    - `import`: An importer of another tool's results.

    ## spec.expectations[]

    A requirement on the origin of manifests. An empty list requires nothing; of a list, one entry must match. A fact that the evidence does not record does not match.

    At least one of `repositories`, `refs`, `pipelines`, `binaries`, `images`, `timestamp` is given.

    | field | value | default | meaning |
    | --- | --- | --- | --- |
    | `roles` | a list of at most 20: one of the words below | `[]` | The roles that it covers; empty: `source`, `plan`, `provision`, `execute`, `collect`, `reduce` and `publish`. |
    | `repositories` | a list of at most 200: a short text without spaces, such as `fp8` | `[]` | Addresses of the repository that the run was started from. |
    | `refs` | a list of at most 200: a full Git reference, such as `refs/heads/main` | `[]` | Full names of the branch or tag that the run was started from, as the source's signer recorded it. |
    | `pipelines` | a list of at most 200: a relative path, such as `run.sh` | `[]` | Paths of the pipeline in the repository. |
    | `binaries` | a list of at most 200: a sha256, such as `e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855` | `[]` | SHA-256 digests of the binary that signed. |
    | `images` | a list of at most 200: a sha256, such as `e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855` | `[]` | SHA-256 digests of the container image in which the signing binary ran. |
    | `timestamp` | one of the words below | `optional` | Whether a bundle needs a checked timestamp. |

    `roles`:

    - `source`: Whoever starts a run.
    - `plan`: The plan stage.
    - `provision`: The provision stage.
    - `execute`: The execute stage.
    - `collect`: The collect stage and its recorder.
    - `reduce`: The reduce stage.
    - `publish`: The publish stage.
    - `gate`: The gate.
    - `calibrate`: The calibration of a client.
    - `probe`: The hardware probe on a target's node.
    - `import`: An importer of another tool's results.

    `timestamp`:

    - `optional`: A bundle may have no timestamp.
    - `required`: A bundle without a timestamp by an authority of this policy is refused.

    ## spec.timestamp_authorities[]

    A timestamp authority and the root that its certificates chain to.

    | field | value | default | meaning |
    | --- | --- | --- | --- |
    | `name` | a name, such as `llama-8b` | required | The name of the authority, for reports. |
    | `certificates` | a certificate chain | required | The certificate chain as PEM text, in a block; the last certificate is the trusted root. |
    | `not_before` | an instant, such as `2026-11-20T12:00:00Z` | none | Timestamps from before this instant are not believed. |
    | `not_after` | an instant, such as `2026-11-20T12:00:00Z` | none | Timestamps from after this instant are not believed. |
    ");
}

#[test]
fn every_field_is_on_its_page_and_in_its_schema() {
    let pages: String = DefinitionKind::ALL.map(reference_page).concat();
    let schemas: String = DefinitionKind::ALL.map(|kind| json_schema(kind).to_string()).concat();
    for field in all_tables().iter().flat_map(|table| table.fields) {
        assert!(pages.contains(&format!("| `{}` | ", field.name)) || field.name.starts_with("from_"), "{}", field.name);
        assert!(schemas.contains(&format!("\"{}\":", field.name)), "{}", field.name);
        assert!(pages.contains(field.doc) || field.name.starts_with("from_"), "{}", field.doc);
    }
}

proptest! {
    /// Any damaged definition results in a definition or in problems, and each problem can be shown.
    #[test]
    fn damaged_definitions_never_panic(which in 0usize..5, at in any::<prop::sample::Index>(), length in 0usize..20, insert in "[ -~\n\u{e9}]{0,8}") {
        let text = [INDICATOR, SERVING, PIPELINE, COMPARING, TRUST][which];
        let at = at.index(text.len());
        let end = (at + length).min(text.len());
        let damaged = format!("{}{insert}{}", &text[..at], &text[end..]);
        if let Err(found) = Definition::parse("a.yaml", damaged.as_bytes()) {
            prop_assert!(!found.is_empty());
            for problem in found {
                prop_assert!(!problem.to_string().contains("defect of Assay"), "{damaged}");
            }
        }
    }
}
