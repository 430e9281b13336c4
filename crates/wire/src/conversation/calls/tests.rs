//! Which call a fragment belongs to, and when a call is passed on, by hand. Every mixture: `translate::tests::interleaved`
//! of the crate `translation`.

use super::*;

/// What a row of the table is about, its fragments, and the calls with id, name and arguments.
type Row = (&'static str, Vec<Parts>, Vec<[&'static str; 3]>);

/// A fragment of these parts: number, id, name, arguments.
type Parts = (Option<i128>, &'static str, &'static str, &'static str);

fn fragment((number, id, name, arguments): Parts) -> Fragment {
    let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
    Fragment { number, id, name, arguments, ..Fragment::default() }
}

/// What is passed on of the fragments: each call with its id, name and arguments. None: the answer is broken.
fn passed_on(fragments: &[Parts], finish: &FinishReason, mut calls: AnswerCalls) -> Option<Vec<[String; 3]>> {
    let mut pieces = Vec::new();
    fragments.iter().for_each(|parts| calls.add(0, fragment(*parts), &mut pieces));
    calls.finish(0, finish, &mut pieces);
    calls.end(&mut pieces);
    let (mut passed_on, mut ended) = (Vec::<[String; 3]>::new(), Vec::new());
    for piece in pieces {
        match piece {
            AnswerPiece::Call { call, id, name, .. } => {
                assert_eq!(call as usize, passed_on.len(), "in the order in which they began");
                passed_on.push([id, name, String::new()]);
            }
            AnswerPiece::Arguments { call, text, .. } => passed_on[call as usize][2].push_str(&text),
            AnswerPiece::CallEnd { call, .. } => ended.push(call),
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert!(calls.is_broken() || ended.iter().copied().eq(0..passed_on.len() as u32), "each ends once: {ended:?}");
    (!calls.is_broken()).then_some(passed_on)
}

fn is_broken(arguments: &[&'static str], custom: bool, finish: FinishReason, mut calls: AnswerCalls) -> bool {
    let mut pieces = Vec::new();
    calls.add(0, Fragment { custom, ..fragment((Some(0), "c", "f", "")) }, &mut pieces);
    arguments.iter().for_each(|text| calls.add(0, fragment((Some(0), "", "", text)), &mut pieces));
    calls.finish(0, &finish, &mut pieces);
    calls.is_broken()
}

const N: Option<i128> = None;

#[test]
fn a_call_is_known_by_number_id_name_or_position() {
    let zero = Some(0);
    let two = || vec![["a", "f", "{\"x\":1}"], ["b", "g", "{\"y\":2}"]];
    let bare = || vec![["", "f", "{\"x\":1}"], ["", "g", "{\"y\":2}"]];
    let table: Vec<Row> = vec![
        (
            "numbers, mixed",
            vec![
                (zero, "a", "f", "{\"x\""),
                (Some(1), "b", "g", "{"),
                (zero, "", "", ":1}"),
                (Some(1), "", "", "\"y\":2}"),
            ],
            two(),
        ),
        (
            "ids, mixed",
            vec![(N, "a", "f", "{\"x\""), (N, "b", "g", "{"), (N, "a", "", ":1}"), (N, "b", "g", "\"y\":2}")],
            two(),
        ),
        (
            "position",
            vec![(N, "a", "f", ""), (N, "", "", "{\"x\""), (N, "", "", ":1}"), (N, "b", "g", "{\"y\":2}")],
            two(),
        ),
        ("whole, no id", vec![(N, "", "f", "{\"x\":1}"), (N, "", "g", "{\"y\":2}")], bare()),
        ("whole, all 0, no id", vec![(zero, "", "f", "{\"x\":1}"), (zero, "", "g", "{\"y\":2}")], bare()),
        (
            "all 0, ids mixed",
            vec![
                (zero, "a", "f", "{\"x\""),
                (zero, "b", "g", "{"),
                (zero, "a", "", ":1}"),
                (zero, "b", "", "\"y\":2}"),
            ],
            two(),
        ),
        (
            "a number for each fragment",
            vec![(zero, "a", "f", "{"), (Some(1), "a", "", "\"x\":1}"), (Some(2), "b", "g", "{\"y\":2}")],
            two(),
        ),
        (
            "an id for each fragment",
            vec![(zero, "a", "f", "{"), (zero, "q", "", "\"x\":1}"), (Some(1), "b", "g", "{\"y\":2}")],
            two(),
        ),
    ];
    are_told(table);
}

#[test]
fn what_comes_late_or_again_belongs_to_its_call() {
    let zero = Some(0);
    let two = || vec![["a", "f", "{\"x\":1}"], ["b", "g", "{\"y\":2}"]];
    let table: Vec<Row> = vec![
        (
            "numbered at first alone",
            vec![(Some(3), "a", "f", "{"), (N, "a", "", "\"x\":1}"), (Some(7), "b", "g", ""), (N, "", "", "{\"y\":2}")],
            two(),
        ),
        (
            "names and ids late",
            vec![
                (zero, "", "", "{\"x\""),
                (Some(1), "", "g", "{"),
                (zero, "a", "f", ":1}"),
                (Some(1), "b", "", "\"y\":2}"),
            ],
            two(),
        ),
        (
            "names in pieces and again",
            vec![(zero, "a", "ge", ""), (zero, "", "t", ""), (zero, "", "get", "{}"), (zero, "a", "get", "")],
            vec![["a", "get", "{}"]],
        ),
        (
            "one id twice",
            vec![(N, "a", "f", "{\"x\":1}"), (N, "a", "f", "{\"x\":2}")],
            vec![["a", "f", "{\"x\":1}"], ["a", "f", "{\"x\":2}"]],
        ),
        ("noise", vec![(zero, "", "", ""), (zero, "a", "f", "{}"), (zero, "", "", " \n")], vec![["a", "f", "{}"]]),
    ];
    are_told(table);
}

fn are_told(table: Vec<Row>) {
    for (what, fragments, expected) in table {
        let got = passed_on(&fragments, &FinishReason::ToolCalls, AnswerCalls::default());
        let expected: Vec<[String; 3]> = expected.iter().map(|call| call.map(str::to_owned)).collect();
        assert_eq!(got, Some(expected), "{what}");
    }
}

#[test]
fn what_cannot_be_told_is_broken() {
    let (zero, none) = (Some(0), None);
    for fragments in [
        &[(zero, "a", "f", "{\"x\""), (zero, "a", "g", ":1}")][..],
        &[(none, "a", "f", "{\"x\""), (none, "a", "g", ":1}")],
        &[(zero, "a", "f", "{}"), (zero, "", "", "{}")],
        &[(zero, "a", "f", "{\"x\""), (Some(1), "b", "g", "{}")],
        &[(zero, "a", "", "{}")],
        &[(none, "", "", "{}")],
    ] {
        assert_eq!(passed_on(fragments, &FinishReason::ToolCalls, AnswerCalls::default()), None, "{fragments:?}");
    }
}

#[test]
fn what_a_finish_means_for_what_is_cut() {
    for finish in
        [FinishReason::Stop, FinishReason::ToolCalls, FinishReason::Filtered, FinishReason::Other("odd".to_owned())]
    {
        assert!(is_broken(&["{\"a\":"], false, finish.clone(), AnswerCalls::default()), "{finish:?}");
    }
    assert!(
        !is_broken(&["{\"a\":"], false, FinishReason::Length, AnswerCalls::default()),
        "the finish itself shows it"
    );
    let (mut calls, mut pieces) = (AnswerCalls::default(), Vec::new());
    calls.add(0, fragment((Some(0), "c", "f", "{")), &mut pieces);
    assert!(!calls.is_broken(), "more may come");
    calls.end(&mut pieces);
    assert!(calls.is_broken(), "nothing more comes");
}

#[test]
fn calls_without_arguments_and_free_form_ones_are_whole() {
    let stop = || FinishReason::ToolCalls;
    let taking = || AnswerCalls::taking_text(HashSet::from(["f".to_owned()]), Arc::default());
    assert!(!is_broken(&[], false, stop(), AnswerCalls::default()));
    assert!(!is_broken(&["", " "], false, stop(), AnswerCalls::default()));
    assert!(!is_broken(&["{ not JSON"], true, stop(), AnswerCalls::default()));
    assert!(!is_broken(&["*** Begin"], false, stop(), taking()));
    assert!(is_broken(&["*** Begin"], false, stop(), AnswerCalls::default()));
    assert!(is_broken(&["{\"input\":\"*** Be"], false, stop(), taking()), "it was begun as JSON");
}

#[test]
fn another_json_value_is_complete_only_where_it_stays_a_text() {
    let broken = |calls: AnswerCalls, text: &'static str| is_broken(&[text], false, FinishReason::ToolCalls, calls);
    for whole in ["[1, {\"a\":[]}]", "\"x\\n\"", " 12 ", "-1.5e3", "null", "true\n"] {
        assert!(!broken(AnswerCalls::of_texts(), whole), "{whole}");
        assert!(broken(AnswerCalls::default(), whole), "{whole}");
    }
    for not in ["[1", "\"x", "1.", "nul", "x", "{\"a\":1}{\"b\":2}", "[1]2", "1 2", "{\"a\""] {
        assert!(broken(AnswerCalls::of_texts(), not), "{not}");
    }
}
