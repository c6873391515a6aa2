//! Options, statistics and tags, as the C library in use has them.

use primalloc::options::{self, OptionError, Thp};
use primalloc::stats::{ClassStats, Form, Stats, report};
use primalloc::{Heap, Primalloc, current_tag, tag_scope};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Primalloc = Primalloc;

#[test]
fn options_have_their_types() {
    assert_eq!(options::PURGE_DELAY.get(), Duration::from_millis(500));
    assert_eq!(options::PURGE_DELAY.text(), "500 ms");
    assert!(options::PURGE.get());
    assert_eq!((options::THP.get(), options::THP.name()), (Thp::Auto, "thp"));
    assert_eq!(options::MIN_ALIGN.get(), 8);
    assert_eq!(options::STATS_OUTPUT.text(), "not set");
}

#[test]
fn options_change_while_the_program_runs() {
    assert_eq!(options::TRIM_THRESHOLD.get(), None);
    options::TRIM_THRESHOLD.set(Some(1 << 30)).unwrap();
    assert_eq!(options::TRIM_THRESHOLD.get(), Some(1 << 30));
    assert_eq!(options::TRIM_THRESHOLD.text(), "1 GiB");
    options::TRIM_THRESHOLD.set_text("auto").unwrap();
    assert_eq!(options::TRIM_THRESHOLD.get(), None);
    assert_eq!(options::PERTURB.set(1000), Err(OptionError::BadValue));
    assert_eq!(options::PERTURB.set_text("many"), Err(OptionError::BadValue));
    assert_eq!(options::PERTURB.set_text("a\0b"), Err(OptionError::BadValue));
    assert_eq!(options::PERTURB.get(), 0);
}

#[test]
fn statistics_see_what_is_held() {
    let before = Stats::now();
    let held = vec![1u8; 10 << 20];
    let after = Stats::now();
    assert!(after.large_bytes >= before.large_bytes + (10 << 20));
    assert!(after.rss_bytes > 0 && after.elapsed_ms < 1 << 40);
    let classes = ClassStats::all();
    let large = classes.last().unwrap();
    assert_eq!(large.block_bytes, 0);
    assert!(large.live_bytes >= 10 << 20);
    assert!(classes.iter().any(|class| class.block_bytes == 64));
    drop(held);
}

#[test]
fn reports_are_whole() {
    let _heap = Heap::new().unwrap();
    let json = report(Form::Json);
    assert!(json.starts_with('{') && json.trim_end().ends_with('}'));
    assert!(json.contains("\"mapped_bytes\""));
    assert!(report(Form::Xml).contains("</malloc>"));
    assert!(report(Form::OpenMetrics).trim_end().ends_with("# EOF"));
    assert!(report(Form::Text).contains("live"));
}

/// Live bytes under a tag, as the report in JSON tells them.
fn live_bytes_under(tag: &str) -> Option<usize> {
    let json = report(Form::Json);
    let heap = json.split('{').find(|part| part.contains(&format!("\"{tag}\"")))?;
    let (_, figure) = heap.split_once("\"live_bytes\":")?;
    let digits = figure.trim_start().chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().ok()
}

#[test]
fn tags_count_what_their_scope_allocates() {
    assert_eq!(current_tag(), None);
    let (kept, inner) = {
        let outer = tag_scope("outer part");
        assert!(outer.is_counted());
        let kept = vec![1u8; 100_000];
        let inner = {
            let _inner = tag_scope("inner part");
            assert_eq!(current_tag(), Some(c"inner part"));
            vec![2u8; 50_000]
        };
        assert_eq!(current_tag(), Some(c"outer part"));
        (kept, inner)
    };
    assert_eq!(current_tag(), None);
    let (outer_bytes, inner_bytes) =
        (live_bytes_under("outer part").unwrap(), live_bytes_under("inner part").unwrap());
    assert!((100_000..150_000).contains(&outer_bytes), "{outer_bytes}");
    assert!((50_000..100_000).contains(&inner_bytes), "{inner_bytes}");
    drop((kept, inner));
    assert_eq!(live_bytes_under("inner part"), Some(0));
}

#[test]
fn names_of_tags_are_cut_between_characters() {
    let _long = tag_scope(&"ä".repeat(40));
    assert_eq!(current_tag().unwrap().to_str().unwrap(), "ä".repeat(23));
    let _zero = tag_scope("before\0after");
    assert_eq!(current_tag(), Some(c"before"));
    let _none = tag_scope("");
    assert_eq!(current_tag(), None);
}

#[test]
fn a_panic_ends_the_tag() {
    let done = std::panic::catch_unwind(|| {
        let _tag = tag_scope("ends early");
        panic!("on purpose");
    });
    assert!(done.is_err());
    assert_eq!(current_tag(), None);
}
