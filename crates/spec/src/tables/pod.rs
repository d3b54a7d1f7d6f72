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
const OPTIONAL: &str = "Whether the pod starts without it.";

pub(crate) static POD: Table = Table {
    name: "pod",
    doc: "What a stage asks of its pods in a cluster. Spelled as in Kubernetes, and added to what the pods have anyway. On one machine \
          it means nothing.",
    selector: None,
    fields: &[
        default(
            "env",
            &Type::List { item: &Type::Object(&ENV_VARIABLE), min: 0, max: MAX_MAP, unique: Uniqueness::Field("name") },
            "[]",
            "Variables of the stage's program. What is measured sees none of them.",
        ),
        default(
            "envFrom",
            &Type::List { item: &Type::Object(&ENV_SOURCE), min: 0, max: MAX_MAP, unique: Uniqueness::No },
            "[]",
            "Secrets and ConfigMaps of the stages' namespace whose members become variables. What Assay sets itself stays as it is.",
        ),
        default(
            "tolerations",
            &Type::List { item: &Type::Object(&TOLERATION), min: 0, max: MAX_MAP, unique: Uniqueness::Item },
            "[]",
            "Taints of nodes that it may run on all the same.",
        ),
        optional(
            "affinity",
            &Type::Object(&AFFINITY),
            "Where it has to run, or would rather. That load is kept off the nodes of targets holds besides.",
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
            "Where the container has them.",
        ),
        optional("priorityClassName", &OBJECT_NAME, "The PriorityClass of its pods. Those of the system itself are refused."),
        optional(
            "serviceAccountName",
            &OBJECT_NAME,
            "A service account of the stages' namespace, for an identity of the cloud's. Only for stages that do not ask the API \
             server: not for `provision` and `collect`.",
        ),
        optional("securityContext", &Type::Object(&SECURITY), "Whom its processes run as."),
    ],
    rules: &[],
};

static ENV_VARIABLE: Table = Table {
    name: "variable",
    doc: "A variable. A secret is a reference, never a value.",
    selector: None,
    fields: &[
        required("name", &Type::Text(&VARIABLE), "Its name. Names that Assay sets itself are refused."),
        optional("value", &Type::Scalar, "Its value, as it stands: `$(NAME)` is not expanded."),
        optional("valueFrom", &Type::Object(&VALUE_SOURCE), "The member of a Secret or ConfigMap that holds it."),
    ],
    rules: &[Rule::ExactlyOne(&["value", "valueFrom"])],
};
static VALUE_SOURCE: Table = Table {
    name: "source of a value",
    doc: "Where a variable's value is found, in the stages' namespace.",
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
        optional("optional", &Type::Bool, "Whether the pod starts without it, and without the variable."),
    ],
    rules: &[],
};
static ENV_SOURCE: Table = Table {
    name: "source of variables",
    doc: "A Secret or ConfigMap whose members become variables.",
    selector: None,
    fields: &[
        optional("prefix", &Type::Text(&VARIABLE), "What their names begin with."),
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
        optional("optional", &Type::Bool, "Whether the pod starts without it, and without its variables."),
    ],
    rules: &[],
};

static OPERATORS_OF_TAINTS: [Choice; 2] =
    [choice("Equal", "The taint has this key and value."), choice("Exists", "The taint has this key, or any without one.")];
static EFFECTS: [Choice; 3] = [
    choice("NoSchedule", "No new pod is placed there."),
    choice("PreferNoSchedule", "New pods are placed elsewhere where they can."),
    choice("NoExecute", "Pods there are taken away too."),
];
static TOLERATION: Table = Table {
    name: "toleration",
    doc: "A taint that it may run beside.",
    selector: None,
    fields: &[
        optional("key", &LABEL_KEY, "The taint's key; without one, `operator: Exists` stands for all."),
        optional("operator", &Type::Choice(&OPERATORS_OF_TAINTS), "How the taint is matched; `Equal` if left out."),
        optional("value", &Type::Text(&LABEL_VALUE), "The taint's value."),
        optional("effect", &Type::Choice(&EFFECTS), "The taint's effect; all of them if left out."),
        optional(
            "tolerationSeconds",
            &Type::Integer { min: 0, max: i32::MAX as i64 },
            "For how long `effect: NoExecute` is tolerated; for ever if left out.",
        ),
    ],
    rules: &[],
};

static AFFINITY: Table = Table {
    name: "affinity",
    doc: "Where a pod has to run, or would rather.",
    selector: None,
    fields: &[
        optional("nodeAffinity", &Type::Object(&NODE_AFFINITY), "On which nodes."),
        optional("podAffinity", &Type::Object(&POD_AFFINITY), "Near which pods."),
        optional("podAntiAffinity", &Type::Object(&POD_AFFINITY), "Away from which pods."),
    ],
    rules: &[Rule::AtLeastOne(&["nodeAffinity", "podAffinity", "podAntiAffinity"])],
};
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
static NODE_AFFINITY: Table = Table {
    name: "node affinity",
    doc: "On which nodes a pod has to run, or would rather.",
    selector: None,
    fields: &[
        optional(REQUIRED, &Type::Object(&NODE_SELECTOR), "What a node must be like."),
        optional(
            PREFERRED,
            &Type::List { item: &Type::Object(&PREFERRED_NODE), min: 1, max: MAX_LIST, unique: Uniqueness::No },
            "What nodes are better, each by its weight.",
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
    doc: "What a label of a node must be.",
    selector: Some("operator"),
    fields: &[
        required("key", &LABEL_KEY, "The label."),
        required("operator", &Type::Choice(&NODE_OPERATORS), "What must hold of it."),
        required("values", &LABEL_VALUES, "The values that it is compared with.").only(WITH_VALUES),
    ],
    rules: &[],
};
static WEIGHT: Type = Type::Integer { min: 1, max: 100 };
static PREFERRED_NODE: Table = Table {
    name: "preferred nodes",
    doc: "Nodes that are better than others.",
    selector: None,
    fields: &[required("weight", &WEIGHT, "How much better."), required("preference", &Type::Object(&NODE_TERM), "Which nodes.")],
    rules: &[],
};
static POD_AFFINITY: Table = Table {
    name: "pod affinity",
    doc: "Near which pods, or away from which, a pod has to run or would rather.",
    selector: None,
    fields: &[
        optional(
            REQUIRED,
            &Type::List { item: &Type::Object(&POD_TERM), min: 1, max: MAX_LIST, unique: Uniqueness::No },
            "What must hold, all of it.",
        ),
        optional(
            PREFERRED,
            &Type::List { item: &Type::Object(&PREFERRED_PODS), min: 1, max: MAX_LIST, unique: Uniqueness::No },
            "What is better, each by its weight.",
        ),
    ],
    rules: &[Rule::AtLeastOne(&[REQUIRED, PREFERRED])],
};
static POD_TERM: Table = Table {
    name: "pod term",
    doc: "Pods that have these labels, and what is near.",
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
        optional("namespaceSelector", &Type::Object(&LABEL_SELECTOR), "Namespaces by their labels, besides those."),
    ],
    rules: &[],
};
static PREFERRED_PODS: Table = Table {
    name: "preferred pods",
    doc: "Pods that it is better to be near, or away from.",
    selector: None,
    fields: &[
        required("weight", &WEIGHT, "How much better."),
        required("podAffinityTerm", &Type::Object(&POD_TERM), "Which pods."),
    ],
    rules: &[],
};
static LABEL_SELECTOR: Table = Table {
    name: "label selector",
    doc: "Labels that all must be there; without any, everything is meant.",
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
            "What else must hold of labels.",
        ),
    ],
    rules: &[],
};
static LABEL_EXPRESSION: Table = Table {
    name: "label expression",
    doc: "What a label must be.",
    selector: Some("operator"),
    fields: &[
        required("key", &LABEL_KEY, "The label."),
        required("operator", &Type::Choice(&OPERATORS), "What must hold of it."),
        required("values", &LABEL_VALUES, "The values that it is compared with.").only(&["In", "NotIn"]),
    ],
    rules: &[],
};

static POD_VOLUME: Table = Table {
    name: "volume",
    doc: "A volume. There are no others than these: a path of the node, for one, is refused.",
    selector: None,
    fields: &[
        required("name", &Type::Text(&VOLUME), "Its name. Those of Assay's volumes are refused."),
        optional("configMap", &Type::Object(&CONFIG_MAP_VOLUME), "Members of a ConfigMap as files."),
        optional("secret", &Type::Object(&SECRET_VOLUME), "Members of a Secret as files."),
        optional("emptyDir", &Type::Object(&EMPTY_DIR), "A folder that ends with the pod."),
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
    doc: "A folder that is empty when the pod starts, and ends with it.",
    selector: None,
    fields: &[
        default("sizeLimit", &Type::Text(&QUANTITY), "\"1Gi\"", "How much it may hold before the pod is taken away."),
        optional("medium", &Type::Choice(&MEDIA), "What it lies on; the node's disk if left out."),
    ],
    rules: &[],
};
static CLAIM_VOLUME: Table = Table {
    name: "claim",
    doc: "A PersistentVolumeClaim of the stages' namespace.",
    selector: None,
    fields: &[
        required("claimName", &OBJECT_NAME, "Its name."),
        default("readOnly", &Type::Bool, "false", "Whether nothing may be written to it."),
    ],
    rules: &[],
};
static MOUNT: Table = Table {
    name: "mount",
    doc: "Where the container has a volume.",
    selector: None,
    fields: &[
        required("name", &Type::Text(&VOLUME), "The volume's name."),
        required(
            "mountPath",
            &Type::Text(&MOUNT_PATH),
            "The folder in the container. What would lie over Assay's own folders is refused.",
        ),
        optional("subPath", &PATH_TYPE, "The part of the volume that is mounted; all of it if left out."),
        default("readOnly", &Type::Bool, "false", "Whether nothing may be written to it there."),
    ],
    rules: &[],
};

static SECURITY: Table = Table {
    name: "security context",
    doc: "Whom a pod's processes run as: anybody but root. All else that Pod Security `restricted` asks for stays as it is.",
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
