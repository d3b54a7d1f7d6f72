//! JUnit XML, which every CI system can show: suites of test cases with properties.

use super::html::writer::Writer;

/// The result of a test case.
pub(crate) enum CaseResult {
    Passed,
    /// Neither passed nor failed; holds the message with the reason.
    Skipped(String),
    /// Failed; holds the type and the message.
    Failed(&'static str, String),
}

/// A test case with its properties.
pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) result: CaseResult,
    pub(crate) properties: Vec<(&'static str, String)>,
}

/// Test cases of one name.
pub(crate) struct Suite<'a> {
    pub(crate) name: &'a str,
    /// The time of the decision, in UTC and without a zone.
    pub(crate) timestamp: &'a str,
    pub(crate) properties: Vec<(&'static str, String)>,
    pub(crate) cases: Vec<Case>,
}

/// Returns a document of these suites.
pub(crate) fn document(name: &str, suites: &[Suite<'_>]) -> String {
    let mut xml = Writer::xml();
    let counts = counts(suites.iter().flat_map(|suite| &suite.cases));
    xml.element("testsuites", &with_counts(name, &counts), |xml| suites.iter().for_each(|suite| write_suite(xml, suite)));
    xml.newline();
    xml.finish()
}

fn write_suite(xml: &mut Writer, suite: &Suite<'_>) {
    xml.newline();
    let counts = counts(suite.cases.iter());
    let mut attributes = with_counts(suite.name, &counts).to_vec();
    attributes.push(("timestamp", suite.timestamp));
    xml.element("testsuite", &attributes, |xml| {
        write_properties(xml, &suite.properties);
        suite.cases.iter().for_each(|case| write_case(xml, case));
        xml.newline();
    });
}

/// Returns the number of tests, failures and skipped cases.
fn counts<'a>(cases: impl Iterator<Item = &'a Case>) -> [String; 3] {
    let (mut all, mut failed, mut skipped) = (0, 0, 0);
    for case in cases {
        all += 1;
        failed += u64::from(matches!(case.result, CaseResult::Failed(..)));
        skipped += u64::from(matches!(case.result, CaseResult::Skipped(_)));
    }
    [all, failed, skipped].map(|count: u64| count.to_string())
}

fn with_counts<'a>(name: &'a str, [tests, failed, skipped]: &'a [String; 3]) -> [(&'static str, &'a str); 5] {
    [("name", name), ("tests", tests), ("failures", failed), ("errors", "0"), ("skipped", skipped)]
}

fn write_case(xml: &mut Writer, case: &Case) {
    xml.newline();
    xml.element("testcase", &[("classname", &case.class), ("name", &case.name)], |xml| {
        write_properties(xml, &case.properties);
        match &case.result {
            CaseResult::Passed => {}
            CaseResult::Skipped(message) => xml.shape("skipped", &[("message", message)]),
            CaseResult::Failed(kind, message) => xml.leaf("failure", &[("type", kind), ("message", message)], message),
        }
    });
}

fn write_properties(xml: &mut Writer, properties: &[(&'static str, String)]) {
    if properties.is_empty() {
        return;
    }
    xml.element("properties", &[], |xml| {
        for (name, value) in properties {
            xml.shape("property", &[("name", name), ("value", value)]);
        }
    });
}
