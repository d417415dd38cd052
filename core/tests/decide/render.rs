//! JSON as the reference writes it.

use dikast_core::request::Json;
use dikast_core::tokens::clef::render;

use crate::fixture::golden;

#[test]
fn the_table_of_the_reference() {
    let table = golden("render.json");
    assert!(table.len() > 30);
    for row in table {
        let text = |key| row.get(key).and_then(Json::as_str).unwrap();
        assert_eq!(render(&Json::parse(text("json")).unwrap()), text("rendered"), "{}", text("json"));
    }
}

#[test]
fn keys_keep_their_order_and_the_last_value_stays_at_the_first_place() {
    let json = Json::parse("{\"b\":1,\"a\":{\"x\":0},\"b\":2,\"c\":3,\"a\":[],\"b\":4}").unwrap();
    assert_eq!(json.to_string(), "{\"b\":4,\"a\":[],\"c\":3}");
    assert_eq!(json.to_pretty_text(), "{\n  \"b\": 4,\n  \"a\": [],\n  \"c\": 3\n}");
    assert_eq!(json.get("a"), Some(&Json::Array(Vec::new())));
}
