//! Placeholders, rows and positions of pictures and videos.

use dikast_core::Error;
use dikast_core::media::MediaKind;
use dikast_core::tokens::clef::{DEFAULT_MAX_TOKENS, MediaLayout, VideoForm};
use serde_json::json;

use crate::fixture::{PROMPT, case, cases, expected, media_tensor};

#[test]
fn rows_and_positions_are_the_references() {
    let mut seen = 0;
    for case in cases() {
        let record = case.record();
        let tokens = record.ids.len();
        let Some(types) = media_tensor(&format!("{}.mm_token_type_ids", case.id)) else {
            assert!(record.media_rows.is_empty() && record.media_spans.is_empty());
            assert_eq!(record.media.start, record.media.end);
            let index = Vec::from_iter((0..tokens as i32).map(|i| [i; 3]));
            assert_eq!(record.positions, index, "{}", case.id);
            continue;
        };
        seen += 1;
        let expected = expected(&case.id);
        assert_eq!(json!(record.media.start), expected["media_token_offset"]);
        assert_eq!(json!(record.media.end - record.media.start), expected["media_tokens"]);

        let rows = Vec::from_iter((0..types.len() as u32).filter(|&row| types[row as usize] != 0));
        assert_eq!(record.media_rows, rows, "{}", case.id);
        for span in &record.media_spans {
            let kind = if span.kind == MediaKind::Image { 1 } else { 2 };
            assert_eq!(span.rows.end - span.rows.start, span.grid[0] * span.grid[1]);
            assert!((span.rows.start..span.rows.end).all(|row| types[row as usize] == kind));
        }

        let axes = media_tensor(&format!("{}.position_ids", case.id)).unwrap();
        let positions = |i: usize| [0, 1, 2].map(|axis| axes[axis * tokens + i] as i32);
        assert_eq!(record.positions, Vec::from_iter((0..tokens).map(positions)), "{}", case.id);
    }
    assert_eq!(seen, 4);
}

#[test]
fn a_flat_video_has_no_outer_pair() {
    let case = case("video_one");
    let nested = case.record();
    let layout = MediaLayout { video_form: VideoForm::Flat, ..case.layout() };
    let flat = PROMPT.prepare(&case.request, &layout, DEFAULT_MAX_TOKENS).unwrap();
    let ids = PROMPT.media_ids();
    let count = |record: &[u32], id: u32| record.iter().filter(|found| **found == id).count();
    for id in [ids.vision_start, ids.vision_end] {
        assert_eq!((count(&nested.ids, id), count(&flat.ids, id)), (4, 3));
    }
    assert_eq!(nested.ids.len(), flat.ids.len() + 2);
    assert_eq!(nested.media_rows.len(), flat.media_rows.len());
}

#[test]
fn hostile_grids_are_errors() {
    let mut case = case("image_one");
    for (grid, fault) in [
        ([1, 0, 2], true),
        ([1, 3, 2], true),
        ([2, 2, 2], true),
        ([1, 1 << 30, 1 << 30], false),
        ([1, u32::MAX - 1, u32::MAX - 1], false),
    ] {
        case.images = vec![grid];
        match PROMPT.prepare(&case.request, &case.layout(), DEFAULT_MAX_TOKENS) {
            Err(Error::Internal(_)) => assert!(fault, "{grid:?}"),
            Err(Error::TooLarge { what, .. }) => {
                assert!(!fault && what == "tokens of pictures and videos", "{grid:?}: {what}");
            }
            other => panic!("{grid:?}: {other:?}"),
        }
    }
    // Grids of another request.
    case.images.clear();
    assert!(matches!(
        PROMPT.prepare(&case.request, &case.layout(), DEFAULT_MAX_TOKENS),
        Err(Error::Internal(_))
    ));
}
