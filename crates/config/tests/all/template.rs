//! Texts with variables.

use std::collections::BTreeMap;

use ingest_config::{CursorText, Region, SinceValue, Template, TemplateError, Values, Variable};
use ingest_quota::Timestamp;
use proptest::prelude::*;

fn london() -> Region {
    Region {
        code: "GB".to_owned(),
        values: BTreeMap::from([("city".to_owned(), "London".to_owned())]),
        slice: None,
    }
}

fn rendered(template: &str) -> String {
    let ids = ["a".to_owned(), "b".to_owned()];
    let now = Timestamp::parse("2026-03-01T00:30:05.250Z").unwrap();
    let since = SinceValue::Time(Timestamp::parse("2026-02-27T01:02:03Z").unwrap());
    let values = Values {
        region: &london(),
        ids: &ids,
        cursor: Some(CursorText::Text("next")),
        now,
        since: Some(&since),
        parent: &[],
    };
    Template::parse(template).unwrap().render(&values)
}

#[test]
fn each_variable_stands_for_its_value() {
    let cases = [
        ("nothing", "nothing"),
        ("", ""),
        ("{region}/{city}", "GB/London"),
        ("id={ids}", "id=a,b"),
        ("{cursor}", "next"),
        ("{now}", "2026-03-01T00:30:05Z"),
        ("{since}", "2026-02-27T01:02:03Z"),
        ("{since:-5m}", "2026-02-27T00:57:03Z"),
        ("{since:-5m:%s}", "1772153823"),
        ("{since:%s%3f}", "1772154123000"),
        ("{since:-1d:%Y/%m/%d}", "2026/02/26"),
        ("{date}", "2026-03-01"),
        ("{date:%Y}", "2026"),
        ("{date:%H:%M}", "00:30"),
        ("{date:-1d}", "2026-02-28"),
        ("{date:-1d:%Y/%m/%d}", "2026/02/28"),
        ("{date:+2w:%d.%m.}", "15.03."),
        ("{date:31m:%H:%M:%S}", "01:01:05"),
        ("{date:-6s:%S}", "59"),
        ("{date:-1h:%F %H}", "2026-02-28 23"),
        ("{{city_of}}", "{city_of}"),
        ("{{ cursor node }}", "{ cursor node }"),
        ("{{{region}}}", "{GB}"),
        ("a}}b{{c", "a}b{c"),
    ];
    for (template, expected) in cases {
        assert_eq!(rendered(template), expected, "{template}");
    }
}

#[test]
fn without_a_last_pass_since_is_the_epoch_and_the_first_page_has_no_cursor() {
    let values = Values {
        region: &london(),
        ids: &[],
        cursor: None,
        now: Timestamp::from_micros(0),
        since: None,
        parent: &[],
    };
    let template = Template::parse("{since}|{cursor}|{ids}").unwrap();
    assert_eq!(template.render(&values), "1970-01-01T00:00:00Z||");
}

#[test]
fn a_template_tells_what_it_names() {
    let named = Template::parse("{region}{{no}}{city}{date:-1d:%d}{ids}")
        .unwrap()
        .variables();
    let city = Variable::OfRegion("city".to_owned());
    assert_eq!(
        named,
        [Variable::Region, city, Variable::Date, Variable::Ids]
    );
}

#[test]
fn a_wrong_template_says_what_is_wrong() {
    for text in ["{", "}", "a{b", "a}b", "{a{b}", "{{a}", "{a}}"] {
        assert_eq!(
            Template::parse(text),
            Err(TemplateError::Unbalanced),
            "{text}"
        );
    }
    for text in [
        "{{ since }}",
        "a {{region}}",
        "{{date:-1d}}",
        "{{ {{cursor}} }}",
    ] {
        let error = Template::parse(text).unwrap_err();
        assert!(
            matches!(error, TemplateError::Doubled(_))
                && error.to_string().contains("in single braces"),
            "{text}"
        );
    }
    assert_eq!(Template::parse("{}"), Err(TemplateError::Nameless));
    for text in [
        "{date:}",
        "{date:-1q:%Y}",
        "{date:--1d:%Y}",
        "{date:-1d:}",
        "{date:%Q}",
        "{date:1:%Y}",
        "{date:d}",
    ] {
        let error = Template::parse(text).unwrap_err();
        assert!(
            matches!(error, TemplateError::Date(_))
                && error.to_string().contains("{date:-1d:%Y-%m-%d}"),
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_reading_or_rendering_panic(
        text in "(\\{|\\}|date:|[-+]?[0-9]{0,20}[smhdw]|:|%[A-Za-z:#.+0-9]{0,3}|region|[^{}]){0,12}",
        now in any::<i64>(),
    ) {
        if let Ok(template) = Template::parse(&text) {
            let values = Values { region: &london(), ids: &[], cursor: None, now: Timestamp::from_micros(now), since: None, parent: &[] };
            let _ = template.render(&values);
        }
    }

    #[test]
    fn a_text_whose_braces_are_doubled_is_rendered_as_it_was(text in "([{}]|.){0,40}") {
        let escaped = text.replace('{', "{{").replace('}', "}}");
        prop_assert_eq!(rendered(&escaped), text);
    }

    #[test]
    fn any_date_can_be_written_at_any_time(
        offset in "[-+]?[0-9]{1,18}[smhdw]",
        format in "(%[aAbBcCdDeFgGhHIjklmMnpPrRsSTuUvVwWxXyYzZ+]|%\\.[369]?f|[ /:-]){1,6}",
        now in any::<i64>(),
    ) {
        if let Ok(template) = Template::parse(&format!("{{date:{offset}:{format}}}")) {
            let values = Values { region: &london(), ids: &[], cursor: None, now: Timestamp::from_micros(now), since: None, parent: &[] };
            let _ = template.render(&values);
        }
    }
}
