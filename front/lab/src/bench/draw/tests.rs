//! What is drawn is read back: numbers, points, text from outside. No pictures are compared.

use super::page::date;
use super::scale::{axis, escape, label, linear_ticks, logarithmic_ticks, number, shortened, wrapped};
use super::{Chart, Line, Made, Mark, Page, PageFile, Row, Rows, Table, colour};
use crate::bench::median::Median;

/// A name that would run a script, if it were not escaped.
const HOSTILE: &str = "</title><script>alert('a & \"b\"')</script>\u{202e}\u{0}";

fn made() -> Made {
    Made {
        command: format!("quorate bench {HOSTILE}"),
        version: "1.2.3",
        date: "2026-02-03 04:05 UTC".into(),
    }
}

fn line(points: Vec<(f64, Option<f64>)>) -> Line {
    let ranges = Vec::new();
    Line { name: HOSTILE.into(), colour: colour(0), points, bars: vec![(1.0, 1.0), (2.0, 3.0)], ranges }
}

fn chart(logarithmic: bool, points: Vec<(f64, Option<f64>)>) -> Chart {
    Chart {
        title: HOSTILE.into(),
        x_label: format!("time in s {HOSTILE}"),
        y_label: format!("ms {HOSTILE}"),
        logarithmic,
        x_most: 4.0,
        lines: vec![line(points)],
        bars_label: Some(HOSTILE.into()),
    }
}

fn rows(logarithmic: bool, marks: Vec<Option<Mark>>) -> Rows {
    let rows = marks.into_iter().map(|mark| Row { name: HOSTILE.into(), marks: vec![mark, None] }).collect();
    let rows = Rows::new(HOSTILE, HOSTILE, &[HOSTILE, "floor"], rows).beside_one();
    if logarithmic { rows.logarithmic() } else { rows }
}

fn page(charts: Vec<Chart>, rows: Vec<Rows>) -> String {
    let page = Page {
        title: HOSTILE.into(),
        intro: HOSTILE.into(),
        rows,
        charts,
        table: Table { head: vec![HOSTILE.into()], rows: vec![("", vec![HOSTILE.into()])] },
        about: vec![("durability", format!("group {HOSTILE}"))],
        facts: vec![HOSTILE.into()],
    };
    page.html(&made())
}

/// The values of an attribute, wherever it stands.
fn attributes<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let begin = format!(" {name}=\"");
    html.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The cells of the tables with numbers, row by row.
fn cells(html: &str) -> Vec<Vec<&str>> {
    let tables =
        html.split("<table class=\"numbers\">").skip(1).filter_map(|rest| rest.split("</table>").next());
    let rows = tables.flat_map(|table| table.split("<tr>").skip(2));
    let cell = |rest: &'_ str| rest.split("</td>").next().map(str::len);
    rows.map(|row| row.split("<td>").skip(1).map(|rest| &rest[..cell(rest).unwrap_or(0)]).collect()).collect()
}

/// The part of a page that one size of drawings has.
fn of_size(html: &str, class: &str) -> String {
    let begin = format!("<svg class=\"{class}\"");
    html.split(&begin).skip(1).filter_map(|rest| rest.split("</svg>").next()).collect()
}

/// Elements are closed in the order in which they were opened, so any browser reads the page in the same way.
fn check_nesting(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in html.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).expect("a tag has a name");
        match tag {
            "!doctype html" => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "closed in order"),
            _ if tag.ends_with('/') || name == "meta" => {}
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

fn check(html: &str) {
    check_nesting(html);
    for outside in ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "<iframe"] {
        assert!(!html.contains(outside), "{outside}");
    }
    let no_number = |text: &&str| ["NaN", "inf", "-inf"].contains(text);
    for name in ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"] {
        for value in attributes(html, name).iter().filter(|value| !value.starts_with("device")) {
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{name}={value}");
        }
    }
    let words =
        |name| attributes(html, name).into_iter().flat_map(|path| path.split([' ', 'M', 'L', 'H', 'V']));
    assert_eq!(words("d").chain(words("viewBox")).find(no_number), None);
    assert!(!html.contains("NaN") && !html.contains(">inf"), "{html}");
    assert!(!html.contains('\u{202e}') && !html.contains('\u{0}'), "{html}");
}

#[test]
fn axes_have_round_numbers() {
    assert_eq!(linear_ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    assert_eq!(linear_ticks(-0.2, 0.9), [-0.2, 0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
    assert_eq!(linear_ticks(0.0, 0.0).last(), Some(&1.0), "zeros have an axis");
    assert_eq!(linear_ticks(0.0, 0.29).last().map(|tick| (tick * 100.0).round()), Some(30.0));
    for most in [1e-9, 0.001, 0.7, 3.0, 7.0, 12.0, 99.0, 101.0, 34_567.0, 1e9, 1e300] {
        let ticks = linear_ticks(0.0, most);
        assert!((3..=9).contains(&ticks.len()), "{most}: {ticks:?}");
        assert!(
            ticks.last().is_some_and(|last| *last >= most * 0.9999 && *last <= most * 2.0),
            "{most}: {ticks:?}"
        );
    }
    assert_eq!(logarithmic_ticks(0.3, 40.0), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    assert_eq!(logarithmic_ticks(3.0, 3.0), [2.0, 5.0]);
    assert_eq!(logarithmic_ticks(0.02, 9000.0), [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    for (least, most) in [(0.0, 1.0), (f64::INFINITY, 0.0), (2.0, 1.0), (1.0, f64::NAN)] {
        assert!(logarithmic_ticks(least, most).is_empty());
    }
    let of = |values: &[f64]| axis(values.iter().copied(), true).map(|axis| (axis.from, axis.logarithmic));
    assert_eq!(of(&[0.0, 5.0]), Some((0.0, false)), "a logarithm has no place for 0");
    assert_eq!(of(&[3.0, f64::NAN]), Some((2.0, true)));
    assert_eq!((of(&[]), of(&[f64::NAN, f64::INFINITY])), (None, None));
}

#[test]
fn numbers_can_be_read_again() {
    assert_eq!(
        [0.0, 0.3, 1.5, 9000.0, 20_000.0, 2.5e6].map(label),
        ["0", "0.3", "1.5", "9000", "20 k", "2.5 M"]
    );
    for value in [1.0, -0.25, 0.161_23, 647_213.0, 12.34, 1e-7, 3.0e12, 0.000_5] {
        let read: f64 = number(value).parse().expect("a number");
        assert!((read - value).abs() <= value.abs() * 6e-4, "{value} became {read}");
    }
    assert_eq!([f64::NAN, f64::INFINITY, -0.0, 1e-20].map(number), ["-", "-", "0", "0"]);
    assert_eq!(wrapped("one two three", 60.0), ["one two", "three"]);
    assert_eq!((shortened("abcdef", 4), shortened("abc", 4)), ("abc…".into(), "abc".into()));
}

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(date(0), "1970-01-01 00:00 UTC");
    assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
    assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(date(951_868_800), "2000-03-01 00:00 UTC");
    assert_eq!(date(1_798_761_599), "2026-12-31 23:59 UTC");
}

#[test]
fn a_chart_has_its_points_gaps_and_bars() {
    let points = vec![(0.0, Some(0.0)), (1.0, Some(50.0)), (2.0, None), (4.0, Some(100.0))];
    let html = page(vec![chart(false, points)], vec![]);
    check(&html);
    for class in ["wide", "narrow"] {
        let svg = of_size(&html, class);
        let places: Vec<f64> = attributes(&svg, "cx").iter().map(|x| x.parse().expect("a number")).collect();
        assert!(places.len() == 3 && places.is_sorted(), "{class}: {places:?}");
        let heights: Vec<f64> = attributes(&svg, "cy").iter().map(|y| y.parse().expect("a number")).collect();
        assert!(heights[0] > heights[1] && heights[1] > heights[2], "upwards: {heights:?}");
        let middle = f64::midpoint(heights[0], heights[2]);
        assert!((heights[1] - middle).abs() < 0.2, "half of the highest: {heights:?}");
        // Left of the gap a line, right of it a point.
        let curve = attributes(&svg, "d").into_iter().next_back().expect("a curve");
        assert_eq!((curve.matches('M').count(), curve.matches('L').count()), (2, 1), "{curve}");
        assert_eq!(svg.matches("class=\"bar\"").count(), 2);
        assert!(svg.contains("width=\"1.5\""), "a moment is seen, too");
    }
    assert_eq!(cells(&html), [["0", "0"], ["1", "50"], ["2", "-"], ["4", "100"]].map(Vec::from));
}

#[test]
fn a_gap_has_its_row_among_the_numbers() {
    let two = vec![line(vec![(0.0, Some(1.0)), (1.0, None)]), line(vec![(1.0, Some(7.0)), (1.0, Some(9.0))])];
    let chart = Chart { lines: two, ..chart(false, vec![]) };
    assert_eq!(cells(&page(vec![chart], vec![])), [vec!["0", "1", "-"], vec!["1", "-", "7; 9"]]);
}

#[test]
fn a_logarithmic_axis_has_equal_steps_for_equal_ratios() {
    let html = page(vec![chart(true, vec![(0.0, Some(1.0)), (2.0, Some(10.0)), (4.0, Some(100.0))])], vec![]);
    let svg = of_size(&html, "wide");
    let heights: Vec<f64> = attributes(&svg, "cy").iter().map(|y| y.parse().expect("a number")).collect();
    assert!((heights[1] - f64::midpoint(heights[0], heights[2])).abs() < 0.2, "{heights:?}");
}

#[test]
fn ranges_reach_from_the_lowest_to_the_highest() {
    let ranged =
        Line { ranges: vec![(1.0, 10.0, 100.0)], ..line(vec![(1.0, Some(20.0)), (2.0, Some(50.0))]) };
    let html = page(vec![Chart { lines: vec![ranged], ..chart(false, vec![]) }], vec![]);
    check(&html);
    assert_eq!(of_size(&html, "wide").matches("class=\"range\"").count(), 1);
    assert_eq!(cells(&html)[0], ["1", "20 [10, 100]"]);
}

#[test]
fn rows_have_a_point_for_each_side_that_was_measured() {
    let marks = vec![Mark::of([2.0, 1.0, 4.0]), Mark::one(3.0), None];
    let html = page(vec![], vec![rows(false, marks)]);
    check(&html);
    for class in ["wide", "narrow"] {
        let svg = of_size(&html, class);
        assert_eq!(attributes(&svg, "cx").len(), 2, "{class}");
        assert_eq!(svg.matches("class=\"range\"").count(), 1, "one has several rounds");
        assert_eq!(svg.matches("class=\"even\"").count(), 1);
    }
    let numbers: Vec<&str> = cells(&html).into_iter().map(|row| row[1]).collect();
    assert_eq!(numbers, ["2 [1, 4]", "3", "-"]);
}

#[test]
fn marks_are_medians_of_what_is_a_number() {
    assert_eq!(Mark::of([f64::NAN, 5.0]), Some(Mark { value: 5.0, range: None }));
    assert_eq!((Mark::of([]), Mark::of([f64::NAN]), Mark::one(f64::INFINITY)), (None, None, None));
    assert_eq!(Mark::of([3.0, 1.0]), Some(Mark { value: 2.0, range: Some((1.0, 3.0)) }));
    let median = Median::of(vec![1.0, 2.0, 3.0]).expect("a median");
    assert_eq!(Mark::bounded(&median), Some(Mark { value: 2.0, range: Some((1.0, 3.0)) }));
}

#[test]
fn what_was_not_measured_is_said() {
    let nothing = "Nothing to draw: no value was measured.";
    let none: [Vec<(f64, Option<f64>)>; 5] = [
        vec![],
        vec![(0.0, None)],
        vec![(1.0, Some(f64::NAN))],
        vec![(1.0, Some(f64::INFINITY))],
        vec![(f64::NAN, Some(1.0))],
    ];
    for logarithmic in [false, true] {
        for points in &none {
            let html = page(vec![chart(logarithmic, points.clone())], vec![]);
            check(&html);
            assert_eq!(html.matches(&format!(">{nothing}</text>")).count(), 2, "{points:?}");
        }
        for marks in [vec![], vec![None]] {
            let html = page(vec![], vec![rows(logarithmic, marks)]);
            check(&html);
            assert_eq!(html.matches(&format!(">{nothing}</text>")).count(), 2);
        }
        let empty = Chart { lines: vec![], ..chart(logarithmic, vec![]) };
        check(&page(vec![empty], vec![]));
    }
}

#[test]
fn odd_values_are_drawn() {
    for logarithmic in [false, true] {
        for value in [0.0, -3.0, 1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE] {
            for x_most in [4.0, 0.0, f64::NAN, f64::INFINITY] {
                let chart = Chart { x_most, ..chart(logarithmic, vec![(1.0, Some(value))]) };
                let html =
                    page(vec![chart], vec![rows(logarithmic, vec![Mark::one(value), Mark::of([value; 2])])]);
                check(&html);
                assert_eq!(attributes(&html, "cx").len(), 2 * 3, "{value} in both sizes");
            }
        }
        let zeros = (0..5).map(|at| (f64::from(at), Some(0.0))).collect();
        let html = page(vec![chart(logarithmic, zeros)], vec![]);
        check(&html);
        assert_eq!(attributes(&html, "cx").len(), 2 * 5);
    }
}

#[test]
fn text_from_outside_stays_text() {
    let html = page(vec![chart(false, vec![(0.0, Some(1.0))])], vec![rows(true, vec![Mark::one(1.0)])]);
    check(&html);
    assert!(html.matches("&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)").count() > 12, "{html}");
    assert_eq!(html.matches("</title>").count(), 1 + 4, "the page's and those of the drawings");
    assert_eq!(escape("a\nb\tc\u{7}"), "a b c\u{fffd}");
}

#[test]
fn a_page_says_what_it_shows_to_those_who_do_not_see_it() {
    let html = page(vec![chart(false, vec![(0.0, Some(12.5))])], vec![rows(false, vec![Mark::one(7.25)])]);
    let svgs = html.matches("<svg ").count();
    assert_eq!(svgs, 4, "two drawings in two sizes");
    assert_eq!(html.matches("role=\"img\"").count(), svgs);
    let ids = attributes(&html, "id");
    for labels in attributes(&html, "aria-labelledby") {
        for label in labels.split(' ') {
            assert_eq!(ids.iter().filter(|id| **id == label).count(), 1, "{label} in {ids:?}");
        }
    }
    let words: Vec<&str> =
        html.split("<desc ").skip(1).filter_map(|rest| rest.split("</desc>").next()).collect();
    assert_eq!(words.iter().filter(|words| words.contains("12.5")).count(), 2);
    assert_eq!(words.iter().filter(|words| words.contains("7.25")).count(), 2);
    assert_eq!(html.matches("<figure>").count(), 2);
    for part in [
        "lang=\"en\"",
        "name=\"viewport\"",
        "prefers-color-scheme:dark",
        "<th scope=\"row\">version</th><td>1.2.3</td>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(
        html.contains("<td>2026-02-03 04:05 UTC</td>")
            && html.contains("<th scope=\"row\">durability</th><td>group ")
    );
}

#[test]
fn a_table_is_text_for_the_terminal_too() {
    let table = Table {
        head: vec!["way".into(), "ms".into()],
        rows: vec![
            (colour(1), vec!["none".into(), "1.5".into()]),
            (colour(2), vec!["full".into(), "12".into()]),
        ],
    };
    assert_eq!(table.text(), "  way    ms\n  none  1.5\n  full   12");
}

#[test]
fn only_files_that_are_ours_are_written() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let refused = |name: &str| PageFile::check(&at(name)).map_err(|why| why.to_string()).expect_err(name);
    let file = PageFile::check(&at("new.html")).expect("a new file");
    assert!(!at("new.html").exists(), "there is none until there is a page");
    file.write(&page(vec![], vec![])).expect("it is written");
    PageFile::check(&at("new.html")).expect("a page of ours").write("").expect("it is written");
    PageFile::check(&at("new.html")).expect("an empty file");
    std::fs::write(at("diary.html"), "dear diary").expect("a file");
    assert!(refused("diary.html").contains("no page of `quorate bench`; name another file"));
    assert_eq!(std::fs::read_to_string(at("diary.html")).expect("it is there"), "dear diary");
    assert!(refused("none/there.html").contains("there is no directory") && !at("none").exists());
    assert!(refused(".").contains("is no file"));
}
