//! Reports as pages.

use crate::{STREAM, built, inspected};

/// Elements of a page, opened and closed; panics if they don't nest.
fn elements(page: &str) -> Vec<String> {
    const EMPTY: [&str; 6] = ["!doctype", "meta", "line", "circle", "rect", "br"];
    let mut open: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for part in page.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("an open tag: {part}"));
        let name = tag.split([' ', '/']).find(|n| !n.is_empty()).expect("a name").to_string();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !EMPTY.contains(&name.as_str()) && !tag.ends_with('/') {
            open.push(name.clone());
            all.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    all
}

#[test]
fn a_page_nests_and_needs_nothing_else() {
    for chip in ["gfx906", "gfx1100", "gfx1103", "gfx803"] {
        let found = inspected(&built(STREAM, chip));
        let page = found.html();
        let elements = elements(&page);
        let count = |name: &str| elements.iter().filter(|e| *e == name).count();
        assert_eq!((count("html"), count("style"), count("script"), count("img"), count("link")), (1, 1, 0, 0, 0));
        let drawn = found.kernels.iter().filter(|k| k.roofline.is_some()).count();
        assert_eq!((count("svg"), drawn), (drawn, if ["gfx906", "gfx1100"].contains(&chip) { 3 } else { 0 }), "{chip}");
        for outside in ["http:", "https:", "src=", "url(", "@import", "javascript"] {
            assert!(!page.contains(outside), "{chip}: {outside}");
        }
        for k in &found.kernels {
            assert!(k.listing.iter().all(|l| page.contains(&format!(">{:#x}</td>", l.offset))), "{chip}: {}", k.name);
        }
    }
}

#[test]
fn names_are_escaped() {
    let mut found = inspected(&built(STREAM, "gfx1100"));
    let name = "<script>alert('&\"')</script>\u{1b}[2J";
    found.kernels[0].name = name.into();
    found.kernels[0].notes.push("<b>".into());
    found.kernels[0].listing[0].text = "v_x <i>".into();
    found.kernels.truncate(1);
    let page = found.html();
    elements(&page);
    assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains("<i>") && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;"), "{page}");
}
