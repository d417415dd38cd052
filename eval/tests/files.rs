//! Reading files of examples.

use std::path::{Path, PathBuf};

use dikast_core::Error;
use dikast_eval::{Example, Format, Gold, ReadOptions, Request, Rule, read};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn models(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(name)
}

fn examples(path: &Path) -> Vec<Example> {
    read(path, &ReadOptions::default()).expect("examples")
}

fn text(example: &Example) -> &str {
    match &example.request {
        Request::Classify(request) => &request.text,
        Request::Decide(_) => panic!("typed questions"),
    }
}

/// Reads a file of this content.
fn written(name: &str, content: &str) -> Result<Vec<Example>, Error> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::write(&path, content).expect("written");
    read(&path, &ReadOptions::default())
}

/// The message of a file that is refused.
fn refused(name: &str, content: &str) -> String {
    match written(name, content) {
        Err(e @ Error::InvalidRequest { .. }) => e.to_string(),
        other => panic!("{content}: {other:?}"),
    }
}

#[test]
fn ag_news_as_published() {
    let all = examples(&data("ag_news.csv"));
    assert_eq!(all.len(), 4);
    let gold: Vec<_> = all.iter().map(|e| e.questions[0].gold.clone()).collect();
    assert_eq!(gold, [2, 1, 3, 0].map(|c| Some(Gold::One(c))));
    assert_eq!(all[0].questions[0].options, ["World", "Sports", "Business", "Sci/Tech"]);
    assert_eq!((all[0].id.as_str(), all[0].set.as_str()), ("ag_news.csv:1", "ag_news"));
    assert!(text(&all[0]).starts_with("Wall St. Bears Claw Back Into the Black (Reuters) Reuters"));
    assert!(!text(&all[0]).contains('\\') && text(&all[0]).contains("dwindling band"));
    assert!(text(&all[1]).ends_with("\"easily\"."));
    assert_eq!(all[0].questions[0].rule, Rule::Best);
}

#[test]
fn sib_200_as_published() {
    let all = examples(&data("eng_Latn/test.tsv"));
    assert_eq!(all.len(), 3);
    assert_eq!((all[0].id.as_str(), all[0].set.as_str()), ("eng_Latn:1523", "eng_Latn"));
    let chosen = |e: &Example| match &e.questions[0].gold {
        Some(Gold::One(place)) => e.questions[0].options[*place].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(all.iter().map(chosen).collect::<Vec<_>>(), ["sports", "health", "travel"]);
    assert_eq!(text(&all[2]), "\"Cheap\" hotels are near the station.");
    assert_eq!(all[0].questions[0].options.len(), 7);
}

#[test]
fn typed_questions_with_pictures() {
    let all = examples(&models("clef-mini/eval.jsonl"));
    let questions: usize = all.iter().map(|e| e.questions.len()).sum();
    assert_eq!((all.len(), questions), (38, 80));
    assert!(all.iter().flat_map(|e| &e.questions).all(|q| q.gold.is_some() && q.rule == Rule::Best));
    let sun = all.iter().find(|e| e.id == "img-sun").expect("there");
    let Request::Decide(request) = &sun.request else { panic!("a classification") };
    assert_eq!((request.images.len(), sun.set.as_str()), (1, "picture"));
    // Options stand in request order, not in the order in which the model reads them.
    assert_eq!(sun.questions[0].options, ["yellow", "blue", "black", "green"]);
    assert_eq!(sun.questions[0].gold, Some(Gold::One(0)));
}

#[test]
fn texts_with_labels() {
    let all = examples(&models("gliclass-mini/eval.jsonl"));
    assert_eq!(all.len(), 75);
    assert!(all.iter().all(|e| matches!(e.questions[0].gold, Some(Gold::One(_)))));
    let lines = "{\"text\": \"a\", \"labels\": [\"x\", \"y\", \"z\"], \"expected\": [\"z\", \"x\"], \"threshold\": 0.3}\n\n\
                 {\"id\": 7, \"set\": \"s\", \"text\": \"b\", \"labels\": [\"x\", \"y\"]}\n";
    let all = written("few.jsonl", lines).expect("examples");
    assert_eq!(all[0].questions[0].rule, Rule::Threshold(0.3));
    assert_eq!(all[0].questions[0].gold, Some(Gold::Many([0, 2].into())));
    assert_eq!((all[1].id.as_str(), all[1].set.as_str(), &all[1].questions[0].gold), ("7", "s", &None));
    assert_eq!(all[1].questions[0].rule, Rule::Best);
}

#[test]
fn tables_with_a_header() {
    let all = written("t.csv", "id,text,label,set\n1,\"a, b\",good,s\n2,c,bad,\n3,d,,s\n").expect("examples");
    assert_eq!(all[0].questions[0].options, ["good", "bad"]);
    assert_eq!((all[0].set.as_str(), all[1].set.as_str()), ("s", "t"));
    assert_eq!((text(&all[0]), &all[2].questions[0].gold), ("a, b", &None));
    let all = written("t.tsv", "text\tlabels\tlabel\na\tx|y\ty\n").expect("examples");
    assert_eq!(all[0].questions[0].gold, Some(Gold::One(1)));
    let options = ReadOptions {
        labels: Some(vec!["u".into(), "v".into()]),
        format: Format::Csv,
        ..ReadOptions::default()
    };
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.csv");
    std::fs::write(&path, "text\na\n").expect("written");
    assert_eq!(read(&path, &options).expect("examples")[0].questions[0].options, ["u", "v"]);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (name, content, words) in [
        ("a.jsonl", "{\"text\": \"a\", \"labels\": [\"x\"]}\nnonsense", &["a.jsonl line 2"][..]),
        ("a.jsonl", "{\"text\": \"a\"}", &["line 1", "labels"]),
        ("a.jsonl", "{\"state\": \"a\"}", &["line 1", "neither questions nor text"]),
        (
            "a.jsonl",
            "{\"text\": \"a\", \"labels\": [\"x\", \"y\"], \"expected\": \"z\"}",
            &["\"z\"", "\"x\", \"y\""],
        ),
        ("a.jsonl", "{\"text\": \"a\", \"labels\": [\"x\"], \"typo\": 1}", &["line 1", "typo"]),
        (
            "a.jsonl",
            "{\"state\": \"a\", \"questions\": {\"q\": {\"type\": \"noul\", \"instructions\": \"i\"}}, \"expected\": {\"p\": \"true\"}}",
            &["\"p\"", "not asked"],
        ),
        (
            "a.jsonl",
            "{\"state\": \"a\", \"questions\": {\"q\": {\"type\": \"noul\", \"instructions\": \"i\"}}, \"expected\": {\"q\": \"maybe\"}}",
            &["\"maybe\"", "\"true\""],
        ),
        (
            "a.jsonl",
            "{\"state\": \"a\", \"questions\": {\"q\": {\"type\": \"noul\", \"instructions\": \"i\"}}, \"image_files\": [\"../../etc/passwd\"]}",
            &["must lie below"],
        ),
        (
            "a.jsonl",
            "{\"state\": \"a\", \"questions\": {\"q\": {\"type\": \"noul\", \"instructions\": \"i\"}}, \"image_files\": [\"no.png\"]}",
            &["no.png"],
        ),
        (
            "a.jsonl",
            "{\"id\": 1, \"text\": \"a\", \"labels\": [\"x\"]}\n{\"id\": 1, \"text\": \"b\", \"labels\": [\"x\"]}",
            &["twice"],
        ),
        ("a.csv", "text,label\n", &["no examples"]),
        ("a.csv", "body,label\na,b\n", &["line 1"]),
        ("a.csv", "text\na\n", &["no labels"]),
        ("a.csv", "\"5\",\"a\",\"b\"\n", &["line 1"]),
        ("a.csv", "\"1\",\"a\",\"b\"\n\"9\",\"a\",\"b\"\n", &["line 2", "1 to 4"]),
        ("a.tsv", "index_id\tcategory\ttext\n1\tcooking\ta\n", &["line 2", "cooking", "travel"]),
        ("a.txt", "", &["no examples", "line 1"]),
    ] {
        let message = refused(name, content);
        assert!(words.iter().any(|w| message.contains(w)), "{content}: {message}");
        if words.len() > 1 && name != "a.txt" {
            assert!(words.iter().all(|w| message.contains(w)), "{content}: {message}");
        }
    }
    let missing = read(Path::new("no/such/file.jsonl"), &ReadOptions::default());
    assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");
}
