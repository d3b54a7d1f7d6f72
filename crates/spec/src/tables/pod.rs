//! The pod settings of a stage in a cluster, in Kubernetes' own spelling: people copy them from objects that they have.
//!
//! Fields that are not listed are refused like every unknown field: host paths and namespaces, privileges, capabilities, further
//! containers.

use super::{MAX_LIST, MAX_MAP, PATH_TYPE};
use crate::field::{Choice, Rule, Table, Type, Uniqueness, choice, default, optional, required};
use crate::format::{DATA_KEY, KUBERNETES_LABEL, LABEL_VALUE, MOUNT_PATH, OBJECT, QUANTITY, VARIABLE, VOLUME};

/// Users and groups that a pod may run as: all but root.
static UNPRIVILEGED: Type = Type::Integer { min: 1, max: i32::MAX as i64 };
static OBJECT_NAME: Type = Type::Text(&OBJECT);
static LABEL_KEY: Type = Type::Text(&KUBERNETES_LABEL);
static LABEL_VALUES: Type = Type::List { item: &Type::Text(&LABEL_VALUE), min: 1, max: MAX_LIST, unique: Uniqueness::Item };
const OPTIONAL: &str = "Let the pod start without it.";

pub(crate) static POD: Table = Table {
    name: "pod",
    doc: "Settings of a stage's pods in a cluster. Spelled as in Kubernetes, and added to the settings that Assay makes. \
          Ignored on one machine.",
    selector: None,
    fields: &[
        default(
            "env",
            &Type::List { item: &Type::Object(&ENV_VARIABLE), min: 0, max: MAX_MAP, unique: Uniqueness::Field("name") },
            "[]",
            "Environment variables of the stage's program. The work that is measured does not see them.",
        ),
        default(
            "envFrom",
            &Type::List { item: &Type::Object(&ENV_SOURCE), min: 0, max: MAX_MAP, unique: Uniqueness::No },
            "[]",
            "Secrets and ConfigMaps of the stages' namespace whose members become variables. They do not override variables that Assay sets.",
        ),
        default(
            "tolerations",
            &Type::List { item: &Type::Object(&TOLERATION), min: 0, max: MAX_MAP, unique: Uniqueness::Item },
            "[]",
            "Taints of nodes that its pods tolerate.",
        ),
        optional(
            "affinity",
            &Type::Object(&AFFINITY),
            "Required and preferred nodes. In addition, load stays off the nodes of targets.",
        ),
        default(
            "volumes",
            &Type::List { item: &Type::Object(&POD_VOLUME), min: 0, max: MAX_MAP, unique: Uniqueness::Field("name") },
            "[]",
            "Volumes besides those that Assay mounts.",
        ),
        default(
            "volumeMounts",
            &Type::List { item: &Type::Object(&MOUNT), min: 0, max: MAX_MAP, unique: Uniqueness::Field("mountPath") },
            "[]",
            "The mounts of volumes in the container.",
        ),
        optional("priorityClassName", &OBJECT_NAME, "The PriorityClass of its pods. Classes of the system are refused."),
        optional(
            "serviceAccountName",
            &OBJECT_NAME,
            "A service account of the stages' namespace, for a cloud identity. Only for stages that do not use the API server: \
             not for `provision` and `collect`.",
        ),
        optional("securityContext", &Type::Object(&SECURITY), "The user and groups that its processes run as."),
    ],
    rules: &[],
};

static ENV_VARIABLE: Table = Table {
    name: "variable",
    doc: "An environment variable. A secret is a reference, never a value.",
    selector: None,
    fields: &[
        required("name", &Type::Text(&VARIABLE), "Its name. Names that Assay sets itself are refused."),
        optional("value", &Type::Scalar, "Its literal value: `$(NAME)` is not expanded."),
        optional("valueFrom", &Type::Object(&VALUE_SOURCE), "The member of a Secret or ConfigMap that holds it."),
    ],
    rules: &[Rule::ExactlyOne(&["value", "valueFrom"])],
};
static VALUE_SOURCE: Table = Table {
    name: "source of a value",
    doc: "The source of a variable's value, in the stages' namespace.",
    selector: None,
    fields: &[
        optional("secretKeyRef", &Type::Object(&MEMBER_REFERENCE), "A member of a Secret."),
        optional("configMapKeyRef", &Type::Object(&MEMBER_REFERENCE), "A member of a ConfigMap."),
    ],
    rules: &[Rule::ExactlyOne(&["secretKeyRef", "configMapKeyRef"])],
};
static MEMBER_REFERENCE: Table = Table {
    name: "member",
    doc: "A member of a Secret or ConfigMap. Assay's own, named `assay` or `assay-*`, are refused.",
    selector: None,
    fields: &[
        required("name", &OBJECT_NAME, "The Secret or ConfigMap."),
        required("key", &Type::Text(&DATA_KEY), "Its member."),
        optional("optional", &Type::Bool, "Let the pod start without it, and without the variable."),
    ],
    rules: &[],
};
static ENV_SOURCE: Table = Table {
    name: "source of variables",
    doc: "A Secret or ConfigMap whose members become variables.",
    selector: None,
    fields: &[
        optional("prefix", &Type::Text(&VARIABLE), "The prefix of their names."),
        optional("secretRef", &Type::Object(&REFERENCE), "A Secret."),
        optional("configMapRef", &Type::Object(&REFERENCE), "A ConfigMap."),
    ],
    rules: &[Rule::ExactlyOne(&["secretRef", "configMapRef"])],
};
static REFERENCE: Table = Table {
    name: "object",
    doc: "A Secret or ConfigMap of the stages' namespace. Assay's own, named `assay` or `assay-*`, are refused.",
    selector: None,
    fields: &[
        required("name", &OBJECT_NAME, "Its name."),
        optional("optional", &Type::Bool, "Let the pod start without it, and without its variables."),
    ],
    rules: &[],
};

static OPERATORS_OF_TAINTS: [Choice; 2] = [
    choice("Equal", "The taint has this key and value."),
    choice("Exists", "The taint has this key, or any key if none is given."),
];
static EFFECTS: [Choice; 3] = [
    choice("NoSchedule", "No new pod is placed there."),
    choice("PreferNoSchedule", "New pods are placed elsewhere if possible."),
    choice("NoExecute", "Pods there are evicted too."),
];
static TOLERATION: Table = Table {
    name: "toleration",
    doc: "A taint that the pods tolerate.",
    selector: None,
    fields: &[
        optional("key", &LABEL_KEY, "The taint's key; without one, `operator: Exists` matches all."),
        optional("operator", &Type::Choice(&OPERATORS_OF_TAINTS), "The operator that matches the taint; `Equal` if left out."),
        optional("value", &Type::Text(&LABEL_VALUE), "The taint's value."),
        optional("effect", &Type::Choice(&EFFECTS), "The taint's effect; all of them if left out."),
        optional(
            "tolerationSeconds",
            &Type::Integer { min: 0, max: i32::MAX as i64 },
            "The time for which `effect: NoExecute` is tolerated; unlimited if left out.",
        ),
    ],
    rules: &[],
};

static AFFINITY: Table = Table {
    name: "affinity",
    doc: "The required and preferred places of a pod.",
    selector: None,
    fields: &[
        optional("nodeAffinity", &Type::Object(&NODE_AFFINITY), "The nodes to run on."),
        optional("podAffinity", &Type::Object(&POD_AFFINITY), "The pods to run near."),
        optional("podAntiAffinity", &Type::Object(&POD_AFFINITY), "The pods to keep away from."),
    ],
    rules: &[Rule::AtLeastOne(&["nodeAffinity", "podAffinity", "podAntiAffinity"])],
};
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
static NODE_AFFINITY: Table = Table {
    name: "node affinity",
    doc: "The required and preferred nodes of a pod.",
    selector: None,
    fields: &[
        optional(REQUIRED, &Type::Object(&NODE_SELECTOR), "The requirements on a node."),
        optional(
            PREFERRED,
            &Type::List { item: &Type::Object(&PREFERRED_NODE), min: 1, max: MAX_LIST, unique: Uniqueness::No },
            "The preferred nodes, each with its weight.",
        ),
    ],
    rules: &[Rule::AtLeastOne(&[REQUIRED, PREFERRED])],
};
static NODE_SELECTOR: Table = Table {
    name: "node selector",
    doc: "Nodes that meet at least one of its terms.",
    selector: None,
    fields: &[required(
        "nodeSelectorTerms",
        &Type::List { item: &Type::Object(&NODE_TERM), min: 1, max: MAX_LIST, unique: Uniqueness::No },
        "The terms, one of which must hold.",
    )],
    rules: &[],
};
static NODE_TERM: Table = Table {
    name: "node term",
    doc: "Nodes that meet all of its expressions.",
    selector: None,
    fields: &[required(
        "matchExpressions",
        &Type::List { item: &Type::Object(&NODE_EXPRESSION), min: 1, max: MAX_LIST, unique: Uniqueness::No },
        "The expressions, all of which must hold.",
    )],
    rules: &[],
};
const WITH_VALUES: &[&str] = &["In", "NotIn", "Gt", "Lt"];
static OPERATORS: [Choice; 4] = [
    choice("In", "It has the label, with one of the values."),
    choice("NotIn", "It has the label with none of the values, or not at all."),
    choice("Exists", "It has the label."),
    choice("DoesNotExist", "It does not have the label."),
];
static NODE_OPERATORS: [Choice; 6] = [
    choice("In", "It has the label, with one of the values."),
    choice("NotIn", "It has the label with none of the values, or not at all."),
    choice("Exists", "It has the label."),
    choice("DoesNotExist", "It does not have the label."),
    choice("Gt", "The label's value is a number above the one value."),
    choice("Lt", "The label's value is a number below the one value."),
];
static NODE_EXPRESSION: Table = Table {
    name: "node expression",
    doc: "A requirement on a label of a node.",
    selector: Some("operator"),
    fields: &[
        required("key", &LABEL_KEY, "The label."),
        required("operator", &Type::Choice(&NODE_OPERATORS), "The condition on the label."),
        required("values", &LABEL_VALUES, "The values that the label is compared with.").only(WITH_VALUES),
    ],
    rules: &[],
};
static WEIGHT: Type = Type::Integer { min: 1, max: 100 };
static PREFERRED_NODE: Table = Table {
    name: "preferred nodes",
    doc: "Preferred nodes.",
    selector: None,
    fields: &[
        required("weight", &WEIGHT, "The weight of the preference."),
        required("preference", &Type::Object(&NODE_TERM), "The nodes."),
    ],
    rules: &[],
};
static POD_AFFINITY: Table = Table {
    name: "pod affinity",
    doc: "The required and preferred pods to run near, or to keep away from.",
    selector: None,
    fields: &[
        optional(
            REQUIRED,
            &Type::List { item: &Type::Object(&POD_TERM), min: 1, max: MAX_LIST, unique: Uniqueness::No },
            "The requirements, all of which must hold.",
        ),
        optional(
            PREFERRED,
            &Type::List { item: &Type::Object(&PREFERRED_PODS), min: 1, max: MAX_LIST, unique: Uniqueness::No },
            "The preferences, each with its weight.",
        ),
    ],
    rules: &[Rule::AtLeastOne(&[REQUIRED, PREFERRED])],
};
static POD_TERM: Table = Table {
    name: "pod term",
    doc: "Pods with these labels, and the meaning of near.",
    selector: None,
    fields: &[
        required("topologyKey", &LABEL_KEY, "Nodes with the same value of this label are near each other."),
        optional("labelSelector", &Type::Object(&LABEL_SELECTOR), "The pods; none if left out."),
        default(
            "namespaces",
            &Type::List { item: &OBJECT_NAME, min: 0, max: MAX_LIST, unique: Uniqueness::Item },
            "[]",
            "The namespaces that they are in; the stages' own if left out.",
        ),
        optional("namespaceSelector", &Type::Object(&LABEL_SELECTOR), "Further namespaces, by their labels."),
    ],
    rules: &[],
};
static PREFERRED_PODS: Table = Table {
    name: "preferred pods",
    doc: "Pods that it is preferable to run near, or to keep away from.",
    selector: None,
    fields: &[
        required("weight", &WEIGHT, "The weight of the preference."),
        required("podAffinityTerm", &Type::Object(&POD_TERM), "The pods."),
    ],
    rules: &[],
};
static LABEL_SELECTOR: Table = Table {
    name: "label selector",
    doc: "Labels, all of which must be present; without any, everything matches.",
    selector: None,
    fields: &[
        default(
            "matchLabels",
            &Type::Map { key: &KUBERNETES_LABEL, value: &Type::Text(&LABEL_VALUE), min: 0, max: MAX_MAP },
            "{}",
            "Labels with their values.",
        ),
        default(
            "matchExpressions",
            &Type::List { item: &Type::Object(&LABEL_EXPRESSION), min: 0, max: MAX_LIST, unique: Uniqueness::No },
            "[]",
            "Further requirements on labels.",
        ),
    ],
    rules: &[],
};
static LABEL_EXPRESSION: Table = Table {
    name: "label expression",
    doc: "A requirement on a label.",
    selector: Some("operator"),
    fields: &[
        required("key", &LABEL_KEY, "The label."),
        required("operator", &Type::Choice(&OPERATORS), "The condition on the label."),
        required("values", &LABEL_VALUES, "The values that the label is compared with.").only(&["In", "NotIn"]),
    ],
    rules: &[],
};

static POD_VOLUME: Table = Table {
    name: "volume",
    doc: "A volume. All other kinds are refused, such as a path of the node.",
    selector: None,
    fields: &[
        required("name", &Type::Text(&VOLUME), "Its name. Names of Assay's volumes are refused."),
        optional("configMap", &Type::Object(&CONFIG_MAP_VOLUME), "Members of a ConfigMap as files."),
        optional("secret", &Type::Object(&SECRET_VOLUME), "Members of a Secret as files."),
        optional("emptyDir", &Type::Object(&EMPTY_DIR), "A folder that is deleted with the pod."),
        optional("persistentVolumeClaim", &Type::Object(&CLAIM_VOLUME), "A claim of the stages' namespace."),
    ],
    rules: &[Rule::ExactlyOne(&["configMap", "secret", "emptyDir", "persistentVolumeClaim"])],
};
static ITEMS: Type = Type::List { item: &Type::Object(&ITEM), min: 1, max: MAX_LIST, unique: Uniqueness::Field("path") };
const ITEMS_DOC: &str = "The members that become files; all of them if left out.";
static CONFIG_MAP_VOLUME: Table = Table {
    name: "ConfigMap as files",
    doc: "Members of a ConfigMap as files. Assay's own, named `assay` or `assay-*`, are refused.",
    selector: None,
    fields: &[
        required("name", &OBJECT_NAME, "The ConfigMap."),
        optional("items", &ITEMS, ITEMS_DOC),
        optional("optional", &Type::Bool, OPTIONAL),
    ],
    rules: &[],
};
static SECRET_VOLUME: Table = Table {
    name: "Secret as files",
    doc: "Members of a Secret as files. Assay's own, named `assay` or `assay-*`, are refused.",
    selector: None,
    fields: &[
        required("secretName", &OBJECT_NAME, "The Secret."),
        optional("items", &ITEMS, ITEMS_DOC),
        optional("optional", &Type::Bool, OPTIONAL),
    ],
    rules: &[],
};
static ITEM: Table = Table {
    name: "file",
    doc: "A member as a file.",
    selector: None,
    fields: &[
        required("key", &Type::Text(&DATA_KEY), "The member."),
        required("path", &PATH_TYPE, "The file's path in the volume."),
    ],
    rules: &[],
};
static MEDIA: [Choice; 1] = [choice("Memory", "Memory, which counts against the pod's limit.")];
static EMPTY_DIR: Table = Table {
    name: "empty folder",
    doc: "A folder that is empty when the pod starts, and is deleted with it.",
    selector: None,
    fields: &[
        default("sizeLimit", &Type::Text(&QUANTITY), "\"1Gi\"", "The size above which the pod is evicted."),
        optional("medium", &Type::Choice(&MEDIA), "The storage medium; the node's disk if left out."),
    ],
    rules: &[],
};
static CLAIM_VOLUME: Table = Table {
    name: "claim",
    doc: "A PersistentVolumeClaim of the stages' namespace.",
    selector: None,
    fields: &[required("claimName", &OBJECT_NAME, "Its name."), default("readOnly", &Type::Bool, "false", "Mount it read-only.")],
    rules: &[],
};
static MOUNT: Table = Table {
    name: "mount",
    doc: "The mount of a volume in the container.",
    selector: None,
    fields: &[
        required("name", &Type::Text(&VOLUME), "The volume's name."),
        required(
            "mountPath",
            &Type::Text(&MOUNT_PATH),
            "The folder in the container. A mount over Assay's own folders is refused.",
        ),
        optional("subPath", &PATH_TYPE, "The part of the volume that is mounted; all of it if left out."),
        default("readOnly", &Type::Bool, "false", "Mount it read-only there."),
    ],
    rules: &[],
};

static SECURITY: Table = Table {
    name: "security context",
    doc: "The user and groups of a pod's processes: any but root. All other requirements of Pod Security `restricted` still apply.",
    selector: None,
    fields: &[
        optional("runAsUser", &UNPRIVILEGED, "The user; 65532 if left out."),
        optional("runAsGroup", &UNPRIVILEGED, "The group; 65532 if left out."),
        optional("fsGroup", &UNPRIVILEGED, "The group that owns its volumes; 65532 if left out."),
        default(
            "supplementalGroups",
            &Type::List { item: &UNPRIVILEGED, min: 0, max: MAX_MAP, unique: Uniqueness::Item },
            "[]",
            "Further groups.",
        ),
    ],
    rules: &[],
};
